"""The user's own files as tables of numbers with, perhaps, a column of labels. Nothing in a file is ever executed."""

from __future__ import annotations

import math
import zipfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tokenize import TokenError
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tikhonet.data.binary_layouts import UNREADABLE
from tikhonet.data.dataset import DataError, reason
from tikhonet.data.obtain import StrPath

Label = str | int | None
MISSING = ("n/a", "#n/a", "<na>", "null")
"""Words for a missing label, besides "nan". "NA" and "none" are not among them: they are classes of many tables."""
MALFORMED = (*UNREADABLE, ValueError, MemoryError, RuntimeError, TokenError, zipfile.BadZipFile)
"""Errors of the parsers of numpy and zipfile on damaged files, found by damaging some."""


@dataclass(frozen=True, eq=False)
class Frame:
    """Rows with columns of different types, each an array: estimators take it as they take a DataFrame."""

    arrays: dict[str, NDArray[Any]]

    @property
    def column_names(self) -> list[str]:
        return list(self.arrays)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), len(self.arrays)

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, key: Any) -> Any:
        """A column by its name, or some of the rows."""
        if isinstance(key, str):
            return self.arrays[key]
        return Frame({name: array[key] for name, array in self.arrays.items()})


@dataclass(frozen=True)
class Wanted:
    """The columns of a file that are read, of whatever kind they are: all but some, or some only."""

    only: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    """Columns of categories: their cells stay text unless all of them are numbers."""
    label_needed: bool = True
    """Whether a file without the label's column is an error."""

    def check(self, names: Sequence[str], path: Path) -> None:
        for name in (*self.only, *self.drop, *self.text):
            if name not in names:
                raise no_column(path, name, names)

    def __call__(self, name: str) -> bool:
        return name not in self.drop and (not self.only or name in self.only)


@dataclass(frozen=True, eq=False)
class Table:
    """Finite real rows X, labels y, and names.

    Where columns of any kind were asked for, X is a `Frame` if it has others than numbers.

    Parameters
    ----------
    X : array or Frame
        Rows of float32 or float64.
    y : array or None
        Integers, real numbers or text, one label a row; from .npz it may have a row of them.
    feature_names : tuple of str
        The names of the columns of X.
    label_name : str, optional
        The name of the column of labels.
    row_names : tuple of str, default=()
        The names of the rows, such as files of images.
    named : bool, default=False
        Whether the columns have names of their own: those of a file may well be x0, x1, ..., as columns without any are
        called.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhonet.data import Table
    >>> Table(np.eye(2), np.array([0, 1]), ("height", "width")).feature_names
    ('height', 'width')
    """

    X: Any
    y: NDArray[Any] | None
    feature_names: tuple[str, ...]
    label_name: str | None = None
    row_names: tuple[str, ...] = ()
    named: bool = False


