"""What the first batch of a run decides: the scale of the inputs, and that of random weights."""

from __future__ import annotations

import math

from torch import Tensor

from tikhonet.network.graph import Network, Weights
from tikhonet.problem.samples import Reduce
from tikhonet.trainer.batches import add_numbers
from tikhonet.trainer.rank_sums import mean_squares

SILENT = 1e-12
"""The rms of pre-activations below which no scale makes anything of a layer."""
LOUD = 1e3
"""The rms of pre-activations from which on a layer is scaled down after its weights were put in their set."""


def evened_out(network: Network, X: Tensor, W: Weights, *, size: float, above: float, reduce: Reduce) -> Weights:
    """Random weights scaled so that signals neither vanish nor grow with depth.

    A layer without identity sources gets pre-activations of this rms on the first batch, where they are above that.
    """
    U, rows, W = network.layers(X), add_numbers(reduce, len(X))[0], dict(W)
    for n in network.hidden:
        Z = network.pre_activation(n, U, W)
        if not network.fixed_sources(n):
            found = float(Z.new_tensor(mean_squares(reduce, rows, Z)[0]).sqrt())
            factor = size / found if found > above else 1.0
            W |= {(n, m): W[n, m] * factor for m in network.learned_sources(n)}
            Z *= factor
        U[n] = network.activation.value_(Z)
    return W


def input_scale(X: Tensor, reduce: Reduce) -> float:
    """The rms of the inputs; 1 where they are all zero."""
    rows = add_numbers(reduce, len(X))[0]
    return math.sqrt(mean_squares(reduce, rows, X.double())[0]) or 1.0
