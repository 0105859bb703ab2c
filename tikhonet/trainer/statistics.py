"""Running sums over the mini-batches: the Gram matrices of the W-steps, and the V-step's regression.

All sums end in `reduce`, so on many machines every rank holds the sums of all. Updates return a new object and write
over the matrices of the old one, which is used up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self

import torch
from torch import Tensor

from tikhonet.descent.convex import ModelStep, accelerate, minimise_quadratic
from tikhonet.network.designs import Design
from tikhonet.network.registry import Named, Registry
from tikhonet.problem.losses import Loss
from tikhonet.problem.objective import Problem
from tikhonet.problem.samples import Reduce, added_up, keep
from tikhonet.trainer.batches import Batch, add_numbers, largest_of
from tikhonet.trainer.saving import changed, saved
from tikhonet.trainer.sweep import TINY

FIRST_ITERATIONS = 3
"""Subspace iterations from a random basis; later ones begin at the last basis, and one follows the sums."""
ROWS_PER_FEATURE = 3
"""Rows of a batch, by feature, that a full V-step of a loss that is not quadratic needs; fewer make it shorter."""
RESIDUAL = 1e-2
"""The residual of a V-step in a set, and of the last one, relative to the gradient at zero."""
REFIT_STEPS = 200
"""Steps of a V-step in a set, and of the last one, at most: each of these looks at all rows."""
KEPT = 50_000_000
"""Features that the last V-step keeps in memory, at most; more are computed anew for each of its steps."""
DAMPINGS = (0.0, 1e-6, 1e-3, 1.0)
"""What is added to the diagonal of a matrix, relative to it, until it can be factorised."""


def add_product(total: Tensor, beta: float, left: Tensor, right: Tensor, whole: Tensor | None) -> Tensor:
    """beta total + left' right, written over `total`; `whole` is that product over all ranks, where there are many."""
    total.mul_(beta)
    if whole is None:  # one machine needs no second matrix
        return total.addmm_(left.T, right)
    return total.add_(whole)


def metric_inputs(design: Design, batch: Batch, total: float, reduce: Reduce) -> tuple[Batch, float]:
    """Rows for a Gram matrix and their total weight: one for each sample, or the patches of some images."""
    A, weight = design.few(batch.weight)
    if len(A) == len(batch.X):
        return batch._replace(X=A), total
    if weight is not None and not bool(weight.any()):
        weight = None
    rows = Batch(A, A, weight)
    return rows, add_numbers(reduce, rows.total)[0]


def is_finite(*matrices: Tensor) -> bool:
    """Whether all entries are numbers."""
    return all(bool(M.isfinite().all()) for M in matrices)


@dataclass(frozen=True)
class Gram(Named, ABC):
    """A running Gram matrix G of a layer's inputs, and the metric of the W-step that it makes, by `name`."""

    matrix: Tensor
    relative: float
    """The damping as a multiple of the mean eigenvalue."""
    weight: float = 0.0
    damping: float = 1.0

    kinds: ClassVar[Registry[type[Gram]]] = Registry("metric")

    @classmethod
    def empty(cls, width: int, rank: int, damping: float, generator: torch.Generator, like: Tensor) -> Self:
        """No rows yet; `rank` eigenpairs, where the metric counts them."""
        return cls(like.new_zeros(width, width), damping)

    def copy(self) -> Self:
        return changed(self, matrix=self.matrix.clone())

    def update(self, rows: Batch, total: float, *, beta: float, whole: Tensor | None = None) -> Self:
        """Forget by beta, add the layer's inputs in rows.X, of this total weight, and renew what the metric keeps.

        `whole` is their product over all ranks, where there are many.
        """
        matrix = add_product(self.matrix, beta, rows.weigh(rows.X), rows.X, whole)
        weight = beta * self.weight + total
        damping = self.relative * float(matrix.diagonal().mean()) / weight + TINY
        return changed(self, matrix=matrix, weight=weight, damping=damping).renewed()

    @abstractmethod
    def renewed(self) -> Self:
        """This metric for the matrix as it is now."""

    @abstractmethod
    def precondition(self, R: Tensor) -> Tensor:
        """R (G + damping I)^-1 times the damping; may be written over R."""


