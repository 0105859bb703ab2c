"""What a budget does to a run: the support is renewed as the density falls, and the W-steps stay within it.

While the support is large, steps are taken as if there were none and only the largest weights survive them, so that a
weight that was set to zero can come back. On a small support, and on one that stays, the step is the support's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from tikhonet.network.graph import Layers, Weights
from tikhonet.problem.objective import Problem
from tikhonet.trainer.sparsity.budget import Budget, Support, restrict
from tikhonet.trainer.sparsity.support import SupportSolver
from tikhonet.trainer.statistics import LayerState, stacked_weights

if TYPE_CHECKING:
    from tikhonet.trainer.step import TrainingState

EVERY = 5
"""Steps between two choices of the support, and half of those between two factorisations on it."""
SMALL = 0.06
"""The density from which on steps are solved on the support: the factorisations are cheap there."""


class Pruner:
    def __init__(self, budget: Budget, problem: Problem, total: int) -> None:
        budget.check(problem)
        self.budget, self.problem, self.total = budget, problem, total

    def __call__(self, W: Weights, state: TrainingState, A: Layers, t: int) -> Weights:
        """W after step t, restricted to the support; A is the forward pass of the step's batch."""
        if t % EVERY == 0 and (t <= self.budget.frozen * self.total + EVERY or state.density > self.budget.share):
            self.renew(W, state, A, t)
        if state.support is None:
            return W
        if state.density <= SMALL and t % (2 * EVERY) == 0:
            for layer in state.layers.values():
                layer.solver = support_solver(layer)
        return restrict(W, state.support)

    def renew(self, W: Weights, state: TrainingState, A: Layers, t: int) -> None:
        """Choose the support of the density that is due; it never grows, also where a run goes on after its end."""
        state.density = min(state.density, self.budget.density(t / self.total))
        power = {m: part.square().mean(0) for m, part in A.items()}
        state.support = self.budget.choose(self.problem.network, W, state.classifier.V, power, state.density)
        if state.density <= SMALL or t >= self.budget.frozen * self.total:
            for n, layer in state.layers.items():
                layer.support = stacked_support(self.problem, n, state.support)
                layer.momentum *= layer.support
                layer.solver = support_solver(layer) if state.density <= SMALL else None

    def restrict_average(self, state: TrainingState) -> None:
        """What the user sees has the zeros of the current support."""
        for edge, matrix in state.average.W.items():
            if state.support is not None:
                matrix.mul_(state.support[edge])


def stacked_support(problem: Problem, n: int, support: Support) -> Tensor:
    return stacked_weights(problem, n, support)


def support_solver(layer: LayerState) -> SupportSolver:
    """(G + damping I)[S_k, S_k]^-1 times the damping, for every row k of the layer."""
    assert layer.support is not None
    H = layer.gram.matrix / (layer.gram.weight * layer.gram.damping)
    H.diagonal().add_(1.0)
    return SupportSolver.of(H, layer.support)
