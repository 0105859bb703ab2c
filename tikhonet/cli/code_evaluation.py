"""How good the codes of a saved hasher are: labels, true neighbours, and the codes themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.cli.code_page import Searched, write_code_page
from tikhonet.cli.inputs import SavedModel, Source, load_set
from tikhonet.cli.mistakes import Failure
from tikhonet.cli.outputs import Answer, facts
from tikhonet.cli.progress import by_chunks
from tikhonet.data.folder import shape_of
from tikhonet.data.tables import Table
from tikhonet.hashing import code_report, evaluate, neighbour_recall
from tikhonet.hashing.neighbours import UNITS

QUERIES, NEAREST = 1000, 100
"""Rows of a file that are queries, at most a tenth of them; true neighbours that are sought, at most 1 in 100 rows."""


def evaluate_codes(saved: SavedModel, source: Source, database: str | None, page: Path | None = None) -> Answer:
    """Search the database for the queries, and measure what is found; with a `page` that shows it.

    Where labels cannot be measured by, neighbours are sought among all rows, and the reason is said.
    """
    queries, base = sides(saved, source, database)
    n_bits = int(saved.estimator.n_bits)
    asked, held = (by_chunks(saved.estimator.transform, rows.X, "hashing") for rows in (queries, base))
    X, Y = (placed(saved, by_chunks(saved.estimator._check_inputs, rows.X, "reading")) for rows in (queries, base))
    k, units = max(1, min(NEAREST, len(held) // 100)), saved.estimator.mixture_.units
    options: dict[str, Any] = {}
    some = np.arange(len(asked))
    labels = answerable(saved, queries, base)
    if measured := isinstance(labels, np.ndarray):
        assert queries.y is not None
        some = np.flatnonzero(labels)
        options = {"query_labels": queries.y[some[:QUERIES]], "base_labels": base.y}
    some = some[:QUERIES]
    near = neighbour_recall(asked[some], X[some], held, Y, k=k, **options)
    report = code_report(held, n_bits)
    title = source.title("test")
    document: dict[str, Any] = {"model": saved.path, "data": title, "task": "hash", "queries": len(asked)}
    document |= {"database": len(held), "n_bits": n_bits, "neighbours": {"k": k, "units": units, **near.to_dict()}}
    shown: dict[str, Any] = {}
    found = None
    if measured:
        found = evaluate(asked, queries.y, held, base.y, n_bits=n_bits)
        document["retrieval"] = found.to_dict()
        if found.without_relevant:
            shown["unanswerable"] = (
                f"{found.without_relevant:,} queries have labels that no code has: not in mAP, recall"
            )
        shown |= {
            "mAP": found.mean_average_precision,
            "ball": f"radius {found.radius}: precision {found.precision_within:.4f}, recall {found.recall_within:.4f}, "
            f"{100 * found.empty_balls:.1f}% empty",
        }
    elif isinstance(labels, str):
        document["without_labels"] = shown["labels"] = labels
    whose = "of the query's label " if measured else ""
    shown |= {
        "neighbours": f"{near} of the {k} truly nearest {whose}come first, in units {UNITS[units]}",
        "codes": report.ties,
    }
    if not source.name or source.split == "train":
        document["note"] = shown["note"] = "if it was trained on the queries too, expect less of new ones"
    document["report"] = report.to_dict()
    if page is not None:
        searched = Searched(queries, base, asked, held, n_bits, pixels(saved, source))
        write_code_page(page, saved, source, database, searched, found, near, report)
        document["page"], shown["page"] = page, page.resolve()
    data = f"{title}: {len(asked):,} queries, {len(held):,} codes of {n_bits} bits"
    return Answer(document, facts(data=data, **shown))


def placed(saved: SavedModel, X: Any) -> Any:
    """Rows in the units in which the fit took them for neighbours."""
    model = saved.estimator.model_
    if saved.estimator.mixture_.units == "spread":
        return model.scaled(X)
    # Less the mean, so that no digits are lost to it; what was constant in training was no part of any distance.
    centred = (X if model.encoding is None else model.encoding(X)) - model.scaling.shift
    return np.nan_to_num(np.where(model.scaling.varies, centred, 0.0))


def answerable(saved: SavedModel, queries: Table, base: Table) -> NDArray[np.bool_] | str | None:
    """Which queries have a label that the database has; words where no measure can go by labels, None without any."""
    if queries.y is None or base.y is None:
        return None
    asked, held = np.asarray(queries.y), np.asarray(base.y)
    if "f" in (asked.dtype.kind, held.dtype.kind) or saved.estimator.target == "numbers":
        return "they are numbers, of which equal ones mean little: no mAP"
    if asked.shape[1:] != held.shape[1:]:
        return f"queries and database have other numbers of them ({asked.shape[1:]} and {held.shape[1:]}): no mAP"
    known = np.isin(asked, held) if asked.ndim == 1 else np.any((asked > 0)[:, (held > 0).any(0)], axis=1)
    return np.asarray(known) if np.any(known) else "none of the queries' is in the database: no mAP"


def pixels(saved: SavedModel, source: Source) -> tuple[int, ...] | None:
    """The shape of the images of a data set or a folder; None for other rows."""
    if source.name:
        shape = load_set(source.name, "test", source.data_home).shape
        return shape if len(shape) > 1 else None
    return shape_of(saved.names, saved.estimator.n_features_in_) if Path(source.data).expanduser().is_dir() else None


def sides(saved: SavedModel, source: Source, database: str | None) -> tuple[Table, Table]:
    """The queries and the rows that are searched.

    A data set has both; of a file a tenth of the rows are queries, unless another file is searched.
    """
    queries = saved.rows(source, "test")
    if database is not None or source.name:
        named = replace(source, data=database or source.data, split=None if database else "train")
        return queries, saved.rows(named, "train")
    rows = len(queries.X)
    if rows < 20:
        raise Failure(f"{source.data} must hold at least 20 rows to search among, got {rows}; name a --database")
    asked = np.zeros(rows, bool)
    asked[:: max(10, -(-rows // QUERIES))] = True
    return some(queries, asked), some(queries, ~asked)


def some(table: Table, mask: Any) -> Table:
    names = tuple(np.array(table.row_names)[mask]) if table.row_names else ()
    return replace(table, X=table.X[mask], y=None if table.y is None else table.y[mask], row_names=names)
