"""A table of numbers with, perhaps, a column of labels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.data.errors import DataError

Label = str | int | None
MISSING = ("n/a", "#n/a", "<na>", "null")
"""Words for a missing label, besides "nan". "NA" and "none" are not among them: they are classes of many tables."""


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


def default_names(count: int) -> list[str]:
    return [f"x{k}" for k in range(count)]


def check_names(names: Sequence[str], path: Path) -> None:
    """Columns are found by their names, so no two may have the same."""
    for name, count in Counter(names).items():
        if count > 1:
            times = "twice" if count == 2 else f"{count} times"
            raise DataError(f"{path}: columns must have different names, got {name!r} {times}; rename one")


def locate(label: Label, names: Sequence[str], path: Path, hint: str = "") -> int | None:
    """The place of the label column; a negative index counts from the end. `hint` ends the message of a wrong name."""
    if label is None:
        return None
    place = _place(label, names, path, hint)
    if len(names) == 1:
        raise DataError(f"{path} must have columns of numbers besides the label {names[place]!r}, got none; add some")
    return place


def _place(label: str | int, names: Sequence[str], path: Path, hint: str) -> int:
    if isinstance(label, str):
        if label not in names:
            raise DataError(f"{path} has no column named {label!r}; its columns are {_listed(names)}{hint}")
        return list(names).index(label)
    if not -len(names) <= label < len(names):
        raise DataError(f"{path} has {len(names)} columns, so the label's index cannot be {label}")
    return label % len(names)


def from_matrix(values: NDArray[Any], path: Path, label: Label, names: Sequence[str] | None = None) -> Table:
    """A table from an array whose first axis counts the samples; the other axes are flattened."""
    if values.ndim == 0 or len(values) == 0:
        raise DataError(f"{path} holds no rows")
    rows = as_real(values.reshape(len(values), -1), path)
    names = names or default_names(rows.shape[1])
    check_finite(rows, path, names)
    place = locate(label, names, path)
    if place is None:
        return Table(rows, None, tuple(names))
    others = [name for k, name in enumerate(names) if k != place]
    return Table(np.delete(rows, place, 1), whole_if_possible(rows[:, place]), tuple(others), names[place])


def as_real(values: NDArray[Any], path: Path) -> NDArray[Any]:
    """float32 where that is exact or was stored, else float64."""
    if values.dtype.kind not in "buif":
        raise DataError(f"{path} must hold real numbers, got dtype {values.dtype}; convert it first")
    small = values.dtype.kind in "bui" and values.dtype.itemsize <= 2
    return values.astype(np.float32 if small or values.dtype in (np.float16, np.float32) else np.float64)


def check_finite(rows: NDArray[Any], path: Path, names: Sequence[str]) -> None:
    finite = np.isfinite(rows)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise DataError(
            f"{path}, row {row + 1}, column {names[column]!r} must be a finite number, got {rows[row, column]}; "
            "fill it in or remove the row"
        )


def is_missing(label: str) -> bool:
    """Whether it stands for a label that is not there, or is infinite."""
    try:
        return not math.isfinite(float(label))
    except ValueError:
        return label.lower() in MISSING


def whole_if_possible(values: NDArray[Any]) -> NDArray[Any]:
    """Real numbers as int64 if they all are whole."""
    whole = np.all(values == np.floor(values)) and np.all(np.abs(values) < 2**53)
    return values.astype(np.int64) if whole else values


def _listed(names: Sequence[str], most: int = 10) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
