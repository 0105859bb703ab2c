"""Figures as data (series, axes, labels), each laid out in one place. A new kind of figure is one class with `draw`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.paper.canvas import WIDTH, Drawing
from tikhonet.paper.scales import Scale, short, spread

PITCH, TOP, LEFT = 25.0, 26.0, 136.0
"""In figures with a row a method: the height of a row, the room above the first, and the room for the labels."""


@dataclass(frozen=True, kw_only=True)
class Figure(ABC):
    """`draw` lays the figure out on paper; page, PNG and PDF show that drawing."""

    name: str
    title: str
    caption: str = ""

    @abstractmethod
    def draw(self) -> Drawing: ...


@dataclass(frozen=True)
class Axis:
    """An axis over the values that are drawn, or from `low` to `high`; `ticks` are chosen where none are given."""

    label: str
    log: bool = False
    ticks: Sequence[float] = ()
    low: float | None = None
    high: float | None = None
    falling: bool = False
    """Whether values fall from left to right."""
    whole: bool = False
    """Whether only whole numbers get ticks."""

    def scale(self, values: Iterable[float], start: float, end: float) -> Scale:
        if self.falling:
            start, end = end, start
        if self.low is not None and self.high is not None:
            return Scale(self.low, self.high, start, end, self.log)
        if self.whole:
            kept = list(values)
            return Scale(min(kept), max(1, *kept), start, end)
        if self.ticks:
            room = 0.04 * (self.ticks[-1] - self.ticks[0]) or 1.0
            return Scale(self.ticks[0] - room, self.ticks[-1] + room, start, end)
        return Scale.around(values, start, end, log=self.log)

    def ticks_of(self, scale: Scale) -> list[float]:
        return list(self.ticks) or [v for v in scale.ticks() if not self.whole or v == round(v)]


@dataclass(frozen=True)
class Point:
    """Where a line passes, the range of the trials there, and the words to show."""

    x: float
    y: float
    low: float
    high: float
    tip: str
    hollow: bool = False


@dataclass(frozen=True)
class Line:
    label: str
    family: str
    points: Sequence[Point]
    dashed: bool = False
    lone: bool = False
    """Whether it is one point with its label above it."""
    cross: bool = False
    """Whether the point is a cross: a figure from elsewhere."""

    @property
    def kind(self) -> str:
        return "line sparse" if self.dashed else "line"

    @property
    def finite(self) -> list[Point]:
        return [point for point in self.points if math.isfinite(point.y)]


@dataclass(frozen=True, kw_only=True)
class Lines(Figure):
    """Lines with their names at their ends, or beside the figure in a key.

    The ranges of the points are bands, or with `dots` a stroke through a dot at each.
    """

    x: Axis
    y: Axis
    lines: Sequence[Line]
    dots: bool = False
    key: bool = False

    def draw(self) -> Drawing:
        drawing = Drawing(self.title, 380)
        left, right, top, bottom = 46.0, WIDTH - 136.0, 26.0, 340.0
        points = [point for line in self.lines for point in line.points]
        x = self.x.scale([point.x for point in points], left, right)
        y = self.y.scale([v for point in points for v in (point.y, point.low, point.high)], bottom, top)
        drawing.grid_y(y, left, right)
        ticks = self.x.ticks_of(x)
        if self.x.log:
            drawing.grid_x(x, top, bottom, ticks)
        drawing.axis_x(x, bottom, self.x.label, ticks)
        drawing.text("axis", 4, 10, self.y.label)
        drawn = [line for line in self.lines if line.finite]
        named = [line for line in drawn if not line.lone]
        places = spread([y(line.finite[-1].y) for line in named], 15, top + 4, bottom - 4)
        if self.key:
            places = [top + 8 + 17 * k for k in range(len(named))]
        for line in drawn:
            self.draw_line(drawing, line, x, y)
        for line, place in zip(named, places, strict=True):
            end = line.finite[-1]
            if self.key:
                drawing.path(line.kind, [(right + 2, place), (right + 20, place)], line.family)
            else:
                leader = [(x(end.x), y(end.y)), (right + 6, place), (right + 10, place)]
                drawing.path("leader", leader, line.family)
            drawing.text("label", right + (25 if self.key else 13), place + 4, line.label, line.family)
        return drawing

    def draw_line(self, drawing: Drawing, line: Line, x: Scale, y: Scale) -> None:
        shown = line.finite
        spots = [(x(point.x), y(point.y)) for point in shown]
        if not self.dots and not self.key:
            kept = [point for point in shown if math.isfinite(point.low) and math.isfinite(point.high)]
            outline = [(x(p.x), y(p.high)) for p in kept] + [(x(p.x), y(p.low)) for p in kept[::-1]]
            drawing.path("band", outline, line.family)
        if not line.lone:
            drawing.path(line.kind, spots, line.family)
        for point, (a, b) in zip(shown, spots, strict=True):
            if line.cross:
                for tilt in (4.5, -4.5):
                    drawing.path("line", [(a - 4.5, b - tilt), (a + 4.5, b + tilt)], line.family)
            elif self.dots:
                drawing.path("range", [(a, y(point.low)), (a, y(point.high))], line.family)
                drawing.circle("mean hollow" if point.hollow else "mean", a, b, 3.4, line.family)
            if line.lone:
                side = "end" if line.cross else "middle"
                drawing.text(f"label {side}", a + (4 if line.cross else 0), b - 9, line.label, line.family)
        drawing.mark([(spot, point.tip) for spot, point in zip(spots, shown, strict=True)])

    def table(self) -> list[list[Any]]:
        """All points, under the names of the axes."""
        rows = [[line.label, p.x, p.y, p.low, p.high] for line in self.lines for p in line.points]
        return [["line", self.x.label, self.y.label, "lowest", "highest"], *rows]


@dataclass(frozen=True)
class Values:
    """A method's place in a figure of rows: its label, its full title, and one value a trial or column."""

    label: str
    title: str
    family: str
    values: Sequence[float]
    hollow: bool = False


