"""The user's own files as tables of numbers with, perhaps, a column of labels. Nothing in a file is ever executed."""

from __future__ import annotations

import math
import zipfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
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
class Table:
    """Finite real rows X (float32 or float64), labels y (integers, real numbers or text) or None, and names.

    y has one label a row; from .npz it may have a row of them. `named` tells whether the columns have names of their
    own: those of a file may well be x0, x1, ..., as columns without any are called.
    """

    X: NDArray[Any]
    y: NDArray[Any] | None
    feature_names: tuple[str, ...]
    label_name: str | None = None
    row_names: tuple[str, ...] = ()
    named: bool = False


@dataclass(frozen=True)
class TableFile(ABC):
    """A file that holds a table; a subclass is a format, and its definition makes it known to `read_table`.

    `kind` is the ending of such files, or what tells them otherwise if `fits` is written anew.
    """

    path: Path
    label: Label = None
    header: bool | None = None
    text_labels: bool = False

    kind: ClassVar[str]
    formats: ClassVar[list[type[TableFile]]] = []

    def __init_subclass__(cls) -> None:
        TableFile.formats.append(cls)

    @classmethod
    def fits(cls, path: Path) -> bool:
        return path.suffix.lower() == cls.kind

    @abstractmethod
    def read(self) -> Table:
        """The table; what is wrong with it is a `DataError`, or a ValueError where a parser found it."""

    def check_names(self, names: Sequence[str]) -> None:
        """Raise where two columns have one name: they are found by their names."""
        for name, count in Counter(names).items():
            if count > 1:
                times = "twice" if count == 2 else f"{count} times"
                raise DataError(f"{self.path}: columns must have different names, got {name!r} {times}; rename one")

    def label_place(self, names: Sequence[str], hint: str = "") -> int | None:
        """The place of the label column, negative indices counted from the end; `hint` ends the error of a name."""
        if self.label is None:
            return None
        if isinstance(self.label, str):
            if self.label not in names:
                listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
                raise DataError(f"{self.path} has no column named {self.label!r}; its columns are {listed}{hint}")
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
        """The table of rows from which the label's column, where it has a place, is taken out; y are its labels."""
        if place is None:
            return Table(rows, None, tuple(names), named=named)
        others = tuple(name for k, name in enumerate(names) if k != place)
        return Table(np.delete(rows, place, 1), y, others, names[place], named=named)

    def real_rows(self, values: NDArray[Any], names: Sequence[str]) -> NDArray[Any]:
        """Finite rows, as float32 where that is exact or was stored, else as float64."""
        if values.dtype.kind not in "buif":
            raise DataError(f"{self.path} must hold real numbers, got dtype {values.dtype}; convert it first")
        small = values.dtype.kind in "bui" and values.dtype.itemsize <= 2
        rows = values.astype(np.float32 if small or values.dtype in (np.float16, np.float32) else np.float64)
        self.check_finite(rows, names)
        return rows

    def check_finite(self, rows: NDArray[Any], names: Sequence[str]) -> None:
        finite = np.isfinite(rows)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise DataError(
                f"{self.path}, row {row + 1}, column {names[column]!r} must be a finite number, "
                f"got {rows[row, column]}; fill it in or remove the row"
            )

    def checked_labels(self, labels: NDArray[Any], name: str) -> NDArray[Any]:
        """Labels as whole numbers, real numbers or text, none missing."""
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


def read_table(path: StrPath, label: Label = None, header: bool | None = None, text_labels: bool = False) -> Table:
    """X, y and the names of the columns.

    label        the column of the labels by name or index, in .npz the name of their array; None leaves y out, but for
                 .npz, which then takes its array `y`, and for IDX images, which take the IDX labels of the same name
    header       of .csv: whether the first row holds names; None takes it for such if it holds no number
    text_labels  of .csv: leave labels as they are written, where otherwise they become numbers if all of them are such
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
    try:
        return kind(path, label, header, text_labels).read()
    except DataError:
        raise
    except MALFORMED as error:
        raise DataError(f"{path} cannot be read: {reason(error)}; use another copy or another format") from None


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
