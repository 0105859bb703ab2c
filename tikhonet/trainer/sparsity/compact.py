"""From a network with dead units to a smaller one with the same outputs, for dense kernels that get smaller too."""

from __future__ import annotations

import torch
from torch import Tensor

from tikhonet.network.edges import Edge
from tikhonet.network.graph import BIAS, Network, Pair, Weights
from tikhonet.trainer.sparsity.measure import living


def compact(network: Network, W: Weights, V: Tensor) -> tuple[Network, Weights, Tensor]:
    """Leave out the hidden units that nothing feeds: they are zero for every input.

    Every layer keeps at least one unit. An identity between layers of which one has shrunk becomes a learned edge, the
    matrix of zeros and ones that picks its rows and columns.
    """
    network.check_weights(W)
    kept = {
        0: torch.arange(network.widths[0], device=V.device),
        BIAS: torch.zeros(1, dtype=torch.long, device=V.device),
    }
    for n in network.hidden:
        units = living(network, W, n).nonzero().flatten()
        kept[n] = units if len(units) else kept[BIAS]
    edges: dict[Pair, str | Edge] = {}
    smaller: Weights = {}
    for (n, m), edge in network.edges.items():
        edges[n, m], matrix = edge.select(W.get((n, m)), kept[n], kept[m])
        if matrix is not None:
            smaller[n, m] = matrix.to(V)
    widths = [len(kept[n]) for n in range(len(network.widths))]
    return Network(widths, edges, activation=network.activation), smaller, V[:, kept[network.depth]]
