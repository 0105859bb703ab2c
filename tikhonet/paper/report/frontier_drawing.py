"""The frontier as SVG for the page, and as PNG and PDF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure as Canvas

from tikhonet.paper.report.frontier import Frontier
from tikhonet.paper.report.plots import COLOURS
from tikhonet.paper.report.scales import Scale, spread
from tikhonet.paper.report.summary import Row
from tikhonet.paper.report.svg import WIDTH, Drawing, axis_x, circle, frame, grid_x, grid_y, path, place, shape, text


def draw_frontier(figure: Frontier) -> Drawing:
    """Nonzeros fall to the right, by their logarithm."""
    height, left, right = 380, 46, WIDTH - 134
    errors = [error for curve in figure.curves for row in curve.rows for error in row.errors]
    densities = [row.density for curve in figure.curves for row in curve.rows]
    paper = [figure.paper] if figure.paper else []
    x = Scale.around([*densities, *(point[0] for point in paper)], right, left, log=True)
    y = Scale.around([*errors, *(point[1] for point in paper)], height - 40, 24)
    parts = [grid_y(y, left, right), grid_x(x, 24, height - 40), axis_x(x, height - 40, figure.x_label)]
    parts.append(text(4, 12, figure.y_label, "axis"))
    ends = spread([y(curve.rows[-1].error) for curve in figure.curves], 15, 30, height - 46)
    marks = []
    for curve, end in zip(figure.curves, ends, strict=True):
        points = [(x(row.density), y(row.error)) for row in curve.rows]
        kind = "line" + " sparse" * (curve.family == "reference")
        parts += [shape("path", path(points), kind, curve.family)] if len(points) > 1 else []
        for row, (a, b) in zip(curve.rows, points, strict=True):
            parts.append(shape("path", path([(a, y(min(row.errors))), (a, y(max(row.errors)))]), "range", curve.family))
            parts.append(circle(a, b, 3.4, "mean" + " hollow" * (not row.sparse), row))
        if len(points) > 1:
            leader = path([points[-1], (right + 6, end), (right + 10, end)])
            parts.append(shape("path", leader, "leader", curve.family))
            parts.append(text(right + 13, end + 4, curve.label, f"label f-{curve.family}"))
        else:
            parts.append(text(points[0][0], points[0][1] - 9, curve.label, f"label middle f-{curve.family}"))
        marks.append([(*place(point), tip(row)) for row, point in zip(curve.rows, points, strict=True)])
    for a, b in paper:
        spot = x(a), y(b)
        parts.append(shape("path", cross(*spot), "line", "printed"))
        parts.append(text(spot[0] + 4, spot[1] - 9, "the paper's BCD-S", "label end f-printed"))
        marks.append(
            [(*place(spot), f"The paper's BCD-S\n{a:g}% nonzeros, {b:.2f}%: as far above dense as it reports")]
        )
    return Drawing(frame(height, parts, None, figure.title), marks)


def tip(row: Row) -> str:
    trials = ", ".join(f"{error:.2f}" for error in row.errors)
    return f"{row.title}\n{row.density:.2f}% nonzeros: {row.error:.2f}% ({trials}), {row.seconds:.3g} s"


def cross(x: float, y: float, size: float = 4.5) -> str:
    first, second = [(x - size, y - size), (x + size, y + size)], [(x - size, y + size), (x + size, y - size)]
    return path(first) + path(second)


def save_frontier(figure: Frontier, folder: Path) -> list[Path]:
    canvas = Canvas(figsize=(6.4, 4.4), layout="constrained")
    ax = canvas.add_subplot()
    for curve in figure.curves:
        densities, colour = [row.density for row in curve.rows], COLOURS[curve.family]
        low = [row.error - min(row.errors) for row in curve.rows]
        high = [max(row.errors) - row.error for row in curve.rows]
        errors = [row.error for row in curve.rows]
        style: dict[str, Any] = {
            "fmt": "o--" if curve.family == "reference" else "o-",
            "ms": 4,
            "lw": 1.4,
            "capsize": 2,
        }
        ax.errorbar(densities, errors, [low, high], color=colour, label=curve.label, **style)
    if figure.paper:
        ax.plot(*[[value] for value in figure.paper], "x", color=COLOURS["printed"], ms=7, label="the paper's BCD-S")
    ax.set(xlabel=figure.x_label, ylabel=figure.y_label, xscale="log")
    ax.set_ylim(bottom=0)
    ax.invert_xaxis()
    ax.set_title(figure.title, loc="left", fontsize=11)
    ax.legend(fontsize=8, frameon=False)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"figure_{figure.name}.{kind}" for kind in ("png", "pdf")]
    for file in paths:
        # Without the date, equal records give equal files.
        canvas.savefig(file, dpi=200, metadata={"CreationDate": None} if file.suffix == ".pdf" else None)
    return paths
