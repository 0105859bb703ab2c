"""The figures of the hashing experiment: mAP by length, precision against recall, seconds."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean

from tikhonet.paper.figures import Axis, Dots, Figure, Line, Lines, Point
from tikhonet.paper.hashing_results import Coding, Hashing

POOLED = ("pooled_precision", "pooled_recall")
NEAR = 0.1
"""Methods whose mAP is this near to the best are drawn once more on an axis of their own."""


def hashing_figures(hashing: Hashing) -> list[Figure]:
    found: list[Figure] = []
    if hashing.shown:
        whole = precision_by_length(hashing)
        best = upper_part(whole)
        found += [whole, *([best] if best else []), precision_recall(hashing, hashing.shown)]
    return [*found, training_seconds(hashing)]


def shares(label: str, floor: float = 0.0) -> Axis:
    """An axis up to 1, and a little room."""
    return Axis(label, low=floor, high=1.0 + 0.02 * (1 - floor))


def precision_by_length(hashing: Hashing) -> Lines:
    lines = []
    for way in hashing.rows.values():
        points = []
        for bits in way.lengths:
            found, trials = way.precision(bits), [record.score for record in way.at(bits)]
            tip = f"{way.title}\n{bits} bits: mAP {found}; trials " + ", ".join(f"{value:.4f}" for value in trials)
            points.append(Point(bits, found.expected, found.lower, found.upper, tip, way.sparse))
        if points:
            lines.append(Line(way.label, way.family, points, way.sparse))
    return Lines(
        name="map",
        title="Mean average precision by code length",
        caption=f"Over the whole ranking of {hashing.first.data['database']:,} images, "
        f"{hashing.first.data['queries']:,} queries, mean of the trials. Bars: what the order of tied images could "
        "make of it, from all wrong ones first to all right ones first.",
        x=Axis("bits", ticks=[float(bits) for bits in hashing.lengths]),
        y=shares("mAP"),
        lines=lines,
        dots=True,
    )


def upper_part(figure: Lines) -> Lines | None:
    """The best methods alone, where they are too near each other to be seen among all; else None."""
    best = max(line.points[-1].y for line in figure.lines)
    lines = [line for line in figure.lines if min(point.y for point in line.points) >= best - NEAR]
    if len(lines) < 2:
        return None
    lowest = min(point.low for line in lines for point in line.points)
    return replace(
        figure,
        name="map-best",
        title="The same, the best methods alone",
        caption=f"Those within {NEAR} of the highest mAP at every length; the axis does not begin at zero.",
        lines=lines,
        y=shares("mAP", max(0.0, math.floor(20 * lowest) / 20)),
    )


def precision_recall(hashing: Hashing, bits: int) -> Lines:
    return Lines(
        name="pr",
        title=f"Precision against recall, {bits} bits",
        caption="Of the balls of radius 0, 1, 2, and so on, all pairs of queries and images together. A ball has no "
        "order, so ties play no part.",
        x=Axis("recall", ticks=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        y=shares("precision"),
        lines=[balls(way, bits) for way in hashing.rows.values() if bits in way.lengths],
        key=True,
    )


def balls(way: Coding, bits: int) -> Line:
    """Precision and recall of the balls of every radius, mean of the trials; from the first that is not empty."""
    curves = [record.retrieval["curve"] for record in way.at(bits)]
    means = ([fmean(values) for values in zip(*(curve[name] for curve in curves), strict=True)] for name in POOLED)
    points = [
        Point(r, p, p, p, f"{way.title}\nradius {radius}: precision {p:.4f}, recall {r:.4f}")
        for radius, (p, r) in enumerate(zip(*means, strict=True))
        if r > 0
    ]
    return Line(way.label, way.family, points, way.sparse)


def training_seconds(hashing: Hashing) -> Dots:
    return Dots(
        name="seconds",
        title="Training time",
        caption="Seconds of training alone, every length and trial; the classifier is trained once for all lengths. "
        f"Coding, search and measures are not counted.{hashing.load()}",
        x=Axis("seconds", log=True),
        rows=[way.values([record.seconds for record in way.records]) for way in hashing.rows.values()],
        unit=" s",
        digits=None,
    )
