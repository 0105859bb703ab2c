"""The kinds of figures, each as data and one `draw`. A new kind is one class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tikhonet.network.extras import require
from tikhonet.paper.sheets import COLOURS, Figure, short, tip

DASHES = (0, (2.6, 1.6))


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Places from 0 to 1 near the wanted ones, in their order, at least `gap` apart where there is room."""
    order = sorted(range(len(wanted)), key=lambda k: wanted[k])
    gap = min(gap, 1 / max(1, len(wanted) - 1))
    placed, edge = list(wanted), -gap
    for k in order:
        placed[k] = edge = max(wanted[k], edge + gap)
    edge = 1 + gap
    for k in reversed(order):
        placed[k] = edge = min(placed[k], edge - gap)
    return placed


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

    def frame(self, ax: Any, side: str) -> None:
        """Scale, limits and ticks of an axis on which everything is drawn; linear ones begin at zero or below."""
        ticker, axis = require("matplotlib.ticker"), getattr(ax, f"{side}axis")
        if self.log:
            getattr(ax, f"set_{side}scale")("log")
            low, high = getattr(ax, f"get_{side}lim")()
            axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
            axis.set_minor_locator(ticker.NullLocator())
        elif self.whole:
            ax.margins(**{side: 0.0})
            axis.set_major_locator(ticker.MaxNLocator(6, integer=True))
        elif self.ticks:
            axis.set_major_locator(ticker.FixedLocator(self.ticks))
        else:
            low = min(0.0, getattr(ax.dataLim, f"{side}0")) if self.low is None else self.low
            getattr(ax, f"set_{side}lim")(low, self.high)
            axis.set_major_locator(ticker.MaxNLocator(6, steps=(1, 2, 5, 10)))
        axis.set_major_formatter(lambda value, _: short(value))
        if self.falling:
            axis.set_inverted(True)


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
    def finite(self) -> list[Point]:
        return [point for point in self.points if math.isfinite(point.y)]

    def draw(self, ax: Any, *, dots: bool, band: bool) -> None:
        colour, shown = COLOURS[self.family], self.finite
        x, y, low, high = zip(*((p.x, p.y, p.low, p.high) for p in shown), strict=True)
        if band:
            ax.fill_between(x, low, high, color=colour, alpha=0.13, lw=0)
        if not self.lone:
            ax.plot(x, y, color=colour, lw=1.2 if self.family == "sgd" else 1.9, ls=DASHES if self.dashed else "-")
        if dots and not self.cross:
            ax.vlines(x, low, high, color=colour, lw=1.4, alpha=0.45)
        for point in shown:
            fill = COLOURS["paper"] if point.hollow else colour
            style = {"ms": 7, "mfc": fill, "mec": colour, "mew": 1.8, "alpha": 1.0 if dots else 0.0}
            (spot,) = ax.plot([point.x], [point.y], "x" if self.cross else "o", **style)
            tip(spot, point.tip)
        if self.lone:
            place = {"xytext": (4 if self.cross else 0, 9), "ha": "right" if self.cross else "center"}
            ax.annotate(self.label, (x[0], y[0]), textcoords="offset points", color=colour, **place)


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

    def draw(self, ax: Any) -> None:
        drawn = [line for line in self.lines if line.finite]
        for line in drawn:
            line.draw(ax, dots=self.dots, band=not self.dots and not self.key)
        self.x.frame(ax, "x")
        self.y.frame(ax, "y")
        ax.grid(self.x.log, axis="x")
        ax.set_xlabel(self.x.label)
        ax.annotate(self.y.label, (0, 1), (-40, 12), "axes fraction", "offset points", color=COLOURS["soft"])
        named = [line for line in drawn if not line.lone]
        ends = [(line.finite[-1].x, line.finite[-1].y) for line in named]
        inside = [ax.transAxes.inverted().transform(ax.transData.transform(end)) for end in ends]
        places = [0.98 - 0.055 * k for k in range(len(named))] if self.key else spread([y for _, y in inside], 0.05)
        for line, (x, y), place in zip(named, inside, places, strict=True):
            colour, out = COLOURS[line.family], {"transform": ax.transAxes, "clip_on": False}
            if self.key:
                ax.plot([1.01, 1.07], [place] * 2, color=colour, lw=1.9, ls=DASHES if line.dashed else "-", **out)
            else:
                ax.plot([x, 1.02, 1.035], [y, place, place], color=colour, lw=0.7, alpha=0.55, **out)
            ax.text(
                1.085 if self.key else 1.045,
                place,
                line.label,
                color=colour,
                va="center_baseline",
                transform=ax.transAxes,
            )

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
    error: float | None = None
    """The standard error of the mean."""


