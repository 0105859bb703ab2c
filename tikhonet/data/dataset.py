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
    """Data cannot be found, read, fetched or saved; the message is one line that names the file and the remedy.

    Examples
    --------
    >>> from tikhonet.data import DataError, read_table
    >>> try:
    ...     read_table("nowhere.csv")
    ... except DataError as error:
    ...     print(str(error).partition(";")[0])
    nowhere.csv does not exist
    """


class DataWarning(UserWarning):
    """A damaged file was refused, and its content taken from elsewhere.

    Examples
    --------
    >>> import warnings
    >>> from tikhonet.data import DataWarning
    >>> warnings.simplefilter("error", DataWarning)  # make it an error
    """


def reason(error: BaseException) -> str:
    """The message of an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__


@dataclass(frozen=True, eq=False)
class Dataset:
    """One split of a data set; `model.fit(data.X, data.y)` is all that training needs.

    Parameters
    ----------
    name : str
        The name of the data set.
    split : {"train", "test"}
        Which part of it.
    values : array
        As stored: pixels (uint8, samples x height x width or samples x channels x height x width) or real rows.
    y : array
        int64 classes, or real targets.
    classes : tuple of str, default=()
        The names of the classes, in the order of their numbers; empty for regression.
    largest : int, default=1
        The value of `values` that becomes 1 in `X`: 255 for bytes, 16 for scikit-learn's digits.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhonet.data import Dataset
    >>> data = Dataset("stripes", "train", np.array([[[0, 255]]], np.uint8), np.array([0]), ("one",), largest=255)
    >>> data, data.X
    (stripes, train: 1 samples of 1 x 2, 1 classes, array([[0., 1.]], dtype=float32))
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
    """Make a loader known to `load` and to the command line, by this name.

    Parameters
    ----------
    name : str
        The name of the data set.
    files : bool, default=True
        Whether the loader takes a data home beside the split; else it is a function of the split alone.

    Returns
    -------
    callable
        A decorator that leaves the loader as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhonet.data import Dataset, data_set, load
    >>> @data_set("two coins", files=False)
    ... def two_coins(split="train"):
    ...     return Dataset("two coins", split, np.eye(2), np.arange(2), ("heads", "tails"))
    >>> load("two coins")
    two coins, train: 2 samples of 2, 2 classes
    """

    def register(loader: Loader) -> Loader:
        LOADERS[name] = loader if files else lambda split, _: loader(split)
        return loader

    return register
