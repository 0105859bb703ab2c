"""The zeros of a trained network: how many there are, what made them, and a smaller network without dead units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from tikhonet.descent.certificates import Check
from tikhonet.network.arguments import check_type
from tikhonet.network.edges import Edge
from tikhonet.network.graph import BIAS, Network, Pair, Weights
from tikhonet.network.shapes import channels_of
from tikhonet.problem.objective import Problem
from tikhonet.trainer.sparsity.budget import Budget
from tikhonet.trainer.sparsity.refit import Refit
from tikhonet.trainer.sparsity.scopes import living

Kind = Literal["none", "set", "budget", "budget and set"]


@dataclass(frozen=True)
class Sparsity:
    """The exactly nonzero weights of a network, biases not counted, and what made the others zero.

    Parameters
    ----------
    kind : {"none", "set", "budget", "budget and set"}
        "set": the set of W alone, so that the zeros emerge; "budget": a number of nonzeros was asked for.
    nonzeros : dict of (n, m) to int
        Nonzero weights by edge.
    weights : dict of (n, m) to int
        All weights by edge.
    budget : Budget, optional
        The budget, where there was one.
    allowed : int, optional
        How many nonzeros the budget allows in all; units, where it is over units.
    used : int, optional
        How many of those there are.
    refit : Refit, optional
        The least-squares refit on the support.

    Examples
    --------
    >>> from tikhonet import Sparsity
    >>> Sparsity("set", nonzeros={(1, 0): 5}, weights={(1, 0): 20}).share
    0.25
    """

    kind: Kind
    nonzeros: dict[Pair, int]
    weights: dict[Pair, int]
    budget: Budget | None = None
    allowed: int | None = None
    used: int | None = None
    refit: Refit | None = None

    @property
    def share(self) -> float:
        """The share of the weights that are nonzero; 1 where there are none, since then none is zero."""
        return sum(self.nonzeros.values()) / sum(self.weights.values()) if self.weights else 1.0

    def as_dict(self) -> dict[str, Any]:
        """The sparsity in plain words and numbers.

        Returns
        -------
        dict
            With the keys kind, asked, over, share, nonzeros and weights.
        """
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
    """Count the nonzeros of W, which was trained under this budget and ended with this refit."""
    network = problem.network
    constrained = any(not problem.edge_set(pair).everything for pair in network.penalised)
    kinds: dict[tuple[bool, bool], Kind] = {
        (False, False): "none",
        (False, True): "set",
        (True, False): "budget",
        (True, True): "budget and set",
    }
    nonzeros = {pair: int(W[pair].count_nonzero()) for pair in network.penalised}
    weights = {pair: W[pair].numel() for pair in network.penalised}
    kind = kinds[budget is not None, constrained]
    if budget is None:
        return Sparsity(kind, nonzeros, weights)
    return Sparsity(kind, nonzeros, weights, budget, budget.allowed(network), budget.scope.used(network, W), refit)


def check_sparsity(sparsity: Sparsity) -> tuple[Check, ...]:
    """Under a budget: it is met to the weight, and the refit solved its least squares on the support."""
    budget, refit = sparsity.budget, sparsity.refit
    if budget is None:
        return ()
    claim = "the budget of nonzeros is met exactly"
    figure = f"{sparsity.used:,} {budget.scope.counts} of {sparsity.allowed:,} allowed"
    met = Check(
        "budget", claim, sparsity.used == sparsity.allowed, f"{figure}; {100 * sparsity.share:.2f}% of all weights"
    )
    if refit is None:
        return (met,)
    figure = f"relative residual {refit.residual:.3g} in float64; training loss {refit.before:.5g}"
    figure += f" -> {refit.after:.5g}" + ("" if refit.kept else ", so the weights before it were kept")
    return met, Check("refit", "the refit solves its least squares on the support", refit.residual <= 1e-9, figure)


def compact(network: Network, W: Weights, V: Tensor) -> tuple[Network, Weights, Tensor]:
    """A smaller network with the same outputs, for dense kernels that get smaller too.

    Hidden units that no unit kept and no bias feeds are zero for every input and left out, but every layer keeps at
    least one unit; of images, whole channels. An identity (or a mean) between layers that have lost different units
    becomes a learned edge, the matrix or filters that pick the same.

    Parameters
    ----------
    network : Network
        The network.
    W : dict of (n, m) to Tensor
        Its matrices, with zeros.
    V : Tensor
        The classifier.

    Returns
    -------
    network : Network
        The smaller network.
    W : dict of (n, m) to Tensor
        Its matrices.
    V : Tensor
        Its classifier.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Network, compact
    >>> network = Network.chain([3, 4])
    >>> W = {(1, 0): torch.tensor([[1.0, 0, 0], [0, 0, 0], [0, 1.0, 0], [0, 0, 0]])}
    >>> smaller, W, V = compact(network, W, torch.ones(2, 4))
    >>> smaller.widths, V.shape
    ((3, 2), torch.Size([2, 2]))
    """
    check_type("network", network, Network)
    check_type("V", V, Tensor)
    network.check_weights(W)
    kept = {
        0: torch.arange(network.widths[0], device=V.device),
        BIAS: torch.zeros(1, dtype=torch.long, device=V.device),
    }
    for n in network.hidden:
        units = living(network, W, n, kept).nonzero().flatten()
        kept[n] = units if len(units) else torch.arange(math.prod(network.shapes[n][1:]), device=V.device)
    edges: dict[Pair, str | Edge] = {}
    smaller: Weights = {}
    for (n, m), edge in network.edges.items():
        edges[n, m], matrix = edge.select(W.get((n, m)), kept[n], kept[m])
        if matrix is not None:
            smaller[n, m] = matrix.to(V)
    shapes = [(len(channels_of(kept[n], shape)), *shape[1:]) for n, shape in enumerate(network.shapes)]
    return Network(shapes, edges, activation=network.activation), smaller, V[:, kept[network.depth]]
