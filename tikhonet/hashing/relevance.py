"""Relevance to a query: items with the same label, with a shared label, or by a similarity that is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tikhonet.network.errors import ArgumentError

Relevance = NDArray[np.bool_]
Similar = Callable[[Any, Any], Relevance]
"""(labels of some queries, labels of the database) -> boolean matrix, queries x database."""
SEVERAL = (set, frozenset, dict, list, tuple, np.ndarray)
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
        check_no_sets(query_labels, "query_labels")
        check_no_sets(base_labels, "base_labels")
        query_labels, base_labels = column(query_labels), column(base_labels)
        similar = share_a_label if check_labels(query_labels, base_labels) == 2 else same_label
        if similar is same_label:
            query_labels, base_labels = numbered(query_labels, base_labels)
        else:  # once, not for every few queries again
            query_labels, base_labels = (np.asarray(labels, np.float32) for labels in (query_labels, base_labels))

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
    """Text and objects as numbers, which are compared faster; numbers as they are."""
    if {labels.dtype.kind for labels in (queries, base)} <= set("biuf"):
        return queries, base
    both = [*queries.tolist(), *base.tolist()]
    if any(is_missing(label) for label in both):
        raise ValueError(
            "query_labels and base_labels must hold a label for every code, got None or NaN; give it a label of its own"
        )
    if len({isinstance(label, str | bytes) for label in both}) > 1:
        raise ValueError(
            "query_labels and base_labels must both be text or both numbers, "
            f"got {queries.dtype} and {base.dtype} with some of each; make text of all of them with str"
        )
    numbers: dict[Any, int] = {}
    places = np.array([numbers.setdefault(label, len(numbers)) for label in both])
    return places[: len(queries)], places[len(queries) :]


def is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas' NA is neither equal to itself nor not
        return True


def check_no_sets(labels: Any, name: str) -> None:
    """Raise where several labels a row came as sets, lists, tuples or dicts instead of a matrix."""
    if sparse.issparse(labels):
        return
    try:
        found = np.asarray(labels)
    except ValueError:  # rows of several lengths
        found = np.array([*labels, None], object)[:-1]
    held = next((label for label in found.flat if isinstance(label, SEVERAL)), None) if found.dtype == object else None
    if held is not None:
        raise ArgumentError(
            name,
            f"{name} must hold one label a row, or an indicator matrix (rows x labels, 0 and 1) for several, "
            f"got a {type(held).__name__} in a row; make the matrix with sklearn.preprocessing.MultiLabelBinarizer",
        )


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
            raise ValueError(
                f"{name} must be an indicator matrix of zeros and ones, got other values ({labels.dtype}); "
                "make it with sklearn.preprocessing.MultiLabelBinarizer"
            )
        if labels.dtype.kind == "f" and np.isnan(labels).any():
            raise ValueError(f"{name} must hold a label for every code, got NaN")
    return queries.ndim
