"""A drawing, laid out once: as SVG for the page, in its theme's colours, and by matplotlib as PNG and PDF."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from tikhonet.network.extras import require
from tikhonet.paper.scales import Scale, short

WIDTH = 480
Spot = tuple[float, float]
Mark = tuple[float, float, str]
"""Where the cursor goes, and the words that are shown there."""
COLOURS = {
    "printed": "#c8501e",
    "proximal": "#1f6fb2",
    "stochastic": "#00805c",
    "sgd": "#7a7f87",
    "reference": "#a3a8b0",
    "": "#1d2126",
}
"""The families of methods, told apart under the common kinds of colour blindness, and by lightness in grey."""
GREYS = {"grid": "#e4e1da", "track": "#ece9e3", "reference": "#5b626c", "tick": "#5b626c", "axis": "#5b626c"}
"""The kinds of shapes that have one colour whatever their family."""
STROKES = {"line": (1.9, 1.0), "grid": (0.8, 1.0), "leader": (0.7, 0.55), "reference": (1.0, 1.0), "range": (1.4, 0.45)}
"""Width and opacity by kind; the page's style sheet has the same."""
DASHES: dict[str, Any] = {"sparse": (0, (2.6, 1.6)), "reference": (0, (2, 3))}


class Drawing:
    """Shapes on paper of a fixed width, and marks in series: left and right move within one, up and down between.

    A shape's `kind` is its class in the style sheet; its `family` gives the colour.
    """

    def __init__(self, title: str, height: float) -> None:
        self.title, self.height = title, height
        self.parts: list[str] = []
        self.plots: list[Callable[[Any], object]] = []
        """Each puts one shape on matplotlib's axes."""
        self.marks: list[list[Mark]] = []

    def path(self, kind: str, points: Sequence[Spot], family: str = "") -> None:
        """A line through points, dashed where its kind says "sparse"; of the kind "band", the area inside."""
        way = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.parts.append(f'<path class="{css(kind, family)}" d="{way}"/>')
        columns, tint = list(zip(*points, strict=True)), colour(kind, family)
        if kind == "band":
            self.plots.append(lambda ax: ax.fill(*columns, color=tint, alpha=0.13, lw=0))
            return
        (width, opacity), dash = STROKES[kind.split()[0]], DASHES.get(kind.split()[-1], "-")
        self.plots.append(lambda ax: ax.plot(*columns, color=tint, lw=width, alpha=opacity, ls=dash))

    def circle(self, kind: str, x: float, y: float, r: float, family: str = "") -> None:
        self.parts.append(f'<circle class="{css(kind, family)}" cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>')
        tint, small = colour(kind, family), kind == "dot"
        style = {"mfc": "white" if "hollow" in kind else tint, "mec": tint, "mew": 0.0 if small else 1.8}
        self.plots.append(lambda ax: ax.plot([x], [y], "o", ms=2 * r, alpha=0.55 if small else 1.0, **style))

    def box(
        self, kind: str, x: float, y: float, width: float, height: float, family: str = "", opacity: float = 1.0
    ) -> None:
        seen = "" if opacity == 1.0 else f' opacity="{opacity:.2f}"'
        size = f'width="{width:.1f}" height="{height:.1f}"'
        self.parts.append(f'<rect class="{css(kind, family)}" x="{x:.1f}" y="{y:.1f}" {size} rx="1.5"{seen}/>')
        tint = colour(kind, family)
        self.plots.append(lambda ax: ax.barh(y, width, height, x, align="edge", color=tint, alpha=opacity))

    def text(self, kind: str, x: float, y: float, words: str, family: str = "", *, turned: bool = False) -> None:
        """Words whose first letter, or middle or end by their kind, stands at a place."""
        place = f'transform="translate({x:.1f} {y:.1f}) rotate(-90)"' if turned else f'x="{x:.1f}" y="{y:.1f}"'
        self.parts.append(f'<text class="{css(kind, family)}" {place}>{escape(words)}</text>')
        side = "center" if "middle" in kind else "right" if "end" in kind.split() else "left"
        style = {"color": colour(kind, family), "ha": side, "rotation": 90 if turned else 0}
        self.plots.append(lambda ax: ax.text(x, y, words, size=9, **style))

    def mark(self, places: Iterable[tuple[Spot, str]]) -> None:
        """One more series for the cursor: places and words."""
        self.marks.append([(round(x, 1), round(y, 1), words) for (x, y), words in places])

    def grid_x(self, scale: Scale, top: float, bottom: float, ticks: Sequence[float]) -> None:
        for v in ticks:
            self.path("grid", [(scale(v), top), (scale(v), bottom)])

    def grid_y(self, scale: Scale, left: float, right: float) -> None:
        for v in scale.ticks():
            self.path("grid", [(left, scale(v)), (right, scale(v))])
            self.text("tick end", left - 6, scale(v) + 4, short(v))

    def axis_x(self, scale: Scale, bottom: float, name: str, ticks: Sequence[float]) -> None:
        for v in ticks:
            self.text("tick middle", scale(v), bottom + 16, short(v))
        self.text("axis middle", (scale.start + scale.end) / 2, bottom + 34, name)

    def svg(self) -> str:
        """The drawing with its marks beside it, as data that no script executes."""
        inner = "\n".join([*self.parts, '<circle class="cursor" r="7"/>'])
        marks = json.dumps(self.marks, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height:.0f}" role="img" tabindex="0" '
            f'aria-label="{escape(self.title)}. Arrow keys show values.">\n{inner}</svg>'
            f'<script type="application/json">{marks}</script>'
        )

    def save(self, folder: Path, name: str) -> list[Path]:
        """`figure_<name>.png` and `.pdf`, a unit of the drawing being a point of the paper."""
        edge, top = 14, 34
        width, height = WIDTH + 2 * edge, self.height + top + edge
        sheet = require("matplotlib.figure").Figure(figsize=(width / 72, height / 72))
        ax = sheet.add_axes((0, 0, 1, 1))
        ax.text(0, -16, self.title, size=11, weight="bold")
        for plot in self.plots:
            plot(ax)
        ax.set(xlim=(-edge, WIDTH + edge), ylim=(self.height + edge, -top))
        ax.set_axis_off()
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"figure_{name}.{kind}" for kind in ("png", "pdf")]
        for path in paths:
            # Without the date, equal records give equal files.
            sheet.savefig(path, dpi=200, metadata={"CreationDate": None} if path.suffix == ".pdf" else None)
        return paths


def css(kind: str, family: str) -> str:
    return f"{kind} f-{family}" if family else kind


def colour(kind: str, family: str) -> str:
    return GREYS.get(kind.split()[0], COLOURS[family])
