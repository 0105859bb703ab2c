"""Sec. 3.2: the linear SVM that replaces V on the learned features.

    minimise over v, b:  1/2 |v|^2 + C sum_i w_i max(0, 1 - t_i (v . u_i + b))^2,   t = +1 or -1

for every class against the others: LinearSVC's problem, but for its penalty on the intercept. It is piecewise
quadratic, so Newton's method with the Gram matrix of the rows inside the margin ends after a few steps. At the
start all rows are inside, for all classes: the first step is one ridge regression that they share. Every sum over rows
ends in `reduce`, where several machines have some each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from tikhonet.problem.losses import SquaredHinge
from tikhonet.problem.samples import Reduce, keep

GRID = (0.1, 1.0, 10.0, 100.0)
JITTER = (0.0, 1e-14, 1e-12, 1e-10, 1e-8)
"""Added to the diagonal of a Hessian, relative to its largest entry, until it has a Cholesky factor."""


@dataclass(frozen=True)
class LinearSVM:
    """A linear classifier on features that it divides by their rms norm, so that C has no units."""

    V: Tensor
    intercept: Tensor
    norm: float
    C: float

    def scores(self, features: Tensor) -> Tensor:
        return (features @ (self.V / self.norm).T).add_(self.intercept)

    def error(self, features: Tensor, labels: Tensor) -> float:
        """The share of rows whose highest score is not their label's."""
        return float((self.scores(features).argmax(1) != labels).double().mean())


def fit_linear_svm(
    features: Tensor,
    labels: Tensor,
    C: float = 5.0,
    *,
    classes: int | None = None,
    weight: Tensor | None = None,
    tol: float = 1e-4,
    start: LinearSVM | None = None,
    reduce: Reduce = keep,
) -> LinearSVM:
    """One against all, on features and integer labels; ends when the gradient is `tol` of its size at zero."""
    if not 0 < C < float("inf"):
        raise ValueError(f"C must be positive and finite, got {C}")
    T = SquaredHinge().encode(labels, classes).to(features)
    weight = features.new_ones(len(features)) if weight is None else weight.to(features)
    norm = rms_norm(features, weight, reduce)  # also with a start: this is what finds NaN
    if start is not None:
        norm = start.norm
    A = features.new_ones(len(features), features.shape[1] + 1)
    torch.div(features, norm, out=A[:, :-1])
    M = None if start is None else torch.cat([start.V, start.intercept[:, None]], 1).double()
    M = newton_hinge(A, T, C * weight, tol, M, reduce=reduce).to(features)
    if not bool(M.isfinite().all()):
        largest = C * float(weight.max())
        raise ValueError(
            f"C times the weights must be small enough for sums in {features.dtype}, got {largest:g}; "
            "lower C or use features in float64"
        )
    return LinearSVM(M[:, :-1], M[:, -1], norm, C)


def rms_norm(features: Tensor, weight: Tensor, reduce: Reduce = keep) -> float:
    """The root of the weighted mean of |u_i|^2, or 1 where it is 0; raises where anything is NaN or infinite."""
    squares, total = reduce(torch.stack((features.square().sum(1) @ weight, weight.sum())))
    norm = float((squares / total.clamp(min=1e-30)).sqrt())
    if math.isfinite(norm):  # so all features are, without another pass over them
        return norm or 1.0
    for name, values in (("features", features), ("weight", weight[:, None])):
        bad = (~values.isfinite().all(1)).nonzero()
        if len(bad):
            raise ValueError(
                f"{name} must be finite, got NaN or infinity first in row {int(bad[0])}; impute or drop such rows"
            )
    if features.dtype == torch.float64:
        return norm
    return rms_norm(features.double(), weight.double(), reduce)  # only the squares are beyond the type of the features


def choose_svm(
    features: Tensor,
    labels: Tensor,
    *,
    classes: int | None = None,
    grid: Sequence[float] = GRID,
    held_out: float = 0.1,
    seed: int = 0,
    tol: float = 1e-3,
    reduce: Reduce = keep,
) -> LinearSVM:
    """The SVM whose C has the lowest error on a random part of the rows (the smallest among equals), fitted on all."""
    classes = int(labels.max()) + 1 if classes is None else classes
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)).to(labels.device)
    held, rest = order.split([(count := round(held_out * len(labels))), len(labels) - count])
    fit = partial(fit_linear_svm, classes=classes, tol=tol, reduce=reduce)
    best, least, svm = min(grid), float("inf"), None
    for C in sorted(grid) if len(held) and len(rest) else ():
        svm = fit(features[rest], labels[rest], C, start=svm)
        wrong = int(reduce((svm.scores(features[held]).argmax(1) != labels[held]).sum()))
        if wrong < least:
            best, least = C, wrong
    return fit(features, labels, best)


