"""What is relevant to a query: items with the same label, with a shared label, or by a similarity that is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Relevance = NDArray[np.bool_]
Similar = Callable[[Any, Any], Relevance]
"""(labels of some queries, labels of the database) -> boolean matrix, queries x database."""
Rows = Callable[[slice], Relevance]
"""The rows of the relevance matrix for some queries."""


def same_label(queries: NDArray[Any], base: NDArray[Any]) -> Relevance:
    """For labels: relevant is what has the query's own."""
    same: Relevance = np.asarray(queries)[:, None] == np.asarray(base)
    return same


def share_a_label(queries: NDArray[Any], base: NDArray[Any]) -> Relevance:
    """For indicator matrices, samples x labels: relevant is what has at least one label of the query."""
    shared: Relevance = (np.asarray(queries, np.float32) @ np.asarray(base, np.float32).T) > 0
    return shared


def relevance(
    query_labels: Any, base_labels: Any, queries: int, base: int, similar: Similar | Relevance | None = None
) -> Rows:
    """How to get the rows of the relevance matrix, with all sizes checked.

    similar  None: by labels. A boolean matrix, queries x base: itself. A function: of the labels, whatever they are.
    """
    if similar is not None and not callable(similar):
        return given(as_array(similar), queries, base)
    query_labels, base_labels = (as_array(x) if sparse.issparse(x) else x for x in (query_labels, base_labels))
    for name, labels, count in (("query_labels", query_labels, queries), ("base_labels", base_labels, base)):
        if labels is None or not hasattr(labels, "__len__") or len(labels) != count:
            held = "nothing" if labels is None else f"{len(labels)}" if hasattr(labels, "__len__") else repr(labels)
            raise ValueError(f"{name} must hold one label for each of the {count} codes, got {held}")
    if similar is None:
        query_labels, base_labels = column(query_labels), column(base_labels)
        similar = share_a_label if check_labels(query_labels, base_labels) == 2 else same_label
        if similar is same_label:
            query_labels, base_labels = numbered(query_labels, base_labels)

    def rows(part: slice) -> Relevance:
        found = np.asarray(similar(query_labels[part], base_labels))
        wanted = (len(range(queries)[part]), base)
        if found.dtype != np.bool_ or found.shape != wanted:
            raise ValueError(
                f"similar must return a boolean matrix, here of shape {wanted}, "
                f"got {found.dtype} of shape {found.shape}"
            )
        return found

    return rows


def as_array(values: Any) -> NDArray[Any]:
    return np.asarray(values.toarray() if sparse.issparse(values) else values)


def column(labels: Any) -> NDArray[Any]:
    """Labels in one column as a vector; anything else as it is."""
    found = np.asarray(labels)
    return found.ravel() if found.ndim == 2 and found.shape[1] == 1 else found


def numbered(queries: NDArray[Any], base: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Text as numbers, which are compared faster; numbers as they are."""
    kinds = {labels.dtype.kind for labels in (queries, base)}
    if kinds <= set("biuf"):
        return queries, base
    if kinds & set("biuf"):
        raise ValueError(
            f"query_labels and base_labels must both be text or both numbers, got {queries.dtype} and {base.dtype}"
        )
    together = np.concatenate([queries, base])
    if any(label is None or label != label for label in together.tolist()):
        raise ValueError(
            "query_labels and base_labels must hold a label for every code, got None or NaN; give it a label of its own"
        )
    number = np.unique(together, return_inverse=True)[1]
    return number[: len(queries)], number[len(queries) :]


def given(similar: NDArray[Any], queries: int, base: int) -> Rows:
    if similar.dtype != np.bool_ or similar.shape != (queries, base):
        raise ValueError(
            f"similar must be a boolean matrix of shape ({queries}, {base}), queries x database, "
            f"got {similar.dtype} of shape {similar.shape}"
        )
    return lambda part: similar[part]


def check_labels(queries: NDArray[Any], base: NDArray[Any]) -> int:
    """1 for labels, 2 for indicator matrices; raise for what is neither or differs between the two."""
    if queries.ndim != base.ndim or queries.ndim not in (1, 2) or queries.shape[1:] != base.shape[1:]:
        raise ValueError(
            "query_labels and base_labels must both be vectors of labels or indicator matrices, one column a label, "
            f"got shapes {queries.shape} and {base.shape}"
        )
    for name, labels in (("query_labels", queries), ("base_labels", base)):
        if labels.ndim == 2 and (labels.dtype.kind not in "biuf" or not np.isin(labels, (0, 1)).all()):
            raise ValueError(f"{name} must be an indicator matrix of zeros and ones, got other values ({labels.dtype})")
        if labels.dtype.kind == "f" and np.isnan(labels).any():
            raise ValueError(f"{name} must hold a label for every code, got NaN")
    return queries.ndim
