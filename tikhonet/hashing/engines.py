"""Engines that find the nearest codes: NumPy, or one of faiss's binary indexes. Codes go by their position.

An engine is given the whole database (`rebuild`) or what was appended to it (`extend`). `search` returns distances and
positions, queries x k, with position -1 where fewer were found; `within` returns (query, distance, position) of every
code in the balls, in any order.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tikhonet.hashing.codes import Codes, distance_blocks
from tikhonet.network.extras import MissingExtraError, require

Distances = NDArray[np.int32]
Positions = NDArray[np.int64]
Found = tuple[NDArray[np.int64], Distances, Positions]

COUNTERS = 2**17
"""(n_bits + 1) k up to which faiss counts instead of keeping heaps: faster, but with a list of k for each distance."""

BUCKETS = 2**22
"""Buckets that "hash" looks at for one query, which takes a good part of a second."""


class Engine(Protocol):
    def rebuild(self, codes: Codes) -> None: ...
    def extend(self, codes: Codes, new: int) -> None: ...
    def search(self, queries: Codes, k: int) -> tuple[Distances, Positions]: ...
    def within(self, queries: Codes, radius: int) -> Found: ...


class NumpyEngine:
    """Exact, by `np.bitwise_count`; needs nothing else."""

    def __init__(self, width: int) -> None:
        self.codes = np.zeros((0, width), np.uint8)

    def rebuild(self, codes: Codes) -> None:
        self.codes = codes

    def extend(self, codes: Codes, new: int) -> None:
        self.codes = codes

    def search(self, queries: Codes, k: int) -> tuple[Distances, Positions]:
        """Nearer than the k-th distance: all; at it: the first ones."""
        distances, positions = np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.int64)
        for rows, block in distance_blocks(queries, self.codes):
            last = np.partition(block, k - 1, axis=1)[:, k - 1 : k]
            nearer, level = block < last, block == last
            chosen = nearer | (level & (np.cumsum(level, axis=1) <= k - nearer.sum(1, keepdims=True)))
            found = np.nonzero(chosen)[1].reshape(-1, k)
            near = np.take_along_axis(block, found, 1)
            order = np.argsort(near, axis=1, kind="stable")
            distances[rows], positions[rows] = (np.take_along_axis(a, order, 1) for a in (near, found))
        return distances, positions

    def within(self, queries: Codes, radius: int) -> Found:
        parts: list[Found] = []
        for rows, block in distance_blocks(queries, self.codes):
            query, position = np.nonzero(block <= radius)
            parts.append((query + rows.start, block[query, position].astype(np.int32), position))
        if not parts:
            return np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64)
        query, distance, position = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return query, distance, position


class FaissEngine:
    """Exact: `IndexBinaryFlat`; the base of the others."""

    def __init__(self, width: int) -> None:
        self.index = require_faiss().IndexBinaryFlat(8 * width)

    def rebuild(self, codes: Codes) -> None:
        self.index.reset()
        self.index.add(codes)

    def extend(self, codes: Codes, new: int) -> None:
        self.index.add(codes[len(codes) - new :])

    def search(self, queries: Codes, k: int) -> tuple[Distances, Positions]:
        self.index.use_heap = (self.index.d + 1) * k > COUNTERS
        distances, positions = self.index.search(queries, k)
        return distances, positions

    def within(self, queries: Codes, radius: int) -> Found:
        """faiss's radius is exclusive."""
        limits, distances, positions = self.index.range_search(queries, radius + 1)
        query = np.repeat(np.arange(len(queries)), np.diff(limits.astype(np.int64)))
        return query, distances.astype(np.int32), positions


class HashEngine(FaissEngine):
    """`IndexBinaryHash`: looks at codes whose first `hash_bits` bits differ from the query's in at most `flips`.

    So balls of radius up to `flips` are complete, and larger ones and the k nearest may not be. (The first bits are
    faiss's: the lowest of byte 0.)
    """

    def __init__(self, width: int, n_bits: int, hash_bits: int | None = None, flips: int = 2) -> None:
        most = min(8 * (n_bits // 8), 48)  # padding would be no bits at all
        hash_bits = min(16, most) if hash_bits is None else hash_bits
        if not 1 <= hash_bits <= most:
            raise ValueError(f"hash_bits must be from 1 to {most} for codes of {n_bits} bits, got {hash_bits}")
        if not 0 <= flips <= hash_bits:
            raise ValueError(f"flips must be from 0 to hash_bits ({hash_bits}), got {flips}")
        if sum(math.comb(hash_bits, changed) for changed in range(flips + 1)) > BUCKETS:
            raise ValueError(
                f"flips must be so few that a query looks at no more than {BUCKETS:,} buckets, got {flips} of "
                f"{hash_bits} hash_bits; lower one of them"
            )
        self.index = require_faiss().IndexBinaryHash(8 * width, hash_bits)
        self.index.nflip = flips

    def search(self, queries: Codes, k: int) -> tuple[Distances, Positions]:
        return in_order(*self.index.search(queries, k))


class ListsEngine(FaissEngine):
    """`IndexBinaryIVF`: codes are listed under the nearest of `lists` centres, and the `probes` nearest lists are read.

    A list more or less is a matter of time and completeness; with probes = lists it is exact.
    """

    def __init__(self, width: int, lists: int | None = None, probes: int | None = None) -> None:
        for name, value in (("lists", lists), ("probes", probes)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.width, self.lists, self.probes = width, lists, probes
        self.index: Any = None

    def fit(self, codes: Codes) -> Codes:
        """Choose the centres by k-means on codes like those to come; by default sqrt(number of codes) of them."""
        lists = self.lists or max(1, round(math.sqrt(len(codes))))
        if len(codes) < lists:
            raise ValueError(f"codes must be at least as many as lists ({lists}), got {len(codes)}; use fewer lists")
        faiss = require_faiss()
        self.quantizer = faiss.IndexBinaryFlat(8 * self.width)
        index = faiss.IndexBinaryIVF(self.quantizer, 8 * self.width, lists)
        index.cp.min_points_per_centroid = 1  # else faiss prints a warning
        index.train(codes)
        centres: Codes = faiss.vector_to_array(self.quantizer.xb).reshape(lists, self.width)
        self.use(centres)
        return centres

    def use(self, centres: Codes) -> None:
        """Take these centres; the quantizer must live as long as the index."""
        faiss = require_faiss()
        self.quantizer = faiss.IndexBinaryFlat(8 * self.width)
        self.quantizer.add(centres)
        self.index = faiss.IndexBinaryIVF(self.quantizer, 8 * self.width, len(centres))
        self.index.nprobe = min(self.probes or -(-len(centres) // 8), len(centres))

    def search(self, queries: Codes, k: int) -> tuple[Distances, Positions]:
        return in_order(*self.index.search(queries, k))


def in_order(distances: Distances, positions: Positions) -> tuple[Distances, Positions]:
    """Rows by distance, then position; what was not found (-1) has the largest distance, so it stays last."""
    order = np.lexsort((positions, distances), axis=1)
    return np.take_along_axis(distances, order, 1), np.take_along_axis(positions, order, 1)


def has_faiss() -> bool:
    try:
        require_faiss()
    except ImportError:
        return False
    return True


def require_faiss() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the wrapper's types, from Python 3.12 on
            return require("faiss")
    except MissingExtraError as error:
        raise MissingExtraError(f"this kind of index needs faiss: {error}, or use kind='numpy'") from None
