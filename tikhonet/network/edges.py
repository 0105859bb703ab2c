"""Sec. 2.1: the edges of a network, each a linear operator from one layer's values to another's pre-activations.

An edge knows its shapes and what every part of the library needs of an operator: its product, the product with its
transpose, what its W-step sees, a random start, and what it looks like in an exported model. The matrix W itself is a
variable and lives elsewhere. Rows of U, R and Z are samples. A new edge is a subclass; nothing asks which one it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from tikhonet.network.errors import ArgumentError
from tikhonet.network.registry import Registry


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


@dataclass(frozen=True)
class Edge(ABC):
    """A linear operator; a network joins it to a source of `inputs` and a target of `outputs` units."""

    inputs: int = field(default=0, kw_only=True)
    outputs: int = field(default=0, kw_only=True)

    name: ClassVar[str]
    learned: ClassVar[bool] = True
    """Whether it has a matrix W."""
    penalised: ClassVar[bool] = True
    """Whether sets, ridges and budgets act on W."""
    constant: ClassVar[bool] = False
    """Whether its source is the constant layer."""
    kinds: ClassVar[Registry[type[Edge]]] = Registry("edges")

    def __init_subclass__(cls) -> None:
        cls.kinds.add(cls.name, cls)

    def join(self, inputs: int, outputs: int) -> Self:
        """This edge between layers of these widths; raises where it cannot join them."""
        return replace(self, inputs=inputs, outputs=outputs)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """The rows and columns of W."""

    @property
    def fan_in(self) -> int:
        """How many inputs count for the size of random weights."""
        return self.shape[1]

    @abstractmethod
    def apply(self, U: Tensor, W: Tensor | None, out: Tensor | None = None) -> Tensor:
        """The operator's values at U, or `out` with them added in place."""

    @abstractmethod
    def adjoint(self, R: Tensor, W: Tensor | None, out: Tensor | None = None, alpha: float = 1.0) -> Tensor:
        """`alpha` times the transposed operator's values at R, or `out` with them added in place."""

    def product(self, R: Tensor, U: Tensor) -> Tensor:
        """The gradient in W of <R, apply(U, W)>."""
        return R.T @ self.gram_inputs(U)

    def gram_inputs(self, U: Tensor) -> Tensor:
        """The rows a of which W-step and Gram matrix are made: those with  apply(U, W) = a W'."""
        return U

    def random(self, generator: torch.Generator, deviation: float) -> Tensor:
        """A random start of W in float64, normal with this standard deviation."""
        return torch.randn(self.shape, generator=generator, dtype=torch.float64) * deviation

    @abstractmethod
    def feeds(self, W: Tensor | None) -> Tensor:
        """Whether each unit of the target gets anything through this edge; one number where all do."""

    @abstractmethod
    def onward(self, W: Tensor | None) -> Tensor:
        """The sum of squares of what multiplies each unit of the source; one number where all are equal."""

    @abstractmethod
    def select(self, W: Tensor | None, rows: Tensor, columns: Tensor) -> tuple[Edge, Tensor | None]:
        """The edge between these units of the target (rows) and of the source (columns) alone."""

    def export(self, W: Tensor | None) -> Constant | Source | Product:
        """The operation of an exported model here; any operator is a product with its matrix."""
        unit = torch.eye(self.inputs) if W is None else torch.eye(self.inputs, dtype=W.dtype, device=W.device)
        return Product(self.apply(unit, W).T)

    @abstractmethod
    def term(self, n: int, m: int) -> str:
        """The edge (n, m) in a formula."""


