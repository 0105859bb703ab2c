"""Sec. 3.2: the ideal decision rule, the label whose inner minimum of f is least.

    y* = argmin over y of  min over u >= 0 of  loss(y, V u_N) + sum_n gamma_n D(u_n, z_n)

The paper calls it unaffordable: one optimisation for each sample and label. But all of them share one Hessian, so
they are one batched non-negative QP with a right-hand side for each pair, solved by the u-step itself.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tikhonet.descent.feature_step import update_features
from tikhonet.estimators.rows import Floats
from tikhonet.network.graph import Weights
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Samples

PAIRS = 4096
"""Pairs of sample and label that are solved at once."""
SWEEPS = 4
"""Passes over the layers where the lift is convex in one layer at a time; one is exact for a single hidden layer."""


def energies(problem: Problem, W: Weights, V: Tensor, X: Floats, classes: int, tol: float = 1e-4) -> Floats:
    """The least energy of each label for each row of the scaled inputs, samples x classes."""
    W, V = {edge: matrix.double() for edge, matrix in W.items()}, V.double()
    step = max(1, PAIRS // classes)
    parts = torch.from_numpy(X).split(step)
    return torch.cat([pair_energies(problem, W, V, part, classes, tol) for part in parts]).numpy()


def pair_energies(problem: Problem, W: Weights, V: Tensor, X: Tensor, classes: int, tol: float) -> Tensor:
    network = problem.network
    labels = torch.arange(classes).repeat(len(X))
    samples = Samples(
        X.double().repeat_interleave(classes, 0), problem.loss.encode(labels, classes).to(V), chunk_rows=PAIRS
    )
    blocks = Blocks(network.forward(samples.X, W), V, W)
    groups = problem.feature_groups()
    for _ in range(1 if len(groups) == 1 else SWEEPS):
        for group in groups:
            solution = update_features(problem, blocks, samples, 0.0, group, tol=tol)
            blocks = Blocks(blocks.U | solution.point, V, W)
    energy = problem.loss.rows(samples.targets, blocks.U[network.depth] @ V.T)
    for n in network.hidden:
        Z = network.pre_activation(n, blocks.U, W)
        energy = energy + problem.gamma_of(n) * problem.lift.value(blocks.U[n], Z, network.activation)
    return energy.view(len(X), classes)
