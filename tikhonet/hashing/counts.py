"""Per query and Hamming distance: how many items there are, and how many of them are relevant.

Every measure of a Hamming ranking follows from these counts; nothing is sorted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tikhonet.hashing.codes import Codes, distance_blocks
from tikhonet.hashing.relevance import Rows

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Counts:
    """`items[q, d]` and `relevant[q, d]`: those at distance d of query q, d = 0 .. n_bits."""

    items: Integers
    relevant: Integers

    @property
    def size(self) -> int:
        """Items in the database."""
        return int(self.items[0].sum())

    @property
    def items_before(self) -> Integers:
        """Items nearer than d."""
        return np.cumsum(self.items, axis=1) - self.items

    @property
    def relevant_before(self) -> Integers:
        return np.cumsum(self.relevant, axis=1) - self.relevant

    @property
    def all_relevant(self) -> Integers:
        totals: Integers = self.relevant.sum(1)
        return totals


def count(queries: Codes, base: Codes, relevant: Rows) -> Counts:
    """One pass over all distances, block by block."""
    bins = 8 * base.shape[1] + 1
    table = np.empty((len(queries), 2, bins), np.int64)
    for rows, distances in distance_blocks(queries, base):
        keys = distances + np.uint16(bins) * relevant(rows)
        for place, row in enumerate(keys, rows.start):
            table[place] = np.bincount(row, minlength=2 * bins).reshape(2, bins)
    return Counts(table.sum(1), table[:, 1])
