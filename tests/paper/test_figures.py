"""A figure is laid out once; page, PNG and PDF show the same drawing. A new kind of figure is one class."""

import json
import math
import re
from dataclasses import dataclass

import numpy as np
import pytest

from tikhonet.paper.canvas import WIDTH, Drawing
from tikhonet.paper.figures import Axis, Bars, Confusion, Dots, Figure, Line, Lines, Point, Values

ROWS = [Values("A", "Method A", "printed", [1.0, 3.0]), Values("B", "Method <B>", "sgd", [2.0, 2.0], hollow=True)]
POINTS = [Point(x, y, y - 0.1, y + 0.1, f"at {x}") for x, y in ((1, 0.5), (2, math.nan), (4, 0.7))]


@dataclass(frozen=True, kw_only=True)
class Steps(Figure):
    """A figure from outside: heights as steps."""

    heights: list[float]

    def draw(self):
        drawing = Drawing(self.title, 60)
        width = WIDTH / len(self.heights)
        for k, height in enumerate(self.heights):
            drawing.box("bar", k * width, 60 - height, width, height, "stochastic")
            drawing.mark([((k * width, 60 - height), f"step {k}: {height}")])
        return drawing


FIGURES = {
    "lines": Lines(name="l", title="Lines", x=Axis("x"), y=Axis("y"), lines=[Line("a", "sgd", POINTS)]),
    "dots": Dots(name="d", title="Dots", x=Axis("x"), rows=ROWS, references=[("here", 2.5)]),
    "bars": Bars(name="b", title="Bars", columns=["one", "two"], rows=ROWS, what="full"),
    "confusion": Confusion(name="c", title="Confusion", counts=np.array([[5, 1], [0, 4]]), labels=["no", "yes"]),
    "steps": Steps(name="s", title="Steps", heights=[10.0, 40.0, 25.0]),
}


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_every_shape_is_drawn_for_the_page_and_by_matplotlib(figure, tmp_path):
    drawing = figure.draw()
    assert len(drawing.parts) == len(drawing.plots) > 0
    png, pdf = drawing.save(tmp_path, figure.name)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert drawing.svg().count("<script") == 1


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_marks_lie_on_the_paper_and_keep_their_words(figure):
    drawing = figure.draw()
    text = re.search(r"<script[^>]*>(.*)</script>", drawing.svg(), re.DOTALL)[1]
    assert "<" not in text
    assert json.loads(text) == [[list(mark) for mark in series] for series in drawing.marks]
    for x, y, words in (mark for series in drawing.marks for mark in series):
        assert 0 <= x <= WIDTH
        assert 0 <= y <= drawing.height
        assert words


def test_values_that_are_not_finite_are_left_out_of_a_line():
    (series,) = FIGURES["lines"].draw().marks
    assert [words for _, _, words in series] == ["at 1", "at 4"]


def test_words_are_escaped():
    named = Values("<b>", "<b>", "sgd", [1.0])
    assert "<b>" not in Dots(name="d", title="<b>", x=Axis("<b>"), rows=[named]).draw().svg()
