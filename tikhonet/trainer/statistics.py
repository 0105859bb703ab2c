"""The three blocks on one mini-batch: u-step (targets), V-step, W-step, with running statistics.

From the forward pass (u = A, where the tight lift vanishes) one backward sweep of the u-step gives every
layer its target, a ridge regression on running sums gives V, and each W moves along its least-squares
step in the metric of its inputs' running Gram matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tikhonet.descent.convex import minimise_quadratic
from tikhonet.network.graph import Layers, Weights
from tikhonet.problem.losses import Loss
from tikhonet.problem.objective import Problem
from tikhonet.problem.sets import ConvexSet
from tikhonet.trainer.sparsity.support import SupportSolver

TINY = 1e-30


@dataclass
class Gram:
    """A running Gram matrix G of a layer's inputs, and (G + damping I)^-1 through its leading eigenpairs.

    The damping is large (a multiple of the mean eigenvalue), so a few dozen eigenvalues rise above it; the
    rest of the spectrum is taken as zero. One subspace iteration per update keeps the eigenpairs current.
    """

    matrix: Tensor
    basis: Tensor
    relative: float
    """The damping as a multiple of the mean eigenvalue."""
    weight: float = 0.0
    damping: float = 1.0
    shrink: Tensor | None = None

    @classmethod
    def empty(cls, width: int, rank: int, damping: float, generator: torch.Generator, like: Tensor) -> Gram:
        draw = torch.randn(width, min(rank, width), generator=generator, dtype=torch.float64)
        return cls(like.new_zeros(width, width), torch.linalg.qr(draw)[0].to(like), damping)

    def copy(self) -> Gram:
        return replace(self, matrix=self.matrix.clone())

    def update(self, A: Tensor, weighted: Tensor, total: float, beta: float) -> None:
        """Forget by beta, add the batch, refresh the eigenpairs."""
        self.matrix.mul_(beta).addmm_(weighted.T, A)
        self.weight = beta * self.weight + total
        for _ in range(1 if self.shrink is not None else 3):
            self.basis = torch.linalg.qr(self.matrix @ self.basis)[0]
        small = self.basis.T @ (self.matrix @ self.basis)
        values, vectors = torch.linalg.eigh((small + small.T) / (2 * self.weight))
        self.basis = self.basis @ vectors
        self.damping = self.relative * float(self.matrix.diagonal().mean()) / self.weight + TINY
        self.shrink = values.clamp_(min=0) / (values + self.damping)

    def precondition(self, R: Tensor) -> Tensor:
        """R (G + damping I)^-1 times the damping, in place."""
        assert self.shrink is not None
        return R.addmm_((R @ self.basis) * self.shrink, self.basis.T, alpha=-1.0)


@dataclass
class FullGram:
    """A running Gram matrix with the whole inverse (G + damping I)^-1, for a damping below most eigenvalues."""

    matrix: Tensor
    relative: float
    """The damping as a multiple of the mean eigenvalue."""
    weight: float = 0.0
    damping: float = 1.0
    inverse: Tensor | None = None

    @classmethod
    def empty(cls, width: int, damping: float, like: Tensor) -> FullGram:
        return cls(like.new_zeros(width, width), damping)

    def copy(self) -> FullGram:
        return replace(self, matrix=self.matrix.clone())

    def update(self, A: Tensor, weighted: Tensor, total: float, beta: float) -> None:
        """Forget by beta, add the batch, invert anew."""
        self.matrix.mul_(beta).addmm_(weighted.T, A)
        self.weight = beta * self.weight + total
        self.damping = self.relative * float(self.matrix.diagonal().mean()) / self.weight + TINY
        H = self.matrix / self.weight
        H.diagonal().add_(self.damping)
        self.inverse = torch.cholesky_inverse(torch.linalg.cholesky_ex(H)[0]).mul_(self.damping)

    def precondition(self, R: Tensor) -> Tensor:
        """R (G + damping I)^-1 times the damping."""
        assert self.inverse is not None
        return R @ self.inverse


@dataclass
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
        return replace(self, S=self.S.clone(), T=self.T.clone())

    def update(
        self, loss: Loss, A: Tensor, targets: Tensor, weighted: Tensor, total: float, *, beta: float, ridge: float
    ) -> None:
        self.S.mul_(beta).addmm_(weighted.T, A)
        self.weight = beta * self.weight + total
        H = loss.curvature * self.S
        H.diagonal().add_(ridge * float(self.S.diagonal().mean()) + TINY)
        factor = torch.linalg.cholesky_ex(H)[0]
        if loss.quadratic:
            self.T.mul_(beta).addmm_(weighted.T, targets)
            self.V = torch.cholesky_solve(self.T, factor).T.contiguous()
            return
        slope = loss.slope(targets, A @ self.V.T)
        shrunk = ridge * float(self.S.diagonal().mean()) * self.V
        gradient = slope.T @ weighted * (self.weight / total) + shrunk
        self.V = self.V - torch.cholesky_solve(gradient.T, factor).T

    def within(self, set_: ConvexSet, loss: Loss, ridge: float, unit: float) -> Tensor:
        """V for features in their own unit, in its set: the best one there for the squared loss, else the nearest."""
        V = set_.project(self.V / unit)
        if set_.everything or not loss.quadratic:
            return V
        S, T = unit**2 * self.S.double(), unit * self.T.double()
        H = loss.curvature * S
        H.diagonal().add_(ridge * float(S.diagonal().mean()) + TINY)
        best: Tensor = minimise_quadratic(H, T.T, set_, V).point
        return best


@dataclass
class LayerState:
    """What the W-step of one layer remembers: Gram matrix, momentum, and the sizes that scale its step."""

    gram: Gram | FullGram
    momentum: Tensor
    signal: float = 0.0
    """The running mean square of the layer's pre-activations."""
    change: float = 0.0
    """The same of the change that one unscaled step would make in them."""
    share: float = 0.0
    """How much of such a mean, which starts at zero, has been filled."""
    support: Tensor | None = None
    """Where steps stay within, under a budget; and the solver of its rows, where it is small."""
    solver: SupportSolver | None = None

    def direction(self, R: Tensor) -> Tensor:
        """R (G + damping I)^-1 times the damping; within a small support, its least-squares step there."""
        if self.solver is not None:
            return self.solver(R)
        R = self.gram.precondition(R)
        return R if self.support is None else R.mul_(self.support)

    def copy(self) -> LayerState:
        return replace(self, gram=self.gram.copy(), momentum=self.momentum.clone())