class Dense(Edge):
    """A full matrix:  z = W u."""

    name = "dense"

    @property
    def shape(self) -> tuple[int, int]:
        return self.outputs, self.inputs

    def apply(self, U: Tensor, W: Tensor | None, out: Tensor | None = None) -> Tensor:
        assert W is not None
        return U @ W.T if out is None else out.addmm_(U, W.T)

    def adjoint(self, R: Tensor, W: Tensor | None, out: Tensor | None = None, alpha: float = 1.0) -> Tensor:
        assert W is not None
        if out is None:
            return R @ W if alpha == 1 else R @ W * alpha
        return out.addmm_(R, W, alpha=alpha)

    def feeds(self, W: Tensor | None) -> Tensor:
        assert W is not None
        return (W != 0).any(1)

    def onward(self, W: Tensor | None) -> Tensor:
        assert W is not None
        return W.square().sum(0)

    def select(self, W: Tensor | None, rows: Tensor, columns: Tensor) -> tuple[Edge, Tensor | None]:
        assert W is not None
        return self.join(len(columns), len(rows)), W[rows][:, columns]

    def export(self, W: Tensor | None) -> Constant | Source | Product:
        assert W is not None
        return Product(W)

    def term(self, n: int, m: int) -> str:
        return f"W[{n},{m}] u{m}"


class Bias(Dense):
    """A vector added to all samples:  z = b, one column times the constant layer; it starts at zero, and is free."""

    name = "bias"
    penalised = False
    constant = True

    @property
    def fan_in(self) -> int:
        return 0

    def random(self, generator: torch.Generator, deviation: float) -> Tensor:
        # The numbers are drawn all the same, so that a seed gives the other edges the same weights with and without.
        return super().random(generator, 0.0)

    def export(self, W: Tensor | None) -> Constant | Source | Product:
        assert W is not None
        return Constant(W[:, 0])

    def term(self, n: int, m: int) -> str:
        return f"b{n}"


class Identity(Edge):
    """The source as it is, between layers of one width:  z = u."""

    name = "identity"
    learned = False
    penalised = False

    def join(self, inputs: int, outputs: int) -> Self:
        if inputs != outputs:
            raise ArgumentError(
                "edges",
                f"identity must join equal widths, got a target of {outputs} and a source of {inputs}; "
                "make it 'dense' or the widths equal",
            )
        return super().join(inputs, outputs)

    @property
    def shape(self) -> tuple[int, int]:
        return 0, 0

    def apply(self, U: Tensor, W: Tensor | None, out: Tensor | None = None) -> Tensor:
        return U.clone() if out is None else out.add_(U)

    def adjoint(self, R: Tensor, W: Tensor | None, out: Tensor | None = None, alpha: float = 1.0) -> Tensor:
        return R * alpha if out is None else out.add_(R, alpha=alpha)

    def feeds(self, W: Tensor | None) -> Tensor:
        return torch.tensor(True)

    def onward(self, W: Tensor | None) -> Tensor:
        return torch.tensor(1.0)

    def select(self, W: Tensor | None, rows: Tensor, columns: Tensor) -> tuple[Edge, Tensor | None]:
        if len(rows) == len(columns) == self.inputs:
            return self, None
        return Dense().join(len(columns), len(rows)), (rows[:, None] == columns).float()

    def export(self, W: Tensor | None) -> Constant | Source | Product:
        return Source()

    def term(self, n: int, m: int) -> str:
        return f"u{m}"


OLD_WORDS = {False: {"learned": "dense"}, True: {"learned": "bias", "dense": "bias"}}
"""Version 0.1's names for edges from a layer, and for those from the constant."""


def edge_named(kind: str | Edge, constant: bool) -> Edge:
    """An edge as it is, or the one of this name; `constant` says whether it comes from the constant layer."""
    edge = kind if isinstance(kind, Edge) else Edge.kinds[OLD_WORDS[constant].get(kind, kind)]()
    if edge.constant != constant:
        allowed = [name for name, known in Edge.kinds.items() if known.constant == constant]
        whence = "the constant layer BIAS" if constant else "a layer"
        raise ArgumentError("edges", f"an edge from {whence} must be one of {', '.join(allowed)}, got {edge.name!r}")
    return edge
