"""Fig. 3 (a) to (d) as data: what is drawn, without how. `svg.py` and `plots.py` draw it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tikhonet.paper.report.scales import short
from tikhonet.paper.report.summary import Labelled, Row, Summary


@dataclass(frozen=True)
class Series:
    """A line: the mean over the trials at each x, with their lowest and highest."""

    label: str
    family: str
    sparse: bool
    x: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class Lines:
    name: str
    title: str
    caption: str
    x_label: str
    y_label: str
    series: list[Series]


@dataclass(frozen=True)
class Dots:
    """A row of dots a method, one a trial, and their mean; `references` are dashed lines across."""

    name: str
    title: str
    caption: str
    x_label: str
    rows: Sequence[tuple[Labelled, list[float]]]
    log: bool
    unit: str
    references: list[tuple[str, float]]

    def form(self, value: float) -> str:
        return short(value) if self.log else f"{value:.2f}"


@dataclass(frozen=True)
class Bars:
    """A table of small bars from 0 to 100%."""

    name: str
    title: str
    caption: str
    columns: list[str]
    rows: list[tuple[Row, list[float]]]


Figure = Lines | Dots | Bars


def figures(summary: Summary) -> list[Figure]:
    """Those of the five drawings that there are records for."""
    drawn = [full_batch(summary), mini_batch(summary), errors(summary), seconds(summary), sparsity(summary)]
    return [figure for figure in drawn if figure]


def full_batch(summary: Summary) -> Lines | None:
    rows = summary.family("printed", "proximal")
    if not rows:
        return None
    first = rows[0].records[0]
    seen = "" if first.samples == first.data["train"] else f" of the first {first.samples:,} training images"
    return Lines(
        "a1",
        "(a) Objective, full batch",
        f"Eq. 4{seen} after every iteration, mean of the trials with their range. All four minimise the same "
        "objective from the same seeds; the l1 ball is a further constraint on the dashed ones.",
        "iteration",
        "f per image",
        [series(row) for row in rows],
    )


def mini_batch(summary: Summary) -> Lines | None:
    rows = summary.family("stochastic", "sgd")
    if not rows:
        return None
    return Lines(
        "a2",
        "(a) Objective, mini-batch",
        "Mean training loss of every epoch, dropout included, each batch's before its step. The lift's terms "
        "are zero here, because U is the network's own forward pass.",
        "epoch",
        "loss per image",
        [series(row) for row in rows],
    )


def errors(summary: Summary) -> Dots:
    rows = [row for row in summary.rows.values() if row.errors and row.name != "pixels"]
    pixels = summary.rows.get("pixels")
    references = [("raw pixels", pixels.error)] if pixels else []
    return Dots(
        "b",
        "(b) Test error",
        f"Linear SVM refitted on the features of each network, {summary.first.data['test']:,} test images. "
        "Small dots are trials, the large one is their mean.",
        "test error, %",
        [(row, row.errors) for row in rows],
        False,
        "%",
        references,
    )


def seconds(summary: Summary) -> Dots | None:
    rows = summary.family("printed", "proximal", "stochastic", "sgd")
    if not rows:
        return None
    part = [row for row in rows if row.records[0].samples < row.records[0].data["train"]]
    note = f" Alg. 1 and proximal descent saw {part[0].records[0].samples:,} images only." if part else ""
    return Dots(
        "c",
        "(c) Training time",
        f"Seconds of training alone; measurements, classifier and certificate are not counted.{note}{load(rows)}",
        "seconds",
        [(row, [record.seconds for record in row.records]) for row in rows],
        True,
        " s",
        [],
    )


def load(rows: list[Row]) -> str:
    """Whether the machine had other things to do."""
    found = [record.hardware for row in rows for record in row.records if record.hardware.get("load") is not None]
    busy = [machine["load"] for machine in found if machine["load"] > machine["cores"]]
    if not busy:
        return ""
    return (
        f" The machine was shared (load up to {max(busy):.1f} on {found[0]['cores']} cores): read ratios, not seconds."
    )


def sparsity(summary: Summary) -> Bars | None:
    rows = [row for row in summary.rows.values() if row.nonzero and row.family != "reference"]
    if not rows:
        return None
    columns = list(rows[0].nonzero)
    return Bars(
        "d",
        "(d) Nonzero weights",
        "Percent of weights that are not exactly zero, by layer, mean of the trials. V is not constrained.",
        columns,
        [(row, [row.nonzero.get(column, math.nan) for column in columns]) for row in rows],
    )


def series(row: Row) -> Series:
    """The trials' objectives; a run that ended stays where it was."""
    first = row.records[0].first_pass
    length = max(len(record.objective) for record in row.records)
    runs = []
    for record in row.records:
        values = [math.nan if value is None else value for value in record.objective]
        runs.append(values + values[-1:] * (length - len(values)))
    columns = list(zip(*runs, strict=True))
    return Series(
        row.title,
        row.family,
        row.sparse,
        list(range(first, first + length)),
        [math.fsum(column) / len(column) for column in columns],
        [min(column) for column in columns],
        [max(column) for column in columns],
    )
