"""What a pass over a module's calls makes of them: sums of edges, layers, and at last a network with its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from tikhonet.network.edges import Edge
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Network, Pair, Weights
from tikhonet.network.shapes import Shape

KNOWN = (
    "known are Linear, Conv2d, ReLU(6), Hardtanh(0, c), AvgPool2d, AdaptiveAvgPool2d, Flatten, Dropout and additions"
)


@dataclass(frozen=True)
class Term:
    """An edge from layer m that is added to a sum, and the module whose parameters it has."""

    m: int
    edge: Edge
    owner: str = ""


@dataclass(frozen=True)
class Sum:
    """A sum of edges that no activation has been applied to yet."""

    terms: tuple[Term, ...]
    shape: Shape


@dataclass(frozen=True)
class Layer:
    """The values of layer n, in their shape or flat."""

    n: int
    shape: Shape


Value = Sum | Layer
HEAD = (0, 0)
"""Where the classifier stands among the edges."""


class Found(NamedTuple):
    """What a module says: a network, its weights, the last Linear, and the submodules that have each of them."""

    network: Network
    W: Weights
    V: Tensor
    intercept: Tensor
    owners: dict[Pair, tuple[str, ...]]


def refuse(message: str) -> ArgumentError:
    return ArgumentError("module", message)
