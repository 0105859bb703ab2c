"""Labelled images as rows, in a training and a test part: the data of most experiments."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.data import load
from tikhonet.data.dataset import SPLITS, Dataset

SETS = ("digits", "mnist", "fashion-mnist")
"""The digits are scikit-learn's of 8 x 8 pixels, which need no download."""


@dataclass(frozen=True)
class Images:
    """`X_train` and `X_test` hold one image a row in floating point; labels are integers from 0.

    `shape` is that of one image, (height, width) or (channels, height, width), and serves the pictures.
    """

    X_train: NDArray[Any]
    y_train: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]
    name: str
    shape: tuple[int, ...]
    labels: tuple[str, ...] = ()
    """The names of the classes, if they have any but their numbers."""

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            X = getattr(self, f"X_{part}")
            if X.ndim != 2 or X.shape[1] != math.prod(self.shape):
                raise ValueError(
                    f"X_{part} must hold one image of {math.prod(self.shape)} pixels (shape {self.shape}) a row, "
                    f"got an array of shape {X.shape}; use X.reshape(len(X), -1)"
                )
            check_rows(f"_{part}", X, getattr(self, f"y_{part}"))
        if self.labels and len(self.labels) < self.classes:
            raise ValueError(f"labels must name all {self.classes} classes, got {len(self.labels)}; leave it empty")
        if self.y_test.max() >= self.classes:
            raise ValueError(f"y_test must hold labels of y_train (0 to {self.classes - 1}), got {self.y_test.max()}")

    @property
    def classes(self) -> int:
        return int(self.y_train.max()) + 1

    def describe(self) -> dict[str, Any]:
        """Everything that identifies the data in a record; the digest is of pixels and labels as they are used."""
        digest = hashlib.sha256()
        for X, y in ((self.X_train, self.y_train), (self.X_test, self.y_test)):
            digest.update(np.ascontiguousarray(X, np.float32).data)
            digest.update(np.ascontiguousarray(y, np.int64).data)
        return {
            "name": self.name,
            "train": len(self.X_train),
            "test": len(self.X_test),
            "classes": self.classes,
            "shape": list(self.shape),
            "labels": list(self.labels) or [str(number) for number in range(self.classes)],
            "sha256": digest.hexdigest(),
        }


def check_rows(part: str, X: NDArray[Any], y: NDArray[Any]) -> None:
    """Raise unless X holds finite rows of floating-point numbers and y a label of each."""
    if X.ndim != 2 or not len(X) or not np.issubdtype(X.dtype, np.floating) or not np.isfinite(X).all():
        remedy = "; divide bytes by 255" if X.dtype == np.uint8 else ""
        raise ValueError(
            f"X{part} must hold one image a row in finite floating-point numbers, "
            f"got shape {X.shape} of {X.dtype}{remedy}"
        )
    if y.shape != (len(X),) or not np.issubdtype(y.dtype, np.integer) or y.min() < 0:
        raise ValueError(
            f"y{part} must hold one integer label from 0 for each of the {len(X)} images, "
            f"got {y.dtype} of shape {y.shape}"
        )


def read_images(name: str, load: Callable[[str, str], Dataset] = load) -> Images:
    """One of `SETS`; `load(data set, split)` reads."""
    train, test = (load(name, split) for split in SPLITS)
    return Images(train.X, train.y, test.X, test.y, name, train.shape, train.classes)
