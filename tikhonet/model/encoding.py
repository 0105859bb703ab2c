"""From the fields of a row to the numbers that the scaling takes: one operator, the same in every export.

A row has one number for each field: a number, NaN where it is missing, or the code of a category. Field x_j gives

    x_j, the fill in its place where it is missing     of a number
    1 where x_j is missing, else 0                     where some were missing in training
    clip((x_j - low) / width, 0, 1)                    for each piece between two edges
    1 where x_j = code, else 0                         for each code

in this order: first the numbers of all fields, then all indicators, all pieces, all codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.model.scaling import Floats

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Field:
    """What is made of one number of a row."""

    name: str
    number: bool = True
    fill: float | None = None
    missing: bool = False
    edges: tuple[float, ...] = ()
    codes: int = 0

    @property
    def outputs(self) -> int:
        return self.number + self.missing + max(0, len(self.edges) - 1) + self.codes


@dataclass(frozen=True)
class Encoding:
    """The operator of the formula above; without missing values it leaves a row of numbers as it is."""

    fields: tuple[Field, ...]

    @property
    def outputs(self) -> int:
        return sum(field.outputs for field in self.fields)

    @cached_property
    def bare(self) -> bool:
        """Whether it gives back every row as it came."""
        return all(field.number and field.outputs == 1 and field.fill is None for field in self.fields)

    @cached_property
    def fill(self) -> Floats:
        """For each field the number in place of a missing one, NaN where there is none."""
        return np.array([np.nan if field.fill is None else field.fill for field in self.fields])

    @cached_property
    def numbers(self) -> Places:
        return places([j for j, field in enumerate(self.fields) if field.number])

    @cached_property
    def missing(self) -> Places:
        return places([j for j, field in enumerate(self.fields) if field.missing])

    @cached_property
    def pieces(self) -> Places:
        return self._repeated(lambda field: max(0, len(field.edges) - 1))

    @cached_property
    def low(self) -> Floats:
        return np.array([edge for field in self.fields for edge in field.edges[:-1]], np.float64)

    @cached_property
    def width(self) -> Floats:
        return np.array([step for field in self.fields for step in np.diff(field.edges)], np.float64)

    @cached_property
    def coded(self) -> Places:
        return self._repeated(lambda field: field.codes)

    @cached_property
    def code(self) -> Floats:
        return np.array([code for field in self.fields for code in range(field.codes)], np.float64)

    @property
    def without_pieces(self) -> Places:
        """The places of all outputs but the pieces."""
        start = len(self.numbers) + len(self.missing)
        return np.delete(np.arange(self.outputs), slice(start, start + len(self.pieces)))

    def __call__(self, X: Floats) -> Floats:
        """The encoded rows in float64; a missing number without a fill stays NaN, and so do its pieces."""
        absent = np.isnan(X)
        filled = np.where(absent, self.fill, X) if absent.any() else X
        if self.bare:
            return filled
        found = np.empty((len(X), self.outputs))
        place = 0
        for part in self._parts(filled, absent):
            found[:, place : place + part.shape[1]] = part
            place += part.shape[1]
        return found

    def _parts(self, filled: Floats, absent: NDArray[np.bool_]) -> Iterator[NDArray[Any]]:
        yield filled[:, self.numbers]
        yield absent[:, self.missing]
        yield np.clip((filled[:, self.pieces] - self.low) / self.width, 0.0, 1.0)
        yield filled[:, self.coded] == self.code

    def _repeated(self, times: Callable[[Field], int]) -> Places:
        return places([j for j, field in enumerate(self.fields) for _ in range(times(field))])


def places(found: list[int]) -> Places:
    return np.array(found, np.int64)