@dataclass(frozen=True, kw_only=True)
class Rows(Figure):
    """A row a method, its label on the left."""

    rows: Sequence[Values]

    def labelled(self, below: float) -> tuple[Drawing, list[float]]:
        """A drawing with the labels, and the heights of the rows."""
        drawing = Drawing(self.title, TOP + PITCH * len(self.rows) + below)
        heights = [TOP + PITCH * (k + 0.5) for k in range(len(self.rows))]
        for row, middle in zip(self.rows, heights, strict=True):
            drawing.text("label end", LEFT - 4, middle + 4, row.label, row.family)
        return drawing, heights


@dataclass(frozen=True, kw_only=True)
class Dots(Rows):
    """A row of dots a method, one a trial, and their mean; `references` are dashed lines across."""

    x: Axis
    unit: str = ""
    digits: int | None = 2
    """Behind the point; None for three digits in all."""
    references: Sequence[tuple[str, float]] = ()

    def form(self, value: float) -> str:
        return short(value) if self.digits is None else f"{value:.{self.digits}f}"

    def draw(self) -> Drawing:
        drawing, heights = self.labelled(40)
        bottom = drawing.height - 40
        values = [value for row in self.rows for value in row.values] + [value for _, value in self.references]
        x = self.x.scale(values, LEFT + 8, WIDTH - 52)
        ticks = self.x.ticks_of(x)
        drawing.grid_x(x, TOP - 4, bottom, ticks)
        drawing.axis_x(x, bottom, self.x.label, ticks)
        for name, value in self.references:
            drawing.path("reference", [(x(value), TOP - 6), (x(value), bottom)])
            drawing.text("label middle muted", x(value), 14, f"{name} {self.form(value)}{self.unit}")
        for row, middle in zip(self.rows, heights, strict=True):
            mean = sum(row.values) / len(row.values)
            ends = [(x(min(row.values)), middle), (x(max(row.values)), middle)]
            drawing.path("range", ends, row.family)
            for value in row.values:
                drawing.circle("dot", x(value), middle, 2.6, row.family)
            drawing.circle("mean hollow" if row.hollow else "mean", x(mean), middle, 5.2, row.family)
            drawing.text("value end", WIDTH - 4, middle + 4, self.form(mean))
            trials = ", ".join(map(self.form, row.values))
            tip = f"{row.title}\nmean {self.form(mean)}{self.unit} of {len(row.values)}: {trials}"
            drawing.mark([((x(mean), middle), tip)])
        return drawing


@dataclass(frozen=True, kw_only=True)
class Bars(Rows):
    """A table of small bars from 0 to 100%; `what` is counted."""

    columns: Sequence[str]
    what: str

    def draw(self) -> Drawing:
        drawing, heights = self.labelled(8)
        pad, width = 8, (WIDTH - LEFT - 4) / len(self.columns)
        full = width - pad - 38
        starts = [LEFT + c * width + pad for c in range(len(self.columns))]
        for start, column in zip(starts, self.columns, strict=True):
            drawing.text("label muted", start, 14, column)
        for row, middle in zip(self.rows, heights, strict=True):
            places = []
            for start, column, value in zip(starts, self.columns, row.values, strict=True):
                length = full * (0.0 if math.isnan(value) else value) / 100
                drawing.box("track", start, middle - 4, full, 8)
                drawing.box("bar", start, middle - 4, length, 8, row.family)
                drawing.text("value", start + full + 4, middle + 4, short(round(value, 1)))
                places.append(((start + length, middle), f"{row.title}\n{column}: {short(value)}% {self.what}"))
            drawing.mark(places)
        return drawing


@dataclass(frozen=True, kw_only=True)
class Confusion(Figure):
    """Rows are true labels, columns predicted ones; mistakes are shaded by their number."""

    counts: NDArray[Any]
    labels: Sequence[str]

    def draw(self) -> Drawing:
        size, left, top = len(self.counts), 44, 34
        cell = (WIDTH - left - 10) / size
        worst = max(1, int((self.counts - np.diag(np.diag(self.counts))).max()))
        drawing = Drawing(self.title, top + size * cell + 6)
        drawing.text("axis middle", left + cell * size / 2, 12, "predicted")
        drawing.text("axis middle", 12, top + cell * size / 2, "true", turned=True)
        for i in range(size):
            drawing.text("label middle", left + (i + 0.5) * cell, top - 7, str(i))
            drawing.text("label end", left - 8, top + (i + 0.5) * cell + 4, str(i))
            places = []
            for j in range(size):
                x, y, count = left + j * cell, top + i * cell, int(self.counts[i, j])
                opacity = 0.0 if i == j or not count else 0.15 + 0.85 * count / worst
                drawing.box("cell right" if i == j else "cell", x + 1, y + 1, cell - 2, cell - 2)
                drawing.box("heat", x + 1, y + 1, cell - 2, cell - 2, opacity=opacity)
                strong = " strong" if opacity > 0.55 else ""
                middle = x + cell / 2, y + cell / 2
                drawing.text(f"count middle{strong}", middle[0], middle[1] + 4, str(count) if count else "")
                share = 100 * count / max(1, int(self.counts[i].sum()))
                words = f"{self.labels[i]} taken for {self.labels[j]}"
                places.append((middle, f"{words}\n{count} images, {share:.1f}% of all {self.labels[i]}"))
            drawing.mark(places)
        return drawing
