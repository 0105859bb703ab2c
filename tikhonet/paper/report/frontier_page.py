"""The page of the sparse experiment: the frontier, what it says, every network, and where its zeros are."""

from __future__ import annotations

from pathlib import Path

from tikhonet.paper.experiments.records import load_pictures, write_whole
from tikhonet.paper.report import pictures
from tikhonet.paper.report.frontier import Frontier, findings, frontier
from tikhonet.paper.report.frontier_drawing import draw_frontier, save_frontier
from tikhonet.paper.report.rendering import Report, inline, render
from tikhonet.paper.report.summary import ORDER, Row, Summary
from tikhonet.paper.report.tables import (
    Table,
    certificate_table,
    save_tables,
    setting_table,
    summary_table,
    trial_table,
)


def write_frontier(folder: Path, summary: Summary, command: str | None) -> Report:
    """`report.html`, `figures/` and `tables/` in the folder, from these records."""
    rows = sorted(summary.rows.values(), key=lambda row: (ORDER.index(row.family), -row.density))
    summary = Summary({row.name: row for row in rows})
    figure, judged = frontier(summary), findings(summary)
    written = save_frontier(figure, folder / "figures")
    tables: dict[str, Table] = {
        "frontier": frontier_table(figure),
        "claims": [["claim", "measured", "verdict"], *([words, f.text, f.verdict] for words, f in judged)],
        "summary": summary_table(summary),
        "trials": trial_table(summary),
        "certificates": certificate_table(summary),
        "settings": setting_table(summary),
    }
    saved = save_tables(tables, folder / "tables")
    html = render(
        "sparse.html.j2",
        summary,
        command,
        [path.relative_to(folder).as_posix() for path in (*written, *saved)],
        figure=figure,
        drawing=inline(draw_frontier(figure)),
        findings=judged,
        patterns=patterns(folder, summary),
    )
    write_whole(folder / "report.html", html)
    return Report(folder / "report.html", written, saved)


def frontier_table(figure: Frontier) -> Table:
    head = ["way", "nonzero %", "test error %", "lowest", "highest", "seconds", "trials"]
    rows = [
        [curve.label, row.density, row.error, min(row.errors), max(row.errors), row.seconds, len(row.records)]
        for curve in figure.curves
        for row in curve.rows
    ]
    return [head, *rows]


def patterns(folder: Path, summary: Summary) -> list[tuple[Row, list[pictures.Picture]]]:
    """The zeros of the ball's network and of those with a budget."""
    found = []
    for row in summary.rows.values():
        if row.sparse and row.family in ("stochastic", "proximal"):
            drawn, shares = load_pictures(folder / "records", row.records[0]), row.records[0].nonzero
            layers = [layer for layer in shares if layer != "V"]
            found.append((row, [pictures.pattern(drawn, name, f"{name}, {shares[name]:.1f}%") for name in layers]))
    return found
