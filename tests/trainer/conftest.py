import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = torch.tensor(X[order] / 16, dtype=torch.float32), torch.tensor(y[order])
    return X[:1297], y[:1297], X[1297:], y[1297:]
