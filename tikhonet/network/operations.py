"""What an edge is in an exported model: a vector, its source, or a product with a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor, nn

from tikhonet.network.shapes import Shape


@dataclass(frozen=True, eq=False)
class Constant:
    """An exported edge that adds a vector:  z += values."""

    values: Tensor


@dataclass(frozen=True, eq=False)
class Source:
    """An exported edge that adds its source:  z += u."""


@dataclass(frozen=True, eq=False)
class Product:
    """An exported edge that adds a product:  z += matrix u."""

    matrix: Tensor


Operation = Constant | Source | Product


@dataclass(frozen=True, eq=False)
class Window:
    """An exported edge whose window moves over images, as formats with such operators see it; names are ONNX's."""

    operator: str
    attributes: dict[str, Any]
    filters: Tensor | None = None
    """The filters of a convolution; None for a mean, which each channel has by itself."""

    def sizes(self, source: Shape, target: Shape) -> tuple[int, ...]:
        """Height and width of source, target, kernel, stride, padding, dilation; channels of each in a group."""
        found, (channels, *high) = self.attributes, source
        ways = (found.get("kernel_shape", high), found.get("strides", (1, 1)), found.get("pads", (0, 0))[:2])
        groups = channels if self.filters is None else found.get("group", 1)
        both = (*ways, found.get("dilations", (1, 1)), (channels // groups, target[0] // groups))
        return tuple(size for pair in (high, target[1:] or (1, 1), *both) for size in pair)


def linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """`nn.Linear` with this weight and bias."""
    # On the meta device the layer draws no initial weights: neither time nor torch's random state is spent.
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    return placed(layer, weight, bias)


Weighted = TypeVar("Weighted", nn.Linear, nn.Conv2d)


def placed(layer: Weighted, weight: Tensor, bias: Tensor | None) -> Weighted:
    """The layer with copies of these parameters."""
    layer.weight = nn.Parameter(weight.detach().clone())
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach().clone())
    return layer
