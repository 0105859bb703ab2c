"""What zeros a trained network has, and where they come from: the set of W, a budget that was asked for, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from tikhonet.descent.certificates import Check
from tikhonet.network.graph import Network, Pair, Weights
from tikhonet.problem.objective import Problem
from tikhonet.trainer.sparsity.budget import Budget, counted, free_layers
from tikhonet.trainer.sparsity.refit import Refit

Kind = Literal["none", "set", "budget", "budget and set"]


@dataclass(frozen=True)
class Sparsity:
    """Exactly nonzero weights by edge, biases not counted; `kind` says what made the others zero.

    "set": the set of W alone, so that the zeros emerge; "budget": a number of nonzeros was asked for.
    """

    kind: Kind
    nonzeros: dict[Pair, int]
    weights: dict[Pair, int]
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
    constrained = any(not problem.edge_set(edge).everything for edge in edges)
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
    # A network of identities alone has no weights, hence no device but the default one.
    device = W[network.learned[0]].device if network.learned else None
    alive = torch.zeros(network.widths[n], dtype=torch.bool, device=device)
    for m in network.sources(n):
        alive |= network.edges[n, m].feeds(W.get((n, m)))
    return alive


def check_sparsity(sparsity: Sparsity) -> tuple[Check, ...]:
    """Under a budget: it is met to the weight, and the refit solved its least squares on the support."""
    if sparsity.budget is None:
        return ()
    what = "units" if sparsity.budget.over == "units" else "weights"
    checks = [
        Check(
            "budget",
            "the budget of nonzeros is met exactly",
            sparsity.used == sparsity.allowed,
            f"{sparsity.used:,} {what} of {sparsity.allowed:,} allowed; {100 * sparsity.share:.2f}% of all weights",
        )
    ]
    if sparsity.refit:
        refit = sparsity.refit
        figure = f"relative residual {refit.residual:.3g} in float64; training loss {refit.before:.5g}"
        figure += f" -> {refit.after:.5g}" + ("" if refit.kept else ", so the weights before it were kept")
        checks.append(
            Check("refit", "the refit solves its least squares on the support", refit.residual <= 1e-9, figure)
        )
    return tuple(checks)