@saved
@dataclass(frozen=True)
class LeadingGram(Gram):
    """(G + damping I)^-1 through the leading eigenpairs of G.

    The damping is large (a multiple of the mean eigenvalue), so a few dozen eigenvalues rise above it; the
    rest of the spectrum is taken as zero. One subspace iteration per update keeps the eigenpairs current.
    """

    basis: Tensor = field(kw_only=True)
    shrink: Tensor | None = None

    name: ClassVar[str] = "leading"

    @classmethod
    def empty(cls, width: int, rank: int, damping: float, generator: torch.Generator, like: Tensor) -> Self:
        draw = torch.randn(width, min(rank, width), generator=generator, dtype=torch.float64)
        return cls(like.new_zeros(width, width), damping, basis=torch.linalg.qr(draw)[0].to(like))

    def renewed(self) -> Self:
        basis = self.basis
        for _ in range(FIRST_ITERATIONS if self.shrink is None else 1):
            basis = torch.linalg.qr(self.matrix @ basis)[0]
        small = basis.T @ (self.matrix @ basis)
        values, vectors = torch.linalg.eigh((small + small.T) / (2 * self.weight))
        return changed(self, basis=basis @ vectors, shrink=values.clamp_(min=0) / (values + self.damping))

    def precondition(self, R: Tensor) -> Tensor:
        assert self.shrink is not None
        return R.addmm_((R @ self.basis) * self.shrink, self.basis.T, alpha=-1.0)


@saved
@dataclass(frozen=True)
class FullGram(Gram):
    """The whole inverse (G + damping I)^-1, for a damping below most eigenvalues."""

    inverse: Tensor | None = None

    name: ClassVar[str] = "full"

    def renewed(self) -> Self:
        H = self.matrix / self.weight
        H.diagonal().add_(self.damping)
        return changed(self, inverse=torch.cholesky_inverse(factorise(H)).mul_(self.damping))

    def precondition(self, R: Tensor) -> Tensor:
        assert self.inverse is not None
        return R @ self.inverse


@saved
@dataclass(frozen=True)
class RunningClassifier:
    """V-step on running sums: the ridge regression whose sums are S = sum a a' and T = sum a y'.

    Other losses than the squared one take a step of the same shape per update, majorised by their curvature: V moves
    by -(gradient) (curvature S + ridge)^-1, and less far where the batch has too few rows to say so much.
    """

    S: Tensor
    T: Tensor
    V: Tensor
    weight: float = 0.0

    @classmethod
    def start(cls, V: Tensor) -> RunningClassifier:
        return cls(V.new_zeros(V.shape[1], V.shape[1]), V.new_zeros(V.shape[1], V.shape[0]), V)

    def copy(self) -> RunningClassifier:
        return changed(self, S=self.S.clone(), T=self.T.clone())

    def add(self, rows: Batch, total: float, *, beta: float, reduce: Reduce = keep) -> RunningClassifier:
        """Forget by beta and add the features in rows.X, of this total weight."""
        weighted, whole = rows.weigh(rows.X), dict[str, Tensor]()
        if reduce is not keep:
            whole = added_up(reduce, {"S": weighted.T @ rows.X, "T": weighted.T @ rows.targets})
        S = add_product(self.S, beta, weighted, rows.X, whole.get("S"))
        T = add_product(self.T, beta, weighted, rows.targets, whole.get("T"))
        return changed(self, S=S, T=T, weight=beta * self.weight + total)

    def solve(self, loss: Loss, ridge: float, right: Tensor) -> Tensor:
        """The rows of (curvature S + ridge)^-1 right."""
        return torch.cholesky_solve(right, factorise(ridged(loss, self.S, ridge))).T.contiguous()

    def update(
        self, rows: Batch, total: float, loss: Loss, *, beta: float, ridge: float, reduce: Reduce = keep
    ) -> RunningClassifier:
        """Forget by beta, add the features in rows.X, of this total weight, and move V."""
        sums, V = self.add(rows, total, beta=beta, reduce=reduce), self.V
        if loss.quadratic:
            return changed(sums, V=sums.solve(loss, ridge, sums.T))
        slope = loss.gradient(rows.targets, rows.X @ V.T, rows.weight)
        shrunk = ridge * float(sums.S.diagonal().mean()) * V
        gradient = reduce(slope.T @ rows.X) * (sums.weight / total) + shrunk
        known = add_numbers(reduce, len(rows.X))[0] / (ROWS_PER_FEATURE * len(sums.S))
        share = min(1.0, max(known, total / sums.weight))
        return changed(sums, V=V - share * sums.solve(loss, ridge, gradient.T))

    def within(self, problem: Problem, ridge: float) -> RunningClassifier:
        """V in its set: nearly the best one there for a quadratic loss, else the nearest."""
        if (set_ := problem.V_set).everything or not problem.loss.quadratic:
            return changed(self, V=set_.project(self.V))
        H, T = ridged(problem.loss, self.S.double(), ridge), self.T.double().T
        return changed(self, V=minimise_quadratic(H, T, set_, self.V, tol=RESIDUAL, max_iter=REFIT_STEPS).point)