def newton_hinge(
    A: Tensor, T: Tensor, weight: Tensor, tol: float, M: Tensor | None, max_iter: int = 50, reduce: Reduce = keep
) -> Tensor:
    """Minimise  1/2 |M|^2 + sum_i w_i max(0, 1 - t_i (M a_i))^2  by rows, the last column of M free of the penalty."""
    penalty = torch.ones(A.shape[1], dtype=torch.float64, device=A.device)
    penalty[-1] = 1e-8  # the Hessian stays positive definite where no row is inside the margin
    pull = reduce((weight[:, None] * T).T @ A).double()
    scale, rows = 2 * pull.norm(dim=1), int(reduce(torch.tensor(len(A))))
    if M is None and rows > 12 * A.shape[1]:
        # A sixth of the rows gives a start with nearly the right rows inside, for a sixth of the products.
        M = newton_hinge(A[::6], T[::6], 6 * weight[::6], 10 * tol, None, reduce=reduce)
    elif M is None:
        M = newton_solve(lambda exact: reduce(gram(A, weight, exact)), penalty, 2 * pull.T).T
    margin = 1 - T * (A @ M.to(A).T)
    grams = [InsideGram() for _ in range(len(M))]
    for _ in range(max_iter):
        inside = margin.relu()
        gradient = penalty * M - 2 * reduce((weight[:, None] * T * inside).T @ A).double()
        open_ = (gradient.norm(dim=1) > tol * scale).nonzero().flatten()
        if not len(open_):
            break
        step = torch.zeros_like(M)
        for k in open_.tolist():
            gram_k = partial(grams[k].update, A, weight, inside[:, k] > 0, reduce)
            step[k] = -newton_solve(gram_k, penalty, gradient[k, :, None]).flatten()
        change = -T * (A @ step.to(A).T)
        length = exact_line_search(margin, change, weight, penalty, M, step, reduce)
        M = M + length[:, None] * step
        margin += length.to(A) * change
    return M


def newton_solve(gram_of: Callable[[bool], Tensor], penalty: Tensor, right: Tensor) -> Tensor:
    """(2 G + penalty)^-1 right, in float64, with the Gram matrix G = gram_of(exact).

    Rounding in float32 may leave G indefinite by more than the penalty where features depend on each other linearly: it
    is asked for in float64 where the factorisation fails, and only there.
    """
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(2 * gram_of(False).double() + torch.diag(penalty))
    if int(failed):
        factor = jittered_factor(2 * gram_of(True) + torch.diag(penalty))
    return torch.cholesky_solve(right, factor)


def jittered_factor(H: Tensor) -> Tensor:
    """The Cholesky factor of H with as little added to its diagonal as it takes; the step is one of descent still."""
    largest = H.diagonal().max()
    factor: Tensor
    for jitter in JITTER:
        factor, failed = torch.linalg.cholesky_ex(H + torch.diag((jitter * largest).expand(len(H))))
        if not int(failed):
            return factor
    return torch.full_like(H, torch.nan)  # H is not finite; neither is what is solved with it


class InsideGram:
    """sum_i w_i a_i a_i' over the rows inside the margin, by the rows that came in or went out where they are fewer."""

    def __init__(self) -> None:
        self.matrix: Tensor | None = None
        self.inside: Tensor | None = None
        self.exact = False

    def update(self, A: Tensor, weight: Tensor, inside: Tensor, reduce: Reduce, exact: bool) -> Tensor:
        """Once asked for in float64 (`exact`), it stays so: what has failed in float32 would fail again."""

        def part(rows: Tensor) -> Tensor:
            return gram(A[rows], weight[rows], self.exact)

        if exact and not self.exact:
            self.matrix, self.exact = None, True
        if (
            self.matrix is None
            or self.inside is None
            or int((changed := inside ^ self.inside).sum()) > int(inside.sum())
        ):
            self.matrix = part(inside)
        else:
            self.matrix += part(changed & inside) - part(changed & ~inside)
        self.inside = inside
        return reduce(self.matrix.clone())


def gram(A: Tensor, weight: Tensor, exact: bool) -> Tensor:
    """sum_i w_i a_i a_i', a few thousand rows at a time; in the type of A, or in float64 if `exact`."""
    H = A.new_zeros(A.shape[1], A.shape[1], dtype=torch.float64 if exact else A.dtype)
    for rows, w in zip(A.split(4096), weight.split(4096), strict=True):
        part = rows.to(H)
        H.addmm_((w[:, None] * part).T, part)
    return H


def exact_line_search(
    margin: Tensor, change: Tensor, weight: Tensor, penalty: Tensor, M: Tensor, step: Tensor, reduce: Reduce = keep
) -> Tensor:
    """The length s of each row's step at which the slope of the objective along it is zero, by safeguarded Newton."""
    low, high = torch.zeros_like(step[:, 0]), torch.full_like(step[:, 0], 2.0)
    s = torch.ones_like(low)
    quadratic, linear = (penalty * step * step).sum(1), (penalty * M * step).sum(1)
    for _ in range(20):
        inside = (margin + s.to(margin) * change).relu_()
        sums = torch.stack((weight @ (inside * change), weight @ (change.square() * (inside > 0))))
        pull, curve = 2 * reduce(sums).double()
        slope = linear + s * quadratic + pull
        curvature = quadratic + curve
        if bool((slope.abs() <= 1e-3 * (linear.abs() + pull.abs() + 1e-30)).all()):
            break
        high, low = torch.where(slope > 0, s, high), torch.where(slope > 0, low, s)
        trial = s - slope / curvature.clamp(min=1e-30)
        s = torch.where((trial > low) & (trial < high), trial, (low + high) / 2)
    return s
