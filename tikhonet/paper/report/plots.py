"""The figures as PNG and PDF, for papers and slides."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from tikhonet.paper.report.figures import Bars, Dots, Figure, Lines
from tikhonet.paper.report.scales import Scale, spread

COLOURS = {
    "printed": "#c8501e",
    "proximal": "#1f6fb2",
    "stochastic": "#00805c",
    "sgd": "#7a7f87",
    "reference": "#a3a8b0",
}
"""Told apart under the common kinds of colour blindness, and by lightness in grey."""


def save_figure(figure: Figure, folder: Path) -> list[Path]:
    canvas = Canvas(figsize=(6.4, 6.4 if isinstance(figure, Bars) else 4.2), layout="constrained")
    ax = canvas.add_subplot()
    match figure:
        case Lines():
            plot_lines(ax, figure)
        case Dots():
            plot_dots(ax, figure)
        case Bars():
            plot_bars(ax, figure)
    ax.set_title(figure.title, loc="left", fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"figure_{figure.name}.{kind}" for kind in ("png", "pdf")]
    for path in paths:
        # Without the date, equal records give equal files.
        canvas.savefig(path, dpi=200, metadata={"CreationDate": None} if path.suffix == ".pdf" else None)
    return paths


def plot_lines(ax: Axes, figure: Lines) -> None:
    for line in figure.series:
        colour, style = COLOURS[line.family], "--" if line.sparse else "-"
        ax.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, lw=0)
        ax.plot(line.x, line.mean, style, color=colour, lw=1.6)
    ax.set(xlabel=figure.x_label, ylabel=figure.y_label, yscale="log")
    ax.grid(axis="y", alpha=0.25)
    label_ends(ax, figure)


def label_ends(ax: Axes, figure: Lines) -> None:
    """Each line's name to the right of its end, apart from the others."""
    ended = [line for line in figure.series if math.isfinite(line.mean[-1])]
    height = Scale(*ax.get_ylim(), 0.0, 1.0, log=True)
    arrow = {"arrowstyle": "-", "lw": 0.5, "alpha": 0.6, "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 1}
    for line, place in zip(ended, spread([height(line.mean[-1]) for line in ended], 0.05, 0.0, 1.0), strict=True):
        ax.annotate(
            line.label,
            (line.x[-1], line.mean[-1]),
            xytext=(1.04, place),
            textcoords="axes fraction",
            arrowprops=arrow | {"color": COLOURS[line.family]},
            color=COLOURS[line.family],
            fontsize=8,
            va="center",
        )


def plot_dots(ax: Axes, figure: Dots) -> None:
    for k, (row, values) in enumerate(figure.rows):
        colour = COLOURS[row.family]
        ax.plot(values, [k] * len(values), "o", color=colour, ms=3, alpha=0.6)
        ax.plot([float(np.mean(values))], [k], "o", color=colour, ms=7, mfc="none" if row.sparse else colour, mew=1.5)
    for name, value in figure.references:
        ax.axvline(value, color="#555", ls=":", lw=1, label=name)
    ax.set_yticks(range(len(figure.rows)), [row.title for row, _ in figure.rows], fontsize=8)
    ax.invert_yaxis()
    ax.set(xlabel=figure.x_label, xscale="log" if figure.log else "linear")
    if not figure.log:
        ax.set_xlim(left=0)
    if figure.references:
        ax.legend(fontsize=8, frameon=False)
    ax.grid(axis="x", alpha=0.25)


def plot_bars(ax: Axes, figure: Bars) -> None:
    height = 0.8 / len(figure.columns)
    for c, column in enumerate(figure.columns):
        places = np.arange(len(figure.rows)) - 0.4 + (c + 0.5) * height
        colours = [COLOURS[row.family] for row, _ in figure.rows]
        shares = [values[c] for _, values in figure.rows]
        bars = ax.barh(places, shares, 0.9 * height, color=colours, alpha=1 - 0.2 * c)
        ax.bar_label(bars, [f"{column} {share:.1f}" for share in shares], fontsize=5.5, padding=2)
    ax.set_yticks(range(len(figure.rows)), [row.title for row, _ in figure.rows], fontsize=8)
    ax.invert_yaxis()
    ax.set(xlabel="exactly nonzero weights, %", xlim=(0, 118))
