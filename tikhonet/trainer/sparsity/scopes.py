"""Which weights of a network a budget counts together, and which of them it keeps.

The weights kept are those that carry most signal, `|W[n, m]_kj| rms(A[m]_j)`; units, those that hand most of it on.
A new scope is a subclass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from tikhonet.network.graph import Layers, Network, Pair, Weights
from tikhonet.network.registry import Registry

Support = dict[Pair, Tensor]
"""Where the weights of every learned edge may be nonzero."""


class Scope(ABC):
    """What a budget is shared over, by `name`."""

    name: ClassVar[str]
    counts: ClassVar[str] = "weights"
    """What the budget counts, in words."""
    kinds: ClassVar[Registry[type[Scope]]] = Registry("over")

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            cls.kinds.add(cls.name, cls)

    def check(self, network: Network) -> None:  # noqa: B027 (most scopes fit every network)
        """Raise where the network has nothing to remove."""

    @abstractmethod
    def choose(self, network: Network, W: Weights, V: Tensor, power: Mapping[int, Tensor], share: float) -> Support:
        """The support that keeps this share, by the mean squares `power[m]` of the units."""

    @abstractmethod
    def allowed(self, network: Network, share: float) -> int:
        """How many weights, or units of the layers that can lose some, the share allows in all."""

    def used(self, network: Network, W: Weights) -> int:
        """How many of those there are."""
        return sum(int(W[pair].count_nonzero()) for pair in network.penalised)


class Together(Scope):
    """Several edges of which the largest weights are kept, wherever they are."""

    @abstractmethod
    def groups(self, network: Network) -> list[list[Pair]]:
        """The edges that share a number of weights."""

    def choose(self, network: Network, W: Weights, V: Tensor, power: Mapping[int, Tensor], share: float) -> Support:
        support = everywhere(network, W)
        for group in self.groups(network):
            support |= self.largest({pair: W[pair].abs() * power[pair[1]].sqrt() for pair in group}, share)
        return support

    def allowed(self, network: Network, share: float) -> int:
        shapes = [[network.shape(pair) for pair in group] for group in self.groups(network)]
        return sum(number(sum(rows * columns for rows, columns in group), share) for group in shapes)

    def largest(self, size: Mapping[Pair, Tensor], share: float) -> Support:
        flat = torch.cat([M.flatten() for M in size.values()])
        kept = flat.topk(number(len(flat), share), sorted=False).indices
        mask = torch.zeros_like(flat, dtype=torch.bool).index_fill_(0, kept, True)
        parts = mask.split([M.numel() for M in size.values()])
        return {pair: part.view(M.shape) for (pair, M), part in zip(size.items(), parts, strict=True)}


class RowScope(Together):
    """Every row of every W[n, m] keeps the same number."""

    name = "row"

    def groups(self, network: Network) -> list[list[Pair]]:
        return [[pair] for pair in network.penalised]

    def allowed(self, network: Network, share: float) -> int:
        shapes = map(network.shape, network.penalised)
        return sum(rows * number(columns, share) for rows, columns in shapes)

    def largest(self, size: Mapping[Pair, Tensor], share: float) -> Support:
        kept = {pair: M.topk(number(M.shape[1], share), dim=1, sorted=False).indices for pair, M in size.items()}
        return {p: torch.zeros_like(M, dtype=torch.bool).scatter_(1, kept[p], True) for p, M in size.items()}


class LayerScope(Together):
    """Every layer keeps the same share."""

    name = "layer"

    def groups(self, network: Network) -> list[list[Pair]]:
        layers = ([pair for pair in network.penalised if pair[0] == n] for n in network.hidden)
        return [layer for layer in layers if layer]


class NetworkScope(Together):
    """All layers together keep a share."""

    name = "network"

    def groups(self, network: Network) -> list[list[Pair]]:
        return [list(network.penalised)] if network.penalised else []


class UnitScope(Scope):
    """Every layer keeps a share of its units, with all their weights.

    Layers with a source that has no weights (an identity) stay whole, since it keeps their units alive.
    """

    name = "units"
    counts = "units"

    def check(self, network: Network) -> None:
        if not free_layers(network):
            others = ", ".join(f'"{name}"' for name in self.kinds if name != self.name)
            raise ValueError(
                f'over="{self.name}" needs a hidden layer without identity sources, and this network has none; '
                f"use one of over={others}"
            )

    def choose(self, network: Network, W: Weights, V: Tensor, power: Mapping[int, Tensor], share: float) -> Support:
        """Of every free layer the units with the largest  rms(A[n]_k) |what multiplies unit k|_2."""
        support = everywhere(network, W)
        for n in free_layers(network):
            onward = V.square().sum(0) if n == network.depth else torch.zeros_like(power[n])
            for k in network.targets(n):
                onward = onward + network.edges[k, n].onward(W.get((k, n)))
            kept = (onward * power[n]).topk(number(network.widths[n], share), sorted=False).indices
            alive = torch.zeros_like(onward, dtype=torch.bool).index_fill_(0, kept, True)
            for m in network.sources(n):
                support[n, m] = support[n, m] & alive[:, None]
            for k in network.targets(n):
                if (k, n) in support:
                    support[k, n] = support[k, n] & alive
        return support

    def allowed(self, network: Network, share: float) -> int:
        return sum(number(network.widths[n], share) for n in free_layers(network))

    def used(self, network: Network, W: Weights) -> int:
        return sum(int(living(network, W, n).sum()) for n in free_layers(network))


def free_layers(network: Network) -> list[int]:
    """The layers that can lose units: those that only learned edges feed."""
    return [n for n in network.hidden if not network.fixed_sources(n)]


def living(network: Network, W: Weights, n: int) -> Tensor:
    """Which units of layer n any edge feeds."""
    # A network of identities alone has no weights, hence no device but the default one.
    device = W[network.learned[0]].device if network.learned else None
    alive = torch.zeros(network.widths[n], dtype=torch.bool, device=device)
    for m in network.sources(n):
        alive |= network.edges[n, m].feeds(W.get((n, m)))
    return alive


def number(total: int, share: float) -> int:
    """floor(share * total), at least one; 0.29 of 100 is 29 although 0.29 * 100 falls short of it in binary."""
    return max(1, int(share * total * (1 + 1e-12)))


def everywhere(network: Network, W: Weights) -> Support:
    return {pair: torch.ones_like(W[pair], dtype=torch.bool) for pair in network.learned}


def restrict(W: Weights, support: Support) -> Weights:
    """The weights with zeros off the support."""
    return {pair: matrix * support[pair] for pair, matrix in W.items()}


def stacked(network: Network, support: Support) -> Layers:
    """The support of every layer's learned edges side by side."""
    return {n: network.stacked_weights(n, support) for n in network.hidden if network.learned_sources(n)}
