"""Data sets: what every loader returns, how a loader becomes known by name, and what can go wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

SPLITS = ("train", "test")


class DataError(RuntimeError):
    """Data cannot be found, read, fetched or saved; the message is one line that names the file and the remedy."""


class DataWarning(UserWarning):
    """A damaged file was refused, and its content taken from elsewhere."""


def reason(error: BaseException) -> str:
    """The message of an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__


@dataclass(frozen=True, eq=False)
class Dataset:
    """One split of a data set; `model.fit(data.X, data.y)` is all that training needs.

    values   as stored: pixels (uint8, samples x height x width or samples x channels x height x width) or real rows
    y        int64 classes, or real targets
    classes  the names of the classes, in the order of their numbers; empty for regression
    largest  the value of `values` that becomes 1 in `X`: 255 for bytes, 16 for scikit-learn's digits
    """

    name: str
    split: str
    values: NDArray[Any]
    y: NDArray[Any]
    classes: tuple[str, ...] = ()
    largest: int = 1

    @cached_property
    def X(self) -> NDArray[Any]:
        """One row a sample: pixels as float32 in [0, 1], computed once; real rows as they are."""
        rows = self.values.reshape(len(self.values), -1)
        if rows.dtype != np.uint8:
            return rows
        scaled: NDArray[np.float32] = np.divide(rows, np.float32(self.largest), dtype=np.float32)
        return scaled

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample: (28, 28), (3, 32, 32), (8, 8) or (features,)."""
        return self.values.shape[1:]

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.shape))
        kind = f"{len(self.classes)} classes" if self.classes else "real targets"
        return f"{self.name}, {self.split}: {len(self):,} samples of {size}, {kind}"


def check_split(split: str) -> None:
    if split not in SPLITS:
        raise ValueError(f"split must be 'train' or 'test', got {split!r}")


Loader = TypeVar("Loader", bound=Callable[..., Dataset])
LOADERS: dict[str, Callable[..., Dataset]] = {}
"""By the name of a data set, the function of a split and a data home that gives it."""


def data_set(name: str, *, files: bool = True) -> Callable[[Loader], Loader]:
    """Make a loader known to `load` and to the command line; without `files` it is a function of the split alone."""

    def register(loader: Loader) -> Loader:
        LOADERS[name] = loader if files else lambda split, _: loader(split)
        return loader

    return register
