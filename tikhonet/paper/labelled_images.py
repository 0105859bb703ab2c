"""Labelled images as rows: a training and a test part, or for hashing (Sec. 3.3.2) a database and queries.

The database is a data set's training part, the queries are its test part. Either all of the database is trained on, and
all test images are queries; or 5,000 of its images, each class by its share, and 1,000 queries; or, for all methods and
lengths in little time, 2,500 images, which are the database too, and 500 queries. Or three classes are unseen: they
alone are searched, and the other ones alone are trained on.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tikhonet.data import load
from tikhonet.data.dataset import SPLITS, Dataset
from tikhonet.data.gist import gist

SETS = ("digits", "mnist", "fashion-mnist")  # the digits are scikit-learn's of 8 x 8 pixels
TRAINED, QUERIES, UNSEEN = 5000, 1000, 3
SMALL = 2500, 500
"""Images and queries of the settings in which every method makes codes of every length."""
TRIALS = (0, 1, 2)
"""The seeds that are run where none are asked for."""
FOLDS, REPEATS = 3, 2
"""Parts of a cross-validation, and how often the images are dealt out anew."""


@dataclass(frozen=True)
class Setting:
    """A data set, what is seen of its images (pixels or descriptors), whether all are trained on, and the network."""

    data: str
    hidden: tuple[int, ...]
    gist: bool = False
    part: bool = False
    unseen: bool = False
    small: bool = False
    """Whether nothing but the part is read: it is the database too."""


MNIST, CIFAR10, SHALLOW, WIDE = (256,) * 48, (1024,) * 16, (256, 256), (1024,) * 4
"""The paper's networks, one for the comparisons of all methods, and one for all descriptors of CIFAR-10."""
SETTINGS = {
    "digits": Setting("digits", (64,) * 16),
    "digits-unseen": Setting("digits", (64,) * 16, unseen=True),
    "mnist": Setting("mnist", MNIST),
    "mnist-5000": Setting("mnist", MNIST, part=True),
    "mnist-unseen": Setting("mnist", SHALLOW, unseen=True),
    "cifar10": Setting("cifar10", CIFAR10, gist=True),
    "cifar10-5000": Setting("cifar10", CIFAR10, gist=True, part=True),
    "cifar10-shallow": Setting("cifar10", WIDE, gist=True),
    "cifar10-unseen": Setting("cifar10", SHALLOW, gist=True, unseen=True),
    "mnist-small": Setting("mnist", SHALLOW, part=True, small=True),
    "cifar10-small": Setting("cifar10", SHALLOW, gist=True, part=True, small=True),
    "mnist-unseen-small": Setting("mnist", SHALLOW, part=True, small=True, unseen=True),
    "cifar10-unseen-small": Setting("cifar10", SHALLOW, gist=True, part=True, small=True, unseen=True),
    "cifar10-pixels": Setting("cifar10", CIFAR10),
    "cifar10-pixels-5000": Setting("cifar10", CIFAR10, part=True),
}
"""By name; cifar10 is seen through GIST-like descriptors, cifar10-pixels as it is."""


