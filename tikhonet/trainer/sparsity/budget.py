"""A budget of nonzero weights: which weights a network may keep, and when the others go.

The l1 ball of Sec. 3.3.1 leaves as many zeros as it happens to leave; a budget is asked for and met to the weight. It
is a cardinality set, which is not convex, so it is no set of `sets.py` but a schedule of the stochastic trainer:

    density(t) = share + (1 - share) (1 - t / (frozen T))^3        until t = frozen T, then share.

The weights kept are those that carry most signal, `|W[n, m]_kj| rms(A[m]_j)`; units, those that hand most of it on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from tikhonet.network.graph import Network, Pair, Weights
from tikhonet.problem.objective import Problem
from tikhonet.problem.sets import Ball, ConvexSet

Over = Literal["row", "layer", "network", "units"]
Support = dict[Pair, Tensor]
"""Where the weights of every learned edge may be nonzero."""


@dataclass(frozen=True)
class Budget:
    """How many weights may be nonzero: a share of them, rounded down, but at least one.

    `over` says of what: "row" gives every row of every W[n, m] the same number, "layer" every layer, "network" one
    number to all. "units" keeps a share of the hidden units of every layer instead, with all their weights; layers with
    an identity source stay whole, since it keeps their units alive. Biases are neither counted nor removed (but for
    those of removed units). `frozen`: the share of a run after which the support stays.
    """

    share: float
    over: Over = "layer"
    frozen: float = 0.6

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share must lie in (0, 1], got {self.share}; 0.02 keeps 2% of the weights")
        if self.over not in get_args(Over):
            raise ValueError(f"over must be one of {', '.join(get_args(Over))}, got {self.over!r}")
        if not 0 <= self.frozen < 1:
            raise ValueError(f"frozen must lie in [0, 1), got {self.frozen}")

    def check(self, problem: Problem) -> None:
        """Raise where the network has nothing to remove, or a set forbids zeros."""
        network = problem.network
        if self.over == "units" and not free_layers(network):
            raise ValueError(
                'over="units" needs a hidden layer without identity sources, and this network has none; '
                'use over="row", "layer" or "network"'
            )
        for edge in counted(network):
            if not problem.edge_set(edge).contains(torch.zeros(network.shape(edge))):
                raise ValueError(f"the set of W[{edge[0]}, {edge[1]}] must hold zero for a budget, got {problem.W_set}")

    def density(self, done: float) -> float:
        """The share to keep when this share of a run is done."""
        left = 1 - done / self.frozen if done < self.frozen else 0.0
        return self.share + (1 - self.share) * left**3

    def choose(
        self,
        network: Network,
        W: Weights,
        V: Tensor,
        power: Mapping[int, Tensor] | None = None,
        density: float | None = None,
    ) -> Support:
        """The support of this density (None: of the share) by the mean squares `power[m]` of the units (None: ones)."""
        density = self.share if density is None else density
        power = {m: V.new_ones(width) for m, width in enumerate(network.widths)} if power is None else power
        if self.over == "units":
            return whole_units(network, W, V, power, density)
        size = {edge: W[edge].abs() * power[edge[1]].sqrt() for edge in counted(network)}
        support: Support = {edge: torch.ones_like(W[edge], dtype=torch.bool) for edge in network.learned}
        if self.over == "row":
            return support | {edge: largest_by_row(M, density) for edge, M in size.items()}
        if self.over == "network":
            return support | largest(size, density)
        for n in network.hidden:
            support |= largest({edge: M for edge, M in size.items() if edge[0] == n}, density)
        return support

    def allowed(self, network: Network) -> int:
        """How many weights may be nonzero in all; for units, how many are kept of the layers that can lose some."""
        if self.over == "units":
            return sum(number(network.widths[n], self.share) for n in free_layers(network))
        shapes = {edge: network.shape(edge) for edge in counted(network)}
        if self.over == "row":
            return sum(rows * number(columns, self.share) for rows, columns in shapes.values())
        if self.over == "network":
            return number(sum(rows * columns for rows, columns in shapes.values()), self.share)
        layers = {
            n: sum(rows * columns for (k, _), (rows, columns) in shapes.items() if k == n) for n in network.hidden
        }
        return sum(number(total, self.share) for total in layers.values() if total)


def counted(network: Network) -> tuple[Pair, ...]:
    """The edges whose weights count: all learned ones but the biases."""
    return network.penalised


def free_layers(network: Network) -> list[int]:
    """The layers that can lose units: those that no identity feeds."""
    return [n for n in network.hidden if not network.fixed_sources(n)]


def number(total: int, share: float) -> int:
    """floor(share * total), at least one; 0.29 of 100 is 29 although 0.29 * 100 falls short of it in binary."""
    return max(1, int(share * total * (1 + 1e-12)))


def largest_by_row(size: Tensor, share: float) -> Tensor:
    kept = size.topk(number(size.shape[1], share), dim=1, sorted=False).indices
    return torch.zeros_like(size, dtype=torch.bool).scatter_(1, kept, True)


def largest(size: Mapping[Pair, Tensor], share: float) -> Support:
    """The largest entries of several matrices taken together."""
    if not size:
        return {}
    flat = torch.cat([M.flatten() for M in size.values()])
    kept = flat.topk(number(len(flat), share), sorted=False).indices
    mask = torch.zeros_like(flat, dtype=torch.bool).index_fill_(0, kept, True)
    parts = mask.split([M.numel() for M in size.values()])
    return {edge: part.view(M.shape) for (edge, M), part in zip(size.items(), parts, strict=True)}


def whole_units(network: Network, W: Weights, V: Tensor, power: Mapping[int, Tensor], density: float) -> Support:
    """Of every free layer the units with the largest  rms(A[n]_k) |what multiplies unit k|_2."""
    support: Support = {edge: torch.ones_like(W[edge], dtype=torch.bool) for edge in network.learned}
    for n in free_layers(network):
        onward = V.square().sum(0) if n == network.depth else torch.zeros_like(power[n])
        for k in network.targets(n):
            onward = onward + network.edges[k, n].onward(W.get((k, n)))
        kept = (onward * power[n]).topk(number(network.widths[n], density), sorted=False).indices
        alive = torch.zeros_like(onward, dtype=torch.bool).index_fill_(0, kept, True)
        for m in network.sources(n):
            support[n, m] = support[n, m] & alive[:, None]
        for k in network.targets(n):
            if network.edges[k, n].learned:
                support[k, n] = support[k, n] & alive
    return support


def restrict(W: Weights, support: Support) -> Weights:
    return {edge: matrix * support[edge] for edge, matrix in W.items()}


def bring_into(set_: ConvexSet, M: Tensor) -> Tensor:
    """A point of the set near M with the zeros of M and, in a ball, no others: there it is scaled, not projected."""
    return set_.shrink(M) if isinstance(set_, Ball) else set_.project(M)
