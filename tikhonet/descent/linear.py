"""What the V-step and the W-step have in common: a linear map fitted to the samples.

    minimise over M in the set:  sum_i w_i phi_i(M a_i) + 1/2 <M R, M> + rho/2 |M - M_old|^2

with phi convex of curvature at most c and R the diagonal of ridge strengths. The Gram matrix
H = c sum_i w_i a_i a_i' + R + rho I majorises its Hessian in every row, so one factorisation
serves all rows and all inner steps; where phi is quadratic it is the Hessian and one step is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tikhonet.descent.convex import ModelStep, Solution, accelerate, minimise_quadratic
from tikhonet.problem.samples import Samples
from tikhonet.problem.sets import ConvexSet


@dataclass(frozen=True)
class LinearFit:
    """`inputs(rows, dtype)` gives a_i, `slope(rows, scores)` gives phi_i' (at scores 0 for None)."""

    samples: Samples
    inputs: Callable[[slice, torch.dtype], Tensor]
    slope: Callable[[slice, Tensor | None, torch.dtype], Tensor]
    curvature: float
    quadratic: bool
    ridge: Tensor
    set_: ConvexSet

    def gram(self) -> Tensor:
        """In float64, as the pull: else a residual would be that of other sums than the samples have."""

        def term(rows: slice) -> Tensor:
            A = self.inputs(rows, torch.float64)
            return self.samples.weigh(A, rows).T @ A

        return self.samples.sum(term)

    def pull(self, M: Tensor | None, dtype: torch.dtype) -> Tensor:
        """The gradient of the sum over samples at M (at zero for None)."""

        def term(rows: slice) -> Tensor:
            A = self.inputs(rows, dtype)
            slope = self.slope(rows, None if M is None else A @ M.T, dtype)
            return self.samples.weigh(slope, rows).T @ A

        return self.samples.sum(term)

    def solve(self, gram: Tensor, M_old: Tensor, rho: float, *, tol: float, max_iter: int) -> Solution:
        anchor, dtype = M_old.double(), M_old.dtype
        shift = self.ridge.double() + rho
        H = self.curvature * gram + torch.diag(shift)
        linear = rho * anchor - self.pull(None, torch.float64)
        if self.quadratic:
            return minimise_quadratic(H, linear, self.set_, M_old, tol=tol, max_iter=max_iter)

        def gradient(M: Tensor, dtype: torch.dtype = dtype) -> Tensor:
            return self.pull(M, dtype) + shift * M.double() - rho * anchor

        scale, M, steps, asked = float(linear.norm()), M_old, 0, tol
        while True:
            M, more = accelerate(
                gradient,
                ModelStep(H, self.set_, asked),
                M,
                scale=scale,
                tol=asked,
                max_iter=max_iter - steps,
                check_every=1,
            )
            exact, steps = M.double(), steps + more
            final = gradient(exact, torch.float64)
            residual = float((exact - self.set_.project(exact - final)).norm())
            if not tol * scale < residual or steps >= max_iter:
                return Solution(M, residual, scale, float(final.norm()), steps)
            # Where H is ill-conditioned the model's step can be small before the residual is.
            asked = 0.1 * asked
