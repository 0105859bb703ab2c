"""B-step: binary codes as one more block of the coordinate descent.

For hashing the targets of the network are codes, and the codes are variables too. With p_i = V u_{i,N} the network's
outputs, y_i what is known of a sample (its labels) and G a regression of it on the codes, the terms that hold B are

    h(B, G) = 1/2 sum_i w_i |b_i - p_i|^2 + alpha/2 (sum_i w_i |y_i - G' b_i|^2 + ridge |G|^2),    B in {-1, 1}.

The first is the squared loss of Eq. 4. Each bit of B and all of G have closed-form minimisers given the rest, so that
no step raises the objective. Every sum over samples ends in `reduce`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tikhonet.problem.samples import Reduce, keep


def update_regression(B: Tensor, Y: Tensor, weight: Tensor, ridge: float, reduce: Reduce = keep) -> Tensor:
    """Minimise over G:  sum_i w_i |y_i - G' b_i|^2 + ridge |G|^2."""
    weighted = B * weight[:, None]
    H = reduce(weighted.T @ B)
    H.diagonal().add_(ridge)
    return torch.cholesky_solve(reduce(weighted.T @ Y), torch.linalg.cholesky(H))


def update_codes(B: Tensor, P: Tensor, Y: Tensor, G: Tensor, alpha: float) -> Tensor:
    """One bit after the other, minimise h over it:  b_l = sign(p_l + alpha <y - sum over k != l of b_k g_k, g_l>).

    Since b_l^2 = 1, h is linear in one bit and this is its exact minimiser; a tie leaves the bit as it is. A sample's
    weight multiplies all of its terms, so it plays no part.
    """
    B = B.clone()
    residual = Y - B @ G
    for bit, g in enumerate(G):
        old = B[:, bit].clone()
        field = P[:, bit] + alpha * (residual @ g + old * (g @ g))
        B[:, bit] = torch.where(field == 0, old, field.sign())
        residual -= torch.outer(B[:, bit] - old, g)
    return B


def code_objective(
    B: Tensor, P: Tensor, Y: Tensor, G: Tensor, weight: Tensor, *, alpha: float, ridge: float, reduce: Reduce = keep
) -> tuple[float, float]:
    """The two terms of h: the squared loss, and alpha times the regression's."""
    loss = 0.5 * float(reduce(weight @ (B - P).square().sum(1)))
    regression = 0.5 * alpha * float(reduce(weight @ (Y - B @ G).square().sum(1)) + ridge * G.square().sum())
    return loss, regression
