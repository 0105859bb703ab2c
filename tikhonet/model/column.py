"""A column of a table: its values as they are read, and the idea of what training rows teach of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tikhonet.model.encoding import Field
from tikhonet.model.scaling import Floats
from tikhonet.network.errors import ArgumentError
from tikhonet.network.registry import Registry


@dataclass(frozen=True, eq=False)
class Values:
    """A column of a table as it is read: its type is one of number, boolean, text and date."""

    name: str
    type: str
    array: NDArray[Any]
    """float64 with NaN for numbers and booleans, text with None, or datetime64 with NaT."""
    categorical: bool = False

    @property
    def missing(self) -> NDArray[np.bool_]:
        if self.array.dtype == object:
            return np.array([value is None for value in self.array.tolist()], bool)
        found: NDArray[np.bool_] = np.isnan(self.array) if self.array.dtype.kind == "f" else np.isnat(self.array)
        return found

    def take(self, rows: NDArray[np.intp]) -> Values:
        return Values(self.name, self.type, self.array[rows], self.categorical)


@dataclass(frozen=True)
class Column(ABC):
    """A column as training rows showed it: a frozen value.

    It says which fields its values take in a row of numbers (`Encoding` goes on from there), is plain JSON in a model
    file, and reads the values of later tables. A kind becomes known by being defined.
    """

    name: str

    kind: ClassVar[str]
    types: ClassVar[tuple[str, ...]]
    """The types of values that it reads."""
    learns: ClassVar[str] = ""
    """The type of values that become such a column by themselves."""
    kinds: ClassVar[Registry[type[Column]]] = Registry("kind")

    def __init_subclass__(cls) -> None:
        cls.kinds.add(cls.kind, cls)

    @classmethod
    @abstractmethod
    def learn(cls, values: Values, weight: Floats, bins: int) -> Column:
        """The column of these values, whose rows have positive weights; numbers are cut into so many pieces."""

    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The numbers that it takes in a row."""

    @abstractmethod
    def read(self, values: Values) -> Iterable[Floats]:
        """Its numbers in each row, an array for each field."""

    @abstractmethod
    def meaning(self) -> str:
        """One line on the numbers of its fields, for those who make rows themselves."""

    def without_pieces(self) -> Column:
        """The column whose numbers are not cut into pieces."""
        return self

    def checked(self, values: Values) -> Iterable[Floats]:
        """The numbers of values that have a type which it reads; missing values have any."""
        if values.type not in self.types and not values.missing.all():
            raise ArgumentError(
                "X",
                f"column {self.name!r} of X must hold {' or '.join(self.types)} as in fit, got {values.type}; "
                "convert it",
            )
        return self.read(values)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        own = {part.name: getattr(self, part.name) for part in fields(self)}
        lists = {name: list(value) for name, value in own.items() if isinstance(value, tuple)}
        return {"kind": self.kind, **own, **lists}

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> Self:
        """The column that `as_dict` described; raises where it describes none."""
        own: dict[str, Any] = {name: value for name, value in kept.items() if name != "kind"}
        own |= {name: tuple(value) for name, value in own.items() if isinstance(value, list)}
        column = cls(**own)
        column.check()
        return column

    def check(self) -> None:
        """Raise ValueError unless it could have been learned."""
        if not isinstance(self.name, str):
            raise ValueError("a column must have a text as its name")
