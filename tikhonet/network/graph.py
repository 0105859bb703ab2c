"""Sec. 2.1: multi-input networks and their forward pass (Eq. 1).

An edge (`edges.py`) is a learned matrix `W[n, m]`, the identity, or a bias, which comes from the constant layer `BIAS`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

import tikhonet.network.bias
import tikhonet.network.convolution  # noqa: F401 (edges are known by name)
from tikhonet.network.activation import Activation
from tikhonet.network.arguments import COUNT, check_type, shown
from tikhonet.network.connections import BIAS as BIAS
from tikhonet.network.connections import Pair as Pair
from tikhonet.network.connections import computing_order, group
from tikhonet.network.designs import Design, stacked
from tikhonet.network.drawing import draw_network
from tikhonet.network.edges import Dense, Edge, edge_named
from tikhonet.network.errors import ArgumentError
from tikhonet.network.shapes import Shape, as_images, checked_shape, checked_shapes, shown_shape

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = Tensor | np.ndarray
Layers = dict[int, Tensor]
Weights = dict[Pair, Tensor]


def tensor(array: Array, name: str = "array") -> Tensor:
    """A tensor as it is, a NumPy array as a copy, since torch warns of arrays that may not be written to."""
    if isinstance(array, Tensor):
        return array
    try:
        return torch.tensor(array)
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError(name, f"{name} must be an array of numbers, got {shown(array)}") from None


class Network:
    """An acyclic network, each layer the activation of a sum over several earlier layers.

        ``u_n = sigma(sum over m of W_{n,m} u_m)``

    Layer 0 is the input and layer N, the last, gives the features. An edge `(n, m)` brings layer m into layer n.

    Parameters
    ----------
    widths : sequence of int or (channels, height, width)
        The widths d_0..d_N of the input and of the hidden layers, or the shapes of their images.
    edges : mapping of (n, m) to str or Edge
        What brings layer m into layer n: "dense" (a learned matrix), "identity", or an `Edge` such as `Conv2d(16, 3)`.
    bias : bool or iterable of int, default=False
        True for all hidden layers, or the layers that have one.
    activation : str or Activation, default="relu"
        The activation of the hidden layers.

    Attributes
    ----------
    widths : tuple of int
        The units of every layer.
    shapes : tuple of tuple of int
        The shapes of every layer.
    edges : dict
        Every edge by its pair `(n, m)`, biases too, whose m is `BIAS`.
    learned : tuple of (n, m)
        The edges that have weights.
    penalised : tuple of (n, m)
        The edges whose weights count for sets, ridges and budgets: the learned ones but the biases.
    hidden : tuple of int
        The hidden layers in an order in which they can be computed.

    Examples
    --------
    >>> from tikhonet import Network
    >>> network = Network([4, 8, 8], {(1, 0): "dense", (2, 1): "dense", (2, 0): "dense"}, bias=True)
    >>> network
    Network(4 -> 8 -> 8)
      u1 = relu(W[1,0] u0 + b1)
      u2 = relu(W[2,1] u1 + W[2,0] u0 + b2)
      144 weights in 5 learned edges
    """

    def __init__(
        self,
        widths: Sequence[int | Shape],
        edges: Mapping[Pair, str | Edge],
        bias: bool | Iterable[int] = False,
        activation: str | Activation = "relu",
    ) -> None:
        check_type("edges", edges, Mapping, remedy='such as {(1, 0): "dense"}; Network.chain needs none')
        self.shapes = checked_shapes(widths)
        self.widths = tuple(map(math.prod, self.shapes))
        self.activation = Activation.named(activation)
        biased = range(1, self.depth + 1) if bias is True else () if bias is False else bias
        check_type("bias", biased, Iterable, remedy="True, or the layers that have a bias")
        everything: dict[Pair, str | Edge] = {(n, BIAS): "bias" for n in biased}
        everything |= edges
        for pair in everything:
            if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(layer, Integral) for layer in pair)):
                raise ArgumentError("edges", f"edges and bias must name layers by their numbers, got {shown(pair)}")
        self.edges = {pair: self._joined(pair, everything[pair]) for pair in sorted(everything)}
        self.learned = tuple(pair for pair, edge in self.edges.items() if edge.learned)
        self.penalised = tuple(pair for pair in self.learned if self.edges[pair].penalised)
        self._sources = group(self.edges)
        self._learned_sources = group(self.learned)
        self._fixed_sources = group(pair for pair, edge in self.edges.items() if not edge.learned)
        self._targets = group((m, n) for n, m in self.edges)
        self.hidden = computing_order(self.depth, {n: self.sources(n) for n in range(1, self.depth + 1)})

    @classmethod
    def chain(
        cls, widths: Sequence[int], bias: bool | Iterable[int] = False, activation: str | Activation = "relu"
    ) -> Network:
        """A plain sequence of fully connected layers.

        Parameters
        ----------
        widths : sequence of int
            The widths of the input and of the hidden layers.
        bias : bool or iterable of int, default=False
            True for all hidden layers, or the layers that have one.
        activation : str or Activation, default="relu"
            The activation of the hidden layers.

        Returns
        -------
        Network
            With a dense edge from every layer to the next.
        """
        check_type("widths", widths, Sequence, np.ndarray, Tensor, remedy="such as [784, 100]")
        return cls(widths, {(n, n - 1): "dense" for n in range(1, len(widths))}, bias, activation)

    @classmethod
    def sequential(
        cls,
        inputs: int | Shape,
        *layers: int | Edge,
        bias: bool = True,
        activation: str | Activation = "relu",
    ) -> Network:
        """Layers one after the other.

        Parameters
        ----------
        inputs : int or (channels, height, width)
            The width of the input, or the shape of its images.
        *layers : int or Edge
            For each layer an edge such as `Conv2d(16, 3)`, or the width of a dense one.
        bias : bool, default=True
            Whether the layers that learn something have a bias.
        activation : str or Activation, default="relu"
            The activation of the hidden layers.

        Returns
        -------
        Network
            With an edge from every layer to the next.
        """
        shapes, edges = [checked_shape(0, inputs)], {}
        for n, layer in enumerate(layers, 1):
            if isinstance(layer, Edge):
                shapes.append(layer.leads_to(shapes[-1]))
            else:
                shapes.append(checked_shape(n, layer))
            edges[n, n - 1] = layer if isinstance(layer, Edge) else Dense()
        learned = [n for (n, _), edge in edges.items() if edge.learned] if bias else []
        return cls(shapes, edges, learned, activation)

    @classmethod
    def paper(cls, width: int = 784) -> Network:
        """The network of Sec. 3.3.1: three learned matrices and three skips, all of one width.

        Parameters
        ----------
        width : int, default=784
            The width of every layer.

        Returns
        -------
        Network
            Of three hidden layers.
        """
        COUNT.check("width", width)
        dense = {(n, n - 1): "dense" for n in (1, 2, 3)}
        return cls([width] * 4, dense | {(2, 0): "identity", (3, 0): "identity", (3, 1): "identity"})

    def with_activation(self, activation: Activation) -> Network:
        """The network with another activation.

        Parameters
        ----------
        activation : Activation
            That of all hidden layers.

        Returns
        -------
        Network
            With the same edges.
        """
        return self if activation == self.activation else Network(self.shapes, self.edges, activation=activation)

    @property
    def depth(self) -> int:
        """N, the number of hidden layers and the name of the last one."""
        return len(self.widths) - 1

    @property
    def has_images(self) -> bool:
        """Whether any layer is one of images."""
        return any(len(shape) > 1 for shape in self.shapes)

    def width(self, layer: int) -> int:
        """The units of a layer; 1 for the constant layer.

        Parameters
        ----------
        layer : int
            Its number, or `BIAS`.

        Returns
        -------
        int
            Its width.
        """
        return 1 if layer == BIAS else self.widths[layer]

    def sources(self, n: int) -> tuple[int, ...]:
        """M_n: the layers that feed layer n, with `BIAS` first where it has one.

        Parameters
        ----------
        n : int
            A hidden layer.

        Returns
        -------
        tuple of int
            Numbers of layers.
        """
        return self._sources.get(n, ())

    def learned_sources(self, n: int) -> tuple[int, ...]:
        """The layers that feed layer n by an edge with weights.

        Parameters
        ----------
        n : int
            A hidden layer.

        Returns
        -------
        tuple of int
            Numbers of layers.
        """
        return self._learned_sources.get(n, ())

    def fixed_sources(self, n: int) -> tuple[int, ...]:
        """The layers that feed layer n by an edge without weights.

        Parameters
        ----------
        n : int
            A hidden layer.

        Returns
        -------
        tuple of int
            Numbers of layers.
        """
        return self._fixed_sources.get(n, ())

    def targets(self, m: int) -> tuple[int, ...]:
        """The layers that layer m feeds.

        Parameters
        ----------
        m : int
            A layer, or `BIAS`.

        Returns
        -------
        tuple of int
            Numbers of layers.
        """
        return self._targets.get(m, ())

    def shape(self, pair: Pair) -> tuple[int, int]:
        """The rows and columns of the matrix of an edge.

        Parameters
        ----------
        pair : (int, int)
            The edge `(n, m)`.

        Returns
        -------
        tuple of int
            Rows and columns.
        """
        return self.edges[pair].shape

    def rows(self, X: Any) -> Any:
        """Images in their shape, of any array type, as a row for each; rows, and what is no array, as they are.

        Parameters
        ----------
        X : array
            Images, or rows.

        Returns
        -------
        array
            Of the type of X.
        """
        shape = tuple(getattr(X, "shape", ()))
        if len(shape) <= 2:
            return X
        if shape[1:] != self.shapes[0]:
            images = f"images {shown_shape(self.shapes[0])}, or " if len(self.shapes[0]) > 1 else ""
            raise ArgumentError("X", f"X must hold {images}rows of {self.widths[0]} numbers, got the shape {shape}")
        return X.reshape(len(X), -1)

    def seen(self, X: Tensor) -> Tensor:
        """Rows in the form in which the layers of a forward pass are computed fastest.

        Parameters
        ----------
        X : Tensor
            Samples x inputs.

        Returns
        -------
        Tensor
            Images in torch's order "channels_last", if the input is a layer of images and all edges take them; else
            the rows.
        """
        fit = len(self.shapes[0]) > 1 and all(edge.takes_images for edge in self.edges.values())
        return as_images(X, self.shapes[0]) if fit else X

    def layers(self, X: Tensor) -> Layers:
        """The layers that are given: the input and, if any layer has a bias, the constant.

        Parameters
        ----------
        X : Tensor
            Samples x inputs.

        Returns
        -------
        dict of int to Tensor
            The layers by their numbers.
        """
        given = {0: X}
        if self.targets(BIAS):
            given[BIAS] = X.new_ones(len(X), 1)
        return given

    def pre_activation(
        self, n: int, U: Mapping[int, Tensor], W: Weights, sources: Iterable[int] | None = None
    ) -> Tensor:
        """Z[n], the sum over m of ``U[m] W[n, m]'``.

        Parameters
        ----------
        n : int
            A hidden layer.
        U : mapping of int to Tensor
            The layers that feed it.
        W : dict of (n, m) to Tensor
            The matrices.
        sources : iterable of int, optional
            The layers that the sum goes over; all of M_n where it is None.

        Returns
        -------
        Tensor
            Samples x width of layer n.
        """
        Z: Tensor | None = None
        order = list(self.sources(n) if sources is None else sources)
        if self.widths[n] > self.shapes[n][0]:
            order.reverse()  # the bias last, which adds a number to each channel of an image that is there already
        for m in order:
            Z = self.edges[n, m].apply(U[m], W.get((n, m)), out=Z)
            if Z.ndim < U[0].ndim and len(self.shapes[n]) > 1:
                Z = as_images(Z, self.shapes[n])
        return U[0].new_zeros(len(U[0]), self.widths[n]) if Z is None else Z

    def forward(self, X: Tensor, W: Weights) -> Layers:
        """Eq. 1: all layers of the network proper, each U[n] the activation of its Z[n].

        Parameters
        ----------
        X : Tensor
            Samples x inputs, in the type of the weights.
        W : dict of (n, m) to Tensor
            The matrices of the learned edges.

        Returns
        -------
        dict of int to Tensor
            Every layer by its number.
        """
        self.check_rows(X, W)
        return self.values(X, W)

    def values(self, X: Tensor, W: Weights) -> Layers:
        """All layers, of checked inputs as rows or as images.

        Parameters
        ----------
        X : Tensor
            Rows, or what `seen` makes of them; layers of images then come as images as well.
        W : dict of (n, m) to Tensor
            The matrices of the learned edges.

        Returns
        -------
        dict of int to Tensor
            Every layer by its number.
        """
        U = self.layers(X)
        for n in self.hidden:
            U[n] = self.activation.value_(self.pre_activation(n, U, W))
        return U

    def check_rows(self, X: Tensor, W: Weights) -> None:
        """Raise unless these are rows and weights for this network.

        Parameters
        ----------
        X : Tensor
            Samples x inputs.
        W : dict of (n, m) to Tensor
            The matrices.
        """
        self.check_weights(W)
        if X.ndim != 2 or X.shape[1] != self.widths[0]:
            raise ValueError(f"X must have shape (samples, {self.widths[0]}) for this network, got {tuple(X.shape)}")
        like = next(iter(W.values()), X)
        if X.dtype != like.dtype:
            raise ValueError(f"X must have the type of the weights, {like.dtype}, got {X.dtype}; use X.to(W[1, 0])")

    def design(self, n: int, U: Mapping[int, Tensor]) -> Design:
        """What the learned matrices of layer n side by side see of these layers.

        Parameters
        ----------
        n : int
            A hidden layer.
        U : mapping of int to Tensor
            The layers that feed it.

        Returns
        -------
        Design
            The rows of inputs, with their products and Gram matrices.
        """
        return stacked([self.edges[n, m] for m in self.learned_sources(n)], [U[m] for m in self.learned_sources(n)])

    def stacked_weights(self, n: int, W: Weights) -> Tensor:
        """The matrices of all learned edges into layer n side by side.

        Parameters
        ----------
        n : int
            A hidden layer.
        W : dict of (n, m) to Tensor
            The matrices.

        Returns
        -------
        Tensor
            One matrix.
        """
        return torch.cat([W[n, m] for m in self.learned_sources(n)], dim=1)

    def stacked_widths(self, n: int) -> list[int]:
        """The columns of each learned matrix of layer n, in the order in which they stand side by side.

        Parameters
        ----------
        n : int
            A hidden layer.

        Returns
        -------
        list of int
            Numbers of columns.
        """
        return [self.shape((n, m))[1] for m in self.learned_sources(n)]

    def split_weights(self, n: int, M: Tensor) -> Weights:
        """The matrices that stand side by side in M, by edge.

        Parameters
        ----------
        n : int
            A hidden layer.
        M : Tensor
            What `stacked_weights` made.

        Returns
        -------
        dict of (n, m) to Tensor
            The matrices.
        """
        parts = M.split(self.stacked_widths(n), dim=1)
        return {(n, m): part for m, part in zip(self.learned_sources(n), parts, strict=True)}

    def features(self, X: Array, W: Weights, chunk_rows: int = 4096) -> Tensor:
        """The last hidden layer of the network proper, without keeping the others.

        Parameters
        ----------
        X : Tensor or array
            Samples x inputs. A NumPy array is taken in the type of the weights, some rows at a time.
        W : dict of (n, m) to Tensor
            The matrices.
        chunk_rows : int, default=4096
            Rows at a time.

        Returns
        -------
        Tensor
            Samples x width of the last layer.
        """
        if not isinstance(X, Tensor):
            like = next(iter(W.values()), torch.empty(0))
            starts = range(0, max(1, len(X)), chunk_rows)
            parts = (tensor(X[start : start + chunk_rows]).to(like) for start in starts)
            return torch.cat([self.features(part, W, chunk_rows) for part in parts])
        self.check_rows(X, W)
        return torch.cat([self.values(self.seen(rows), W)[self.depth].flatten(1) for rows in X.split(chunk_rows)])

    def random_weights(
        self,
        seed: int | torch.Generator = 0,
        scale: float = 1.0,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Weights:
        """Normal weights of variance ``scale**2 / fan-in``; biases start at zero.

        They are drawn on the CPU in float64, so that a seed means the same network everywhere.

        Parameters
        ----------
        seed : int or torch.Generator, default=0
            Where random numbers come from.
        scale : float, default=1.0
            The size of the weights.
        dtype : torch.dtype, default=torch.float32
            Their type.
        device : torch.device or str, default="cpu"
            Where they are.

        Returns
        -------
        dict of (n, m) to Tensor
            A matrix for each learned edge.
        """
        generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
        W = {}
        for n, m in self.learned:
            fan_in = sum(self.edges[n, source].fan_in for source in self.learned_sources(n))
            W[n, m] = self.edges[n, m].random(generator, scale / max(1, fan_in) ** 0.5).to(device, dtype)
        return W

    def check_weights(self, W: Weights) -> None:
        """Raise unless W holds exactly the learned edges, each of its shape.

        Parameters
        ----------
        W : dict of (n, m) to Tensor
            The matrices.
        """
        if set(W) != set(self.learned):
            raise ValueError(
                f"W must hold the learned edges {list(self.learned)}, got {sorted(W)}; "
                "Network.random_weights makes such a dict"
            )
        for edge, matrix in W.items():
            if tuple(matrix.shape) != self.shape(edge):
                raise ValueError(
                    f"W[{edge[0]}, {edge[1]}] must have shape {self.shape(edge)}, got {tuple(matrix.shape)}"
                )

    def draw(self, ax: Axes | None = None) -> Axes:
        """Draw the graph with matplotlib: learned edges solid, identities dashed.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; new axes where it is None.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        return draw_network([0, *self.hidden], self.shapes, self.edges, ax)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return self.shapes, tuple(self.edges.items()), self.activation

    def __repr__(self) -> str:
        lines = [f"Network({' -> '.join(map(shown_shape, self.shapes))})"]
        for n in self.hidden:
            terms = " + ".join(self.edges[n, m].term(n, m) for m in reversed(self.sources(n)))
            lines.append(f"  u{n} = {self.activation.formula(terms)}")
        count = sum(rows * columns for rows, columns in map(self.shape, self.learned))
        lines.append(f"  {count:,} weights in {len(self.learned)} learned edges")
        return "\n".join(lines)

    def _joined(self, pair: Pair, kind: str | Edge) -> Edge:
        n, m = pair
        if not 1 <= n <= self.depth or not BIAS <= m <= self.depth:
            raise ValueError(
                f"{'bias' if m == BIAS else 'edges'}: edge ({n}, {m}) names an unknown layer: "
                f"targets are 1..{self.depth}, sources 0..{self.depth} (or BIAS = {BIAS})"
            )
        try:
            return edge_named(kind, m == BIAS).join((1,) if m == BIAS else self.shapes[m], self.shapes[n])
        except ArgumentError as error:
            raise ArgumentError("edges", f"edge ({n}, {m}): {error}") from None
