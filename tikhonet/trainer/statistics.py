"""Running sums over the mini-batches: the Gram matrices of the W-steps, and the V-step's regression.

All sums end in `reduce`, so on many machines every rank holds the sums of all. Updates return a new object and write
over the matrices of the old one, which is used up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self

import torch
from torch import Tensor

from tikhonet.descent.convex import minimise_quadratic
from tikhonet.network.registry import Registry
from tikhonet.problem.losses import Loss
from tikhonet.problem.samples import Reduce, keep
from tikhonet.problem.sets import ConvexSet
from tikhonet.trainer.batches import Batch
from tikhonet.trainer.saving import changed, saved
from tikhonet.trainer.sweep import TINY

FIRST_ITERATIONS = 3
"""Subspace iterations from a random basis; later ones begin at the last basis, and one follows the sums."""


def add_product(total: Tensor, beta: float, left: Tensor, right: Tensor, reduce: Reduce) -> Tensor:
    """beta total + reduce(left' right), written over `total`."""
    total.mul_(beta)
    if reduce is keep:  # one machine needs no second matrix
        return total.addmm_(left.T, right)
    return total.add_(reduce(left.T @ right))


def mean_squares(reduce: Reduce, rows: float, *matrices: Tensor) -> list[Tensor]:
    """The mean squares of several matrices of one width that have so many rows over all ranks."""
    if reduce is keep:
        return [M.square().mean() for M in matrices]
    return list(reduce(torch.stack([M.square().sum() for M in matrices])) / (rows * matrices[0].shape[1]))


@dataclass(frozen=True)
class Gram(ABC):
    """A running Gram matrix G of a layer's inputs, and the metric of the W-step that it makes, by `name`."""

    matrix: Tensor
    relative: float
    """The damping as a multiple of the mean eigenvalue."""
    weight: float = 0.0
    damping: float = 1.0

    name: ClassVar[str]
    kinds: ClassVar[Registry[type[Gram]]] = Registry("metric")

    def __init_subclass__(cls) -> None:
        cls.kinds.add(cls.name, cls)

    @classmethod
    def empty(cls, width: int, rank: int, damping: float, generator: torch.Generator, like: Tensor) -> Self:
        """No rows yet; `rank` eigenpairs, where the metric counts them."""
        return cls(like.new_zeros(width, width), damping)

    def copy(self) -> Self:
        return changed(self, matrix=self.matrix.clone())

    def update(self, rows: Batch, total: float, *, beta: float, reduce: Reduce = keep) -> Self:
        """Forget by beta, add the layer's inputs in rows.X, of this total weight, and renew what the metric keeps."""
        matrix = add_product(self.matrix, beta, rows.weigh(rows.X), rows.X, reduce)
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
        return changed(self, inverse=torch.cholesky_inverse(torch.linalg.cholesky_ex(H)[0]).mul_(self.damping))

    def precondition(self, R: Tensor) -> Tensor:
        assert self.inverse is not None
        return R @ self.inverse


@saved
@dataclass(frozen=True)
class RunningClassifier:
    """V-step on running sums: the ridge regression whose sums are S = sum a a' and T = sum a y'.

    Other losses than the squared one take a step of the same shape per update, majorised by their
    curvature: V moves by -(gradient) (curvature S + ridge)^-1.
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

    def update(
        self, rows: Batch, total: float, loss: Loss, *, beta: float, ridge: float, reduce: Reduce = keep
    ) -> RunningClassifier:
        """Forget by beta, add the features in rows.X, of this total weight, and move V."""
        A, weighted = rows.X, rows.weigh(rows.X)
        S = add_product(self.S, beta, weighted, A, reduce)
        weight = beta * self.weight + total
        factor = torch.linalg.cholesky_ex(ridged(loss, S, ridge))[0]
        if loss.quadratic:
            T = add_product(self.T, beta, weighted, rows.targets, reduce)
            return RunningClassifier(S, T, torch.cholesky_solve(T, factor).T.contiguous(), weight)
        slope = loss.slope(rows.targets, A @ self.V.T)
        shrunk = ridge * float(S.diagonal().mean()) * self.V
        gradient = reduce(slope.T @ weighted) * (weight / total) + shrunk
        return RunningClassifier(S, self.T, self.V - torch.cholesky_solve(gradient.T, factor).T, weight)

    def within(self, set_: ConvexSet, loss: Loss, ridge: float, unit: float) -> Tensor:
        """V for features in their own unit, in its set: the best one there for the squared loss, else the nearest."""
        V = set_.project(self.V / unit)
        if set_.everything or not loss.quadratic:
            return V
        S, T = unit**2 * self.S.double(), unit * self.T.double()
        best: Tensor = minimise_quadratic(ridged(loss, S, ridge), T.T, set_, V).point
        return best


def ridged(loss: Loss, S: Tensor, ridge: float) -> Tensor:
    """The Hessian of the V-step: the ridge is relative to the mean eigenvalue of S."""
    H = loss.curvature * S
    H.diagonal().add_(ridge * float(S.diagonal().mean()) + TINY)
    return H


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
    within: Restriction | None = None
    """The support that steps stay within, under a budget."""

    def direction(self, R: Tensor) -> Tensor:
        """R (G + damping I)^-1 times the damping, or the step of the support; may be written over R."""
        return self.gram.precondition(R) if self.within is None else self.within.direction(self.gram, R)

    def copy(self) -> LayerState:
        return changed(self, gram=self.gram.copy(), momentum=self.momentum.clone())
