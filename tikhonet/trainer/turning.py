"""What a W-step in a network of images leaves as it is: the norm of a layer's weights and the mean of every unit.

A step as long as the trainer's shrinks the weights of the first layers, since V was fitted to features of older steps,
which now promise too much. Biases do not shrink with them, and units that are always active make a layer linear. In a
ReLU network norms carry nothing, so the weights of a layer only turn, and biases move against the change of the mean:

    db = -dW mean(inputs),    W <- W |W_old| / |W|.
"""

from __future__ import annotations

from torch import Tensor

from tikhonet.network.graph import BIAS, Network
from tikhonet.trainer.statistics import Gram
from tikhonet.trainer.sweep import TINY


def against_mean(network: Network, n: int, direction: Tensor, gram: Gram) -> Tensor:
    """The direction of a layer with a bias, whose column comes first, such that no unit's mean changes."""
    if BIAS in network.learned_sources(n):
        mean = gram.matrix[0] / (gram.matrix[0, 0] + TINY)  # rows may all weigh nothing
        direction[:, 0] -= direction @ mean
    return direction


def turned(network: Network, n: int, M: Tensor, direction: Tensor, length: float) -> Tensor:
    """The stacked weights M of a layer, written over, after a step that leaves their norm as it was; biases just move.

    A layer that an identity feeds as well takes the step as it is: its norm says how much is added to the identity.
    """
    weights = M[:, int(BIAS in network.learned_sources(n)) :]
    before = float(weights.norm())
    M.add_(direction, alpha=length)
    now = float(weights.norm())
    if before > 0 < now and not network.fixed_sources(n):
        weights *= before / now
    return M
