"""
First-layer weights as images
=============================

What the units of the first layer look for, dense and with 10% of the weights.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tikhonet import BCDClassifier

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
settings = {"all weights": {}, "10% of the weights": {"sparsity": 0.1}}
models = {
    name: BCDClassifier((64,), n_bins=0, n_networks=1, random_state=0, **choice).fit(X, y)
    for name, choice in settings.items()
}

# %%
# Each square is the row of W that feeds one unit, in the shape of the 8 x 8 image; red is positive, blue negative. The
# twenty units with the largest rows are shown.

figure = plt.figure(figsize=(9, 4), layout="constrained")
for part, (name, model) in zip(figure.subfigures(1, 2), models.items(), strict=True):
    W = np.asarray(model.coefs_[1, 0])
    part.suptitle(f"{name}: test accuracy {model.score(X_test, y_test):.3f}")
    for axes, row in zip(part.subplots(4, 5).flat, W[np.argsort(-np.linalg.norm(W, axis=1))], strict=False):
        axes.imshow(row.reshape(8, 8), cmap="RdBu_r", vmin=-abs(row).max(), vmax=abs(row).max())
        axes.set_axis_off()
