"""The page: one HTML file that needs nothing but a browser."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tikhonet.paper.experiments.records import Pictures, experiment_of, load_pictures, load_records, write_whole
from tikhonet.paper.report import pictures
from tikhonet.paper.report.certificates import COLUMNS, certificate_rows
from tikhonet.paper.report.claims import claims
from tikhonet.paper.report.figures import figures
from tikhonet.paper.report.frontier_page import write_frontier
from tikhonet.paper.report.hashing_page import write_hashing
from tikhonet.paper.report.plots import save_figure
from tikhonet.paper.report.rendering import Report, inline, render
from tikhonet.paper.report.summary import Row, Summary
from tikhonet.paper.report.svg import draw, draw_confusion
from tikhonet.paper.report.tables import save_tables, summary_table, tables

SHOWN = ("stochastic", "proximal", "alg1")
"""Whose confusion matrix and mistakes are shown: the first of these that was run."""


def write_report(output: str | os.PathLike[str], *, command: str | None = None) -> Report:
    """From `output/records`: `report.html`, `figures/*.png` and `*.pdf`, `tables/*.csv`, all in `output`.

    `command` is what the page says redoes it.
    """
    folder = Path(output)
    if experiment_of(folder / "records") == "hashing":
        return write_hashing(folder, command)
    summary = Summary.of(load_records(folder / "records"))
    if summary.first.experiment == "sparse":
        return write_frontier(folder, summary, command)
    drawn = {row.name: load_pictures(folder / "records", row.records[0]) for row in summary.rows.values()}
    labels = summary.first.data["labels"]
    judged, shapes = claims(summary), figures(summary)
    main = next((summary.rows[name] for name in SHOWN if name in summary.rows), next(iter(summary.rows.values())))
    written = [path for figure in shapes for path in save_figure(figure, folder / "figures")]
    saved = save_tables(tables(summary, judged, drawn[main.name]), folder / "tables")
    html = render(
        "page.html.j2",
        summary,
        command,
        [path.relative_to(folder).as_posix() for path in (*written, *saved)],
        headline=(opening := headline(summary)),
        noise=summary.noise(*(min((item["row"].error for item in opening), default=0.0),) * 2),
        claims=judged,
        figures=[(figure, inline(draw(figure))) for figure in shapes],
        results=summary_table(summary),
        certificate_columns=list(COLUMNS.values()),
        certificates=certificate_rows(summary),
        weights=weight_sheets(summary, drawn),
        patterns=pattern_sheets(summary, drawn),
        main=main,
        confusion=confusion(drawn[main.name], main, labels),
        mistakes=pictures.mistakes(drawn[main.name], labels) if "mistakes" in drawn[main.name] else [],
    )
    write_whole(folder / "report.html", html)
    return Report(folder / "report.html", written, saved)


def headline(summary: Summary) -> list[dict[str, Any]]:
    """The few figures that the page opens with."""
    found = []
    shown = (
        (summary.rows.get("alg1"), "the paper's recipe"),
        (summary.best("stochastic"), "this library"),
        (summary.best("sgd"), "best SGD solver"),
        (summary.rows.get("untrained"), "random weights"),
        (summary.rows.get("pixels"), "no network"),
    )
    for row, words in shown:
        if row and not math.isnan(row.error):
            found.append({"value": f"{row.error:.2f}", "words": words, "row": row})
    return found


def weight_sheets(summary: Summary, drawn: dict[str, Pictures]) -> list[tuple[Row, pictures.Picture]]:
    rival = summary.best("sgd")
    rows = summary.family("printed", "proximal", "stochastic") + ([rival] if rival else [])
    shape = tuple(summary.first.data["shape"])
    return [(row, pictures.unit_weights(drawn[row.name], shape, row.title)) for row in rows]


def pattern_sheets(summary: Summary, drawn: dict[str, Pictures]) -> list[tuple[Row, list[pictures.Picture]]]:
    """The zeros of every learned matrix of the sparse networks."""
    found = []
    for row in summary.rows.values():
        if row.sparse:
            shares = row.records[0].nonzero
            layers = [layer for layer in shares if layer != "V"]
            sheets = [pictures.pattern(drawn[row.name], name, f"{name}, {shares[name]:.1f}%") for name in layers]
            found.append((row, sheets))
    return found


def confusion(shown: Pictures, row: Row, labels: list[str]) -> Markup | None:
    if "confusion" not in shown:
        return None
    return inline(draw_confusion(shown["confusion"], labels, f"Confusion matrix of {row.title}"))
