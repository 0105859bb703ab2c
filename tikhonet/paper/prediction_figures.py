"""Figures of predictions against the truth: a matrix of classes, a cloud of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.paper.figures import DASHES, Axis
from tikhonet.paper.sheets import COLOURS, WIDTH, Figure, tip


@dataclass(frozen=True, kw_only=True)
class Cloud(Figure):
    """A dot for each row, and the line on which exact predictions would be."""

    x: Axis
    y: Axis
    dots: Sequence[tuple[float, float]]
    line: Sequence[tuple[float, float]]
    edges = (66, 16, 40, 26)

    def draw(self, ax: Any) -> None:
        style = {"color": COLOURS["stochastic"], "ms": 4.4, "mew": 0, "alpha": 0.35}
        (dots,) = ax.plot(*zip(*self.dots, strict=True), "o", **style)
        tip(dots, f"{len(self.dots):,} rows")
        ax.plot(*zip(*self.line, strict=True), color=COLOURS["soft"], lw=1, ls=DASHES)
        self.x.frame(ax, "x")
        self.y.frame(ax, "y")
        ax.set_xlabel(self.x.label)
        ax.annotate(self.y.label, (0, 1), (-60, 12), "axes fraction", "offset points", color=COLOURS["soft"])


@dataclass(frozen=True, kw_only=True)
class Confusion(Figure):
    """Rows are true labels, columns predicted ones; mistakes are shaded by their number."""

    counts: NDArray[Any]
    labels: Sequence[str]
    what: str = "images"
    """What is counted."""

    @property
    def cut(self) -> list[str]:
        """Labels of a length that leaves room for the counts."""
        return [label if len(label) <= 14 else f"{label[:13]}…" for label in self.labels]

    @property
    def edges(self) -> tuple[float, float, float, float]:
        longest = 7.5 * max(map(len, self.cut))
        return (36.5 + longest, 10, 6, 36.5 + (longest if self.upright else 7.5))

    @property
    def upright(self) -> bool:
        """Whether the names of the columns are longer than the cells are wide."""
        longest = 7.5 * max(map(len, self.cut))
        return longest * len(self.labels) > 430 - longest

    @property
    def height(self) -> float:
        size = len(self.counts)
        return self.edges[2] + self.edges[3] + max(16.0, min(60.0, 426 / size)) * size

    def draw(self, ax: Any) -> None:
        size = len(self.counts)
        worst = max(1, int((self.counts - np.diag(np.diag(self.counts))).max()))
        for (i, j), count in np.ndenumerate(self.counts):
            share = 0.0 if i == j or not count else 0.15 + 0.85 * count / worst
            ax.barh(i, 0.95, 0.95, j - 0.475, color=COLOURS["track"], alpha=1.0 if i == j else 0.45)
            (cell,) = ax.barh(i, 0.95, 0.95, j - 0.475, color=COLOURS["heat"], alpha=share)
            words, part = f"{self.labels[i]} taken for {self.labels[j]}", count / max(1, self.counts[i].sum())
            tip(cell, f"{words}\n{count} {self.what}, {100 * part:.1f}% of all {self.labels[i]}")
            colour = COLOURS["paper" if share > 0.55 else "ink"]
            ax.text(j, i, str(count) if count else "", ha="center", va="center_baseline", color=colour)
        ax.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5))
        ax.set_xlabel("predicted", labelpad=8)
        ax.set_ylabel("true")
        ax.yaxis.set_label_coords((22 - self.edges[0]) / (WIDTH - self.edges[0] - self.edges[1]), 0.5)
        ax.set_xticks(range(size), self.cut, rotation=90 if self.upright else 0)
        ax.set_yticks(range(size), self.cut)
        ax.xaxis.set_label_position("top")
        ax.tick_params(axis="x", labeltop=True, labelbottom=False)
        ax.grid(False)
