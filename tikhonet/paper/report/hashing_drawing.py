"""The drawings of the hashing experiment: mAP by length, precision against recall, seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from matplotlib.figure import Figure as Canvas

from tikhonet.paper.report.figures import Dots
from tikhonet.paper.report.hashing import Coding, Hashing
from tikhonet.paper.report.plots import COLOURS
from tikhonet.paper.report.scales import Scale, short, spread
from tikhonet.paper.report.svg import WIDTH, Drawing, circle, frame, grid_y, path, place, shape, text

POOLED = ("pooled_precision", "pooled_recall")
NEAR = 0.1
"""Methods whose mAP is this near to the best are drawn once more on an axis of their own."""


@dataclass(frozen=True)
class Point:
    """Where a line passes, the range that is drawn there, and what it says."""

    x: float
    y: float
    low: float
    high: float
    tip: str


@dataclass(frozen=True)
class Curves:
    name: str
    title: str
    caption: str
    x_label: str
    y_label: str
    x_ticks: list[float]
    lines: list[tuple[Coding, list[Point]]]
    dots: bool
    """Whether every point has a dot."""
    floor: float = 0.0
    """Where the vertical axis begins."""


def precision_by_length(hashing: Hashing) -> Curves:
    lines = []
    for way in hashing.rows.values():
        points = []
        for bits in way.lengths:
            found, trials = way.precision(bits), [record.score for record in way.at(bits)]
            tip = f"{way.title}\n{bits} bits: mAP {found}; trials " + ", ".join(f"{value:.4f}" for value in trials)
            points.append(Point(bits, found.expected, found.lower, found.upper, tip))
        if points:
            lines.append((way, points))
    return Curves(
        "map",
        "Mean average precision by code length",
        f"Over the whole ranking of {hashing.first.data['database']:,} images, "
        f"{hashing.first.data['queries']:,} queries, mean of the trials. Bars: what the order of tied images could "
        "make of it, from all wrong ones first to all right ones first.",
        "bits",
        "mAP",
        [float(bits) for bits in hashing.lengths],
        lines,
        dots=True,
    )


def upper_part(figure: Curves) -> Curves | None:
    """The same of the best methods alone, where they are too near each other to be seen among all; else None."""
    best = max(points[-1].y for _, points in figure.lines)
    lines = [(way, points) for way, points in figure.lines if min(point.y for point in points) >= best - NEAR]
    if len(lines) < 2:
        return None
    lowest = min(point.low for _, points in lines for point in points)
    return replace(
        figure,
        name="map-best",
        title="The same, the best methods alone",
        caption=f"Those within {NEAR} of the highest mAP at every length; the axis does not begin at zero.",
        lines=lines,
        floor=max(0.0, math.floor(20 * lowest) / 20),
    )


def precision_recall(hashing: Hashing) -> Curves:
    """Of the balls of every radius, all pairs together, mean of the trials; from the first ball that is not empty."""
    bits = hashing.shown
    assert bits is not None
    lines = []
    for way in hashing.rows.values():
        if bits not in way.lengths:
            continue
        curves = [record.retrieval["curve"] for record in way.at(bits)]
        pairs = zip(
            *([fmean(values) for values in zip(*(curve[name] for curve in curves), strict=True)] for name in POOLED),
            strict=True,
        )
        lines.append(
            (
                way,
                [
                    Point(r, p, p, p, f"{way.title}\nradius {radius}: precision {p:.4f}, recall {r:.4f}")
                    for radius, (p, r) in enumerate(pairs)
                    if r > 0
                ],
            )
        )
    return Curves(
        "pr",
        f"Precision against recall, {bits} bits",
        "Of the balls of radius 0, 1, 2, and so on, all pairs of queries and images together. A ball has no order, so "
        "ties play no part.",
        "recall",
        "precision",
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
        lines,
        dots=False,
    )


def training_seconds(hashing: Hashing) -> Dots:
    rows = [(way, [record.seconds for record in way.records]) for way in hashing.rows.values()]
    loads = [record.hardware["load"] for way in hashing.rows.values() for record in way.records]
    cores = hashing.first.hardware["cores"] or 1
    busy = max((load for load in loads if load is not None), default=0.0)
    shared = f" The machine was shared (load up to {busy:.1f} on {cores} cores): read ratios." if busy > cores else ""
    return Dots(
        "seconds",
        "Training time",
        "Seconds of training alone, every length and trial; the classifier is trained once for all lengths. Coding, "
        f"search and measures are not counted.{shared}",
        "seconds",
        rows,
        log=True,
        unit=" s",
        references=[],
    )


def draw_curves(figure: Curves) -> Drawing:
    height, left, right, bottom = 380, 40, WIDTH - 138, 340
    low, high = figure.x_ticks[0], figure.x_ticks[-1]
    room = 0.04 * (high - low) if high > low else 1.0
    x, y = Scale(low - room, high + room, left, right), Scale(figure.floor, 1.0 + 0.02 * (1 - figure.floor), bottom, 20)
    parts = [grid_y(y, left, right), text(4, 10, figure.y_label, "axis")]
    parts += [text(x(tick), bottom + 16, short(tick), "tick middle") for tick in figure.x_ticks]
    parts.append(text((left + right) / 2, bottom + 34, figure.x_label, "axis middle"))
    ends = spread([y(points[-1].y if figure.dots else points[0].y) for _, points in figure.lines], 15, 26, bottom - 4)
    marks = []
    for (way, points), end in zip(figure.lines, ends, strict=True):
        spots = [(x(point.x), y(point.y)) for point in points]
        parts.append(shape("path", path(spots), "line" + " sparse" * way.sparse, way.family))
        if figure.dots:
            for point, (a, b) in zip(points, spots, strict=True):
                parts.append(shape("path", path([(a, y(point.low)), (a, y(point.high))]), "range", way.family))
                parts.append(circle(a, b, 3.2, "mean" + " hollow" * way.sparse, way))
            parts.append(shape("path", path([spots[-1], (right + 4, end), (right + 8, end)]), "leader", way.family))
        marks.append([(*place(spot), point.tip) for point, spot in zip(points, spots, strict=True)])
    parts += labels(figure, ends, right)
    return Drawing(frame(height, parts, None, figure.title), marks)


def labels(figure: Curves, ends: list[float], right: float) -> list[str]:
    """Names beside the lines' ends; where lines have no common end, a key with a stroke of each."""
    found = []
    for k, ((way, _), end) in enumerate(zip(figure.lines, ends, strict=True)):
        place_y = end if figure.dots else 30 + 17 * k
        if not figure.dots:
            stroke = path([(right + 2, place_y), (right + 20, place_y)])
            found.append(shape("path", stroke, "line" + " sparse" * way.sparse, way.family))
        found.append(text(right + (11 if figure.dots else 25), place_y + 4, brief(way.title), f"label f-{way.family}"))
    return found