@dataclass(frozen=True, kw_only=True)
class Rows(Figure):
    """A row a method, its label on the left."""

    rows: Sequence[Values]

    @property
    def height(self) -> float:
        return 25.0 * len(self.rows) + self.edges[2] + self.edges[3]

    def label_rows(self, ax: Any) -> None:
        ax.set_yticks(range(len(self.rows)), [row.label for row in self.rows])
        for label, row in zip(ax.get_yticklabels(), self.rows, strict=True):
            label.set_color(COLOURS[row.family])
        ax.set_ylim(max(1, len(self.rows)) - 0.5, -0.5)
        ax.grid(False, axis="y")


@dataclass(frozen=True, kw_only=True)
class Dots(Rows):
    """A row of dots a method, one a trial, and their mean; `references` are dashed lines across."""

    x: Axis
    unit: str = ""
    digits: int | None = 2
    """Behind the point; None for three digits in all."""
    references: Sequence[tuple[str, float]] = ()
    edges = (144, 52, 40, 26)

    def form(self, value: float) -> str:
        return short(value) if self.digits is None else f"{value:.{self.digits}f}"

    def draw(self, ax: Any) -> None:
        for place, row in enumerate(self.rows):
            colour, mean = COLOURS[row.family], sum(row.values) / len(row.values)
            ax.plot(row.values, [place] * len(row.values), "o", color=colour, ms=5.2, mew=0, alpha=0.55)
            if row.error is None:
                ax.hlines(place, min(row.values), max(row.values), color=colour, lw=1.4, alpha=0.45)
            else:
                ax.errorbar(mean, place, xerr=row.error, color=colour, lw=1.8, capsize=4, capthick=1.8)
            fill = COLOURS["paper"] if row.hollow else colour
            (spot,) = ax.plot([mean], [place], "o", ms=10, mfc=fill, mec=colour, mew=1.8)
            trials = ", ".join(map(self.form, row.values))
            give = "" if row.error is None else f" ± {self.form(row.error)}"
            tip(spot, f"{row.title}\nmean {self.form(mean)}{give}{self.unit} of {len(row.values)}: {trials}")
            ax.annotate(
                self.form(mean),
                (1, place),
                (48, 0),
                ax.get_yaxis_transform(),
                "offset points",
                ha="right",
                va="center_baseline",
            )
        for name, value in self.references:
            ax.axvline(value, color=COLOURS["soft"], lw=1, ls=":")
            words = f"{name} {self.form(value)}{self.unit}"
            ax.annotate(
                words, (value, 1), (0, 5), ax.get_xaxis_transform(), "offset points", ha="center", color=COLOURS["soft"]
            )
        self.label_rows(ax)
        self.x.frame(ax, "x")
        ax.set_xlabel(self.x.label)


@dataclass(frozen=True, kw_only=True)
class Bars(Rows):
    """A table of small bars from 0 to 100%; `what` is counted."""

    columns: Sequence[str]
    what: str
    edges = (144, 4, 8, 26)

    def draw(self, ax: Any) -> None:
        for place, row in enumerate(self.rows):
            for left, (column, value) in enumerate(zip(self.columns, row.values, strict=True)):
                ax.barh(place, 0.5, 0.32, left, color=COLOURS["track"])
                (bar,) = ax.barh(place, 0.005 * np.nan_to_num(value), 0.32, left, color=COLOURS[row.family])
                tip(bar, f"{row.title}\n{column}: {short(value)}% {self.what}")
                ax.text(left + 0.55, place, short(round(value, 1)), va="center_baseline")
        self.label_rows(ax)
        ax.set_xlim(0, len(self.columns))
        ax.set_xticks(range(len(self.columns)), self.columns, ha="left")
        ax.tick_params(axis="x", labeltop=True, labelbottom=False)
        ax.grid(False)
