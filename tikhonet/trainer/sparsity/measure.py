"""What zeros a trained network has, and where they come from: the set of W, a budget that was asked for, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from tikhonet.network.graph import Edge, Network, Weights
from tikhonet.problem.objective import Problem
from tikhonet.problem.sets import Everything
from tikhonet.trainer.sparsity.budget import Budget, counted, free_layers
from tikhonet.trainer.sparsity.refit import Refit

Kind = Literal["none", "set", "budget", "budget and set"]


@dataclass(frozen=True)
class Sparsity:
    """Exactly nonzero weights by edge, biases not counted; `kind` says what made the others zero.

    "set": the set of W alone, so that the zeros emerge; "budget": a number of nonzeros was asked for.
    """

    kind: Kind
    nonzeros: dict[Edge, int]
    weights: dict[Edge, int]
    budget: Budget | None = None
    allowed: int | None = None
    """How many nonzeros the budget allows in all; units, where it is over units."""
    used: int | None = None
    """How many of those there are."""
    refit: Refit | None = None

    @property
    def share(self) -> float:
        """Of the weights that are nonzero; 1 where there are none, since then none is zero."""
        return sum(self.nonzeros.values()) / sum(self.weights.values()) if self.weights else 1.0

    def as_dict(self) -> dict[str, Any]:
        """The same in plain words and numbers."""
        return {
            "kind": self.kind,
            "asked": self.budget.share if self.budget else None,
            "over": self.budget.over if self.budget else None,
            "share": self.share,
            "nonzeros": {f"W[{n},{m}]": count for (n, m), count in self.nonzeros.items()},
            "weights": {f"W[{n},{m}]": count for (n, m), count in self.weights.items()},
        }


def measure_sparsity(
    problem: Problem, W: Weights, budget: Budget | None = None, refit: Refit | None = None
) -> Sparsity:
    network = problem.network
    edges = counted(network)
    constrained = any(not isinstance(problem.edge_set(edge), Everything) for edge in edges)
    kinds: dict[tuple[bool, bool], Kind] = {
        (False, False): "none",
        (False, True): "set",
        (True, False): "budget",
        (True, True): "budget and set",
    }
    nonzeros = {edge: int(W[edge].count_nonzero()) for edge in edges}
    weights = {edge: W[edge].numel() for edge in edges}
    kind = kinds[budget is not None, constrained]
    if budget is None:
        return Sparsity(kind, nonzeros, weights)
    used = living_units(network, W) if budget.over == "units" else sum(nonzeros.values())
    return Sparsity(kind, nonzeros, weights, budget, budget.allowed(network), used, refit)


def living_units(network: Network, W: Weights) -> int:
    """The units of all layers without identity sources that any weight or bias feeds."""
    return sum(int(living(network, W, n).sum()) for n in free_layers(network))


def living(network: Network, W: Weights, n: int) -> Tensor:
    """Which units of layer n any weight, bias or identity feeds."""
    sources = network.sources(n)
    if any(network.edges[n, m] == "identity" for m in sources):
        # A network of identities alone has no weights, hence no device but the default one.
        device = W[network.learned[0]].device if network.learned else None
        return torch.ones(network.widths[n], dtype=torch.bool, device=device)
    return torch.cat([W[n, m] != 0 for m in sources], dim=1).any(1)