def brief(title: str) -> str:
    shorter = {
        "Principal components": "PCA",
        "BCD, class codewords": "BCD, codewords",
        "BCD, learned codes": "BCD, learned",
        "BCD, fewer passes": "BCD, fewer",
        "Random projections": "random proj.",
    }
    return shorter.get(title, title)


def save_curves(figure: Curves, folder: Path) -> list[Path]:
    canvas = Canvas(figsize=(6.8, 4.4), layout="constrained")
    ax = canvas.add_subplot()
    for way, points in figure.lines:
        xs, ys = [point.x for point in points], [point.y for point in points]
        style, colour = "--" if way.sparse else "-", COLOURS[way.family]
        if figure.dots:
            ranges = [[p.y - p.low for p in points], [p.high - p.y for p in points]]
            ax.errorbar(xs, ys, ranges, fmt="o" + style, color=colour, ms=4, lw=1.4, capsize=2, label=way.title)
        else:
            ax.plot(xs, ys, style, color=colour, lw=1.5, label=way.title)
    ax.set(xlabel=figure.x_label, ylabel=figure.y_label, ylim=(figure.floor, None), xticks=figure.x_ticks)
    ax.set_title(figure.title, loc="left", fontsize=11)
    ax.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"figure_{figure.name}.{kind}" for kind in ("png", "pdf")]
    for file in paths:
        # Without the date, equal records give equal files.
        canvas.savefig(file, dpi=200, metadata={"CreationDate": None} if file.suffix == ".pdf" else None)
    return paths