@dataclass(frozen=True)
class Pass:
    """A forward pass: pre-activations, and outputs after the dropout masks that act on some layers."""

    Z: Layers
    A: Layers
    masks: Layers


def forward(problem: Problem, X: Tensor, W: Weights, masks: Layers) -> Pass:
    network = problem.network
    A, Z = network.layers(X * masks[0] if 0 in masks else X), {}
    for n in network.hidden:
        Z[n] = network.pre_activation(n, A, W)
        A[n] = network.activation.value(Z[n])
        if n in masks:
            A[n] *= masks[n]
    return Pass(Z, A, masks)


def targets_sweep(problem: Problem, V: Tensor, W: Weights, state: Pass, slope: Tensor, damping: float) -> Layers:
    """u-step: one backward Gauss-Seidel sweep from u = A; returns the lift's gradient in Z at the targets.

    The last layer takes the damped step of the loss (c its curvature),
    U[N] = max(0, Z[N] - slope V / (g + c |V|^2))  with  g = damping * mean |V_k|^2,
    which lowers loss + g D for every sample, and each layer below a step of the lift's pull:
    U[n] = max(0, Z[n] - sum over children k of (gamma_k / gamma_n) grad_Z[k] W[k, n]).
    """
    network, last = problem.network, problem.network.depth
    size = V @ V.T
    bound = problem.loss.curvature * float(torch.linalg.eigvalsh(size)[-1])
    V = V / (damping * float(size.diagonal().mean()) + bound + TINY)
    grad_Z: Layers = {}
    for n in reversed(network.hidden):
        pull = slope @ V if n == last else torch.zeros_like(state.Z[n])
        for k in network.targets(n):
            ratio = problem.gamma_of(k) / problem.gamma_of(n)
            network.edges[k, n].adjoint(grad_Z[k], W.get((k, n)), out=pull, alpha=ratio)
        if n in state.masks:
            pull *= state.masks[n]
        U = network.activation.value_(torch.sub(state.Z[n], pull, out=pull))
        grad_Z[n] = problem.lift.grad_Z(U, state.Z[n], network.activation)
    return grad_Z


def project_onto(set_: ConvexSet, M: Tensor) -> Tensor:
    return set_.project(M)


def stacked_inputs(problem: Problem, n: int, A: Layers) -> Tensor:
    sources = problem.network.learned_sources(n)
    return A[sources[0]] if len(sources) == 1 else torch.cat([A[m] for m in sources], dim=1)


def stacked_weights(problem: Problem, n: int, W: Weights) -> Tensor:
    return torch.cat([W[n, m] for m in problem.network.learned_sources(n)], dim=1)


def step_weights(
    problem: Problem,
    n: int,
    W: Weights,
    layer: LayerState,
    state: Pass,
    residual: Tensor,
    total: float,
    *,
    momentum: float,
    rate: float,
    place: Callable[[ConvexSet, Tensor], Tensor] = project_onto,
) -> Weights:
    """W-step of layer n: its damped least-squares step, scaled so that `rate` is its relative change in Z.

    `residual` is the (weighted) gradient in Z at the target. Returns the layer's new matrices, in their sets, into
    which `place` brings them.
    """
    A = stacked_inputs(problem, n, state.A)
    R = layer.direction(residual.T @ A).div_(-total)
    layer.momentum.mul_(momentum).add_(R, alpha=1 - momentum)
    probe = slice(0, 64)
    change = float((A[probe] @ R.T).square().mean())
    layer.signal += 0.05 * (float(state.Z[n][probe].square().mean()) - layer.signal)
    layer.change += 0.05 * (change - layer.change)
    layer.share += 0.05 * (1 - layer.share)
    # A sudden large step counts at once, a sudden small one only as the mean follows.
    length = rate * (layer.signal / (max(layer.change, change * layer.share) + TINY)) ** 0.5
    moved = stacked_weights(problem, n, W).add_(layer.momentum, alpha=length)
    sources = problem.network.learned_sources(n)
    parts = moved.split([problem.network.width(m) for m in sources], dim=1)
    return {(n, m): place(problem.edge_set((n, m)), part.contiguous()) for m, part in zip(sources, parts, strict=True)}
