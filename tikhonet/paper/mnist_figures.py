"""Fig. 3 (a) to (d), redone from the records of the MNIST experiment."""

from __future__ import annotations

import math

from tikhonet.paper.added_findings import CERTIFIED, time_to_error, zeros_by_budget
from tikhonet.paper.figures import Axis, Bars, Dots, Line, Lines, Point
from tikhonet.paper.network_results import NetworkRow, Networks
from tikhonet.paper.sheets import Figure, short


def mnist_figures(results: Networks) -> list[Figure]:
    """The figures of the five that there are records for."""
    found = [*objectives(results), errors(results)]
    added = [time_to_error(results), zeros_by_budget(results)]
    if rows := results.family("printed", "proximal", "stochastic", "sgd"):
        found.append(seconds(results, rows))
    if rows := [row for row in results.rows.values() if row.nonzero and row.family != "reference"]:
        columns = list(rows[0].nonzero)
        found.append(
            Bars(
                name="d",
                title="(d) Nonzero weights",
                caption="Percent of weights that are not exactly zero, by layer, mean of the trials. V is not "
                "constrained.",
                columns=columns,
                rows=[row.values([row.nonzero.get(column, math.nan) for column in columns]) for row in rows],
                what="nonzero",
            )
        )
    return found + [figure for figure in added if figure]


def objectives(results: Networks) -> list[Figure]:
    """Objectives of the full-batch solvers after every iteration, and of the others after every epoch."""
    full, mini = results.family("printed", "proximal"), results.family("stochastic", "sgd")
    full = [row for row in full if row.name != CERTIFIED]  # which minimises another objective
    found: list[Figure] = []
    if full:
        first = full[0].records[0]
        seen = "" if first.samples == first.data["train"] else f" of the first {first.samples:,} training images"
        caption = (
            f"Eq. 4{seen} after every iteration, mean of the trials with their range. All four minimise the same "
            "objective from the same seeds; the l1 ball is a further constraint on the dashed ones."
        )
        found.append(objective("a1", "(a) Objective, full batch", caption, "iteration", "f per image", full))
    if mini:
        caption = (
            "Mean training loss of every epoch, dropout included, each batch's before its step. The lift's terms "
            "are zero here, because U is the network's own forward pass."
        )
        found.append(objective("a2", "(a) Objective, mini-batch", caption, "epoch", "loss per image", mini))
    return found


def objective(name: str, title: str, caption: str, x: str, y: str, rows: list[NetworkRow]) -> Lines:
    lines = [line(row, x) for row in rows]
    return Lines(name=name, title=title, caption=caption, x=Axis(x, whole=True), y=Axis(y, log=True), lines=lines)


def line(row: NetworkRow, unit: str) -> Line:
    """The trials' objectives; a run that ended stays where it was."""
    first = row.records[0].first_pass
    length = max(len(record.objective) for record in row.records)
    runs = []
    for record in row.records:
        values = [math.nan if value is None else value for value in record.objective]
        runs.append(values + values[-1:] * (length - len(values)))
    points = []
    for number, column in enumerate(zip(*runs, strict=True), first):
        mean, low, high = math.fsum(column) / len(column), min(column), max(column)
        trials = f" ({short(low)} to {short(high)})" if low < high else ""
        points.append(Point(number, mean, low, high, f"{row.title}\n{unit} {number}: {short(mean)}{trials}"))
    return Line(row.label, row.family, points, row.sparse)


def errors(results: Networks) -> Dots:
    pixels = results.rows.get("pixels")
    return Dots(
        name="b",
        title="(b) Test error",
        caption=f"Linear SVM refitted on the features of each network, {results.first.data['test']:,} test images. "
        "Small dots are trials, the large one is their mean"
        + (", its bar the standard error over the images." if results.first.tested else "."),
        x=Axis("test error, %"),
        rows=[
            row.values(row.scores, row.standard_error)
            for row in results.rows.values()
            if row.scores and row.name != "pixels"
        ],
        unit="%",
        references=[("raw pixels", pixels.score)] if pixels else [],
    )


def seconds(results: Networks, rows: list[NetworkRow]) -> Dots:
    part = [row for row in rows if row.records[0].samples < row.records[0].data["train"]]
    note = f" Alg. 1 and proximal descent saw {part[0].records[0].samples:,} images only." if part else ""
    caption = f"Seconds of training alone; measurements, classifier and certificate are not counted.{note}"
    return results.seconds(rows, name="c", title="(c) Training time", caption=caption)
