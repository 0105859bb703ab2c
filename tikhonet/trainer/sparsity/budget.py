"""A budget of nonzero weights: how many a network may keep, when the others go, and what that does to a run.

The l1 ball of Sec. 3.3.1 leaves as many zeros as it happens to leave; a budget is asked for and met to the weight. It
is a cardinality set, which is not convex, so it is no set of `sets.py` but a schedule of the stochastic trainer.
While the support is large, steps are taken as if there were none and only the largest weights survive them, so that a
weight that was set to zero can come back. On a small support, and on one that stays, the step is the support's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tikhonet.network.arguments import SHARE_OR_ALL, SHARE_OR_NONE, check_choice, check_numbers
from tikhonet.network.graph import Network, Weights
from tikhonet.problem.objective import Problem
from tikhonet.trainer.saving import changed
from tikhonet.trainer.sparsity.scopes import Scope, Support, stacked
from tikhonet.trainer.sparsity.support import Mask, SupportSolver
from tikhonet.trainer.statistics import LayerState

EVERY = 5
"""Steps between two choices of the support, and half of those between two factorisations on it."""
SMALL = 0.06
"""The density from which on steps are solved on the support: the factorisations are cheap there."""


@dataclass(frozen=True)
class Budget:
    """How many weights may be nonzero: a share of them, rounded down, but at least one.

    Biases are neither counted nor removed (but for those of removed units). The share falls over a run of T steps as

        ``density(t) = share + (1 - share) (1 - t / (frozen T))^3, until t = frozen T``

    Parameters
    ----------
    share : float
        The share to keep, in (0, 1].
    over : {"row", "layer", "network", "units"}, default="layer"
        Of what: "row" gives every row of every W[n, m] the same number, "layer" every layer, "network" one number to
        all. "units" keeps a share of the hidden units of every layer instead, with all their weights; layers with an
        identity source stay whole.
    frozen : float, default=0.6
        The share of a run after which the support stays.

    Examples
    --------
    >>> from tikhonet import Budget, Network
    >>> Budget(0.1).allowed(Network.chain([10, 20]))
    20
    >>> Budget(0.1).density(0.0), Budget(0.1).density(0.6)
    (1.0, 0.1)
    """

    share: float
    over: str = "layer"
    frozen: float = 0.6

    def __post_init__(self) -> None:
        check_numbers(self, SHARE_OR_ALL, ["share"])
        check_choice("over", self.over, *Scope.kinds)
        check_numbers(self, SHARE_OR_NONE, ["frozen"])

    @property
    def scope(self) -> Scope:
        """What the share is taken of."""
        return Scope.kinds[self.over]()

    def check(self, problem: Problem) -> None:
        """Raise where the network has nothing to remove or a set forbids zeros; warn where the share cannot be met.

        Parameters
        ----------
        problem : Problem
            Network and sets.
        """
        network = problem.network
        self.scope.check(network)
        self.warn_unmet(network)
        for pair in network.penalised:
            if not problem.edge_set(pair).contains(torch.zeros(network.shape(pair))):
                raise ValueError(f"the set of W[{pair[0]}, {pair[1]}] must hold zero for a budget, got {problem.W_set}")

    def warn_unmet(self, network: Network) -> None:
        """Warn where rounding leaves more than the share, with the least that each scope can meet.

        Parameters
        ----------
        network : Network
            The network.
        """
        scope, least = self.scope, {name: kind().least(network) for name, kind in Scope.kinds.items()}
        kept, total = (scope.allowed(network, share) for share in (self.share, 1.0))
        if kept > self.share * total * (1 + 1e-9):
            shares = ", ".join(f'{part:.3g} over "{name}"' for name, part in least.items() if part)
            warnings.warn(
                f"share={self.share:g} cannot be met: at least one of the {scope.counts} of each part is kept, "
                f"{kept:,} of {total:,}; the least shares of this network are {shares}",
                stacklevel=2,
            )

    def density(self, done: float) -> float:
        """The share to keep when some of a run is done.

        Parameters
        ----------
        done : float
            The share of the run.

        Returns
        -------
        float
            The share of the weights.
        """
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
        """The weights that are kept.

        Parameters
        ----------
        network : Network
            The network.
        W : dict of (n, m) to Tensor
            Its matrices.
        V : Tensor
            The classifier.
        power : mapping of int to Tensor, optional
            The mean squares of the units of each layer; ones where it is None.
        density : float, optional
            The share to keep; that of the budget where it is None.

        Returns
        -------
        dict of (n, m) to Tensor
            A mask for each matrix.
        """
        power = {m: V.new_ones(width) for m, width in enumerate(network.widths)} if power is None else power
        return self.scope.choose(network, W, V, power, self.share if density is None else density)

    def allowed(self, network: Network) -> int:
        """How many weights may be nonzero in all; for units, how many are kept of the layers that can lose some.

        Parameters
        ----------
        network : Network
            The network.

        Returns
        -------
        int
            The number.
        """
        return self.scope.allowed(network, self.share)


@dataclass(frozen=True)
class Pruner:
    """The budget of a run of `total` steps: it renews the support as the density falls."""

    budget: Budget
    network: Network
    total: int

    def due(self, t: int, density: float) -> bool:
        """Whether the support is chosen anew after step t."""
        return t % EVERY == 0 and (t <= self.budget.frozen * self.total + EVERY or density > self.budget.share)

    def density(self, t: int, density: float) -> float:
        """The density after step t; it never grows, also where a run goes on after its end."""
        return min(density, self.budget.density(t / self.total))

    def restrict(
        self, layers: Mapping[int, LayerState], support: Support, density: float, t: int, renewed: bool
    ) -> dict[int, LayerState]:
        """The layers after step t, their steps within the support where it is small or stays.

        On a small support they are solved anew every other time, since the Gram matrices have moved on.
        """
        small = density <= SMALL
        begins = renewed and (small or t >= self.budget.frozen * self.total)
        if not begins and not (small and t % (2 * EVERY) == 0):
            return dict(layers)
        masks = stacked(self.network, support)
        within = {n: support_solver(layer, masks[n]) if small else Mask(masks[n]) for n, layer in layers.items()}
        return {
            n: changed(layer, momentum=layer.momentum.mul_(masks[n]), within=within[n]) for n, layer in layers.items()
        }


def support_solver(layer: LayerState, mask: Tensor) -> SupportSolver:
    """(G + damping I)[S_k, S_k]^-1 times the damping, for every row k of the layer."""
    H = layer.gram.matrix / (layer.gram.weight * layer.gram.damping)
    H.diagonal().add_(1.0)
    return SupportSolver.of(H, mask)
