"""What a W-step in a network of images leaves as it is: the norm of a layer's weights and the mean of every unit.

A step as long as the trainer's shrinks the weights of the first layers, since V was fitted to features of older steps,
which now promise too much. Biases do not shrink with them, and units that are always active make a layer linear. In a
ReLU network norms carry nothing, so the weights of a layer only turn, and its biases follow: with the mean m of the
layer's inputs,

    W <- (W + dW) |W| / |W + dW|,    b <- b - (change of W) m.
"""

from __future__ import annotations

from torch import Tensor

from tikhonet.network.graph import BIAS, Network
from tikhonet.trainer.statistics import Gram
from tikhonet.trainer.sweep import TINY


def mean_inputs(network: Network, n: int, gram: Gram) -> Tensor | None:
    """The mean of the inputs of a layer with a bias, whose column comes first; None without one."""
    if BIAS not in network.learned_sources(n):
        return None
    return gram.matrix[0, 1:] / (gram.matrix[0, 0] + TINY)  # rows may all weigh nothing


def against_mean(direction: Tensor, mean: Tensor | None) -> None:
    """The direction of a layer, written over, such that no unit's mean changes along it."""
    if mean is not None:
        direction[:, 0] = -(direction[:, 1:] @ mean)


def turned(network: Network, n: int, M: Tensor, direction: Tensor, length: float, mean: Tensor | None) -> Tensor:
    """The stacked weights M of a layer, written over, after a step that leaves their norm and its units' means.

    A layer that an identity feeds as well takes the step as it is: its norm says how much is added to the identity.
    """
    weights = M if mean is None else M[:, 1:]
    before, kept = float(weights.norm()), weights @ mean if mean is not None else None
    weights.add_(direction[:, -weights.shape[1] :], alpha=length)
    now = float(weights.norm())
    if before > 0 < now and not network.fixed_sources(n):
        weights *= before / now
    if mean is not None and kept is not None:
        M[:, 0] += kept - weights @ mean
    return M