@dataclass(frozen=True)
class TableFile(ABC):
    """A file that holds a table; a subclass is a format, and its definition makes it known to `read_table`.

    Parameters
    ----------
    path : Path
        The file.
    label : str or int, optional
        The column of the labels, by name or place.
    header : bool, optional
        Whether the first row holds names; None finds out.
    text_labels : bool, default=False
        Whether labels stay as they are written.
    wanted : Wanted, optional
        The columns to read; None is all, which must hold numbers.

    Attributes
    ----------
    kind : str
        The ending of such files, or what tells them otherwise if `fits` is written anew.
    selects : bool
        Whether `read` leaves out what is not wanted, so that columns which cannot be read do no harm.

    Examples
    --------
    >>> from tikhonet.data import TableFile
    >>> {".csv", ".npy", ".npz", ".parquet"} <= {format_.kind for format_ in TableFile.formats}
    True
    """

    path: Path
    label: Label = None
    header: bool | None = None
    text_labels: bool = False
    wanted: Wanted | None = None

    kind: ClassVar[str]
    selects: ClassVar[bool] = False
    formats: ClassVar[list[type[TableFile]]] = []

    def __init_subclass__(cls) -> None:
        TableFile.formats.append(cls)

    @classmethod
    def fits(cls, path: Path) -> bool:
        """Whether a file is of this format, by its name.

        Parameters
        ----------
        path : Path
            The file.

        Returns
        -------
        bool
            The answer.
        """
        return path.suffix.lower() == cls.kind

    @abstractmethod
    def read(self) -> Table:
        """The table; what is wrong with it is a `DataError`, or a ValueError where a parser found it.

        Returns
        -------
        Table
            The table.
        """

    def check_names(self, names: Sequence[str]) -> None:
        """Raise where two columns have one name: they are found by their names.

        Parameters
        ----------
        names : sequence of str
            The names of the columns.
        """
        for name, count in Counter(names).items():
            if count > 1:
                times = "twice" if count == 2 else f"{count} times"
                raise DataError(f"{self.path}: columns must have different names, got {name!r} {times}; rename one")

    def label_place(self, names: Sequence[str], hint: str = "") -> int | None:
        """The place of the label column, negative indices counted from the end.

        Parameters
        ----------
        names : sequence of str
            The names of the columns.
        hint : str, default=""
            The end of the error where no column has the label's name.

        Returns
        -------
        int or None
            None where no label was asked for.
        """
        if self.label is None:
            return None
        if isinstance(self.label, str):
            if self.label not in names and self.wanted and not self.wanted.label_needed:
                return None
            if self.label not in names:
                raise no_column(self.path, self.label, names, hint)
            place = names.index(self.label)
        else:
            if not -len(names) <= self.label < len(names):
                raise DataError(f"{self.path} has {len(names)} columns, so the label's index cannot be {self.label}")
            place = self.label % len(names)
        if len(names) == 1:
            raise DataError(
                f"{self.path} must have columns of numbers besides the label {names[place]!r}, got none; add some"
            )
        return place

    def table(
        self, rows: NDArray[Any], names: Sequence[str], place: int | None, y: NDArray[Any] | None, named: bool = False
    ) -> Table:
        """The table of rows from which the label's column, where it has a place, is taken out.

        Parameters
        ----------
        rows : array
            All columns.
        names : sequence of str
            Their names.
        place : int or None
            The place of the label column.
        y : array or None
            The labels.
        named : bool, default=False
            Whether the columns have names of their own.

        Returns
        -------
        Table
            The table.
        """
        if place is None:
            return Table(rows, None, tuple(names), named=named)
        others = tuple(name for k, name in enumerate(names) if k != place)
        return Table(np.delete(rows, place, 1), y, others, names[place], named=named)

    def real_rows(self, values: NDArray[Any], names: Sequence[str]) -> NDArray[Any]:
        """Finite rows, as float32 where that is exact or was stored, else as float64.

        Parameters
        ----------
        values : array
            The rows.
        names : sequence of str
            The names of the columns.

        Returns
        -------
        array
            The rows as real numbers.
        """
        if values.dtype.kind not in "buif":
            raise DataError(f"{self.path} must hold real numbers, got dtype {values.dtype}; convert it first")
        small = values.dtype.kind in "bui" and values.dtype.itemsize <= 2
        rows = values.astype(np.float32 if small or values.dtype in (np.float16, np.float32) else np.float64)
        self.check_finite(rows, names)
        return rows

    def check_finite(self, rows: NDArray[Any], names: Sequence[str]) -> None:
        """Raise where a number is missing or infinite, with its row and column.

        Parameters
        ----------
        rows : array
            The rows.
        names : sequence of str
            The names of the columns.
        """
        finite = np.isfinite(rows)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise DataError(
                f"{self.path}, row {row + 1}, column {names[column]!r} must be a finite number, "
                f"got {rows[row, column]}; fill it in or remove the row"
            )

    def checked_labels(self, labels: NDArray[Any], name: str) -> NDArray[Any]:
        """Labels as whole numbers, real numbers or text, none missing.

        Parameters
        ----------
        labels : array
            As they were read.
        name : str
            The name of their column.

        Returns
        -------
        array
            The labels.
        """
        if labels.dtype.kind == "U":
            missing = [row for row, label in enumerate(labels.reshape(len(labels), -1)) if any(map(is_missing, label))]
            if missing:
                raise DataError(
                    f"{self.path}, row {missing[0] + 1}: the labels {name} must not be missing or infinite, got "
                    f"{labels[missing[0]]}; fill it in or remove the row"
                )
            return labels
        if labels.dtype.kind not in "buif":
            raise DataError(
                f"{self.path}: the labels {name} must be numbers or text, none missing, got dtype {labels.dtype}"
            )
        self.check_finite(labels.reshape(len(labels), -1), [name] * labels[0].size)
        return labels.astype(np.int64) if labels.dtype.kind in "bui" else whole_if_possible(labels)


