"""A kind of head is one class: defined anywhere, it is known by its name."""

import numpy as np
import pytest

from tests.estimators.samples import QUICK, blobs
from tikhonet.estimators import BCDClassifier
from tikhonet.model.head_data import HeadData
from tikhonet.model.heads import Head, HeadKind, TrainedHead, head_names, make_head


@pytest.fixture
def means_head():
    class Means(HeadKind):
        """The mean of each class: scores are highest for the nearest one."""

        name = "means"

        def fit(self, data, strength):
            means = np.stack([data.features[data.labels == k].mean(0) for k in range(self.classes)])
            return Head(means, -np.square(means).sum(1) / 2)

    yield Means
    del HeadKind.kinds._kinds["means"]


def test_the_heads_of_this_package_are_known():
    assert head_names() == {"logistic", "ridge", "svm", "trained"}
    assert head_names(numbers=True) == {"ridge", "trained"}


@pytest.mark.usefixtures("means_head")
def test_a_head_from_outside_classifies():
    X, y = blobs()
    model = BCDClassifier(head="means", **QUICK).fit(X, y)
    assert model.score(X, y) > 0.8
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)


def test_an_unknown_head_is_refused_by_name():
    with pytest.raises(ValueError, match=r"head must be one of ridge, trained or a linear model, got 'svm'"):
        make_head("svm", np.eye(2))
    with pytest.raises(ValueError, match=r"head must be one of logistic, ridge, svm, trained or .*, got 'forest'"):
        make_head("forest", np.eye(2), classes=2)


def test_a_trained_head_is_v():
    data = HeadData(lambda: np.eye(2), np.zeros((2, 1)), np.ones(2))
    head = TrainedHead(np.array([[1.0, 2.0]])).fit(data, 0.0)
    assert head(np.eye(2)).tolist() == [[1.0], [2.0]]
