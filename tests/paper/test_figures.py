"""A figure is drawn once; page, PNG and PDF show the same drawing. A new kind of figure is one class."""

import math
import re
from dataclasses import dataclass
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tikhonet.paper.figures import Axis, Bars, Dots, Line, Lines, Point, Values, spread
from tikhonet.paper.prediction_figures import Cloud, Confusion
from tikhonet.paper.sheets import COLOURS, Figure, short, tip

ROWS = [Values("A", "Method A", "printed", [1.0, 3.0]), Values("B", "Method <B>", "sgd", [2.0, 2.0], hollow=True)]
POINTS = [Point(x, y, y - 0.1, y + 0.1, f"at {x}") for x, y in ((1, 0.5), (2, math.nan), (4, 0.7))]
LINES = [Line("a", "sgd", POINTS)]
LONE = Line("b", "printed", POINTS[:1], lone=True, cross=True)


@dataclass(frozen=True, kw_only=True)
class Steps(Figure):
    """A figure from outside: heights as steps."""

    heights: list[float]

    def draw(self, ax):
        for k, height in enumerate(self.heights):
            (bar,) = ax.bar(k, height, color=COLOURS["stochastic"])
            tip(bar, f"step {k}: {height}")


FIGURES = {
    "lines": Lines(name="l", title="Lines", x=Axis("x"), y=Axis("y"), lines=LINES),
    "log": Lines(name="g", title="Log", x=Axis("x", log=True), y=Axis("y", log=True), lines=[LONE], dots=True),
    "key": Lines(name="k", title="Key", x=Axis("x", whole=True), y=Axis("y"), lines=LINES, key=True),
    "dots": Dots(name="d", title="Dots", x=Axis("x"), rows=ROWS, references=[("here", 2.5)]),
    "bars": Bars(name="b", title="Bars", columns=["one", "two"], rows=ROWS, what="full"),
    "confusion": Confusion(name="c", title="Confusion", counts=np.array([[5, 1], [0, 4]]), labels=["no", "yes"]),
    "cloud": Cloud(name="r", title="Cloud", x=Axis("x"), y=Axis("y"), dots=[(1, 2), (3, 5)], line=[(0, 0), (3, 3)]),
    "steps": Steps(name="s", title="Steps", heights=[10.0, 40.0, 25.0]),
}


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_every_figure_is_drawn_for_the_page_and_as_files(figure):
    assert figure.save("png").startswith(b"\x89PNG")
    assert figure.save("pdf").startswith(b"%PDF")
    text = figure.svg()
    tree = ElementTree.fromstring(text.replace("xlink:href", "href"))
    assert tree.attrib["aria-label"] == figure.title
    assert tree.findall(".//title")
    assert text == figure.svg()


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_colours_and_letters_are_the_pages(figure):
    text = figure.svg()
    assert "var(--" in text
    assert not re.search(r"#[0-9a-f]{6}", text)
    assert "DejaVu" not in text
    assert "<style" not in text


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_no_shape_has_a_name_that_another_figure_may_have(figure):
    named = set(re.findall(r'\sid="([^"]*)"', figure.svg()))
    assert named <= set(re.findall(r'(?:href="#|url\(#)([^")]*)', figure.svg()))


def test_values_that_are_not_finite_are_left_out_of_a_line():
    assert re.findall("<title>(.*?)</title>", FIGURES["lines"].svg()) == ["at 1", "at 4"]


def test_words_are_escaped_and_are_not_formulas():
    named = Values("<b>$x_{身", '<b>"', "sgd", [1.0])
    assert "<b>" not in Dots(name="d", title="<b>", x=Axis("<b>"), rows=[named]).svg()


@pytest.mark.parametrize("values", [[0.5], [3.0, math.nan], [1e-9, 1e9], [7.0, 7.0]])
@pytest.mark.parametrize("axis", [Axis("y"), Axis("y", log=True)])
def test_every_line_has_axes_that_hold_its_values(values, axis):
    points = [Point(k, value, value, value, "here") for k, value in enumerate(values, 1)]
    line = Lines(name="l", title="L", x=Axis("pass", whole=True), y=axis, lines=[Line("a", "sgd", points)])
    assert line.svg().count("<title>") == sum(map(math.isfinite, values))


@pytest.mark.parametrize("log", [False, True])
def test_a_figure_of_nothing_can_be_drawn(log):
    diverged = [Line("a", "sgd", [Point(1, math.nan, math.nan, math.nan, "here")])]
    for lines in ([], diverged):
        assert Lines(name="l", title="L", x=Axis("x", whole=True), y=Axis("y", log=log), lines=lines).svg()
    assert Dots(name="d", title="D", x=Axis("x", log=log), rows=[], references=[("here", 2.5)]).svg()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_labels_keep_their_order_and_their_distance(wanted):
    placed = spread(wanted, 0.05)
    order = sorted(range(len(wanted)), key=lambda k: wanted[k])
    assert all(placed[b] - placed[a] >= 0.05 - 1e-6 for a, b in pairwise(order))
    assert all(-1e-6 <= place <= 1 + 1e-6 for place in placed)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (4.0, "4"), (3.456, "3.46"), (12.34, "12.3"), (1234.5, "1,234"), (0.0201, "0.0201"), (1e-4, "10⁻⁴")],
)
def test_numbers_read_well(value, text):
    assert short(value) == text
    assert short(math.nan) == "n/a"
