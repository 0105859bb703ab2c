"""Fig. 1 and Fig. 2: what is on a network's picture."""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import pytest
from hypothesis import given, settings
from matplotlib.path import Path
from matplotlib.text import Annotation

from tests.strategies import networks
from tikhonet import BIAS, Network


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def arrows(ax):
    """The arrows as (place of the target, place of the source), with their patches."""
    found = [text for text in ax.texts if isinstance(text, Annotation) and text.arrow_patch is not None]
    return {(round(arrow.xy[0]), round(arrow.xyann[0])): arrow.arrow_patch for arrow in found}


def boxes(ax):
    return [text for text in ax.texts if text.get_bbox_patch() is not None and text.get_text().startswith("$")]


@settings(max_examples=10)
@given(networks())
def test_a_drawing_has_one_box_a_layer_and_one_arrow_an_edge(network):
    _, ax = plt.subplots()
    network.draw(ax)
    # These networks are numbered in the order of computation, so a layer's place is its number.
    assert [round(box.get_position()[0]) for box in boxes(ax)] == list(range(network.depth + 1))
    assert [box.get_text().split("\n")[1] for box in boxes(ax)] == [str(width) for width in network.widths]
    assert set(arrows(ax)) == {edge for edge in network.edges if edge[1] != BIAS}
    biased = sorted(text.get_position()[0] for text in ax.texts if text.get_text() == "+ b")
    assert biased == list(network.targets(BIAS))
    plt.close(ax.figure)


def test_layers_stand_in_the_order_of_computation():
    ax = Network([2] * 4, {(2, 0): "learned", (1, 2): "learned", (3, 1): "learned"}).draw()
    names = [box.get_text().split("\n")[0] for box in sorted(boxes(ax), key=lambda box: box.get_position()[0])]
    assert names == ["$x$", "$u_{2}$", "$u_{1}$", "$u_{3}$"]


def test_learned_edges_are_solid_and_identities_dashed():
    network = Network.paper(3)
    styles = {edge: patch.get_linestyle() for edge, patch in arrows(network.draw()).items()}
    assert styles == {pair: "-" if edge.learned else "--" for pair, edge in network.edges.items()}


def test_every_edge_is_labelled():
    texts = [text.get_text() for text in Network.paper(3).draw().texts]
    assert {"W[1,0]", "W[2,1]", "W[3,2]"} <= set(texts)
    assert texts.count("id") == 3


def test_a_drawing_goes_on_the_given_axes_and_makes_no_figure():
    _, (left, right) = plt.subplots(1, 2)
    assert Network.paper(3).draw(right) is right
    assert not left.texts
    assert len(plt.get_fignums()) == 1


def test_a_drawing_without_axes_makes_one_figure():
    ax = Network.paper(3).draw()
    assert plt.get_fignums() == [ax.figure.number]


@pytest.mark.parametrize(
    "network",
    [
        Network.paper(),
        Network.chain([64, 32, 16], bias=True),
        Network(
            [4] * 5, {(1, 0): "learned", (2, 1): "learned", (3, 2): "learned", (4, 3): "learned", (4, 0): "identity"}
        ),
    ],
    ids=["paper", "chain", "long skip"],
)
def test_no_label_is_crossed_by_the_arrow_of_another_edge_or_by_another_label(network):
    ax = network.draw()
    ax.figure.canvas.draw()
    labels = [text for text in ax.texts if text.get_text() and text not in boxes(ax)]
    for label in labels:
        extent = label.get_window_extent()
        for (n, m), arrow in arrows(ax).items():
            own = label.get_position()[0] == (n + m) / 2
            lines = [Path(line) for line in arrow.get_path().to_polygons(closed_only=False)]
            crossed = any(line.intersects_bbox(extent, filled=False) for line in lines)
            assert own or not crossed, f"{label} and edge {n, m}"
        for other in (*labels, *boxes(ax)):
            assert other is label or not extent.overlaps(other.get_window_extent()), f"{label} and {other}"
