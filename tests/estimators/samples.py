"""Small data with a known shape, and settings under which a fit takes milliseconds."""

import numpy as np
from sklearn.datasets import make_blobs, make_regression

QUICK = {"hidden_layer_sizes": (16,), "random_state": 0}
HASHER = {"hidden_layer_sizes": (30,), "n_bits": 16, "random_state": 0, "max_iter": 20, "batch_size": 20}


def blobs(rows=120, features=4, classes=3, seed=0):
    """Classes that a linear classifier nearly separates."""
    X, y = make_blobs(rows, features, centers=classes, cluster_std=2.0, random_state=seed)
    return X, y


def rings(rows=300, seed=0):
    """Two classes that no linear classifier separates: inside and outside of a circle."""
    X = np.random.default_rng(seed).normal(size=(rows, 2))
    return X, (np.hypot(*X.T) > 1.18).astype(int)


def line(rows=150, features=5, outputs=1, seed=0):
    return make_regression(rows, features, n_targets=outputs, noise=1.0, random_state=seed)
