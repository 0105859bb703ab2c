"""Sec. 2.1: multi-input ReLU networks and their forward pass (Eq. 1).

Layer 0 is the input, layers 1..N are hidden, layer N feeds the classifier V. An edge `(n, m)`
brings layer m into layer n and is either a learned matrix `W[n, m]` or the identity. A bias is
a learned edge from the constant layer `BIAS`, so nothing downstream treats it as a special case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from numbers import Integral
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = Tensor | np.ndarray
Edge = tuple[int, int]
Kind = Literal["learned", "identity"]
Layers = dict[int, Tensor]
Weights = dict[Edge, Tensor]

BIAS = -1
"""The constant layer: one column of ones."""


def tensor(array: Array) -> Tensor:
    """A tensor as it is, a NumPy array as a copy, since torch warns of arrays that may not be written to."""
    return array if isinstance(array, Tensor) else torch.tensor(array)


def _group(pairs: Iterable[Edge]) -> dict[int, tuple[int, ...]]:
    """The second numbers by the first, in order."""
    groups: dict[int, tuple[int, ...]] = {}
    for first, second in pairs:
        groups[first] = (*groups.get(first, ()), second)
    return groups


class Network:
    """An acyclic network of ReLU layers, each the ReLU of a sum over several earlier layers.

    `widths` holds d_0..d_N; `edges` maps `(n, m)` to "learned" or "identity"; `bias` is True
    for all hidden layers, or the layers that have one.
    """

    def __init__(
        self,
        widths: Sequence[int],
        edges: Mapping[Edge, Kind],
        bias: bool | Iterable[int] = False,
    ) -> None:
        if len(widths) < 2:
            raise ValueError(f"widths must hold the input's width and at least one hidden layer's, got {list(widths)}")
        for layer, width in enumerate(widths):
            if not isinstance(width, Integral) or width < 1:
                raise ValueError(f"the width of layer {layer} must be an integer of at least 1, got {width!r}")
        self.widths = tuple(int(width) for width in widths)
        biased = range(1, self.depth + 1) if bias is True else () if bias is False else bias
        everything: dict[Edge, Kind] = {(n, BIAS): "learned" for n in biased}
        self.edges: dict[Edge, Kind] = dict(sorted((everything | dict(edges)).items()))
        for edge in self.edges:
            self._check_edge(edge)
        self._sources = _group(self.edges)
        self._learned_sources = _group(edge for edge, kind in self.edges.items() if kind == "learned")
        self._targets = _group((m, n) for n, m in self.edges)
        self.hidden = self._order()
        self._check_connected()

    @classmethod
    def chain(cls, widths: Sequence[int], bias: bool | Iterable[int] = False) -> Network:
        """A plain sequence of fully connected layers."""
        return cls(widths, {(n, n - 1): "learned" for n in range(1, len(widths))}, bias)

    @classmethod
    def paper(cls, width: int = 784) -> Network:
        """The network of Sec. 3.3.1: three learned matrices and three skips, all of one width."""
        return cls(
            [width] * 4,
            {
                (1, 0): "learned",
                (2, 0): "identity",
                (2, 1): "learned",
                (3, 0): "identity",
                (3, 1): "identity",
                (3, 2): "learned",
            },
        )

    @property
    def depth(self) -> int:
        """N, the number of hidden layers and the name of the last one."""
        return len(self.widths) - 1

    def width(self, layer: int) -> int:
        return 1 if layer == BIAS else self.widths[layer]

    def sources(self, n: int) -> tuple[int, ...]:
        """M_n: the layers that feed layer n (with `BIAS` first where it has one)."""
        return self._sources.get(n, ())

    def learned_sources(self, n: int) -> tuple[int, ...]:
        return self._learned_sources.get(n, ())

    def targets(self, m: int) -> tuple[int, ...]:
        """The layers that layer m feeds."""
        return self._targets.get(m, ())

    @property
    def learned(self) -> tuple[Edge, ...]:
        return tuple(edge for edge, kind in self.edges.items() if kind == "learned")

    def shape(self, edge: Edge) -> tuple[int, int]:
        return self.width(edge[0]), self.width(edge[1])

    def layers(self, X: Tensor) -> Layers:
        """The layers that are given: the input and, if any layer has a bias, the constant."""
        given = {0: X}
        if self.targets(BIAS):
            given[BIAS] = X.new_ones(len(X), 1)
        return given

    def pre_activation(
        self, n: int, U: Mapping[int, Tensor], W: Weights, sources: Iterable[int] | None = None
    ) -> Tensor:
        """Z[n], the sum over m in M_n of `U[m] W[n, m]'`; over `sources` only, if given."""
        Z: Tensor | None = None
        for m in self.sources(n) if sources is None else sources:
            if self.edges[n, m] == "identity":
                Z = U[m].clone() if Z is None else Z.add_(U[m])
            else:
                Z = U[m] @ W[n, m].T if Z is None else Z.addmm_(U[m], W[n, m].T)
        return U[0].new_zeros(len(U[0]), self.widths[n]) if Z is None else Z

    def forward(self, X: Tensor, W: Weights) -> Layers:
        """Eq. 1: all layers of the network proper, `U[n] = max(0, Z[n])`."""
        self.check_weights(W)
        if X.ndim != 2 or X.shape[1] != self.widths[0]:
            raise ValueError(f"X must have shape (samples, {self.widths[0]}) for this network, got {tuple(X.shape)}")
        like = next(iter(W.values()), X)
        if X.dtype != like.dtype:
            raise ValueError(f"X must have the type of the weights, {like.dtype}, got {X.dtype}; use X.to(W[1, 0])")
        U = self.layers(X)
        for n in self.hidden:
            U[n] = self.pre_activation(n, U, W).relu_()
        return U

    def features(self, X: Array, W: Weights, chunk_rows: int = 4096) -> Tensor:
        """The last hidden layer of the network proper, without keeping the others.

        A NumPy array is taken in the type of the weights, some rows at a time.
        """
        if not isinstance(X, Tensor):
            like = next(iter(W.values()), torch.empty(0))
            starts = range(0, max(1, len(X)), chunk_rows)
            parts = (tensor(X[start : start + chunk_rows]).to(like) for start in starts)
            return torch.cat([self.features(part, W, chunk_rows) for part in parts])
        return torch.cat([self.forward(rows, W)[self.depth] for rows in X.split(chunk_rows)])

    def random_weights(
        self,
        seed: int | torch.Generator = 0,
        scale: float = 1.0,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Weights:
        """Normal weights of variance `scale**2 / fan-in`; biases start at zero.

        Drawn on the CPU in float64, so that a seed means the same network everywhere.
        """
        generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
        W = {}
        for n, m in self.learned:
            draw = torch.randn(self.shape((n, m)), generator=generator, dtype=torch.float64)
            fan_in = sum(self.width(source) for source in self.learned_sources(n) if source != BIAS)
            W[n, m] = (draw * (0.0 if m == BIAS else scale / fan_in**0.5)).to(device, dtype)
        return W

    def check_weights(self, W: Weights) -> None:
        """Raise unless W holds exactly the learned edges, each of its shape."""
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
        """Draw the graph with matplotlib: learned edges solid, identities dashed."""
        from tikhonet.network.drawing import draw_network

        return draw_network(self, ax)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and (self.widths, self.edges) == (other.widths, other.edges)

    def __hash__(self) -> int:
        return hash((self.widths, tuple(self.edges.items())))

    def __repr__(self) -> str:
        def term(n: int, m: int) -> str:
            if m == BIAS:
                return f"b{n}"
            return f"u{m}" if self.edges[n, m] == "identity" else f"W[{n},{m}] u{m}"

        lines = [f"Network({' -> '.join(map(str, self.widths))})"]
        for n in self.hidden:
            lines.append(f"  u{n} = relu({' + '.join(term(n, m) for m in reversed(self.sources(n)))})")
        count = sum(rows * columns for rows, columns in map(self.shape, self.learned))
        lines.append(f"  {count:,} weights in {len(self.learned)} learned edges")
        return "\n".join(lines)

    def _check_edge(self, edge: Edge) -> None:
        n, m = edge
        if not 1 <= n <= self.depth or not BIAS <= m <= self.depth:
            raise ValueError(
                f"edge ({n}, {m}) names an unknown layer: targets are 1..{self.depth}, "
                f"sources 0..{self.depth} (or BIAS = {BIAS})"
            )
        kind = self.edges[edge]
        if kind not in ("learned", "identity"):
            raise ValueError(f"edge ({n}, {m}) must be 'learned' or 'identity', got {kind!r}")
        if kind == "identity" and m == BIAS:
            raise ValueError(f"edge ({n}, {m}) from the constant must be 'learned', a bias")
        if kind == "identity" and self.width(n) != self.width(m):
            raise ValueError(
                f"identity edge ({n}, {m}) joins unequal widths: layer {n} has {self.width(n)}, "
                f"layer {m} has {self.width(m)}; make it 'learned' or the widths equal"
            )

    def _order(self) -> tuple[int, ...]:
        """The hidden layers, each after its sources."""
        for n in range(1, self.depth + 1):
            if not any(m != BIAS for m in self.sources(n)):
                raise ValueError(f"layer {n} has no source; add an edge ({n}, m) from a layer m")
        graph = {n: [m for m in self.sources(n) if m > 0] for n in range(1, self.depth + 1)}
        try:
            return tuple(TopologicalSorter(graph).static_order())
        except CycleError as error:
            cycle = " -> ".join(map(str, error.args[1]))
            raise ValueError(f"the edges form a cycle through layers {cycle}; remove one of its edges") from None

    def _check_connected(self) -> None:
        reaching = {self.depth}
        for n in reversed(self.hidden):
            if reaching & {n, *self.targets(n)}:
                reaching.add(n)
            else:
                raise ValueError(
                    f"layer {n} does not reach the last layer {self.depth}; add an edge (k, {n}) or remove it"
                )
