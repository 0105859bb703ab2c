"""Tables from text: commas (or, where the first line has none, semicolons or tabs) between cells."""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.data.dataset import DataError
from tikhonet.data.tables import Table, TableFile, default_names, is_missing, is_number, whole_if_possible

Line = tuple[int, list[str]]
"""The number of a line in its file, and the line's cells."""
HINT = "; if its first row holds names, use --header (header=True)"


class CsvFile(TableFile):
    """.csv: numbers in all columns but that of the label; `header=None` takes a first row without numbers for names.

    A first row of numbers and text may be names (0, 1, 2, label) or a row with text as its label. It is taken for a
    row only where another row has such text as well: neither a row nor the names may be lost without a word.
    """

    kind = ".csv"

    def read(self) -> Table:
        try:
            with self.path.open(newline="", encoding="utf-8-sig") as file:
                first = file.readline()
                file.seek(0)
                delimiter = next((mark for mark in ",;\t" if mark in first), ",")
                reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
                return self.parse((reader.line_num, cells) for cells in reader if cells)
        except UnicodeDecodeError:
            raise DataError(f"{self.path} must be text in UTF-8, got other bytes; save it as CSV in UTF-8") from None
        except csv.Error as error:
            raise DataError(f"{self.path} is not valid CSV: {error}; correct it there") from None

    def parse(self, lines: Iterator[Line]) -> Table:
        first = next(lines, None)
        if first is None:
            raise DataError(f"{self.path} is empty; it must hold rows of numbers")
        cells = first[1]
        header = self.is_header(cells) if self.header is None else self.header
        hint = HINT if self.header is None and not header else ""
        names = [cell.strip() for cell in cells] if header else default_names(len(cells))
        self.check_names(names)
        place = self.label_place(names, hint)
        numbers, labels = array("d"), []
        row = 0
        for row, (line, cells) in enumerate(lines if header else chain([first], lines), start=1):
            where = f"{self.path}, row {row} (line {line})"
            if len(cells) != len(names):
                wanted = f"must have {len(names)} cells like the first, got {len(cells)}"
                raise DataError(f"{where} {wanted}; correct it there")
            if place is not None:
                labels.append(_label(cells[place], f"{where}, column {names[place]!r}"))
                cells[place] = "0"
            numbers.extend(_numbers(cells, where, names, hint if row == 1 else ""))
        if row == 0:
            raise DataError(f"{self.path} holds a header but no rows")
        if hint:
            self.check_first(labels)
        y = np.array(labels) if self.text_labels else _typed(labels)
        return self.table(np.array(numbers).reshape(row, len(names)), names, place, y, named=header)

    def is_header(self, cells: list[str]) -> bool:
        if len(cells) > 2 and cells == [str(k) for k in range(len(cells))]:  # the names that pandas gives
            raise DataError(
                f"{self.path} begins with 0, 1, 2, ..., which may be names or a row of numbers; say which of them with "
                "--header or --no-header (header=True or False)"
            )
        return not any(map(is_number, cells))

    def check_first(self, labels: list[str]) -> None:
        """Raise where the label of the first row may as well be its column's name."""
        if len(labels) > 1 and not is_number(labels[0]) and all(map(is_number, labels[1:])):
            raise DataError(
                f"{self.path}, row 1 must have a number as its label like all other rows, got {labels[0]!r}; "
                f"correct it{HINT}"
            )


def _numbers(cells: list[str], where: str, names: list[str], hint: str) -> list[float]:
    try:
        values = list(map(float, cells))
    except ValueError:
        values = [math.nan]
    # One sum tells whether all are finite; only where it does not, the cells are looked at one by one.
    if not math.isfinite(sum(values)):
        for cell, name in zip(cells, names, strict=True):
            if not is_number(cell) or not math.isfinite(float(cell)):
                got = repr(cell) if cell.strip() else "an empty cell"
                raise DataError(
                    f"{where}, column {name!r} must be a finite number, got {got}; "
                    f"correct it, remove the row, or name the column as the label if it is one{hint}"
                )
    return values


def _label(cell: str, where: str) -> str:
    label = cell.strip()
    if not label or is_missing(label):
        state = f"missing or infinite, got {label!r}" if label else "empty"
        raise DataError(f"{where} is the label and must not be {state}; fill it in or remove the row")
    return label


def _typed(labels: list[str]) -> NDArray[Any]:
    """Whole or real numbers if all labels are, else text; digits that begin with a zero ("07") are names, so text."""
    names = all(map(str.isdecimal, labels)) and any(re.match(r"0\d", label) for label in labels)
    if names or not all(map(is_number, labels)):
        return np.array(labels)
    return whole_if_possible(np.array(list(map(float, labels))))
