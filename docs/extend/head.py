import numpy as np

from tikhonet import BCDClassifier
from tikhonet.model.heads import Head, HeadKind


class Means(HeadKind):
    """The class with the nearest mean of features:  <mean, u> - 1/2 |mean|^2."""

    name = "means"

    def fit(self, data, strength):
        means = np.stack([data.features[data.labels == label].mean(0) for label in range(self.classes)])
        return Head(means, -np.square(means).sum(1) / 2)


X = np.random.default_rng(0).normal(size=(80, 4))
model = BCDClassifier(head="means").fit(X, X[:, 0] > 0)
assert model.score(X, X[:, 0] > 0) > 0.8  # and `tikhonet fit --head means`