def read_table(
    path: StrPath,
    label: Label = None,
    header: bool | None = None,
    text_labels: bool = False,
    wanted: Wanted | None = None,
) -> Table:
    """Read a file of your own as a table: X, y and the names of the columns.

    Parameters
    ----------
    path : str or path
        A file of .csv, .npy, .npz, .parquet and the like.
    label : str or int, optional
        The column of the labels by name or index, in .npz the name of their array; None leaves y out, but for .npz,
        which then takes its array `y`, and for IDX images, which take the IDX labels of the same name.
    header : bool, optional
        Of .csv: whether the first row holds names; None takes it for such if it holds no number.
    text_labels : bool, default=False
        Of .csv: leave labels as they are written, where otherwise they become numbers if all of them are such.
    wanted : Wanted, optional
        The columns to read, which may then hold missing values, text and dates; None takes all, as numbers.

    Returns
    -------
    Table
        Rows, labels and names.

    Raises
    ------
    DataError
        Where the file is missing, damaged, or holds what is no table.

    Examples
    --------
    >>> import csv
    >>> from tikhonet.data import read_table
    >>> with open("flowers.csv", "w", newline="") as file:
    ...     csv.writer(file).writerows([("width", "height", "kind"), (1, 2, "rose"), (3, 4, "tulip")])
    >>> table = read_table("flowers.csv", label="kind")
    >>> table.X.tolist(), table.y.tolist(), table.feature_names
    ([[1.0, 2.0], [3.0, 4.0]], ['rose', 'tulip'], ('width', 'height'))
    """
    path = Path(path).expanduser()
    *first, last = (format_.kind for format_ in TableFile.formats)
    kinds = f"{', '.join(first)} or {last}"
    if not path.is_file():
        state = "is a folder; use read_folder for images, or" if path.is_dir() else "does not exist;"
        raise DataError(f"{path} {state} name a file: {kinds}")
    kind = next((format_ for format_ in TableFile.formats if format_.fits(path)), None)
    if kind is None:
        raise DataError(f"{path} is of an unknown kind; it must be {kinds}")
    with readable(path):
        table = kind(path, label, header, text_labels, wanted).read()
        return table if wanted is None or kind.selects else selected(table, wanted, path)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """What a parser says of a damaged file becomes a `DataError` that names it."""
    try:
        yield
    except DataError:
        raise
    except MALFORMED as error:
        raise DataError(f"{path} cannot be read: {reason(error)}; use another copy or another format") from None


def no_column(path: Path, name: str, names: Sequence[str], hint: str = "") -> DataError:
    """The error of a file without a column of that name."""
    listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    return DataError(f"{path} has no column named {name!r}; its columns are {listed}{hint}")


def selected(table: Table, wanted: Wanted, path: Path) -> Table:
    """The table with the columns that are wanted."""
    names = table.feature_names
    wanted.check([*names, *([table.label_name] if table.label_name else [])], path)
    kept = [k for k, name in enumerate(names) if wanted(name)]
    if len(kept) == len(names):
        return table
    if not kept:
        raise DataError(f"{path} must have columns besides the label, got none that is wanted; name others")
    chosen = tuple(names[k] for k in kept)
    X = Frame({name: table.X[name] for name in chosen}) if isinstance(table.X, Frame) else table.X[:, kept]
    return replace(table, X=X, feature_names=chosen)


def frame_or_matrix(columns: dict[str, NDArray[Any]]) -> Any:
    """A matrix where all columns hold finite numbers, else a frame."""
    if all(array.dtype.kind in "buif" and np.isfinite(array).all() for array in columns.values()):
        return np.column_stack(list(columns.values())).astype(np.float64)
    return Frame(columns)


def default_names(count: int) -> list[str]:
    return [f"x{k}" for k in range(count)]


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_missing(label: str) -> bool:
    """Whether it stands for a label that is not there, or is infinite."""
    return not math.isfinite(float(label)) if is_number(label) else label.lower() in MISSING


def whole_if_possible(values: NDArray[Any]) -> NDArray[Any]:
    """Real numbers as int64 if they all are whole."""
    whole = np.all(values == np.floor(values)) and np.all(np.abs(values) < 2**53)
    return values.astype(np.int64) if whole else values
