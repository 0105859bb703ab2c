"""The page of `tikhonet evaluate` for a hasher: its measures beside each other, balls, shares, and what is found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tikhonet.cli.evaluation_page import fill_page
from tikhonet.cli.inputs import SavedModel, Source
from tikhonet.data.tables import Table
from tikhonet.hashing import HammingIndex, Retrieval
from tikhonet.hashing.codes import CodeReport, Codes
from tikhonet.hashing.frontier import unbeaten
from tikhonet.hashing.mixture import Mixture
from tikhonet.hashing.ties import Tied
from tikhonet.paper.figures import Axis, Line, Lines, Point
from tikhonet.paper.pictures import Picture, photograph
from tikhonet.paper.sheets import Figure

FIRST, HARDEST, NEIGHBOURS = 3, 3, 8
"""Queries that are shown: the first ones, and of the others those with most neighbours of another label."""


@dataclass(frozen=True)
class Searched:
    """Queries and the rows that they are sought in, with the codes of both."""

    queries: Table
    base: Table
    asked: Codes
    held: Codes
    n_bits: int
    shape: tuple[int, ...] | None
    """That of the rows' images; None where they are none."""

    def pictures(self) -> list[tuple[Picture, list[tuple[Picture, bool]]]]:
        """Some queries with their nearest rows, where rows are images; ties go to those that come first."""
        if self.shape is None:
            return []
        distances, ids = HammingIndex(self.n_bits).add(self.held).search(self.asked, min(NEIGHBOURS, len(self.held)))
        known = self.queries.y is not None and self.base.y is not None
        y, base = (np.asarray(table.y) if known else np.zeros(len(table.X)) for table in (self.queries, self.base))
        wrong = (base[ids] != y[:, None]).sum(1)
        hardest = FIRST + np.argsort(-wrong[FIRST:], kind="stable")[:HARDEST]
        top = max(float(np.max(self.base.X)), 1e-9)
        shown = []
        for number in [*range(min(FIRST, len(ids))), *hardest.tolist()]:
            near = []
            for place, distance in zip(ids[number], distances[number], strict=True):
                words = f"{base[place]}, " if known else ""
                words += f"{distance} bit{'s' if distance != 1 else ''}"
                near.append((self.picture(self.base.X[place], top, words), bool(base[place] == y[number])))
            words = str(y[number]) if known else f"row {number}"
            shown.append((self.picture(self.queries.X[number], top, words), near))
        return shown

    def picture(self, row: Any, top: float, words: str) -> Picture:
        assert self.shape is not None
        pixels = np.clip(np.rint(255 * np.asarray(row, float) / top), 0, 255).astype(np.uint8)
        return photograph(pixels.reshape(self.shape), words)


def write_code_page(
    path: Path,
    saved: SavedModel,
    source: Source,
    database: str | None,
    searched: Searched,
    found: Retrieval | None,
    near: Tied,
    report: CodeReport,
) -> None:
    """Write the page; `found` is None where rows have no labels."""
    rows = [["neighbours found first", *tied(near)]]
    headline = [(f"{near.expected:.3f}", "", "of the true neighbours come first")]
    figures: list[Figure] = []
    if found:
        average = found.mean_average_precision
        headline.insert(0, (f"{average.expected:.3f}", "", "label mAP"))
        rows.insert(0, ["label mAP", *tied(average)])
        rows += [
            [f"precision within {found.radius}", f"{found.precision_within:.4f}"],
            [f"recall within {found.radius}", f"{found.recall_within:.4f}"],
            ["empty balls", f"{100 * found.empty_balls:.1f}%"],
        ]
        if found.without_relevant:
            rows.append(["queries of labels that no code has, not in mAP", f"{found.without_relevant:,}"])
        figures.append(balls(found))
    headline.append((f"{report.distinct:,}", "", f"distinct codes of {report.codes:,}"))
    rows.append(["distinct codes", f"{report.distinct:,} of {report.codes:,}"])
    if report.tied is not None:
        headline.append((f"{100 * report.tied:.0f}", "%", "have their first five neighbours tied"))
        rows.append(["first five tied", f"{100 * report.tied:.1f}%"])
    if report.entropy is not None:
        rows.append(["entropy of the codes", f"{report.entropy:.2f} bits"])
    if saved.estimator.mixture_.frontier:
        figures.append(frontier(saved.estimator.mixture_, searched.n_bits))
    fill_page(
        path,
        saved,
        source,
        database,
        lead=f"{len(searched.asked):,} queries, {len(searched.held):,} codes of {searched.n_bits} bits. If it was "
        "trained on the queries too, expect less of new ones.",
        headline=headline,
        figures=figures,
        table_title="Measures",
        head=["", "value", "by the order of ties"],
        rows=[[*row, ""][:3] for row in rows],
        queries=searched.pictures(),
    )


def tied(value: Tied) -> list[str]:
    return [f"{value.expected:.4f}", f"{value.lower:.3f} to {value.upper:.3f}"]


def balls(found: Retrieval) -> Figure:
    """Precision and recall of the balls of every radius that holds something."""
    pairs = zip(found.curve.pooled_recall, found.curve.pooled_precision, strict=True)
    points = [
        Point(r, p, p, p, f"radius {radius}: precision {p:.4f}, recall {r:.4f}")
        for radius, (r, p) in enumerate(pairs)
        if r > 0
    ]
    return Lines(
        name="balls",
        title="Precision against recall",
        caption="Of the balls of radius 0, 1, 2, and so on, all pairs of queries and rows together.",
        x=Axis("recall", low=0.0, high=1.02),
        y=Axis("precision", low=0.0, high=1.02),
        lines=[Line("this model", "stochastic", points)],
    )


def frontier(mixture: Mixture, n_bits: int) -> Figure:
    """Labels against neighbours for the shares of bits that no other beats, as rows that the fit kept aside saw it."""
    points = []
    for share in unbeaten(mixture.frontier):
        taken = ", taken" if share == mixture.taken(n_bits) else ""
        precision = share.mean_average_precision
        words = f"{round(share.structure * n_bits)} bits for neighbours{taken}: label mAP {precision:.4f}, "
        points.append(Point(share.recall, precision, precision, precision, f"{words}found {share.recall:.4f}"))
    return Lines(
        name="frontier",
        title="Labels against neighbours",
        caption=f"What shares of bits for neighbours were worth on rows that the fit kept aside; {mixture.bits} of "
        f"{n_bits} were taken. Codes of this length that know no labels found {mixture.wanted:.4f}.",
        x=Axis("true neighbours found first", low=0.0),
        y=Axis("label mAP", low=max(0.0, min(point.y for point in points) - 0.05), high=1.0),
        lines=[Line("shares", "stochastic", points)],
        dots=True,
    )
