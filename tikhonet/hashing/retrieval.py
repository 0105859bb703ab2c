"""How good codes are for retrieval: average precision, precision and recall, with ties neither hidden nor broken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.hashing.codes import CodeReport, Codes, check_codes, code_report, is_whole
from tikhonet.hashing.relevance import Relevance, Rows, Similar, relevance
from tikhonet.hashing.ties import (
    Counts,
    Floats,
    Integers,
    Tied,
    TiedRows,
    average_precision,
    count,
    joined,
    precision_at,
)
from tikhonet.network.errors import ArgumentError

AT = (100, 1000)
"""Cuts of the ranking, where the database is that large and no others are asked for."""
PLACES = 2**20
"""Pairs of query and distance that are measured at a time; a dozen numbers are made of each."""


@dataclass(frozen=True)
class Curve:
    """Precision and recall of the ball of each radius 0, 1, .. n_bits: no ties, since a ball has no order.

    Parameters
    ----------
    precision : tuple of float
        Means over queries, where an empty ball counts as 0.
    recall : tuple of float
        Means over queries.
    pooled_precision : tuple of float
        That of all pairs together, to which empty balls add nothing (0 where all are empty).
    pooled_recall : tuple of float
        That of all pairs together.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhonet.hashing import evaluate, pack
    >>> codes, labels = pack(np.eye(8)), [0, 0, 0, 0, 1, 1, 1, 1]
    >>> evaluate(codes, labels, codes, labels).curve.recall[:3]
    (0.25, 0.25, 1.0)
    """

    precision: tuple[float, ...]
    recall: tuple[float, ...]
    pooled_precision: tuple[float, ...]
    pooled_recall: tuple[float, ...]


@dataclass(frozen=True)
class Retrieval:
    """The findings of `evaluate`. Average precision and recall are over the queries that have anything relevant.

    Parameters
    ----------
    queries : int
        Their number.
    database : int
        The codes that are ranked.
    n_bits : int
        The length of the codes.
    without_relevant : int
        Queries to which nothing is relevant.
    mean_average_precision : Tied
        That of the whole ranking.
    mean_average_precision_at : dict of int to Tied
        AP divided by min(k, number of relevant items), by k.
    precision_at : dict of int to Tied
        The share of relevant items among the first k, by k.
    radius : int
        That of the ball.
    precision_within : float
        Mean precision of the ball of that radius, 0 where it is empty.
    recall_within : float
        Mean recall of that ball.
    empty_balls : float
        The share of queries whose ball is empty.
    curve : Curve
        Precision and recall of the balls of every radius.
    codes : CodeReport
        How many codes of the database differ, their entropy, and how many of their nearest are tied.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhonet.hashing import evaluate, pack
    >>> codes, labels = pack(np.eye(8)), [0, 0, 0, 0, 1, 1, 1, 1]
    >>> found = evaluate(codes, labels, codes, labels, at=1)
    >>> found.precision_at[1].expected, found.recall_within
    (1.0, 1.0)
    """

    queries: int
    database: int
    n_bits: int
    without_relevant: int
    mean_average_precision: Tied
    mean_average_precision_at: dict[int, Tied]
    precision_at: dict[int, Tied]
    radius: int
    precision_within: float
    recall_within: float
    empty_balls: float
    curve: Curve
    codes: CodeReport

    def to_dict(self) -> dict[str, Any]:
        """The findings as plain JSON: numbers, lists, and text as keys.

        Returns
        -------
        dict
            By the names of the parameters.
        """
        fields = asdict(self)
        for name in ("mean_average_precision_at", "precision_at"):
            fields[name] = {str(k): values for k, values in fields[name].items()}
        fields["curve"] = {name: list(values) for name, values in fields["curve"].items()}
        return fields

    def __str__(self) -> str:
        lines = [f"{self.queries:,} queries, {self.database:,} codes of {self.n_bits} bits"]
        if self.without_relevant:
            lines.append(f"{self.without_relevant:,} queries have nothing relevant: not in mAP and recall")
        lines.append(f"mAP             {self.mean_average_precision}")
        lines += [f"{f'mAP@{k}':<15} {value}" for k, value in self.mean_average_precision_at.items()]
        lines += [f"{f'precision@{k}':<15} {value}" for k, value in self.precision_at.items()]
        lines.append(
            f"within {self.radius:<8} precision {self.precision_within:.4f}, recall {self.recall_within:.4f}, "
            f"{100 * self.empty_balls:.1f}% of the balls empty (precision 0)"
        )
        lines.append(f"{'codes':<15} {self.codes.ties}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Measured:
    """The measures of some queries: their ranked measures one by one, and sums of the rest by radius."""

    answerable: NDArray[np.bool_]
    average: list[TiedRows]
    """Average precision of the whole ranking, then of its cuts."""
    precision_at: list[TiedRows]
    empty: NDArray[np.bool_]
    precision: Floats
    recall: Floats
    items: Integers
    relevant: Integers


def evaluate(
    query_codes: Codes,
    query_labels: Any,
    base_codes: Codes,
    base_labels: Any,
    *,
    n_bits: int | None = None,
    radius: int = 2,
    at: Sequence[int] | int | None = None,
    similar: Similar | Relevance | None = None,
) -> Retrieval:
    """Rank the database by Hamming distance to each query, and measure the rankings.

    Parameters
    ----------
    query_codes : array of uint8
        Packed codes of the queries.
    query_labels : array-like or None
        Vectors of labels, where relevant is what has the same one, or indicator matrices, samples x labels, where it
        is what shares one.
    base_codes : array of uint8
        Packed codes of the database.
    base_labels : array-like or None
        Their labels.
    n_bits : int, optional
        The length of the codes; 8 for each byte where it is None.
    radius : int, default=2
        Of the ball for `precision_within` and `recall_within`, inclusive.
    at : int or sequence of int, optional
        Cuts k of the ranking; 100 and 1000, where the database is that large, if it is None.
    similar : array of bool or callable, optional
        What is relevant in place of equal labels: a matrix, queries x database (labels may then be None), or a function
        (labels of some queries, labels of the database) -> boolean matrix.

    Returns
    -------
    Retrieval
        The measures.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhonet.hashing import evaluate, pack
    >>> codes, labels = pack(np.eye(8)), [0, 0, 0, 0, 1, 1, 1, 1]
    >>> print(evaluate(codes, labels, codes, labels).mean_average_precision)
    0.7454 (0.5655 to 1.0000 by the order of ties)
    """
    check_codes(query_codes, n_bits, "query_codes")
    check_codes(base_codes, n_bits, "base_codes")
    n_bits = 8 * query_codes.shape[1] if n_bits is None else n_bits
    if not len(query_codes) or not len(base_codes):
        raise ValueError(
            f"query_codes and base_codes must not be empty, got {len(query_codes)} queries and {len(base_codes)} codes"
        )
    if query_codes.shape[1] != base_codes.shape[1]:
        raise ValueError(
            f"query_codes and base_codes must have one length, "
            f"got {query_codes.shape[1]} and {base_codes.shape[1]} bytes"
        )
    if not is_whole(radius) or not 0 <= radius <= n_bits:
        message = f"radius must be a whole number from 0 to {n_bits}, the number of bits, got {radius}"
        raise ArgumentError("radius", message)
    cuts = check_cuts(at, len(base_codes))
    rows = relevance(query_labels, base_labels, len(query_codes), len(base_codes), similar)
    step = max(1, PLACES // (8 * query_codes.shape[1] + 1))
    parts = []
    for start in range(0, len(query_codes), step):
        counts = count(query_codes[start : start + step], base_codes, shifted(rows, start))
        counts = Counts(counts.items[:, : n_bits + 1], counts.relevant[:, : n_bits + 1])
        parts.append(measure(counts, int(radius), cuts))
    return summary(parts, code_report(base_codes, n_bits), int(radius), cuts)


def shifted(rows: Rows, start: int) -> Rows:
    """The relevance of the queries from `start` on."""
    return lambda part: rows(slice(part.start + start, part.stop + start))


def check_cuts(at: Sequence[int] | int | None, database: int) -> tuple[int, ...]:
    if at is None:
        return tuple(k for k in AT if k <= database)
    cuts = list(at) if isinstance(at, Iterable) else [at]
    for k in cuts:
        if not is_whole(k) or not 1 <= k <= database:
            message = f"at must hold whole numbers from 1 to {database}, the size of the database, got {k}"
            raise ArgumentError("at", message)
    return tuple(map(int, cuts))


def measure(counts: Counts, radius: int, cuts: Iterable[int]) -> Measured:
    """All measures of the counts of some queries."""
    answerable = counts.all_relevant > 0
    precision, recall = balls(counts)
    return Measured(
        answerable=answerable,
        average=[average_precision(counts, k) for k in (None, *cuts)],
        precision_at=[precision_at(counts, k) for k in cuts],
        empty=counts.items[:, : radius + 1].sum(1) == 0,
        precision=precision.sum(0),
        recall=recall[answerable].sum(0),
        items=counts.items.sum(0),
        relevant=counts.relevant.sum(0),
    )


def summary(parts: list[Measured], codes: CodeReport, radius: int, cuts: Sequence[int]) -> Retrieval:
    """Means over all queries."""
    answerable, empty = (np.concatenate([getattr(part, name) for part in parts]) for name in ("answerable", "empty"))
    if not answerable.any():
        raise ValueError("query_labels must share labels with base_labels, but nothing is relevant to any query")
    average = [joined([part.average[k] for part in parts]).mean(answerable) for k in range(len(cuts) + 1)]
    found = curve(parts, len(answerable), int(answerable.sum()))
    return Retrieval(
        queries=len(answerable),
        database=codes.codes,
        n_bits=len(found.precision) - 1,
        without_relevant=int((~answerable).sum()),
        mean_average_precision=average[0],
        mean_average_precision_at=dict(zip(cuts, average[1:], strict=True)),
        precision_at={k: joined([part.precision_at[place] for part in parts]).mean() for place, k in enumerate(cuts)},
        radius=radius,
        precision_within=found.precision[radius],
        recall_within=found.recall[radius],
        empty_balls=float(empty.mean()),
        curve=found,
        codes=codes,
    )


def balls(counts: Counts) -> tuple[Floats, Floats]:
    """Precision and recall of every query's ball of every radius; 0 for what is 0 / 0."""
    items, relevant = np.cumsum(counts.items, axis=1), np.cumsum(counts.relevant, axis=1)
    return relevant / np.maximum(items, 1), relevant / np.maximum(relevant[:, -1:], 1)


def curve(parts: list[Measured], queries: int, answerable: int) -> Curve:
    precision, recall, items, relevant = (
        np.sum([getattr(part, name) for part in parts], axis=0) for name in ("precision", "recall", "items", "relevant")
    )
    items, relevant = np.cumsum(items), np.cumsum(relevant)
    return Curve(
        tuple((precision / queries).tolist()),
        tuple((recall / answerable).tolist()),
        tuple((relevant / np.maximum(items, 1)).tolist()),
        tuple((relevant / relevant[-1]).tolist()),
    )
