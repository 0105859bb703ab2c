"""Measures of a ranking with ties: the exact mean over all orders of tied items, and the exact bounds.

Items at one Hamming distance are tied. A tie group of n items, r of them relevant, stands after N items with R relevant
ones. In a random order its i-th place holds a relevant item with probability r / n, and then (i - 1)(r - 1)/(n - 1)
relevant ones of the group are expected before it (McSherry and Najork, ECIR 2008). The best order has the relevant ones
first, the worst has them last; no order is outside of the two, place by place. With harmonic numbers H,

    sum_{i=1..m} (a + b i) / (p + i)  =  b m + (a - b p) (H(p + m) - H(p))

so a group costs the same whatever its size, also where the ranking is cut inside of it. So all measures follow from
the numbers of items and of relevant ones at each distance; nothing is sorted.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.hashing.codes import Codes, distance_blocks
from tikhonet.hashing.relevance import Rows

Floats = NDArray[np.float64]
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
        starts = 2 * bins * np.arange(len(keys))[:, None]
        found = np.bincount((keys + starts).ravel(), minlength=2 * bins * len(keys))
        table[rows] = found.reshape(-1, 2, bins)
    return Counts(table.sum(1), table[:, 1])


def count_by(distances: NDArray[Any], *relevant: NDArray[np.bool_]) -> list[Counts]:
    """The counts for distances of any kind, queries x items, one for each notion of what is relevant.

    Here d numbers the different distances of a query, the nearest first.
    """
    order = np.argsort(distances, axis=1)
    sorted_ = np.take_along_axis(distances, order, 1)
    place = np.zeros(distances.shape, np.int64)
    np.cumsum(sorted_[:, 1:] > sorted_[:, :-1], axis=1, out=place[:, 1:])
    place += distances.shape[1] * np.arange(len(distances))[:, None]

    def numbers(chosen: NDArray[np.int64]) -> Integers:
        return np.bincount(chosen, minlength=distances.size).reshape(distances.shape)

    items = numbers(place.ravel())
    return [Counts(items, numbers(place[np.take_along_axis(right, order, 1)])) for right in relevant]


@dataclass(frozen=True)
class Tied:
    """A measure of a ranking over all orders of tied items.

    Parameters
    ----------
    expected : float
        The mean over all orders.
    lower : float
        That of the worst order.
    upper : float
        That of the best order.

    Examples
    --------
    >>> from tikhonet.hashing import Tied
    >>> print(Tied(0.5, 0.25, 1.0))
    0.5000 (0.2500 to 1.0000 by the order of ties)
    """

    expected: float
    lower: float
    upper: float

    def __str__(self) -> str:
        return f"{self.expected:.4f} ({self.lower:.4f} to {self.upper:.4f} by the order of ties)"

    def to_dict(self) -> dict[str, float]:
        """The three numbers.

        Returns
        -------
        dict of str to float
            By the names of the parameters.
        """
        return asdict(self)


@dataclass(frozen=True, eq=False)
class TiedRows:
    """A measure over all orders of tied items, for each query."""

    expected: Floats
    lower: Floats
    upper: Floats

    def mean(self, rows: NDArray[np.bool_] | slice = slice(None)) -> Tied:
        return Tied(*(float(values[rows].mean()) for values in (self.expected, self.lower, self.upper)))


def joined(parts: list[TiedRows]) -> TiedRows:
    """The measures of several blocks of queries as one."""
    return TiedRows(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("expected", "lower", "upper"))
    )


def average_precision(counts: Counts, k: int | None = None) -> TiedRows:
    """AP = 1/min(R, k) sum over the relevant places up to k of (relevant ones so far) / place, of each query.

    R counts the relevant items of the whole database; k is its size where it is not given. NaN where R is 0.
    """
    k = counts.size if k is None else k
    n, r = counts.items, counts.relevant
    N, R = counts.items_before, counts.relevant_before
    room = np.maximum(k - N, 0)
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, counts.size + 1))])

    def places(a: NDArray[np.floating | np.integer], b: Floats | float, p: Integers, m: Integers) -> Floats:
        """sum_{i=1..m} (a + b i) / (p + i)."""
        sums: Floats = b * m + (a - b * p) * (harmonic[p + m] - harmonic[p])
        return sums

    step = (r - 1) / np.maximum(n - 1, 1)
    expected = r / np.maximum(n, 1) * places(R + 1 - step, step, N, np.minimum(n, room))
    best = places(R, 1.0, N, np.minimum(r, room))
    others = n - r
    worst = places(R, 1.0, N + others, np.clip(room - others, 0, r))
    possible = np.minimum(counts.all_relevant, k)
    scale = np.where(possible > 0, 1 / np.maximum(possible, 1), np.nan)
    return TiedRows(expected.sum(1) * scale, worst.sum(1) * scale, best.sum(1) * scale)


def precision_at(counts: Counts, k: int) -> TiedRows:
    """The share of relevant items among the first k, of each query."""
    n, r = counts.items, counts.relevant
    taken = np.clip(k - counts.items_before, 0, n)
    expected = (r * taken / np.maximum(n, 1)).sum(1)
    lower = np.maximum(taken - (n - r), 0).sum(1)
    upper = np.minimum(taken, r).sum(1)
    return TiedRows(expected / k, lower / k, upper / k)
