"""The kinds of columns: numbers, truth values, categories, very many categories, dates."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.model.column import Column, Values
from tikhonet.model.encoding import Field
from tikhonet.model.scaling import Floats
from tikhonet.network.errors import ArgumentError

ONE_HOT = 64
"""Categories that get a code of their own, the most frequent ones; `BUCKETS` codes are shared by all others."""
BUCKETS = 64
FEW = 10
"""A column with no more different numbers than this is not cut into pieces."""
DAY = np.timedelta64(1, "D")
CategoryName = str | int | float


@dataclass(frozen=True)
class Number(Column):
    """A number. Where some are missing in training it has their indicator beside it, and their median as a fill.

    With edges it has pieces beside it, linear between two neighbouring quantiles and constant elsewhere.
    """

    fill: float | None = None
    edges: tuple[float, ...] = ()

    kind, learns, what = "number", "number", "a number"
    types = ("number", "boolean")

    @classmethod
    def learn(cls, values: Values, weight: Floats, bins: int) -> Number:
        absent = values.missing
        if not (bins or absent.any()):
            return cls(values.name)
        present, order = values.array[~absent], weight[~absent]
        if not len(present):
            return cls(values.name, 0.0)
        found, where = np.unique(present, return_inverse=True)
        share = np.cumsum(np.bincount(where, order), dtype=np.float64)
        edges: list[float] = []
        if bins and len(found) > FEW:
            edges = np.unique(quantiles(found, share, np.arange(bins + 1) / bins)).tolist()
        fill = float(quantiles(found, share, 0.5)) if absent.any() else None
        return cls(values.name, fill, tuple(edges) if len(edges) > 1 else ())

    def without_pieces(self) -> Number:
        return replace(self, edges=())

    def fields(self) -> tuple[Field, ...]:
        return (Field(self.name, fill=self.fill, missing=self.fill is not None, edges=self.edges),)

    def read(self, values: Values) -> Iterable[Floats]:
        return [np.full(len(values.array), np.nan) if values.type not in self.types else values.array]

    def meaning(self) -> str:
        return self.what + (", NaN where missing" if self.fill is not None else "")

    def check(self) -> None:
        super().check()
        known = [*self.edges, *([] if self.fill is None else [self.fill])]
        if not all(type(value) in (int, float) and math.isfinite(value) for value in known):
            raise ValueError(f"column {self.name!r} must have finite numbers as its fill and edges")
        if len(self.edges) == 1 or not all(low < high for low, high in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError(f"column {self.name!r} must have edges that rise")


@dataclass(frozen=True)
class Boolean(Number):
    """False and true, as 0 and 1."""

    kind, learns, what = "boolean", "boolean", "0 or 1"


@dataclass(frozen=True)
class Category(Column):
    """One of some categories, whose place among them is its code. Another one is unknown, and has code -1."""

    categories: tuple[CategoryName, ...] = ()
    missing: bool = False
    """Whether some were missing in training: missing is then a category of its own, else it is unknown."""

    kind, learns = "category", "text"
    types = ("text", "number", "boolean")
    codes = property(lambda self: len(self.categories))
    others = property(lambda self: "-1 = any other")

    @classmethod
    def learn(cls, values: Values, weight: Floats, bins: int) -> Category:
        absent = values.missing
        present = values.array[~absent].tolist()
        seen = {value: place for place, value in enumerate(dict.fromkeys(present))}
        known = [plain(value) for value in seen]
        if len(known) <= ONE_HOT:
            return Category(values.name, tuple(sorted(known)), bool(absent.any()))
        where = np.fromiter(map(seen.__getitem__, present), np.intp, len(present))
        total = np.bincount(where, weight[~absent])
        # Rounded, so that equal shares are equal whatever the order of the rows that they were added in.
        share = np.round(total / total.sum(), 9).tolist()
        frequent = sorted(zip(known, share, strict=True), key=lambda pair: (-pair[1], pair[0]))[:ONE_HOT]
        return HashedCategory(values.name, tuple(sorted(name for name, _ in frequent)), bool(absent.any()), BUCKETS)

    @cached_property
    def lookup(self) -> dict[CategoryName, int]:
        return {name: code for code, name in enumerate(self.categories)}

    def fields(self) -> tuple[Field, ...]:
        return (Field(self.name, number=False, missing=self.missing, codes=self.codes),)

    def read(self, values: Values) -> Iterable[Floats]:
        absent = values.missing
        codes = np.full(len(absent), np.nan)
        present = values.array[~absent].tolist()
        self._check_type(present)
        known = {value: self.code(plain(value)) for value in set(present)}
        codes[~absent] = list(map(known.__getitem__, present))
        return [codes]

    def code(self, name: CategoryName) -> int:
        return self.lookup.get(name, -1)

    def _check_type(self, present: list[Any]) -> None:
        if present and self.categories and isinstance(present[0], str) != isinstance(self.categories[0], str):
            kinds = ("text", "numbers") if isinstance(self.categories[0], str) else ("numbers", "text")
            raise ArgumentError(
                "X", f"column {self.name!r} of X must hold {kinds[0]} as in fit, got {kinds[1]}; convert it"
            )

    def meaning(self) -> str:
        listed = ", ".join(f"{code} = {name}" for name, code in self.lookup.items())
        return f"a category: {listed}, {self.others}{', NaN where missing' if self.missing else ''}"

    def check(self) -> None:
        super().check()
        kinds = {isinstance(name, str) for name in self.categories}
        if len(kinds) > 1 or not all(type(name) in (str, int, float) for name in self.categories):
            raise ValueError(f"column {self.name!r} must have categories that are all texts or all numbers")
        if len(set(self.categories)) < len(self.categories) or type(self.missing) is not bool:
            raise ValueError(
                f"column {self.name!r} must have categories that differ, and say whether some were missing"
            )


@dataclass(frozen=True)
class HashedCategory(Category):
    """One of very many categories: the most frequent have codes of their own, all others share some by a hash.

    The code of such a one, known or not, is the number of frequent ones + (CRC-32 of its name in UTF-8) mod buckets.
    """

    buckets: int = BUCKETS

    kind, learns = "hashed_category", ""
    codes = property(lambda self: len(self.categories) + self.buckets)
    others = property(lambda self: f"{len(self.categories)} + CRC-32 of its name mod {self.buckets} = any other")

    def code(self, name: CategoryName) -> int:
        shared = len(self.categories) + zlib.crc32(str(name).encode(errors="surrogatepass")) % self.buckets
        return self.lookup.get(name, shared)

    def check(self) -> None:
        super().check()
        if type(self.buckets) is not int or not 1 <= self.buckets <= 2**20:
            raise ValueError(f"column {self.name!r} must have a whole number of buckets")


@dataclass(frozen=True)
class Date(Column):
    """A date or a time: year, day of the year (from 1), weekday (Monday is 0) and hour of the day, with fractions.

    Times of a time zone are those of UTC.
    """

    parts: tuple[dict[str, Any], ...] = ()
    """What was learned of each of the four numbers."""

    kind, learns = "date", "date"
    types = ("date",)

    @classmethod
    def learn(cls, values: Values, weight: Floats, bins: int) -> Date:
        names = [f"{values.name}.{part}" for part in ("year", "day_of_year", "weekday", "hour")]
        arrays = zip(names, clock(values.array), strict=True)
        learned = [Number.learn(Values(name, "number", array), weight, bins) for name, array in arrays]
        return cls(values.name, tuple(number.as_dict() for number in learned))

    @cached_property
    def numbers(self) -> tuple[Number, ...]:
        return tuple(Number.from_dict(part) for part in self.parts)

    def without_pieces(self) -> Date:
        return replace(self, parts=tuple(number.without_pieces().as_dict() for number in self.numbers))

    def fields(self) -> tuple[Field, ...]:
        first, *others = (field for number in self.numbers for field in number.fields())
        # One indicator says of all four that they are missing.
        return first, *(Field(other.name, fill=other.fill, edges=other.edges) for other in others)

    def read(self, values: Values) -> Iterable[Floats]:
        missing = values.type not in self.types
        return clock(np.full(len(values.array), "NaT", "datetime64[us]") if missing else values.array)

    def meaning(self) -> str:
        return "year, day of the year from 1, weekday from Monday = 0, hour with its fraction"

    def check(self) -> None:
        super().check()
        if len(self.numbers) != 4:
            raise ValueError(f"column {self.name!r} must have four parts")


def quantiles(found: Floats, share: Floats, levels: Any) -> Floats:
    """The least of the sorted values below or at which this share of the weight lies; `share` adds weights up."""
    # A little less than asked for: weights that are multiples of others must not differ by rounding.
    places = np.searchsorted(share, np.multiply(levels, share[-1]) * (1 - 1e-9))
    least: Floats = found[np.minimum(places, len(found) - 1)]
    return least


def plain(value: Any) -> CategoryName:
    """The name of a category: text, or a number that is whole where it can be."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def clock(moments: NDArray[Any]) -> list[Floats]:
    """Year, day of the year, weekday and hour of each moment, NaN where it is missing."""
    days = moments.astype("datetime64[D]")
    years = days.astype("datetime64[Y]")
    missing = np.isnat(moments)
    parts = (
        years.astype(np.int64) + 1970,
        (days - years.astype("datetime64[D]")) / DAY + 1,
        (days.astype(np.int64) + 3) % 7,
        (moments - days) / np.timedelta64(1, "h"),
    )
    return [np.where(missing, np.nan, part) for part in parts]
