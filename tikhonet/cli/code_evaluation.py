"""How good the codes of a saved hasher are: labels, true neighbours, and the codes themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tikhonet.cli.code_page import Searched, write_code_page
from tikhonet.cli.inputs import SavedModel, Source, load_set
from tikhonet.cli.mistakes import Failure
from tikhonet.cli.outputs import Answer, facts
from tikhonet.cli.progress import by_chunks
from tikhonet.data.folder import shape_of
from tikhonet.data.tables import Table
from tikhonet.hashing import code_report, evaluate, neighbour_recall

QUERIES, NEAREST = 1000, 100
"""Rows of a file that are queries, at most a tenth of them; true neighbours that are sought, at most 1 in 100 rows."""


def evaluate_codes(saved: SavedModel, source: Source, database: str | None, page: Path | None = None) -> Answer:
    """Search the database for the queries, and measure what is found; with a `page` that shows it."""
    queries, base = sides(saved, source, database)
    n_bits = int(saved.estimator.n_bits)
    asked, held = (by_chunks(saved.estimator.transform, rows.X, "hashing") for rows in (queries, base))
    X, Y = (by_chunks(saved.estimator._check_inputs, rows.X, "reading") for rows in (queries, base))
    scaled, k = saved.estimator.model_.scaled, max(1, min(NEAREST, len(held) // 100))
    options: dict[str, Any] = {}
    if labels := queries.y is not None and base.y is not None:
        assert queries.y is not None
        options = {"query_labels": queries.y[:QUERIES], "base_labels": base.y}
    near = neighbour_recall(asked[:QUERIES], scaled(X[:QUERIES]), held, scaled(Y), k=k, **options)
    report = code_report(held, n_bits)
    title = source.title("test")
    document: dict[str, Any] = {"model": saved.path, "data": title, "task": "hash", "queries": len(asked)}
    document |= {"database": len(held), "n_bits": n_bits, "neighbours": {"k": k, **near.to_dict()}}
    shown: dict[str, Any] = {}
    found = None
    if labels:
        found = evaluate(asked, queries.y, held, base.y, n_bits=n_bits)
        document["retrieval"] = found.to_dict()
        shown = {
            "mAP": found.mean_average_precision,
            "ball": f"radius {found.radius}: precision {found.precision_within:.4f}, recall {found.recall_within:.4f}, "
            f"{100 * found.empty_balls:.1f}% empty",
        }
    whose = "of the query's label " if labels else ""
    shown |= {
        "neighbours": f"{near} of the {k} truly nearest {whose}come first",
        "codes": report.ties,
    }
    document["report"] = report.to_dict()
    if page is not None:
        searched = Searched(queries, base, asked, held, n_bits, pixels(saved, source))
        write_code_page(page, saved, source, database, searched, found, near, report)
        document["page"], shown["page"] = page, page.resolve()
    data = f"{title}: {len(asked):,} queries, {len(held):,} codes of {n_bits} bits"
    return Answer(document, facts(data=data, **shown))


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
