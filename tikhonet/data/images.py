"""MNIST, Fashion-MNIST, CIFAR-10 (official splits) and scikit-learn's digits, as arrays."""

from __future__ import annotations

import numpy as np

from tikhonet.data.catalogue import CIFAR10, FASHION_MNIST, MNIST
from tikhonet.data.collection import Collection
from tikhonet.data.dataset import Dataset, check_split
from tikhonet.data.formats import parse_cifar, parse_idx
from tikhonet.data.home import StrPath
from tikhonet.data.obtain import obtain

DIGITS_TEST = 500


def mnist(split: str = "train", data_home: StrPath | None = None) -> Dataset:
    """Handwritten digits, 28 x 28: 60,000 for training, 10,000 for testing."""
    return read_idx_pair(MNIST, split, data_home)


def fashion_mnist(split: str = "train", data_home: StrPath | None = None) -> Dataset:
    """Articles of clothing, 28 x 28: 60,000 for training, 10,000 for testing."""
    return read_idx_pair(FASHION_MNIST, split, data_home)


def cifar10(split: str = "train", data_home: StrPath | None = None) -> Dataset:
    """Colour photographs, 3 x 32 x 32 (channel first): 50,000 for training, 10,000 for testing."""
    return read_batches(CIFAR10, split, data_home)


def digits(split: str = "train") -> Dataset:
    """scikit-learn's 1,797 digits, 8 x 8 with values 0 to 16; no file is needed.

    They have no official split. Here 500 are for testing, each class by its share:
    `train_test_split(..., test_size=500, stratify=y, random_state=0)`.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    check_split(split)
    images, y = load_digits().images.astype(np.uint8), load_digits().target.astype(np.int64)
    parts = train_test_split(np.arange(len(y)), test_size=DIGITS_TEST, stratify=y, random_state=0)
    rows = parts[split == "test"]
    return Dataset("digits", split, images[rows], y[rows], tuple("0123456789"), largest=16)


def read_idx_pair(collection: Collection, split: str, data_home: StrPath | None) -> Dataset:
    """A split that is one IDX file of images and one of labels."""
    check_split(split)
    part = {"train": "train", "test": "t10k"}[split]
    names = [f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"]
    contents = obtain(collection, names, data_home)
    images, labels = (parse_idx(contents[name]) for name in names)
    return Dataset(collection.name, split, images, labels.astype(np.int64), collection.classes, largest=255)


def read_batches(collection: Collection, split: str, data_home: StrPath | None) -> Dataset:
    """A split that is one or more binary batches, in the order of their names."""
    check_split(split)
    prefix = {"train": "data_batch_", "test": "test_batch"}[split]
    names = sorted(name for name in collection.sha256 if name.startswith(prefix))
    contents = obtain(collection, names, data_home)
    batches = [parse_cifar(contents[name]) for name in names]
    images, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return Dataset(collection.name, split, images, labels.astype(np.int64), collection.classes, largest=255)
