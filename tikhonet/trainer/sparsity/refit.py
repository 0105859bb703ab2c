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
from tikhonet.problem.samples import Reduce, added_up, keep
from tikhonet.trainer.batches import Batch, add_numbers
from tikhonet.trainer.sparsity.budget import Budget
from tikhonet.trainer.sparsity.scopes import Support, restrict, stacked
from tikhonet.trainer.sparsity.support import solve_on_support
from tikhonet.trainer.sweep import TINY, forward, targets_sweep

RIDGE = 0.1
"""rho, relative to the mean eigenvalue of A'A."""


@dataclass(frozen=True)
class Refit:
    """A refit that was solved; its weights are kept where the training loss is not higher with them."""

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
    """Sums over all samples: Gram matrices and pulls towards the targets by layer, squares of every layer's units."""

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
    reduce: Reduce = keep,
) -> tuple[Weights, Refit]:
    """Weights with the zeros that the budget asks for, and what was solved for them.

    `epoch` gives all batches; `support` is None where the run has not come down to its budget yet.
    """
    sums, network = add_up(problem, epoch(), blocks, damping, reduce), problem.network
    if support is None:
        power = {m: total / sums.weight for m, total in sums.power.items()}
        support = budget.choose(network, blocks.W, blocks.V, power)
    W, residual = dict(blocks.W), 0.0
    for n, mask in stacked(network, support).items():
        old = network.stacked_weights(n, blocks.W)
        grams = sums.gram[n] if sums.gram[n].ndim == 3 else sums.gram[n][None]  # groups of channels have one each
        parts = [M.chunk(len(grams)) for M in (old.double(), sums.pull[n], mask)]
        solved = [
            solve(G / sums.weight, W, pull / sums.weight, where)
            for G, W, pull, where in zip(grams, *parts, strict=True)
        ]
        new, linear, gradient = (torch.cat(part) for part in zip(*solved, strict=True))
        residual = max(residual, float(gradient.norm() / ((linear * mask).norm() + TINY)))
        W |= {pair: part.contiguous() for pair, part in network.split_weights(n, new.to(old)).items()}
    both = [
        {pair: problem.edge_set(pair).shrink(matrix) for pair, matrix in weights.items()}
        for weights in (restrict(blocks.W, support), W)
    ]
    refit = Refit(residual, *(training_loss(problem, epoch(), blocks.V, weights, reduce) for weights in both))
    return both[refit.kept], refit


def solve(gram: Tensor, W: Tensor, pull: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Least squares of some rows on their supports: the new rows, the linear part, and the gradient there."""
    H = (gram + gram.T) / 2  # summed in float32, where a product with itself is not quite symmetric
    H.diagonal().add_(RIDGE * float(H.diagonal().mean()) + TINY)
    linear = W @ H + pull
    new = solve_on_support(H, linear, mask)
    return new, linear, (new @ H - linear) * mask


def add_up(problem: Problem, batches: Iterable[Batch], blocks: Blocks, damping: float, reduce: Reduce) -> Sums:
    network, sums = problem.network, Sums({}, {}, {})

    def add(name: Layers, n: int, part: Tensor) -> None:
        name[n] = part.double() if n not in name else name[n].add_(part)

    for batch in batches:
        here = forward(problem, batch.X, blocks.W, {})
        slope = problem.loss.slope(batch.targets, here.A[network.depth] @ blocks.V.T)
        grad_Z = targets_sweep(problem, blocks.V, blocks.W, here, slope, damping)
        for m, A in here.A.items():
            add(sums.power, m, batch.weigh(A).mul(A).sum(0))
        for n in network.hidden:
            if network.learned_sources(n):
                design = network.design(n, here.A)
                add(sums.gram, n, design.gram(batch.weight))
                add(sums.pull, n, design.product(batch.weigh(grad_Z[n]).neg()))
        sums.weight += batch.total
    for name in (sums.gram, sums.pull, sums.power):
        name |= added_up(reduce, name)
    sums.weight = add_numbers(reduce, sums.weight)[0]
    return sums


def training_loss(problem: Problem, batches: Iterable[Batch], V: Tensor, W: Weights, reduce: Reduce) -> float:
    """The loss summed over the samples, without dropout."""
    total = torch.zeros((), dtype=torch.float64)
    for batch in batches:
        scores = problem.network.features(batch.X, W) @ V.T
        total += problem.loss.value(batch.targets, scores, batch.weight).sum().double().cpu()
    return float(reduce(total))
