"""Which weights of a network a budget counts together, and which of them it keeps.

The weights kept are those that carry most signal, `|W[n, m]_kj| rms(A[m]_j)`; units, those that hand most of it on. A
unit of a layer of images is a channel.
A new scope is a subclass.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from tikhonet.network.graph import Layers, Network, Pair, Weights
from tikhonet.network.registry import Named, Registry

Support = dict[Pair, Tensor]
"""Where the weights of every learned edge may be nonzero."""


class Scope(Named, ABC):
    """What a budget is shared over, by `name`."""

    counts: ClassVar[str] = "weights"
    """What the budget counts, in words."""
    kinds: ClassVar[Registry[type[Scope]]] = Registry("over")

    def check(self, network: Network) -> None:
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

    def least(self, network: Network) -> float:
        """The least share that can be met, since one of each part is kept; 0 where there is nothing to remove."""
        share, total = 0.0, self.allowed(network, 1.0)
        while (kept := self.allowed(network, share)) > share * total * (1 + 1e-9):
            share = kept / total
        return share


class WeightScope(Scope):
    """Matrices whose weights share a number, of which the largest are kept: `groups`, each with its number of parts.

    The parts of a group are of equal size, side by side in the order of its entries, and keep equal numbers.
    """

    @abstractmethod
    def groups(self, network: Network) -> list[tuple[int, list[Pair]]]:
        """The parts of every group, and its edges."""

    def choose(self, network: Network, W: Weights, V: Tensor, power: Mapping[int, Tensor], share: float) -> Support:
        support = everywhere(network, W)
        for parts, group in self.groups(network):
            sizes = (W[pair].abs() * network.edges[pair].multiplied(power[pair[1]]).sqrt() for pair in group)
            size = torch.cat([part.flatten() for part in sizes]).view(parts, -1)
            kept = size.topk(number(size.shape[1], share), dim=1, sorted=False).indices
            mask = torch.zeros_like(size, dtype=torch.bool).scatter_(1, kept, True).flatten()
            masks = mask.split([W[pair].numel() for pair in group])
            support |= {pair: mask.view(W[pair].shape) for pair, mask in zip(group, masks, strict=True)}
        return support

    def allowed(self, network: Network, share: float) -> int:
        def room(parts: int, group: list[Pair]) -> int:
            return parts * number(sum(math.prod(network.shape(pair)) for pair in group) // parts, share)

        return sum(room(parts, group) for parts, group in self.groups(network))


class RowScope(WeightScope):
    """Every row of every W[n, m] keeps the same number."""

    name = "row"

    def groups(self, network: Network) -> list[tuple[int, list[Pair]]]:
        return [(network.shape(pair)[0], [pair]) for pair in network.penalised]


class LayerScope(WeightScope):
    """Every layer keeps the same share."""

    name = "layer"

    def groups(self, network: Network) -> list[tuple[int, list[Pair]]]:
        layers = ([pair for pair in network.penalised if pair[0] == n] for n in network.hidden)
        return [(1, layer) for layer in layers if layer]


class NetworkScope(WeightScope):
    """All layers together keep a share."""

    name = "network"

    def groups(self, network: Network) -> list[tuple[int, list[Pair]]]:
        return [(1, list(network.penalised))] if network.penalised else []


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
            channels = network.shapes[n][0]
            handed = (onward * power[n]).view(channels, -1).sum(1)
            kept = handed.topk(number(channels, share), sorted=False).indices
            alive = torch.zeros_like(handed, dtype=torch.bool).index_fill_(0, kept, True)
            for m in network.sources(n):
                support[n, m] = support[n, m] & alive[:, None]
            units = alive.repeat_interleave(network.widths[n] // channels)
            for k in network.targets(n):
                if (k, n) in support:
                    support[k, n] = support[k, n] & (network.edges[k, n].multiplied(units.to(onward)) > 0)
        return support

    def allowed(self, network: Network, share: float) -> int:
        return sum(number(network.shapes[n][0], share) for n in free_layers(network))

    def used(self, network: Network, W: Weights) -> int:
        return sum(int(living(network, W, n).view(network.shapes[n][0], -1).any(1).sum()) for n in free_layers(network))


def free_layers(network: Network) -> list[int]:
    """The layers that can lose units: those that only learned edges feed."""
    return [n for n in network.hidden if not network.fixed_sources(n)]


def living(network: Network, W: Weights, n: int, kept: Layers | None = None) -> Tensor:
    """Which units of layer n any edge feeds; from the `kept` units of its sources alone, if given."""
    # A network of identities alone has no weights, hence no device but the default one.
    device = W[network.learned[0]].device if network.learned else None
    alive = torch.zeros(network.widths[n], dtype=torch.bool, device=device)
    for m in network.sources(n):
        edge, matrix = network.edges[n, m], W.get((n, m))
        if kept is not None:
            edge, matrix = edge.select(matrix, torch.arange(len(alive), device=device), kept[m])
        alive |= edge.feeds(matrix)
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
