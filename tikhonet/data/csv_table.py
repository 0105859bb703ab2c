"""Tables from text: commas (or, where the first line has none, semicolons or tabs) between cells."""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.data.errors import DataError
from tikhonet.data.table import Label, Table, default_names, locate, whole_if_possible

Line = tuple[int, list[str]]
"""The number of a line in its file, and the line's cells."""


def read_csv(path: Path, label: Label, header: bool | None) -> Table:
    """Numbers in all columns but that of the label; `header=None` takes a first row without any number for one."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            file.seek(0)
            delimiter = next((mark for mark in ",;\t" if mark in first), ",")
            reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
            return _parse(path, ((reader.line_num, cells) for cells in reader if cells), label, header)
    except UnicodeDecodeError:
        raise DataError(f"{path} must be text in UTF-8, got other bytes; save it as CSV in UTF-8") from None
    except csv.Error as error:
        raise DataError(f"{path} is not valid CSV: {error}; correct it there") from None


def _parse(path: Path, lines: Iterator[Line], label: Label, header: bool | None) -> Table:
    first = next(lines, None)
    if first is None:
        raise DataError(f"{path} is empty; it must hold rows of numbers")
    cells = first[1]
    if header is None:
        header = not any(map(_is_number, cells))
    names = [cell.strip() for cell in cells] if header else default_names(len(cells))
    place = locate(label, names, path)
    numbers, labels = array("d"), []
    row = 0
    for row, (line, cells) in enumerate(lines if header else chain([first], lines), start=1):
        where = f"{path}, row {row} (line {line})"
        if len(cells) != len(names):
            raise DataError(f"{where} must have {len(names)} cells like the first, got {len(cells)}; correct it there")
        if place is not None:
            labels.append(_label(cells[place], where, names[place]))
            cells[place] = "0"
        numbers.extend(_numbers(cells, where, names))
    if row == 0:
        raise DataError(f"{path} holds a header but no rows")
    X = np.array(numbers).reshape(row, len(names))
    if place is None:
        return Table(X, None, tuple(names))
    features = tuple(name for k, name in enumerate(names) if k != place)
    return Table(np.delete(X, place, 1), _typed(labels), features, names[place])


def _numbers(cells: list[str], where: str, names: list[str]) -> list[float]:
    try:
        values = list(map(float, cells))
    except ValueError:
        values = [math.nan]
    # One sum tells whether all are finite; only where it does not, the cells are looked at one by one.
    if not math.isfinite(sum(values)):
        for cell, name in zip(cells, names, strict=True):
            if not _is_number(cell) or not math.isfinite(float(cell)):
                got = repr(cell) if cell.strip() else "an empty cell"
                raise DataError(
                    f"{where}, column {name!r} must be a finite number, got {got}; "
                    "correct it, remove the row, or name the column as the label if it is one"
                )
    return values


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _label(cell: str, where: str, name: str) -> str:
    if not cell.strip():
        raise DataError(f"{where}, column {name!r} is the label and must not be empty; fill it in or remove the row")
    return cell.strip()


def _typed(labels: list[str]) -> NDArray[Any]:
    """Whole or real numbers if all labels are finite ones, else text."""
    try:
        values = np.array(list(map(float, labels)))
    except ValueError:
        return np.array(labels)
    return whole_if_possible(values) if np.isfinite(values).all() else np.array(labels)
