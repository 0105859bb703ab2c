"""Whether codes find the rows that are truly nearest: neighbours by the inputs, and how many of them codes find."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from tikhonet.hashing.codes import Codes, check_codes, is_whole
from tikhonet.hashing.relevance import relevance
from tikhonet.hashing.ties import Tied, TiedRows, count, joined, precision_at
from tikhonet.network.errors import ArgumentError

NEAREST = 100
UNITS = {"given": "as given", "spread": "of each column's own spread"}
"""Those in which rows may be near to each other, in words."""
PAIRS = 2**23
"""Distances held at a time."""


def neighbour_recall(
    query_codes: Codes,
    queries: ArrayLike,
    base_codes: Codes,
    base: ArrayLike,
    *,
    k: int = NEAREST,
    query_labels: Any = None,
    base_labels: Any = None,
) -> Tied:
    """The share of the k truly nearest rows that are among the first k by Hamming distance, a mean over queries.

    Parameters
    ----------
    query_codes : array of uint8
        Packed codes of the queries.
    queries : array of shape (rows, features)
        What these codes were made of; the nearest are those by Euclidean distance, in units as given.
    base_codes : array of uint8
        Packed codes of the database.
    base : array of shape (rows, features)
        What these codes were made of.
    k : int, default=100
        So many neighbours are sought.
    query_labels : array, optional
        With labels the true neighbours are the nearest rows that share the query's: the order within a class.
    base_labels : array, optional
        The labels of the database.

    Returns
    -------
    Tied
        The mean over all orders of items at one distance, and its bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhonet.hashing import neighbour_recall, pack
    >>> X = np.random.default_rng(0).normal(size=(50, 16))
    >>> print(neighbour_recall(pack(X), X, pack(X), X, k=1))
    1.0000 (1.0000 to 1.0000 by the order of ties)
    """
    check_codes(query_codes, name="query_codes")
    check_codes(base_codes, name="base_codes")
    X, Y = (torch.as_tensor(np.asarray(part)).float() for part in (queries, base))
    for name, part, codes in (("queries", X, query_codes), ("base", Y, base_codes)):
        if part.ndim != 2 or len(part) != len(codes):
            raise ArgumentError(
                name, f"{name} must hold a row for each of the {len(codes)} codes, got shape {tuple(part.shape)}"
            )
    if not is_whole(k) or not 1 <= k <= len(Y):
        raise ArgumentError("k", f"k must be a whole number from 1 to {len(Y)}, the size of the database, got {k!r}")
    same = relevance(query_labels, base_labels, len(X), len(Y)) if query_labels is not None else None
    found: list[TiedRows] = []
    for rows in blocks(len(X), len(Y)):
        allowed = None if same is None else torch.from_numpy(same(rows))
        found.append(recall(query_codes[rows], base_codes, true_neighbours(X[rows], Y, k, allowed), k))
    whole = joined(found)
    if not len(whole.expected):
        raise ArgumentError(
            "query_labels", "query_labels must share labels with base_labels, got none that do; leave both out"
        )
    return whole.mean()


def alike(names: Iterable[str]) -> bool:
    """Whether columns are numbers of one kind, by their names: these differ by numbers alone, as x0, x1 do."""
    return len({re.sub(r"\d+", "", name) for name in names}) < 2


def blocks(queries: int, base: int) -> Iterator[slice]:
    step = max(1, PAIRS // base)
    return (slice(start, min(start + step, queries)) for start in range(0, queries, step))


def true_neighbours(queries: Tensor, base: Tensor, k: int, allowed: Tensor | None = None) -> NDArray[np.bool_]:
    """Which rows of the base are among the k nearest to each query, of those allowed: queries x base."""
    distances = base.square().sum(1) - 2 * queries @ base.T
    if allowed is not None:
        distances = distances.masked_fill(~allowed.to(distances.device), torch.inf)
    values, places = distances.topk(k, dim=1, largest=False)
    near = torch.zeros(distances.shape, dtype=torch.bool, device=distances.device)
    near.scatter_(1, places, values < torch.inf)
    return near.cpu().numpy()


def recall(queries: Codes, base: Codes, near: NDArray[np.bool_], k: int) -> TiedRows:
    """How many of the near ones are among the first k, as a share of them all, of each query that has any."""
    some = near.any(1)
    counts = count(queries[some], base, lambda rows: near[some][rows])
    scale = k / counts.all_relevant
    found = precision_at(counts, k)
    return TiedRows(found.expected * scale, found.lower * scale, found.upper * scale)
