"""The inner solvers that the three sub-problems share.

One loop, `accelerate`, serves them all: accelerated proximal gradient steps with restarts. What a
step is (a scaled gradient step and a projection, or the minimiser of a quadratic model over a set)
is a small class. Everything ends with the optimality residual |x - Proj(x - gradient)| in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from tikhonet.problem.sets import ConvexSet


@dataclass(frozen=True)
class Solution:
    """A sub-problem's minimiser (the paper's *), and how exact it is.

    `residual` is the float64 projected-gradient norm at `point`, `scale` that of the gradient at
    zero, `gradient` the norm of the gradient at `point`, `steps` the inner iterations.
    """

    point: Any
    residual: float
    scale: float
    gradient: float
    steps: int

    @property
    def relative(self) -> float:
        return self.residual / max(self.scale, torch.finfo(torch.float64).tiny)


class Step(Protocol):
    def __call__(self, y: Tensor, gradient: Tensor, out: Tensor) -> Tensor:
        """Write into `out` the minimiser of the model of f around y."""

    def size(self, change: Tensor) -> float:
        """The norm of `change` in the units of a gradient."""


@dataclass(frozen=True)
class ProjectedStep:
    """Proj(y - gradient / L), with L one number or one per column (a diagonal metric)."""

    L: Tensor
    project_: Callable[[Tensor], Tensor]

    def __call__(self, y: Tensor, gradient: Tensor, out: Tensor) -> Tensor:
        torch.addcdiv(y, gradient, self.L, value=-1, out=out)
        return self.project_(out)

    def size(self, change: Tensor) -> float:
        return float((change * self.L).norm())


@dataclass(frozen=True)
class ModelStep:
    """The minimiser over the set of a quadratic model with Hessian H, shared by all rows."""

    H: Tensor
    set_: ConvexSet
    tol: float

    def __call__(self, y: Tensor, gradient: Tensor, out: Tensor) -> Tensor:
        linear = y.double() @ self.H - gradient.double()
        return out.copy_(minimise_quadratic(self.H, linear, self.set_, y, tol=0.1 * self.tol).point)

    def size(self, change: Tensor) -> float:
        return float((change.double() @ self.H).norm())


def accelerate(
    gradient: Callable[[Tensor], Tensor],
    step: Step,
    start: Tensor,
    *,
    scale: float,
    tol: float,
    max_iter: int,
    tighten: float = 0.1,
    convexity: float = 0.0,
    check_every: int = 4,
) -> tuple[Tensor, int]:
    """Accelerated steps from `start` until the residual is small; returns the point and the count.

    Small means at most `tol * scale`, and `tighten` times the start's own residual: so outer iterations
    that approach a stationary point get ever more exact sub-problems. `convexity` is the ratio of
    strong convexity to L, which caps the momentum. `gradient` may return the same buffer each time.
    """
    rounding = 32 * torch.finfo(start.dtype).eps * scale
    x, y, x_next = start.clone(), start.clone(), torch.empty_like(start)
    target, momentum = tol * scale, 1.0
    cap = (1 - convexity**0.5) / (1 + convexity**0.5)
    for count in range(1, max_iter + 1):
        step(y, gradient(y), x_next)
        if count == 1 or count % check_every == 0:
            change = y.sub_(x_next)  # y is overwritten below
            size = step.size(change)
            if count == 1:
                target = max(min(target, tighten * size), rounding)
            if not size > target:  # also ends on NaN, which the residual reports
                return x_next, count
            if float((change * (x_next - x)).sum()) > 0:
                momentum = 1.0  # the step turned against the momentum: restart
        longer = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        torch.lerp(x, x_next, 1 + min((momentum - 1) / longer, cap), out=y)
        x, x_next, momentum = x_next, x, longer
    return x, max_iter


def largest_eigenvalue(product: Callable[[Tensor], Tensor], width: int, like: Tensor) -> float:
    """The largest eigenvalue of a positive semidefinite operator on rows: exact if small, else a close upper estimate.

    The estimate is the largest Ritz value of a few block power steps, and 2%.
    """
    if width <= 128:
        matrix = product(torch.eye(width, dtype=like.dtype, device=like.device)).double()
        return _top((matrix + matrix.T) / 2)
    generator = torch.Generator().manual_seed(0)
    block = torch.randn(8, width, generator=generator, dtype=torch.float64).to(like)
    for _ in range(16):
        block = torch.linalg.qr(product(block).T)[0].T.contiguous()
    return 1.02 * _top((block @ product(block).T).double())


def _top(matrix: Tensor) -> float:
    """The largest eigenvalue of a small symmetric matrix, at least 0; NaN if it is not finite."""
    if not bool(matrix.isfinite().all()):
        return float("nan")
    return max(float(torch.linalg.eigvalsh(matrix)[-1]), 0.0)


def minimise_quadratic(
    H: Tensor,
    linear: Tensor,
    set_: ConvexSet,
    start: Tensor,
    *,
    tol: float = 1e-8,
    max_iter: int = 5000,
    tighten: float = 0.1,
) -> Solution:
    """Minimise over M in the set:  1/2 <M H, M> - <linear, M>,  H shared by all rows of M.

    With the set `NonNegative()` this is the batched non-negative QP, one row per sample.
    Without constraints in closed form (the minimiser nearest to `start` where H is singular), else
    by accelerated projected gradient steps. H and `linear` come in float64, `start` in the working
    type, which is that of the result. Where rows fall into groups with a Hessian each, H, `linear` and
    `start` have one more dimension in front, and so have the matrices that the set is asked about.
    """
    if set_.everything:
        point, steps = (start.double() + solve_rows(H, linear - start.double() @ H, start.dtype)).to(start), 1
    else:
        L = largest_of(H)
        if L == 0:
            L = 1.0  # a linear function: any step length is right
        # In units in which L is 1, so that the number of steps does not depend on the user's.
        hessian, negated = (H / L).to(start), (-linear / L).to(start)
        buffer = torch.empty_like(start)
        product = torch.addmm if H.ndim == 2 else torch.baddbmm
        point, steps = accelerate(
            lambda M: product(negated, M, hessian, out=buffer),
            ProjectedStep(start.new_ones(()), set_.project_),
            set_.project(start),
            scale=float(linear.norm()) / L,
            tol=tol,
            max_iter=max_iter,
            tighten=tighten,
        )
        point = set_.project(point)
    exact = point.double()
    gradient = exact @ H - linear
    residual = float((exact - set_.project(exact - gradient)).norm())
    return Solution(point, residual, float(linear.norm()), float(gradient.norm()), steps)


def largest_of(H: Tensor) -> float:
    """The largest eigenvalue of a positive semidefinite matrix, or of several."""
    if H.ndim == 2:
        return largest_eigenvalue(lambda block: block @ H, len(H), H)
    norms = [largest_of(part) for part in H]
    return max(norms) if all(map(math.isfinite, norms)) else math.nan


def solve_rows(H: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    """right H^-1; the least-norm solution where H is singular in the precision of the data."""
    if not bool(H.isfinite().all()):
        return torch.full_like(right, torch.nan)
    precision = max(torch.finfo(dtype).eps, 16 * H.shape[-1] * torch.finfo(H.dtype).eps)
    factor, failed = torch.linalg.cholesky_ex(H)
    pivots, diagonal = (matrix.diagonal(dim1=-2, dim2=-1) for matrix in (factor, H))
    if not bool(failed.any()) and bool((pivots.square() > precision * diagonal).all()):
        return torch.cholesky_solve(right.mT, factor).mT
    values, vectors = torch.linalg.eigh(H)
    kept = values > precision * values[..., -1:]
    inverse = torch.where(kept, 1 / torch.where(kept, values, 1.0), 0.0)
    solution: Tensor = ((right @ vectors) * inverse[..., None, :]) @ vectors.mT
    return solution
