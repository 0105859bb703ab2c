"""Tables from text: commas, semicolons or tabs between cells, whichever the first line has most of.

Where columns of any kind are wanted, an empty cell is a missing value; a column is numbers if all cells that are not
missing are, else dates of the form 2024-12-31 (with a time, perhaps), else text. Numbers may have decimal commas; where
commas stand between cells, they are in quotes, and no number may then be meant in thousands.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
from array import array
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tikhonet.data.dataset import DataError
from tikhonet.data.tables import (
    MISSING,
    Table,
    TableFile,
    default_names,
    frame_or_matrix,
    is_missing,
    is_number,
    whole_if_possible,
)
from tikhonet.model.reading import read_within

Line = tuple[int, list[str]]
"""The number of a line in its file, and the line's cells."""
COMMA = re.compile(r"^(\s*[+-]?\d*),(\d+\s*)$")
"""A number with a decimal comma."""
DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?")
HINT = "; if its first row holds names, use --header (header=True)"


class CsvFile(TableFile):
    """.csv: numbers in all columns but that of the label; `header=None` takes a first row without numbers for names.

    A first row of numbers and text may be names (0, 1, 2, label) or a row with text as its label. It is taken for a
    row only where another row has such text as well: neither a row nor the names may be lost without a word.
    """

    kind = ".csv"

    selects = True
    marks: ClassVar[str] = ";,\t"
    """What may stand between cells: the one that the first line has most of, decimal commas not counted."""

    def read(self) -> Table:
        try:
            with self.text() as file:
                first = file.readline()
                file.seek(0)
                bare = re.sub(r"(?<=\d),(?=\d)", "", first)
                delimiter = max(self.marks, key=lambda mark: (bare.count(mark), mark in first))
                reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
                lines: Iterator[Line] = ((reader.line_num, cells) for cells in reader if cells)
                if delimiter != "," and self.wanted is not None:
                    lines = ((line, [COMMA.sub(r"\1.\2", cell) for cell in cells]) for line, cells in lines)
                return self.parse(lines)
        except UnicodeDecodeError:
            raise DataError(f"{self.path} must be text in UTF-8, got other bytes; save it as CSV in UTF-8") from None
        except csv.Error as error:
            raise DataError(f"{self.path} is not valid CSV: {error}; correct it there") from None

    def text(self) -> IO[str]:
        """The file as text."""
        return self.path.open(newline="", encoding="utf-8-sig")

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
        row, kept = 0, list[Line]()
        for row, (line, cells) in enumerate(lines if header else chain([first], lines), start=1):
            where = f"{self.path}, row {row} (line {line})"
            if len(cells) != len(names):
                wanted = f"must have {len(names)} cells like the first, got {len(cells)}"
                raise DataError(f"{where} {wanted}; correct it there")
            if place is not None:
                labels.append(_label(cells[place], f"{where}, column {names[place]!r}"))
                cells[place] = "0"
            if self.wanted is not None:
                kept.append((line, cells))
                continue
            numbers.extend(_numbers(cells, where, names, hint if row == 1 else ""))
        if row == 0:
            raise DataError(f"{self.path} holds a header but no rows")
        if hint:
            self.check_first(labels)
        y = np.array(labels) if self.text_labels else _typed(labels)
        if self.wanted is not None:
            return self.of_any_kind(kept, names, place, y if place is not None else None, header)
        return self.table(np.array(numbers).reshape(row, len(names)), names, place, y, named=header)

    def of_any_kind(
        self, lines: list[Line], names: list[str], place: int | None, y: NDArray[Any] | None, header: bool
    ) -> Table:
        """The table whose columns are each of the kind that its cells are."""
        assert self.wanted is not None
        self.wanted.check(names, self.path)
        columns = {}
        for k, name in enumerate(names):
            if k != place and self.wanted(name):
                columns[name] = self.column(name, [cells[k].strip() for _, cells in lines], [line for line, _ in lines])
        if not columns:
            raise DataError(f"{self.path} must have columns besides the label, got none that is wanted; name others")
        label = None if place is None else names[place]
        return Table(frame_or_matrix(columns), y, tuple(columns), label, named=header)

    def column(self, name: str, cells: list[str], lines: list[int]) -> NDArray[Any]:
        """Numbers with NaN, dates with NaT or text with None; a few words among numbers are an error."""
        assert self.wanted is not None
        cells = self.with_points(name, cells, lines)
        values = [math.nan if no_number(cell) else float(cell) if is_number(cell) else None for cell in cells]
        wrong = [row for row, value in enumerate(values) if value is None or math.isinf(value)]
        if not wrong:
            return np.array(values, np.float64)
        count = sum(value is not None and math.isfinite(value) for value in values)
        if len(wrong) <= count and name not in self.wanted.text:
            raise DataError(
                f"{self.path}, row {wrong[0] + 1} (line {lines[wrong[0]]}), column {name!r} must be a finite number "
                f"like most of its cells, got {cells[wrong[0]]!r}; correct it, leave it empty, or use --categorical "
                f"{name} if the numbers are names"
            )
        if all(DATE.fullmatch(cell) for cell in cells if cell):
            return np.array([cell or "NaT" for cell in cells], "datetime64[us]")
        return np.array([cell or None for cell in cells], object)

    def with_points(self, name: str, cells: list[str], lines: list[int]) -> list[str]:
        """The cells of a column with points for the decimal commas that were in quotes."""
        commas = [row for row, cell in enumerate(cells) if COMMA.match(cell)]
        if not commas or not all(no_number(cell) or is_number(cell) or COMMA.match(cell) for cell in cells):
            return cells
        if all(len(cells[row].partition(",")[2]) == 3 for row in commas):
            raise DataError(
                f"{self.path}, row {commas[0] + 1} (line {lines[commas[0]]}), column {name!r} must be a number, got "
                f"{cells[commas[0]]!r}, which may be decimals or thousands; write it without the comma"
            )
        return [COMMA.sub(r"\1.\2", cell) for cell in cells]

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


class TsvFile(CsvFile):
    """.tsv: tabs between cells."""

    kind, marks = ".tsv", "\t"


class PackedCsvFile(CsvFile):
    """.csv.gz: as .csv, packed by gzip."""

    kind = ".csv.gz"

    @classmethod
    def fits(cls, path: Path) -> bool:
        return path.name.lower().endswith(cls.kind)

    def text(self) -> IO[str]:
        with gzip.open(self.path) as packed:
            content = read_within(packed, self.path.stat().st_size)
        return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")


def no_number(cell: str) -> bool:
    """Whether a cell stands for a number that is missing."""
    return not cell or cell.lower() in ("nan", "na", *MISSING)


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
