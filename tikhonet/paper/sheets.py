"""The sheet that a figure is drawn on, by matplotlib: SVG for the page, in its theme's colours, and PNG and PDF."""

from __future__ import annotations

import io
import math
import re
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from html import escape
from typing import Any

from tikhonet.network.extras import require

WIDTH, TITLE = 480, 30
"""Points across a figure, and those above it for the title, which the page shows apart."""
COLOURS = {
    "printed": "#c8501e",
    "proximal": "#1f6fb2",
    "stochastic": "#00805c",
    "sgd": "#7a7f87",
    "reference": "#a3a8b0",
    "ink": "#1d2126",
    "soft": "#5b626c",
    "line": "#e4e1da",
    "track": "#ece9e3",
    "heat": "#b8460f",
    "paper": "#ffffff",
}
"""The families of methods, told apart under the common kinds of colour blindness, and by lightness in grey; then the
page's other colours. The page's style sheet has each of them by the same name, for light and for dark."""
STYLE = {
    "font.size": 11,
    "text.color": COLOURS["ink"],
    "axes.labelcolor": COLOURS["soft"],
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.xmargin": 0.04,
    "axes.ymargin": 0.04,
    **{f"axes.spines.{side}": False for side in ("left", "right", "top", "bottom")},
    "grid.color": COLOURS["line"],
    **{
        f"{side}tick.{key}": value
        for side in "xy"
        for key, value in (("labelcolor", COLOURS["soft"]), ("labelsize", 11))
    },
    **{f"{side}tick.{kind}.size": 0 for side in "xy" for kind in ("major", "minor")},
    "text.parse_math": False,  # names of columns may hold dollars
    "svg.fonttype": "none",
    "svg.hashsalt": "tikhonet",
}


def short(value: float) -> str:
    """A number as people write it: three digits, a power of ten only where there must be one."""
    if not math.isfinite(value):
        return "n/a"
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        if abs(value) < 1:
            return f"{value:.3g}"
        text = f"{value:,.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    exponent = math.floor(math.log10(abs(value)))
    power = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    factor = f"{value / 10.0**exponent:.2g}"
    return f"10{power}" if factor == "1" else f"{factor}·10{power}"


def tip(artist: Any, words: str) -> None:
    """Words that the page shows where one points at a shape."""
    artist.set_gid(f"tip:{words}")


@dataclass(frozen=True, kw_only=True)
class Figure(ABC):
    """`draw` puts the figure on matplotlib's axes."""

    name: str
    title: str
    caption: str = ""

    @property
    def edges(self) -> tuple[float, float, float, float]:
        """Points around the axes: left, right, below, above."""
        return (46, 136, 40, 26)

    @property
    def height(self) -> float:
        """Points from top to bottom, the edges included."""
        return 380.0

    @abstractmethod
    def draw(self, ax: Any) -> None: ...

    def save(self, form: str) -> bytes:
        """The figure as png, pdf or svg. Equal figures give equal bytes."""
        matplotlib = require("matplotlib")
        left, right, below, above = self.edges
        height = self.height + (0 if form == "svg" else TITLE)
        dates = {"svg": dict.fromkeys(("Creator", "Date", "Format", "Type")), "pdf": {"CreationDate": None}}
        with matplotlib.rc_context(STYLE), io.BytesIO() as file, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph")  # letters that the browser has, though matplotlib does not
            sheet = require("matplotlib.figure").Figure(figsize=(WIDTH / 72, height / 72))
            across, up = (WIDTH - left - right) / WIDTH, (self.height - below - above) / height
            self.draw(sheet.add_axes((left / WIDTH, below / height, across, up)))
            if form != "svg":
                sheet.text(4 / WIDTH, 1 - 18 / height, self.title, weight="bold")
            sheet.savefig(file, format=form, dpi=200, metadata=dates.get(form), transparent=form == "svg")
            return file.getvalue()

    def svg(self) -> str:
        """The figure as a part of the page: its colours and letters are the page's, and its words are shown there."""
        text = self.save("svg").decode()
        text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", text[text.index("<svg") :], flags=re.DOTALL)
        text = re.sub(r'<g id="tip:([^"]*)">', r"<g><title>\1</title>", text)
        text = re.sub(r' id="[\w.]+_\d+"| font-family: [^;"]*;', "", text)
        for name, colour in COLOURS.items():
            text = text.replace(colour, f"var(--{name})")
        size = f'viewBox="0 0 {WIDTH} {self.height:g}" role="img" aria-label="{escape(self.title)}"'
        return re.sub(r"<svg[^>]*>", f"<svg {size}>", text, count=1)
