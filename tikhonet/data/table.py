"""A table of numbers with, perhaps, a column of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.data.errors import DataError

Label = str | int | None


@dataclass(frozen=True, eq=False)
class Table:
    """Finite real rows X (float32 or float64), labels y (integers, real numbers or text) or None, and names.

    y has one label a row; from .npz it may have a row of them.
    """

    X: NDArray[Any]
    y: NDArray[Any] | None
    feature_names: tuple[str, ...]
    label_name: str | None = None
    row_names: tuple[str, ...] = ()


def default_names(count: int) -> list[str]:
    return [f"x{k}" for k in range(count)]


def locate(label: Label, names: Sequence[str], path: Path) -> int | None:
    """The place of the label column; a negative index counts from the end."""
    if label is None:
        return None
    if isinstance(label, str):
        places = [place for place, name in enumerate(names) if name == label]
        if len(places) != 1:
            found = "no column" if not places else f"{len(places)} columns"
            raise DataError(f"{path} has {found} named {label!r}; its columns are {_listed(names)}")
        return places[0]
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


def whole_if_possible(values: NDArray[Any]) -> NDArray[Any]:
    """Real numbers as int64 if they all are whole."""
    whole = np.all(values == np.floor(values)) and np.all(np.abs(values) < 2**53)
    return values.astype(np.int64) if whole else values


def _listed(names: Sequence[str], most: int = 10) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
