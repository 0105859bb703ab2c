"""The figures as SVG: crisp at any size, coloured by the page's own theme, with the values to show on hover beside."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.paper.report.figures import Bars, Dots, Figure, Lines, Series
from tikhonet.paper.report.scales import Scale, short, spread
from tikhonet.paper.report.summary import Labelled

WIDTH = 480
Mark = tuple[float, float, str]
"""Where the cursor goes, and what it says there."""


@dataclass(frozen=True)
class Drawing:
    """An SVG and its marks, a list a series: left and right move within one, up and down between them."""

    svg: str
    marks: list[list[Mark]]


def draw(figure: Figure) -> Drawing:
    match figure:
        case Lines():
            return draw_lines(figure)
        case Dots():
            return draw_dots(figure)
        case Bars():
            return draw_bars(figure)


def draw_lines(figure: Lines) -> Drawing:
    height, right = 360, WIDTH - 128
    shown = [value for line in figure.series for value in (*line.low, *line.high)]
    x = Scale(min(s.x[0] for s in figure.series), max(max(s.x[-1] for s in figure.series), 1), 46, right)
    y = Scale.around(shown, height - 40, 26, log=True)
    parts = [grid_y(y, 46, right), axis_x(x, height - 40, figure.x_label, whole=True)]
    parts.append(text(4, 9, figure.y_label, "axis"))
    ends = spread([y(line.mean[-1]) for line in figure.series], 14, 34, height - 44)
    marks = []
    for line, end in zip(figure.series, ends, strict=True):
        points = [(x(a), y(b)) for a, b in zip(line.x, line.mean, strict=True) if math.isfinite(b)]
        if not points:
            continue
        parts.append(shape("path", band(line, x, y), "band", line.family))
        parts.append(shape("path", path(points), "line" + " sparse" * line.sparse, line.family))
        last = points[-1]
        leader = path([last, (right + 8, end), (right + 12, end)])
        parts.append(shape("path", leader, "leader", line.family))
        parts.append(text(right + 15, end + 4, brief(line.label), f"label f-{line.family}"))
        marks.append([(*place(p), tip_of(line, k, figure.x_label)) for k, p in enumerate(points)])
    return Drawing(frame(height, parts, figure), marks)


def brief(title: str) -> str:
    return title.replace(" as printed", "").replace(" BCD", "").replace(", l1 ball", ", l1")


def tip_of(line: Series, k: int, x_label: str) -> str:
    spread_ = f" ({short(line.low[k])} to {short(line.high[k])})" if line.low[k] < line.high[k] else ""
    return f"{line.label}\n{x_label} {line.x[k]}: {short(line.mean[k])}{spread_}"


def draw_dots(figure: Dots) -> Drawing:
    pitch, top, left = 25, 26, 136
    height = top + pitch * len(figure.rows) + 40
    values = [value for _, row in figure.rows for value in row] + [value for _, value in figure.references]
    x = Scale.around(values, left + 8, WIDTH - 52, log=figure.log)
    parts = [grid_x(x, top - 4, height - 40), axis_x(x, height - 40, figure.x_label)]
    for name, value in figure.references:
        parts.append(shape("path", path([(x(value), top - 6), (x(value), height - 40)]), "reference"))
        parts.append(text(x(value), 14, f"{name} {figure.form(value)}{figure.unit}", "label middle muted"))
    marks = []
    for k, (row, found) in enumerate(figure.rows):
        middle, mean = top + pitch * (k + 0.5), sum(found) / len(found)
        parts.append(row_label(row, left, middle))
        parts.append(shape("path", path([(x(min(found)), middle), (x(max(found)), middle)]), "range", row.family))
        parts += [circle(x(value), middle, 2.6, "dot", row) for value in found]
        parts.append(circle(x(mean), middle, 5.2, "mean" + " hollow" * row.sparse, row))
        parts.append(text(WIDTH - 4, middle + 4, figure.form(mean), "value end"))
        trials = ", ".join(map(figure.form, found))
        tip = f"{row.title}\nmean {figure.form(mean)}{figure.unit} of {len(found)}: {trials}"
        marks.append([(*place((x(mean), middle)), tip)])
    return Drawing(frame(height, parts, figure), marks)


def draw_bars(figure: Bars) -> Drawing:
    pitch, top, left = 25, 26, 136
    height, pad = top + pitch * len(figure.rows) + 8, 8
    width = (WIDTH - left - 4) / len(figure.columns)
    parts, marks = [], []
    for c, column in enumerate(figure.columns):
        parts.append(text(left + c * width + pad, 14, column, "label muted"))
    for k, (row, found) in enumerate(figure.rows):
        middle = top + pitch * (k + 0.5)
        parts.append(row_label(row, left, middle))
        line = []
        for c, value in enumerate(found):
            start, full = left + c * width + pad, width - pad - 38
            length = full * (0.0 if math.isnan(value) else value) / 100
            parts.append(box(start, middle - 4, full, 8, "track"))
            parts.append(box(start, middle - 4, length, 8, f"bar f-{row.family}"))
            parts.append(text(start + full + 4, middle + 4, short(round(value, 1)), "value"))
            tip = f"{row.title}\n{figure.columns[c]}: {short(value)}% nonzero"
            line.append((*place((start + length, middle)), tip))
        marks.append(line)
    return Drawing(frame(height, parts, figure), marks)


def draw_confusion(counts: NDArray[Any], labels: list[str], title: str) -> Drawing:
    """Rows are true labels, columns predicted ones; mistakes are shaded by their number."""
    size, left, top = len(counts), 44, 34
    cell = (WIDTH - left - 10) / size
    worst = max(1, int((counts - np.diag(np.diag(counts))).max()))
    parts = [text(left + cell * size / 2, 12, "predicted", "axis middle")]
    parts.append(
        f'<text class="axis middle" transform="translate(12 {top + cell * size / 2:.1f}) rotate(-90)">true</text>'
    )
    marks = []
    for i in range(size):
        parts.append(text(left + (i + 0.5) * cell, top - 7, str(i), "label middle"))
        parts.append(text(left - 8, top + (i + 0.5) * cell + 4, str(i), "label end"))
        line = []
        for j in range(size):
            x, y, count = left + j * cell, top + i * cell, int(counts[i, j])
            opacity = 0.0 if i == j or not count else 0.15 + 0.85 * count / worst
            parts.append(box(x + 1, y + 1, cell - 2, cell - 2, "cell" + " right" * (i == j)))
            parts.append(box(x + 1, y + 1, cell - 2, cell - 2, "heat", opacity))
            strong = " strong" * (opacity > 0.55)
            parts.append(text(x + cell / 2, y + cell / 2 + 4, str(count) if count else "", f"count middle{strong}"))
            share = 100 * count / max(1, int(counts[i].sum()))
            tip = f"{labels[i]} taken for {labels[j]}\n{count} images, {share:.1f}% of all {labels[i]}"
            line.append((*place((x + cell / 2, y + cell / 2)), tip))
        marks.append(line)
    height = top + size * cell + 6
    return Drawing(frame(height, parts, None, title), marks)


def frame(height: float, parts: list[str], figure: Figure | None, title: str = "") -> str:
    name = escape(figure.title if figure else title)
    inner = "\n".join(parts)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" tabindex="0" aria-label="{name}. Arrow keys show values.">'
        f'\n{inner}\n<circle class="cursor" r="7"/></svg>'
    )


def grid_y(scale: Scale, left: float, right: float) -> str:
    lines = [shape("path", path([(left, scale(v)), (right, scale(v))]), "grid") for v in scale.ticks()]
    return "".join(lines + [text(left - 6, scale(v) + 4, short(v), "tick end") for v in scale.ticks()])


def grid_x(scale: Scale, top: float, bottom: float) -> str:
    return "".join(shape("path", path([(scale(v), top), (scale(v), bottom)]), "grid") for v in scale.ticks())


def axis_x(scale: Scale, bottom: float, name: str, *, whole: bool = False) -> str:
    ticks = [v for v in scale.ticks() if not whole or v == round(v)]
    labels = [text(scale(v), bottom + 16, short(v), "tick middle") for v in ticks]
    return "".join([*labels, text((scale.start + scale.end) / 2, bottom + 34, name, "axis middle")])


def row_label(row: Labelled, left: float, middle: float) -> str:
    return text(left - 4, middle + 4, brief(row.title), f"label end f-{row.family}")


def band(line: Series, x: Scale, y: Scale) -> str:
    kept = [k for k in range(len(line.x)) if math.isfinite(line.low[k]) and math.isfinite(line.high[k])]
    return path([(x(line.x[k]), y(line.high[k])) for k in kept] + [(x(line.x[k]), y(line.low[k])) for k in kept[::-1]])


def path(points: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in points)


def place(point: tuple[float, float]) -> tuple[float, float]:
    return round(point[0], 1), round(point[1], 1)


def shape(tag: str, d: str, kind: str, family: str = "") -> str:
    return f'<{tag} class="{kind}{f" f-{family}" if family else ""}" d="{d}"/>'


def circle(x: float, y: float, r: float, kind: str, row: Labelled) -> str:
    return f'<circle class="{kind} f-{row.family}" cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>'


def box(x: float, y: float, width: float, height: float, kind: str, opacity: float | None = None) -> str:
    seen = "" if opacity is None else f' opacity="{opacity:.2f}"'
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="1.5"{seen}/>'


def text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'
