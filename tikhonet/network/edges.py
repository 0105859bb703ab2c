"""Sec. 2.1: the edges of a network, each a linear operator from one layer's values to another's pre-activations.

An edge knows its shapes and what every part of the library needs of an operator: its product, the product with its
transpose, what its W-step sees, a random start, and what it looks like in an exported model. The matrix W itself is a
variable and lives elsewhere. Rows of U, R and Z are samples, each a layer's values in one line; an edge between layers
of images (`image_edges.py`) sees them in their shape, and may be given them so. A new edge is a subclass; nothing asks
which one it is.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from tikhonet.network.errors import ArgumentError
from tikhonet.network.operations import Operation, Product, Source, Window, linear
from tikhonet.network.registry import Named, Registry
from tikhonet.network.shapes import Shape, added, channels_of, shown_shape


@dataclass(frozen=True)
class Edge(Named, ABC):
    """A linear operator that brings the values of one layer into the pre-activations of another.

    A network joins an edge to its source and its target. The matrix W of a learned edge is a variable and lives
    elsewhere; the edge says how it is applied. A new edge is a subclass with `shape`, `apply`, `adjoint`, `feeds`,
    `onward`, `select` and `term`.

    Parameters
    ----------
    source : tuple of int, default=()
        The shape of the source layer; filled in by `join`.
    target : tuple of int, default=()
        The shape of the target layer; filled in by `join`.

    Attributes
    ----------
    name : str
        By which networks and files know the edge.
    learned : bool
        Whether it has a matrix W.
    penalised : bool
        Whether sets, ridges and budgets act on W.
    constant : bool
        Whether its source is the constant layer.
    by_image : bool
        Whether its module wants its source as images rather than in one line.
    takes_images : bool
        Whether layers of images may be given to its methods as images, too. What they make of these are images, if they
        make a layer of such; what they add to `out` takes its form.

    Examples
    --------
    >>> from tikhonet import Edge
    >>> {'avg_pool2d', 'bias', 'conv2d', 'dense', 'global_average', 'identity'} <= set(Edge.kinds)
    True
    """

    source: Shape = field(default=(), kw_only=True)
    target: Shape = field(default=(), kw_only=True)

    learned: ClassVar[bool] = True
    penalised: ClassVar[bool] = True
    constant: ClassVar[bool] = False
    by_image: ClassVar[bool] = False
    takes_images: ClassVar[bool] = False
    kinds: ClassVar[Registry[type[Edge]]] = Registry("edges")

    def join(self, source: int | Shape, target: int | Shape) -> Self:
        """This edge between layers of these shapes.

        Parameters
        ----------
        source : int or tuple of int
            The shape of the source layer; a number is a flat one.
        target : int or tuple of int
            The shape of the target layer.

        Returns
        -------
        Edge
            A copy that knows its ends.

        Raises
        ------
        ArgumentError
            Where the edge cannot join such layers.
        """
        ends = [(end,) if isinstance(end, int) else end for end in (source, target)]
        joined = replace(self, source=ends[0], target=ends[1])
        joined.check()
        return joined

    def check(self) -> None:
        """Raise unless the edge can join its source to its target."""

    def leads_to(self, source: Shape) -> Shape:
        """The shape of the layer that this edge makes of such a source, where the edge alone says it.

        Parameters
        ----------
        source : tuple of int
            The shape of the source layer.

        Returns
        -------
        tuple of int
            The shape of the target layer.
        """
        raise ArgumentError("edges", f"an edge {self.name!r} does not say how wide its layer is; give a number for it")

    @property
    def inputs(self) -> int:
        """The units of the source."""
        return math.prod(self.source)

    @property
    def outputs(self) -> int:
        """The units of the target."""
        return math.prod(self.target)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """The rows and columns of W."""

    @property
    def positions(self) -> int:
        """How many units of the target share each row of W: 1, or the positions of an image."""
        return 1

    @property
    def groups(self) -> int:
        """Into how many equal parts the rows of W fall that see different inputs."""
        return 1

    @property
    def fan_in(self) -> int:
        """How many inputs count for the size of random weights."""
        return self.shape[1]

    @abstractmethod
    def apply(self, U: Tensor, W: Tensor | None, out: Tensor | None = None) -> Tensor:
        """The operator's values at U.

        Parameters
        ----------
        U : Tensor
            Values of the source, samples x inputs.
        W : Tensor or None
            The matrix of a learned edge.
        out : Tensor, optional
            Pre-activations to which the values are added in place.

        Returns
        -------
        Tensor
            Samples x outputs; `out`, where it is given.
        """

    @abstractmethod
    def adjoint(self, R: Tensor, W: Tensor | None, out: Tensor | None = None, alpha: float = 1.0) -> Tensor:
        """The values of the transposed operator at R.

        Parameters
        ----------
        R : Tensor
            Values on the side of the target, samples x outputs.
        W : Tensor or None
            The matrix of a learned edge.
        out : Tensor, optional
            A tensor to which the values are added in place.
        alpha : float, default=1.0
            What the values are multiplied by.

        Returns
        -------
        Tensor
            Samples x inputs; `out`, where it is given.
        """

    def product(self, R: Tensor, U: Tensor) -> Tensor:
        """The gradient in W of ``<R, apply(U, W)>``.

        Parameters
        ----------
        R : Tensor
            Values on the side of the target, samples x outputs.
        U : Tensor
            Values of the source, samples x inputs.

        Returns
        -------
        Tensor
            Of the shape of W.
        """
        return R.flatten(1).T @ self.gram_inputs(U)

    def gram_inputs(self, U: Tensor) -> Tensor:
        """The rows a of which W-step and Gram matrix are made: those with ``apply(U, W) = a W'``.

        A sample has one for each position. Where W has groups, there is a matrix of such rows for each of them.

        Parameters
        ----------
        U : Tensor
            Values of the source, samples x inputs.

        Returns
        -------
        Tensor
            A row for each sample and position.
        """
        return U.flatten(1)

    def random(self, generator: torch.Generator, deviation: float) -> Tensor:
        """A random start of W in float64.

        Parameters
        ----------
        generator : torch.Generator
            Where random numbers come from.
        deviation : float
            The standard deviation of the normal distribution.

        Returns
        -------
        Tensor
            Of the shape of W.
        """
        return torch.randn(self.shape, generator=generator, dtype=torch.float64) * deviation

    @abstractmethod
    def feeds(self, W: Tensor | None) -> Tensor:
        """Whether each unit of the target gets anything through this edge.

        Parameters
        ----------
        W : Tensor or None
            The matrix of a learned edge.

        Returns
        -------
        Tensor
            A truth value for each unit, or one where all get something.
        """

    @abstractmethod
    def onward(self, W: Tensor | None) -> Tensor:
        """The sum of squares of what multiplies each unit of the source.

        Parameters
        ----------
        W : Tensor or None
            The matrix of a learned edge.

        Returns
        -------
        Tensor
            A number for each unit, or one where all are equal.
        """

    def multiplied(self, power: Tensor) -> Tensor:
        """The mean squares of what the entries of W multiply.

        Parameters
        ----------
        power : Tensor
            The mean squares of the source's units.

        Returns
        -------
        Tensor
            A number for each column of W, or a matrix of W's shape where rows differ.
        """
        return power

    @abstractmethod
    def select(self, W: Tensor | None, rows: Tensor, columns: Tensor) -> tuple[Edge, Tensor | None]:
        """The edge between some units of the target and some of the source alone.

        Parameters
        ----------
        W : Tensor or None
            The matrix of a learned edge.
        rows : Tensor
            The numbers of the units of the target.
        columns : Tensor
            The numbers of the units of the source.

        Returns
        -------
        edge : Edge
            The smaller edge.
        W : Tensor or None
            Its matrix.
        """

    def export(self, W: Tensor | None) -> Operation:
        """The operation of an exported model in place of this edge; any operator is a product with its matrix.

        Parameters
        ----------
        W : Tensor or None
            The matrix of a learned edge.

        Returns
        -------
        Operation
            A product, a constant, or the source as it is.
        """
        unit = torch.eye(self.inputs) if W is None else torch.eye(self.inputs, dtype=W.dtype, device=W.device)
        return Product(self.apply(unit, W).T)

    def window(self, W: Tensor | None) -> Window | None:
        """The operation of an edge between images, for formats that know such.

        Parameters
        ----------
        W : Tensor or None
            The matrix of a learned edge.

        Returns
        -------
        Window or None
            None for all edges but those of images.
        """
        return None

    def module(self, W: Tensor | None, bias: Tensor | None = None) -> nn.Module:
        """A module of torch with this operator's values, for inputs in the shape of the source.

        Parameters
        ----------
        W : Tensor or None
            The matrix of a learned edge.
        bias : Tensor, optional
            A bias to add.

        Returns
        -------
        nn.Module
            A layer of torch.
        """
        operation = self.export(W)
        return linear(operation.matrix, bias) if isinstance(operation, Product) else nn.Identity()

    @abstractmethod
    def term(self, n: int, m: int) -> str:
        """The edge in a formula.

        Parameters
        ----------
        n : int
            The target layer.
        m : int
            The source layer.

        Returns
        -------
        str
            Such as "W[2,1] u1".
        """


class Dense(Edge):
    """A full matrix: ``z = W u``. Images are read as one line, and the target is flat.

    Parameters
    ----------
    source : tuple of int, default=()
        The shape of the source layer; filled in by `join`.
    target : tuple of int, default=()
        The shape of the target layer; filled in by `join`.

    Examples
    --------
    >>> from tikhonet import Dense
    >>> Dense().join(3, 2).shape
    (2, 3)
    """

    name = "dense"
    takes_images = True

    def check(self) -> None:
        if len(self.target) > 1 and not self.constant:
            raise ArgumentError(
                "edges",
                f"{self.name} must lead to a flat layer, got one of shape {shown_shape(self.target)}; "
                f"make it {self.outputs} wide, or the edge a Conv2d",
            )

    @property
    def shape(self) -> tuple[int, int]:
        return self.outputs, self.inputs

    def apply(self, U: Tensor, W: Tensor | None, out: Tensor | None = None) -> Tensor:
        assert W is not None
        U = U.flatten(1)
        return U @ W.T if out is None else out.addmm_(U, W.T)

    def adjoint(self, R: Tensor, W: Tensor | None, out: Tensor | None = None, alpha: float = 1.0) -> Tensor:
        assert W is not None
        R = R.flatten(1)
        return added(R @ W, out, alpha) if out is None or out.ndim > 2 else out.addmm_(R, W, alpha=alpha)

    def feeds(self, W: Tensor | None) -> Tensor:
        assert W is not None
        return (W != 0).any(1)

    def onward(self, W: Tensor | None) -> Tensor:
        assert W is not None
        return W.square().sum(0)

    def select(self, W: Tensor | None, rows: Tensor, columns: Tensor) -> tuple[Edge, Tensor | None]:
        assert W is not None
        return self.join(len(columns), len(rows)), W[rows][:, columns]

    def export(self, W: Tensor | None) -> Operation:
        assert W is not None
        return Product(W)

    def term(self, n: int, m: int) -> str:
        return f"W[{n},{m}] u{m}"


class Fixed(Edge):
    """An operator without weights that feeds every unit of its target."""

    learned = False
    penalised = False

    @property
    def shape(self) -> tuple[int, int]:
        return 0, 0

    def feeds(self, W: Tensor | None) -> Tensor:
        return torch.tensor(True)


class Identity(Fixed):
    """The source as it is, between layers of one shape: ``z = u``.

    Parameters
    ----------
    source : tuple of int, default=()
        The shape of the source layer; filled in by `join`.
    target : tuple of int, default=()
        The shape of the target layer; filled in by `join`.

    Examples
    --------
    >>> from tikhonet import Network
    >>> Network([3, 3, 3], {(1, 0): "dense", (2, 1): "dense", (2, 0): "identity"})
    Network(3 -> 3 -> 3)
      u1 = relu(W[1,0] u0)
      u2 = relu(W[2,1] u1 + u0)
      18 weights in 2 learned edges
    """

    name = "identity"
    takes_images = True

    def check(self) -> None:
        if self.source != self.target:
            ends = [shown_shape(end) for end in (self.target, self.source)]
            raise ArgumentError(
                "edges",
                f"identity must join equal widths, got a target of {ends[0]} and a source of {ends[1]}; "
                "make it 'dense' or the widths equal",
            )

    def apply(self, U: Tensor, W: Tensor | None, out: Tensor | None = None) -> Tensor:
        return U.clone() if out is None else added(U, out)

    def adjoint(self, R: Tensor, W: Tensor | None, out: Tensor | None = None, alpha: float = 1.0) -> Tensor:
        return R * alpha if out is None else added(R, out, alpha)

    def onward(self, W: Tensor | None) -> Tensor:
        return torch.tensor(1.0)

    def select(self, W: Tensor | None, rows: Tensor, columns: Tensor) -> tuple[Edge, Tensor | None]:
        if torch.equal(rows, columns):
            kept = (len(channels_of(rows, self.target)), *self.target[1:])
            return self.join(kept, kept), None
        return picking(self, rows, columns)

    def export(self, W: Tensor | None) -> Operation:
        return Source()

    def term(self, n: int, m: int) -> str:
        return f"u{m}"


def picking(edge: Edge, rows: Tensor, columns: Tensor, **window: Any) -> tuple[Edge, Tensor]:
    """A learned edge that takes each channel of the target (rows) from the same one of the source (columns), if kept.

    A `window` makes it the mean under the kernel.
    """
    same = (channels_of(rows, edge.target)[:, None] == channels_of(columns, edge.source)).float()
    if len(edge.target) == 1:
        pixels = math.prod(edge.source[1:])
        return Dense().join(len(columns), len(rows)), same.repeat_interleave(pixels, 1) / pixels
    places = math.prod(window.get("kernel", ()))
    shapes = (same.shape[1], *edge.source[1:]), (same.shape[0], *edge.target[1:])
    convolution: Any = Edge.kinds["conv2d"]
    return convolution(len(same), **{"kernel": 1} | window).join(*shapes), same.repeat_interleave(places, 1) / places


OLD_WORDS = {False: {"learned": "dense"}, True: {"learned": "bias", "dense": "bias"}}
"""Version 0.1's names for edges from a layer, and for those from the constant."""


def edge_named(kind: str | Edge, constant: bool) -> Edge:
    """An edge as it is, or the one of this name; `constant` says whether it comes from the constant layer."""
    try:
        edge = kind if isinstance(kind, Edge) else Edge.kinds[OLD_WORDS[constant].get(kind, kind)]()
    except TypeError:
        raise ArgumentError("edges", f"{kind!r} has parameters; pass an edge such as Conv2d(16, 3)") from None
    if edge.constant != constant:
        allowed = [name for name, known in Edge.kinds.items() if known.constant == constant]
        whence = "the constant layer BIAS" if constant else "a layer"
        raise ArgumentError("edges", f"an edge from {whence} must be one of {', '.join(allowed)}, got {edge.name!r}")
    return edge