def digest(*parts: NDArray[Any]) -> str:
    """The SHA-256 of arrays as they are used: values in float32, labels in int64."""
    found = hashlib.sha256()
    for part in parts:
        found.update(np.ascontiguousarray(part, np.int64 if part.dtype.kind == "i" else np.float32).data)
    return found.hexdigest()


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
    tested: NDArray[Any] | None = None
    """The numbers of the test images among those that all trials test; None where they test the same."""

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

    @property
    def trials(self) -> tuple[int, ...]:
        return TRIALS

    def of_trial(self, seed: int) -> Images:
        """What a trial learns from and is tested on: here always the same."""
        return self

    @property
    def test_rows(self) -> NDArray[Any]:
        """The numbers by which records know the test images."""
        return np.arange(len(self.X_test)) if self.tested is None else self.tested

    def describe(self) -> dict[str, Any]:
        """Everything that identifies the data in a record; the digest is of pixels and labels as they are used."""
        return {
            "name": self.name,
            "train": len(self.X_train),
            "test": len(self.X_test),
            "classes": self.classes,
            "shape": list(self.shape),
            "labels": list(self.labels) or [str(number) for number in range(self.classes)],
            "sha256": digest(self.X_train, self.y_train, self.X_test, self.y_test),
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


@dataclass(frozen=True)
class Folds:
    """Images that are all learned from and all tested on, by cross-validation.

    Trial t of `folds` x `repeats` tests the part t % folds of the deal t // folds, and learns from the others.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    name: str
    shape: tuple[int, ...]
    labels: tuple[str, ...] = ()
    folds: int = FOLDS
    repeats: int = REPEATS

    @property
    def trials(self) -> tuple[int, ...]:
        return tuple(range(self.folds * self.repeats))

    @property
    def X_train(self) -> NDArray[Any]:
        return self.of_trial(0).X_train

    def of_trial(self, seed: int) -> Images:
        """The part that a trial tests, each class by its share, and the others."""
        from sklearn.model_selection import StratifiedKFold

        deal, part = divmod(seed, self.folds)
        parts = StratifiedKFold(self.folds, shuffle=True, random_state=deal).split(self.X, self.y)
        train, test = list(parts)[part]
        given = self.X[train], self.y[train], self.X[test], self.y[test]
        return Images(*given, self.name, self.shape, self.labels, test)

    def describe(self) -> dict[str, Any]:
        first = self.of_trial(0)
        sizes = {"test": len(self.X), "folds": self.folds, "sha256": digest(self.X, self.y)}
        return first.describe() | sizes


def read_folds(name: str, load: Callable[[str, str], Dataset] = load) -> Folds:
    """All images of a data set, both splits together, for cross-validation."""
    train, test = (load(name, split) for split in SPLITS)
    X, y = (np.concatenate([getattr(part, axis) for part in (train, test)]) for axis in ("X", "y"))
    return Folds(X, y, name, train.shape, train.classes)


@dataclass(frozen=True)
class Database:
    """`X` and `y` are searched for `X_query` and `y_query`; the rows of `trained` are learned from (None: all).

    `images` and `query_images` are the same as pictures, bytes of height x width or channels x height x width.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    X_query: NDArray[Any]
    y_query: NDArray[Any]
    images: NDArray[np.uint8]
    query_images: NDArray[np.uint8]
    name: str
    hidden: tuple[int, ...]
    """Widths of the networks' hidden layers."""
    seen: str = "pixels"
    labels: tuple[str, ...] = ()
    trained: NDArray[Any] | None = None
    unseen: bool = False
    """Whether a trial keeps `UNSEEN` classes from the training, and searches these alone."""
    pictured: bool = True
    """Whether records keep what was found as pictures."""

    def __post_init__(self) -> None:
        base, queries = (self.X, self.y, self.images), (self.X_query, self.y_query, self.query_images)
        for part, (X, y, images) in (("", base), ("_query", queries)):
            check_rows(part, X, y)
            if len(images) != len(X) or images.dtype != np.uint8:
                raise ValueError(
                    f"the pictures of X{part} must be bytes, one for each of its {len(X)} rows, "
                    f"got {len(images)} of {images.dtype}"
                )
        if self.X.shape[1] != self.X_query.shape[1]:
            raise ValueError(f"X_query must have {self.X.shape[1]} columns as X has, got {self.X_query.shape[1]}")
        if not np.isin(self.y_query, self.y).any():
            raise ValueError("y_query must share labels with y, or nothing could be found")

    @property
    def trials(self) -> tuple[int, ...]:
        return TRIALS

    @cached_property
    def X_train(self) -> NDArray[Any]:
        return self.X if self.trained is None else self.X[self.trained]

    @cached_property
    def y_train(self) -> NDArray[Any]:
        return self.y if self.trained is None else self.y[self.trained]

    def of_trial(self, seed: int) -> Trial:
        """What a trial learns from and what it searches; where classes are unseen, the seed draws them."""
        if not self.unseen:
            return Trial(self.X_train, self.y_train, self)
        drawn = np.random.default_rng(seed).choice(np.unique(self.y), UNSEEN, replace=False)
        base, queries = np.isin(self.y, drawn), np.isin(self.y_query, drawn)
        found = {name: getattr(self, name)[base] for name in ("X", "y", "images")}
        asked = {name: getattr(self, name)[queries] for name in ("X_query", "y_query", "query_images")}
        return Trial(self.X[~base], self.y[~base], replace(self, **found, **asked))

    def describe(self) -> dict[str, Any]:
        """Everything that identifies the data in a record; the digest is of all that is learned from and searched."""
        trained = () if self.trained is None else (self.trained,)
        classes = int(self.y.max()) + 1
        return {
            "name": self.name,
            "train": len(self.X_train),
            "database": len(self.X),
            "queries": len(self.X_query),
            "features": self.X.shape[1],
            "seen": self.seen,
            "hidden": list(self.hidden),
            "classes": classes,
            "labels": list(self.labels) or [str(number) for number in range(classes)],
            "sha256": digest(self.X, self.X_query, self.y, self.y_query, *trained),
        }


class Trial(NamedTuple):
    """The rows that a trial learns from, and those that it searches."""

    X: NDArray[Any]
    y: NDArray[Any]
    searched: Database


def read_database(name: str, read: Callable[[str, str], Dataset]) -> Database:
    """The setting of that name; `read(data set, split)` loads."""
    if name not in SETTINGS:
        raise ValueError(f"name must be one of {', '.join(SETTINGS)}, got {name!r}")
    setting = SETTINGS[name]
    base, queries = (read(setting.data, split) for split in ("train", "test"))
    rows, asks = SMALL if setting.small else (TRAINED, QUERIES)
    trained = spread_over_classes(base.y, rows) if setting.part else None
    asked = spread_over_classes(queries.y, asks) if setting.part else np.arange(len(queries))
    kept = np.arange(len(base)) if trained is None or not setting.small else trained
    return Database(
        gist(base.values[kept]) if setting.gist else base.X[kept],
        base.y[kept],
        gist(queries.values[asked]) if setting.gist else queries.X[asked],
        queries.y[asked],
        shades(base)[kept],
        shades(queries)[asked],
        name,
        setting.hidden,
        "GIST-like descriptors" if setting.gist else "pixels",
        base.classes,
        None if setting.small else trained,
        setting.unseen,
        len(setting.hidden) > len(WIDE),
    )


def spread_over_classes(y: NDArray[Any], count: int) -> NDArray[np.intp]:
    """`count` rows in their order, drawn so that each class has its share of them."""
    order = np.random.default_rng(0).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    return np.sort(order[((np.arange(count) + 0.5) * len(y) / count).astype(int)])


def shades(data: Dataset) -> NDArray[np.uint8]:
    """The pixels as bytes from 0 to 255."""
    if data.largest == 255:
        return data.values
    scaled: NDArray[np.uint8] = np.rint(data.values * (255 / data.largest)).astype(np.uint8)
    return scaled
