"""The training rows in a form of their own: no zero weights, equal rows merged, an order that the rows decide.

So a row of weight 2 is the same as the row twice, and permuting the rows changes nothing, to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]
CHUNK = 4096


@dataclass(frozen=True)
class Rows:
    """Inputs, targets (both matrices) and positive weights."""

    X: Floats
    Y: Floats
    weight: Floats

    def __len__(self) -> int:
        return len(self.X)

    def take(self, index: NDArray[np.intp]) -> Rows:
        return Rows(self.X[index], self.Y[index], self.weight[index])


def fingerprint(matrix: Floats) -> NDArray[np.uint64]:
    """A 64-bit number for each row, from its bits alone: integer sums are exact wherever the row stands."""
    whole = np.uint64 if matrix.dtype == np.float64 else np.uint32
    factors = np.random.default_rng(0).integers(2**64 - 1, size=matrix.shape[1], dtype=np.uint64) | np.uint64(1)
    keys = np.empty(len(matrix), np.uint64)
    for start in range(0, len(matrix), CHUNK):
        rows = slice(start, start + CHUNK)
        # Adding zero makes -0.0 and 0.0 the same; the shift brings the leading bits down, where products keep them.
        bits = np.ascontiguousarray(matrix[rows] + matrix.dtype.type(0)).view(whole).astype(np.uint64)
        keys[rows] = ((bits ^ (bits >> np.uint64(29))) * factors).sum(1, dtype=np.uint64)
    return keys


def canonical(X: Floats, Y: Floats, weight: Floats) -> Rows:
    """Rows of positive weight, equal ones (X and Y) merged by adding their weights, sorted by fingerprint."""
    rows = Rows(X, Y, weight)
    if not weight.all():
        rows = rows.take(np.flatnonzero(weight))
    # The weights are keys too, so that those of equal rows are added in one order.
    rows = rows.take(np.lexsort((rows.weight, fingerprint(rows.Y), fingerprint(rows.X))))
    first = np.ones(len(rows), bool)
    for start in range(1, len(rows), CHUNK):
        here, before = slice(start, start + CHUNK), slice(start - 1, min(start + CHUNK, len(rows)) - 1)
        first[here] = (rows.X[here] != rows.X[before]).any(1) | (rows.Y[here] != rows.Y[before]).any(1)
    if first.all():
        return rows
    index = np.flatnonzero(first)
    return Rows(rows.X[index], rows.Y[index], np.add.reduceat(rows.weight, index))


def in_order(rows: Rows) -> Rows:
    """Scaled rows sorted by what they are to three digits: the same order in whatever units they came.

    Sorted by all their bits, one float32 that rounds to its neighbour would move its row, and change split and batches.
    """
    parts = (rows.X[start : start + CHUNK] for start in range(0, len(rows), CHUNK))
    keys = np.concatenate([fingerprint(np.rint(part * 1024).astype(np.float32)) for part in parts])
    # Rows that are equal so far go by their sums, which differ by more than rounding as a rule.
    return rows.take(np.lexsort((rows.X.sum(1), keys)))


def joined(first: Rows, second: Rows) -> Rows:
    return Rows(
        np.concatenate([first.X, second.X]),
        np.concatenate([first.Y, second.Y]),
        np.concatenate([first.weight, second.weight]),
    )
