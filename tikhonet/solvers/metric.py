"""The W-step of a constrained layer, solved in its own metric.

    minimise over W in its set:  1/2 |W - W~|_H^2,   H = I + B diag(c) B' = (G + damping I) / damping

W~ is where the free step leads and B, c are the leading eigenpairs that the layer's Gram matrix keeps. A Euclidean
projection of W~ minimises another thing; with the l1 ball it leaves twice as many nonzeros.
"""

from __future__ import annotations

from torch import Tensor

from tikhonet.sets import ConvexSet
from tikhonet.solvers.minibatch import Gram

STEPS = 5


def nearest_in_metric(
    gram: Gram, set_: ConvexSet, moved: Tensor, dual: Tensor | None = None, steps: int = STEPS
) -> tuple[Tensor, Tensor]:
    """A few steps of ADMM on  W = P,  P in the set; from the dual of the last call, which differs little.

    W = W~ + rho (H + rho I)^-1 (P - D - W~),   P = project(W + D),   D = D + W - P.
    """
    assert gram.shrink is not None
    c = gram.shrink / (1 - gram.shrink)
    rho = float(1 + c.max()) ** 0.5
    within = rho / (1 + c + rho) - rho / (1 + rho)
    D = moved.new_zeros(moved.shape) if dual is None else dual
    P = set_.project(moved + D)
    for _ in range(steps):
        gap = (P - D).sub_(moved)
        W = moved.add(gap, alpha=rho / (1 + rho)).addmm_((gap @ gram.basis) * within, gram.basis.T)
        P = set_.project(W + D)
        D = W.add_(D).sub_(P)
    return P, D
