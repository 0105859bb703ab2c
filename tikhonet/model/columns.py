"""The columns of a table as training rows showed them: from a table to rows of numbers, and to inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tikhonet.model.column import Column, Values
from tikhonet.model.column_kinds import Category, Number
from tikhonet.model.encoding import Encoding
from tikhonet.model.scaling import Floats


@dataclass(frozen=True)
class Columns:
    """All columns of a table, in their order."""

    columns: tuple[Column, ...]

    @classmethod
    def learn(cls, table: Sequence[Values], weight: Floats, bins: int = 0) -> Columns:
        """The columns of rows with these weights; rows of weight 0 teach nothing."""
        rows = np.flatnonzero(weight)
        taken = table if len(rows) == len(weight) else [values.take(rows) for values in table]
        return cls(tuple(kind_of(values).learn(values, weight[rows], bins) for values in taken))

    @classmethod
    def of_numbers(cls, names: Sequence[str]) -> Columns:
        """Columns of numbers of which nothing is known."""
        return cls(tuple(Number(name) for name in names))

    def without_pieces(self) -> Columns:
        """The columns whose numbers are not cut into pieces."""
        return Columns(tuple(column.without_pieces() for column in self.columns))

    @property
    def plain(self) -> bool:
        """Whether each column is one number of a row, so that a matrix of numbers is rows already."""
        fields = self.encoding.fields
        return len(fields) == len(self.columns) and all(field.number for field in fields)

    @cached_property
    def encoding(self) -> Encoding:
        return Encoding(tuple(field for column in self.columns for field in column.fields()))

    def rows(self, table: Sequence[Values]) -> Floats:
        """The rows of numbers that a table of these columns stands for."""
        arrays = [array for column, values in zip(self.columns, table, strict=True) for array in column.checked(values)]
        return np.column_stack(arrays)

    def as_list(self) -> list[dict[str, Any]]:
        """Plain JSON."""
        return [column.as_dict() for column in self.columns]

    @classmethod
    def from_list(cls, kept: object) -> Columns:
        """The columns that `as_list` described; ValueError, TypeError or KeyError where it describes none."""
        if not isinstance(kept, list) or not all(isinstance(column, dict) for column in kept):
            raise ValueError("columns must be a list of objects")
        return cls(tuple(Column.kinds[column["kind"]].from_dict(column) for column in kept))


def kind_of(values: Values) -> type[Column]:
    """The kind that these values are first read by."""
    if values.categorical:
        return Category
    return next(kind for kind in Column.kinds.values() if kind.learns == values.type)
