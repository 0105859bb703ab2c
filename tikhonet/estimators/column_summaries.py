"""Columns that are learned from rows which come by pieces, or which several ranks have: by summaries that add up.

A summary holds the different values of a column and the total weight of each, which is all that is learned from. Of
more values than it has room for, numbers and dates leave quantiles, and categories their most frequent ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tikhonet.model.column import Column, Values
from tikhonet.model.columns import Columns
from tikhonet.model.scaling import Floats
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.ranks import current_reduce, gather
from tikhonet.problem.samples import keep

MANY = 10_000
"""Different values of a column, at most, that a summary holds."""
FEWEST = 256
"""Different values that it has room for at least."""
Summary = tuple[Values, Floats]


@dataclass
class Summaries:
    """The summaries of all columns of a table, of rows that come by pieces."""

    most: int = MANY
    parts: list[list[Summary]] = field(default_factory=list)

    def add(self, table: Sequence[Values], weight: Floats) -> None:
        """Add rows with these weights; those of weight 0 teach nothing."""
        kept, self.parts = np.flatnonzero(weight), self.parts or [[] for _ in table]
        for parts, values in zip(self.parts, table, strict=True):
            parts.append(shortened(values.take(kept), weight[kept], self.most))
            if sum(len(share) for _, share in parts) > 2 * self.most:
                parts[:] = [shortened(*joined(parts), self.most)]

    def columns(self, bins: int) -> Columns:
        """The columns of the rows of all ranks."""
        every = gather([joined(parts) for parts in self.parts])
        columns: list[Column] = []
        for parts in zip(*every, strict=True):
            values, weight = joined(parts)
            columns += Columns.learn([values], weight, bins).columns
        return Columns(tuple(columns))


def learn_columns(table: Sequence[Values], weight: Floats, bins: int) -> Columns:
    """The columns of the rows of all ranks, of which these are here."""
    if current_reduce() is keep:
        return Columns.learn(table, weight, bins)
    summaries = Summaries()
    summaries.add(table, weight)
    return summaries.columns(bins)


def joined(parts: Sequence[Summary]) -> Summary:
    """One summary of several; a part whose values are all missing may be of any type."""
    known = [part for part in parts if not part[0].missing.all()] or parts[:1]
    first, kinds = known[0][0], {values.type for values, _ in known}
    if len(kinds) > 1:
        raise ArgumentError(
            "X", f"column {first.name!r} of X must be of one type in all pieces and on all ranks, got {sorted(kinds)}"
        )
    absent = float(sum(weight[values.missing].sum() for values, weight in parts))
    array = np.concatenate([values.array[~values.missing] for values, _ in known])
    share = np.concatenate([weight[~values.missing] for values, weight in known])
    if any(values.missing.any() for values, _ in parts):
        nothing = np.empty(1, array.dtype)
        nothing[0] = {"text": None, "date": np.datetime64("NaT", "us")}.get(first.type, np.nan)
        array, share = np.concatenate([array, nothing]), np.append(share, absent)
    return replace(first, array=array), share


def shortened(values: Values, weight: Floats, most: int = MANY) -> Summary:
    """The different values of a column with their total weights, at most so many of them and what is missing."""
    absent = values.missing
    found, where = np.unique(values.array[~absent], return_inverse=True)
    share: Floats = np.bincount(where, weight[~absent], len(found)).astype(float)
    if len(found) > most:
        if values.categorical or found.dtype == object:
            places = np.sort(np.argsort(-share, kind="stable")[:most])
            found, share = found[places], share[places]
        else:
            total = np.cumsum(share)
            found = found[np.searchsorted(total, total[-1] * np.linspace(0, 1, most) * (1 - 1e-9))]
            share = np.full(most, total[-1] / (most - 1))
            share[[0, -1]] /= 2  # the ends stand for half as much: what they leave out lies on one side
    some = np.flatnonzero(absent)[:1]
    array = np.concatenate([found, values.array[some]])
    return replace(values, array=array), np.append(share, weight[absent].sum()) if len(some) else share
