"""
Error against nonzeros
======================

Two kinds of sparse networks: a budget, whose number of nonzero weights is exact, and rows in the l1 ball as in the
paper's BCD-S, whose zeros emerge.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tikhonet import BIAS, BCDClassifier

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)


def trace(**settings):
    """Percent of nonzero weights and test error in percent of a fit."""
    model = BCDClassifier((100, 100), n_bins=0, n_networks=1, random_state=0, **settings).fit(X, y)
    weights = sum(matrix.size for edge, matrix in model.coefs_.items() if edge[1] != BIAS)
    nonzeros = sum(model.sparsity_["nonzeros"].values())
    print(f"{settings}: {nonzeros:,} of {weights:,} weights (zeros by: {model.sparsity_['kind']})")
    return 100 * nonzeros / weights, 100 * (1 - model.score(X_test, y_test))


dense = trace()
budget = [trace(sparsity=share) for share in (0.01, 0.02, 0.05, 0.1, 0.3)]
ball = [trace(constraint="l1", radius=radius) for radius in (0.25, 0.5, 1.0, 4.0)]

# %%
# One split and one seed: a point of error is seven test images. That zeros are cheap down to a few percent, and
# that the
# ball alone does not get there, is seen all the same.

figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
axes.plot(*zip(*budget, strict=True), "o-", color="#00805c", label="budget: as many as asked for")
axes.plot(*zip(*ball, strict=True), "s--", color="#c8501e", label="l1 ball, radius 0.25 to 4")
axes.axhline(dense[1], color="#7a7f87", lw=1, label="dense")
axes.set(xscale="log", xlabel="nonzero weights, percent", ylabel="test error, percent", ylim=(0, None))
axes.set_xticks([1, 2, 5, 10, 30, 100], ["1", "2", "5", "10", "30", "100"])
axes.legend()
