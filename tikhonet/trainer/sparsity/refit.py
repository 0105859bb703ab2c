"""The last W-step of a run with a budget: least squares on the support, over all samples.

With T[n] the targets of one u-step from the forward pass of the weights W before their restriction,

    minimise over W' on its support:  1/2 |T[n] - A[n] W''|^2 + rho/2 |W' - W|^2

for every layer, rows on their own supports. Where W is on its support already, this is one more step towards the
targets; where it is not (a run that was stopped early), what is lost by the restriction is made good as far as can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from tikhonet.network.graph import Layers, Weights
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.trainer.batches import Batch
from tikhonet.trainer.sparsity.budget import Budget, Support, bring_into, restrict
from tikhonet.trainer.sparsity.support import solve_on_support
from tikhonet.trainer.statistics import TINY, forward, stacked_inputs, stacked_weights, targets_sweep

RIDGE = 0.1
"""rho, relative to the mean eigenvalue of A'A."""


@dataclass(frozen=True)
class Refit:
    """What the refit solved, and whether it was kept: it is where the training loss is not higher after it."""

    residual: float
    """|gradient on the supports| relative to its linear part, in float64, the largest of all layers."""
    before: float
    after: float
    """The training loss with the weights merely restricted, and with those of the refit."""

    @property
    def kept(self) -> bool:
        return self.after <= self.before


@dataclass
class Sums:
    """Over all samples: Gram matrices and pulls towards the targets by layer, mean squares of every layer's units."""

    gram: Layers
    pull: Layers
    power: Layers
    weight: float = 0.0


def refit_on_support(
    problem: Problem,
    epoch: Callable[[], Iterable[Batch]],
    blocks: Blocks,
    budget: Budget,
    support: Support | None,
    damping: float,
) -> tuple[Weights, Refit]:
    """Weights with the zeros that the budget asks for, and what was solved for them.

    `epoch` gives all batches; `support` is None where the run has not come down to its budget yet.
    """
    sums = add_up(problem, epoch(), blocks, damping)
    if support is None:
        power = {m: total / sums.weight for m, total in sums.power.items()}
        support = budget.choose(problem.network, blocks.W, blocks.V, power)
    W, residual = dict(blocks.W), 0.0
    for n, gram in sums.gram.items():
        old, mask = stacked_weights(problem, n, blocks.W).double(), stacked_weights(problem, n, support)
        # Summed in float32, where a product with itself is not quite symmetric.
        H = (gram + gram.T) / (2 * sums.weight)
        H.diagonal().add_(RIDGE * float(H.diagonal().mean()) + TINY)
        linear = old @ H + sums.pull[n] / sums.weight
        new = solve_on_support(H, linear, mask)
        gradient = (new @ H - linear) * mask
        residual = max(residual, float(gradient.norm() / ((linear * mask).norm() + TINY)))
        sources = problem.network.learned_sources(n)
        split = new.to(W[n, sources[0]]).split([problem.network.width(m) for m in sources], dim=1)
        W |= {(n, m): part.contiguous() for m, part in zip(sources, split, strict=True)}
    both = [
        {edge: bring_into(problem.edge_set(edge), matrix) for edge, matrix in weights.items()}
        for weights in (restrict(blocks.W, support), W)
    ]
    refit = Refit(residual, *(training_loss(problem, epoch(), blocks.V, weights) for weights in both))
    return both[refit.kept], refit


def add_up(problem: Problem, batches: Iterable[Batch], blocks: Blocks, damping: float) -> Sums:
    network, sums = problem.network, Sums({}, {}, {})

    def add(name: Layers, n: int, part: Tensor) -> None:
        name[n] = part.double() if n not in name else name[n].add_(part)

    for batch in batches:
        here = forward(problem, batch.X, blocks.W, {})
        slope = problem.loss.slope(batch.targets, here.A[network.depth] @ blocks.V.T)
        grad_Z = targets_sweep(problem, blocks.V, blocks.W, here, slope, damping)
        for m, A in here.A.items():
            add(sums.power, m, (A if batch.weight is None else A * batch.weight[:, None]).mul(A).sum(0))
        for n in network.hidden:
            if network.learned_sources(n):
                A = stacked_inputs(problem, n, here.A)
                weighted = A if batch.weight is None else A * batch.weight[:, None]
                add(sums.gram, n, weighted.T @ A)
                add(sums.pull, n, grad_Z[n].T @ weighted.neg())
        sums.weight += float(len(batch.X)) if batch.weight is None else float(batch.weight.sum())
    return sums


def training_loss(problem: Problem, batches: Iterable[Batch], V: Tensor, W: Weights) -> float:
    """Summed over the samples, without dropout."""
    total = torch.zeros((), dtype=torch.float64)
    for batch in batches:
        scores = problem.network.features(batch.X, W) @ V.T
        total += problem.loss.value(batch.targets, scores, batch.weight).sum().double().cpu()
    return float(total)
