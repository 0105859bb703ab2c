"""From a network with dead units to a smaller one with the same outputs, for dense kernels that get smaller too."""

from __future__ import annotations

import torch
from torch import Tensor

from tikhonet.network.graph import BIAS, Edge, Kind, Network, Weights
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
    whole = {n for n in range(len(network.widths)) if len(kept[n]) == network.widths[n]}
    edges: dict[Edge, Kind] = {}
    smaller: Weights = {}
    for (n, m), kind in network.edges.items():
        edges[n, m] = kind if kind == "learned" or {n, m} <= whole else "learned"
        if kind == "learned":
            smaller[n, m] = W[n, m][kept[n]][:, kept[m]]
        elif edges[n, m] == "learned":
            smaller[n, m] = (kept[n][:, None] == kept[m]).to(V)
    widths = [len(kept[n]) for n in range(len(network.widths))]
    return Network(widths, edges), smaller, V[:, kept[network.depth]]