def fit_classifier(
    problem: Problem, V: Tensor, batches: Iterable[Batch], ridge: float, unit: float, reduce: Reduce = keep
) -> Tensor:
    """The minimiser over V in its set of loss and ridge, for batches of features in this unit, iterated many times.

    In closed form for the squared loss; for others by accelerated majorised steps from V, each with the gradient of
    all rows, until the residual is `RESIDUAL` of the gradient at zero.
    """
    loss, set_ = problem.loss, problem.V_set
    sums, kept, size = RunningClassifier.start(V * unit), [], 0
    for batch in batches:
        sums = sums.add(batch, batch.total, beta=1.0)
        size += batch.X.numel()
        if not loss.quadratic and size <= KEPT:
            kept.append(batch)
    sums = changed(sums, **added_up(reduce, {"S": sums.S, "T": sums.T}))  # the weight has no part in the fit
    if loss.quadratic and set_.everything:
        return sums.solve(loss, ridge, sums.T) / unit
    S, start = unit**2 * sums.S.double(), set_.project(V)
    H = ridged(loss, S, ridge)
    if loss.quadratic:
        start = set_.project(sums.solve(loss, ridge, sums.T) / unit)
        best: Tensor = minimise_quadratic(H, unit * sums.T.double().T, set_, start).point
        return best
    shift = ridge * float(S.diagonal().mean())
    rows = kept if largest_of(reduce, size) <= KEPT else batches  # on all ranks alike

    def gradient(V: Tensor) -> Tensor:
        total = torch.zeros_like(V, dtype=torch.float64)
        for A, targets, weight in rows:
            total += loss.gradient(targets, A @ (unit * V).T, weight).T @ A
        return unit * reduce(total) + shift * V.double()

    scale, step = float(gradient(torch.zeros_like(start)).norm()), ModelStep(H, set_, RESIDUAL)
    return accelerate(gradient, step, start, scale=scale, tol=RESIDUAL, max_iter=REFIT_STEPS, check_every=1)[0]


def ridged(loss: Loss, S: Tensor, ridge: float) -> Tensor:
    """The Hessian of the V-step: the ridge is relative to the mean eigenvalue of S."""
    H = loss.curvature * S
    H.diagonal().add_(ridge * float(S.diagonal().mean()) + TINY)
    return H


def factorise(H: Tensor) -> Tensor:
    """The Cholesky factors of one matrix or many, damped more where rounding has left them indefinite."""
    for damping in DAMPINGS:
        diagonal = H.diagonal(dim1=-2, dim2=-1)
        factor: Tensor
        factor, failed = torch.linalg.cholesky_ex(H + torch.diag_embed(damping * diagonal) if damping else H)
        if not bool(failed.any()):
            return factor
    raise FloatingPointError("a matrix of sums over the rows holds NaN or infinity")


class Restriction(Protocol):
    """A support that the W-steps of a layer stay within."""

    def direction(self, gram: Gram, R: Tensor) -> Tensor:
        """The step for the gradient R in the metric of the Gram matrix, zero off the support."""


@saved
@dataclass(frozen=True)
class LayerState:
    """What the W-step of one layer remembers: Gram matrix, momentum, and the sizes that scale its step."""

    gram: Gram
    momentum: Tensor
    signal: float = 0.0
    """The running mean square of the layer's pre-activations."""
    change: float = 0.0
    """The running mean square of the change that one unscaled step would make in them."""
    share: float = 0.0
    """How much of such a mean, which starts at zero, has been filled."""
    peak: float = 0.0
    """The largest ratio of change to signal so far."""
    within: Restriction | None = None
    """The support that steps stay within, under a budget."""

    def direction(self, R: Tensor) -> Tensor:
        """R (G + damping I)^-1 times the damping, or the step of the support; may be written over R."""
        return self.gram.precondition(R) if self.within is None else self.within.direction(self.gram, R)

    def copy(self) -> LayerState:
        return changed(self, gram=self.gram.copy(), momentum=self.momentum.clone())
