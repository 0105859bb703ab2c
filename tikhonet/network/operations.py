"""What an edge is in an exported model: a vector, its source, or a product with a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor, nn


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


def as_module(operation: Operation, bias: Tensor | None = None) -> nn.Module:
    """A module of torch for a product, with a bias perhaps, or for the source as it is."""
    return linear(operation.matrix, bias) if isinstance(operation, Product) else nn.Identity()


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
