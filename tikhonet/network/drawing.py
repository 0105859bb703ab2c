"""Fig. 1 and Fig. 2: a picture of a network's graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tikhonet.network.connections import Pair
from tikhonet.network.edges import Edge
from tikhonet.network.extras import require
from tikhonet.network.shapes import Shape, shown_shape

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_network(order: Sequence[int], shapes: Sequence[Shape], edges: Mapping[Pair, Edge], ax: Axes | None) -> Axes:
    """Layers from left to right in the order of computation; skips arch over what they skip."""
    place = {layer: position for position, layer in enumerate(order)}
    if ax is None:
        axes: Axes = require("matplotlib.pyplot").subplots(figsize=(1.7 * len(order) + 1.2, 3.2))[1]
        ax = axes
    for (n, m), edge in edges.items():
        if edge.constant:
            ax.annotate("+ b", (place[n], -0.42), ha="center", va="center", fontsize=9)
            continue
        learned = edge.learned
        span = place[n] - place[m]
        ax.annotate(
            "",
            xy=(place[n], 0),
            xytext=(place[m], 0),
            arrowprops={
                "arrowstyle": "-|>",
                "color": "tab:blue" if learned else "0.45",
                "linestyle": "-" if learned else "--",
                "connectionstyle": f"arc3,rad={0 if span == 1 else -0.38}",
                "shrinkA": 22,
                "shrinkB": 22,
            },
        )
        label = f"W[{n},{m}]" if learned else edge.name[:2]
        # arc3 puts its control point rad * length from the chord, and the curve reaches half of that
        # (in units of the screen: hence the equal aspect below). The label sits on its own arrow.
        height = 0 if span == 1 else 0.19 * span
        patch = {"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none"}
        ax.text((place[n] + place[m]) / 2, height, label, ha="center", va="center", fontsize=8, bbox=patch)
    for layer, x in place.items():
        text = f"{f'$u_{{{layer}}}$' if layer else '$x$'}\n{shown_shape(shapes[layer])}"
        box = {"boxstyle": "round,pad=0.45", "facecolor": "white", "edgecolor": "black"}
        ax.text(x, 0, text, ha="center", va="center", fontsize=10, bbox=box)
    reach = max((place[n] - place[m] for (n, m), edge in edges.items() if not edge.constant), default=1)
    ax.set_xlim(-0.5, len(order) - 0.5)
    ax.set_ylim(-0.6, max(0.6, 0.19 * reach + 0.4))
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax
