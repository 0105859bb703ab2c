"""What an edge is in an exported model: a vector, its source, or a product with a matrix."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


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
