"""Asymmetric distances: the query's real scores against stored codes, which keep how sure each bit of the query is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tikhonet.hashing.codes import Codes, pack
from tikhonet.network.errors import ArgumentError

Scores = NDArray[np.float32]
LARGEST = 1e35
"""Sums of 512 such scores are finite in float32."""


def check_scores(scores: ArrayLike, codes: Codes, n_bits: int) -> Scores:
    """Raise unless scores are finite, one for each bit of each code, with its sign."""
    found = np.asarray(scores)
    if found.shape != (len(codes), n_bits) or found.dtype.kind not in "biuf":
        raise ArgumentError(
            "scores",
            f"scores must hold a number for each of the {n_bits} bits of the {len(codes)} queries, got {found.dtype} "
            f"of shape {found.shape}; pass decision_function of the hasher that made the codes",
        )
    if not np.isfinite(found).all():
        raise ArgumentError("scores", "scores must be finite, got NaN or infinity; look at the rows they come from")
    if found.size and np.abs(found).max() > LARGEST:
        raise ArgumentError(
            "scores", f"scores must be at most {LARGEST:g} in size, got {np.abs(found).max():g}; divide them by it"
        )
    if not np.array_equal(pack(found), codes):
        raise ArgumentError("scores", "scores must have the signs of the codes, got others; pass pack(scores) as codes")
    return found.astype(np.float32)


def by_scores(scores: Scores, base: Codes, positions: NDArray[Any], k: int) -> tuple[Scores, NDArray[np.int64]]:
    """The k candidates nearest to each query, by the sum of |score| over the bits that differ; then by position.

    A byte of a code can differ from the query's in 256 ways, so the sums of each byte are looked up in a table.
    """
    tables = byte_tables(scores, base.shape[1])
    distances = np.empty((len(scores), k), np.float32)
    found = np.empty((len(scores), k), np.int64)
    places = 256 * np.arange(base.shape[1])
    for query, (table, candidates) in enumerate(zip(tables, positions, strict=True)):
        cost = table[base[candidates] + places].sum(1)
        cost[candidates < 0] = np.inf
        order = np.lexsort((candidates, cost))[:k] if k >= len(cost) else nearest(cost, candidates, k)
        distances[query], found[query] = cost[order], candidates[order]
    return distances, found


def nearest(cost: Scores, candidates: NDArray[Any], k: int) -> NDArray[np.intp]:
    """The places of the k least, in order; ties go to the smaller position."""
    last = np.partition(cost, k - 1)[k - 1]
    places = np.flatnonzero(cost <= last)
    order: NDArray[np.intp] = places[np.lexsort((candidates[places], cost[places]))[:k]]
    return order


def byte_tables(scores: Scores, width: int) -> Scores:
    """For each query and byte of a code, what each of the byte's 256 values costs: queries x (256 width)."""
    padded = np.zeros((len(scores), 8 * width), np.float32)
    padded[:, : scores.shape[1]] = scores
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)
    parts = padded.reshape(len(scores), width, 8)
    # Where the stored bit is 1 a negative score costs its size, where it is 0 a positive one does.
    tables = np.maximum(-parts, 0) @ bits.T + np.maximum(parts, 0) @ (1 - bits).T
    return np.ascontiguousarray(tables.reshape(len(scores), 256 * width), np.float32)
