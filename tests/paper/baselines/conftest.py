import pytest
import torch
from sklearn.datasets import load_digits

from tikhonet.data import load


@pytest.fixture(scope="module")
def digits():
    """All of the digits as tensors."""
    X, y = load_digits(return_X_y=True)
    return torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y)


@pytest.fixture(scope="module")
def splits():
    """The training and the test part of the digits."""
    return load("digits"), load("digits", "test")
