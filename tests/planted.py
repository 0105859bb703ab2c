"""Data made by a known network, so that the least value of the objective is known to be zero."""

from __future__ import annotations

import torch

from tikhonet import Blocks, Network, Problem


def plant(problem: Problem, rows: int, outputs: int, seed: int) -> tuple[Blocks, torch.Tensor]:
    """Blocks of a network whose pre-activations are all positive, and its own outputs as targets.

    Positive inputs and weights make u = z >= 0 everywhere: the point where both lifts vanish.
    """
    network: Network = problem.network
    generator = torch.Generator().manual_seed(seed)

    def positive(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64) + 0.1

    X = positive(rows, network.widths[0])
    W = {edge: positive(*network.shape(edge)) / network.shape(edge)[1] for edge in network.learned}
    V = positive(outputs, network.widths[-1]) - 0.6
    U = network.forward(X, W)
    return Blocks(U, V, W), U[network.depth] @ V.T
