"""Training with every layer split in two: by ADMM, or by its quadratic penalties alone. Our own implementations.

    minimise  sum_i loss(y_i, V a_{i,N})    subject to  z_n = sum over m of W_{n,m} a_m,  a_n = sigma(z_n)

with scaled multipliers p_n and q_n of the two constraints and penalties `beta` and `alpha`:

    L = loss + sum_n beta/2 |z_n - W a + p_n|^2 + alpha/2 |a_n - sigma(z_n) + q_n|^2  (less the multipliers' squares).

An iteration passes once over the layers from the last to the first, then over the weights; each step is a closed form
over all samples, the linear ones with one factor for all of them. `ADMM` then adds to the multipliers what is left of
the constraints. Where they stay zero the method is another one, that of quadratic penalties (Carreira-Perpinan and
Wang 2014 train networks so): `QuadraticPenalty`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tikhonet.network.activation import Activation
from tikhonet.network.graph import Layers, Network, Weights
from tikhonet.network.initial import Initial, check_initial, initial_weights
from tikhonet.paper.baselines.backprop import Pass, Watch, watched
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Samples, rows_of
from tikhonet.trainer.training import Training

CHUNK_ROWS = 1024


@dataclass
class Split:
    """The variables beside V and W: a and z of every layer, and their multipliers."""

    A: Layers
    Z: Layers
    P: Layers
    Q: Layers
    gaps: list[float] = field(default_factory=list)
    """After each iteration: how far the constraints are from holding, relative to the size of z and a."""

    @classmethod
    def start(cls, network: Network, X: Tensor, W: Weights) -> Split:
        """The forward pass, where all constraints hold and the multipliers are zero."""
        A = network.forward(X, W)
        Z = {n: network.pre_activation(n, A, W) for n in network.hidden}
        P, Q = ({n: torch.zeros_like(Z[n]) for n in network.hidden} for _ in range(2))
        return cls(A, Z, P, Q)

    def parts(self) -> Iterator[tuple[slice, Split]]:
        """The variables of some of the samples at a time, few enough to stay in the processor's caches."""
        samples = len(self.A[0])
        for start in range(0, samples, CHUNK_ROWS):
            rows = slice(start, min(start + CHUNK_ROWS, samples))
            A, Z, P, Q = (rows_of(layers, rows) for layers in (self.A, self.Z, self.P, self.Q))
            yield rows, Split(A, Z, P, Q)

    def close(self, network: Network, W: Weights, *, multiply: bool) -> None:
        """Note the gap, and add to the multipliers what is left of their constraints."""
        off = size = 0.0
        for _, part in self.parts():
            for n in network.hidden:
                first = part.Z[n] - network.pre_activation(n, part.A, W)
                second = part.A[n] - network.activation.value(part.Z[n])
                off += square(first) + square(second)
                size += square(part.Z[n]) + square(part.A[n])
                if multiply:
                    part.P[n] += first
                    part.Q[n] += second
        self.gaps.append(math.sqrt(off / max(size, 1e-30)))


@dataclass(frozen=True)
class QuadraticPenalty:
    """`epochs` iterations over all samples, without multipliers. The loss must be the squared one."""

    epochs: int = 50
    beta: float = 1.0
    alpha: float = 1.0
    ridge: float = 1e-3
    """The ridge of V and of each W, relative to the mean eigenvalue of what it is added to."""
    initial: Initial = "auto"
    initial_scale: float = 1.0

    def __post_init__(self) -> None:
        check_initial(self.initial)
        if self.epochs < 1:
            raise ValueError(f"epochs must be at least 1, got {self.epochs}")
        for name in ("beta", "alpha", "ridge", "initial_scale"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {getattr(self, name)}")

    def multiplies(self, number: int) -> bool:
        """Whether the multipliers move after this iteration."""
        return False

    def run(
        self,
        problem: Problem,
        X: Tensor,
        targets: Tensor,
        *,
        start: Weights | None = None,
        seed: int = 0,
        watch: Watch | None = None,
    ) -> Training:
        """`watch` is called after every iteration with its record and the current V and W.

        That V, and the loss in the record, are of the features of the network proper, which the splits only approach;
        the time for them is not counted. Where NaN or infinity ends the run, these and what is returned are of the
        last iteration without, or the start.
        """
        if not problem.loss.quadratic:
            raise ValueError(f"loss must be the squared one for closed forms, got {problem.loss}")
        sets = (problem.V_set, *map(problem.edge_set, problem.network.learned))
        if held := next((known for known in sets if not known.everything), None):
            raise ValueError(f"V_set and W_set must be Everything(), since the steps know no sets, got {held}")
        problem.check(Samples(X, targets))
        network = problem.network
        W = start or initial_weights(network, self.initial, seed, self.initial_scale, dtype=X.dtype, device=X.device)
        W, split = dict(W), Split.start(network, X, W)
        V = least_squares(split.A[network.depth], targets, self.ridge)
        # Inputs beyond the range of their type have no least squares, and zero is the V before any fit.
        blocks = Blocks({}, V if bool(V.isfinite().all()) else torch.zeros_like(V), dict(W))
        return watched(problem, blocks, self.passes(problem, split, X, targets, W, V), watch, "iteration {}", split)

    def passes(
        self, problem: Problem, split: Split, X: Tensor, targets: Tensor, W: Weights, V: Tensor
    ) -> Iterator[Pass | None]:
        """The iterations, each with the loss of the network proper; None where a system has no solution."""
        network = problem.network
        for number in range(1, self.epochs + 1):
            clock = time.perf_counter()
            try:
                W, V = self.iterate(problem, split, targets, W, V)
            except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # the blocks have grown beyond their type, or hold NaN
                yield None
                return
            seconds = time.perf_counter() - clock
            split.close(network, W, multiply=self.multiplies(number))
            if self.multiplies(number):  # else only the gap was taken
                seconds = time.perf_counter() - clock
            features = network.features(X, W)
            shown = least_squares(features, targets, self.ridge)
            value = float(problem.loss.rows(targets, features @ shown.T).mean())
            # A gap that is not finite ends the run as a loss does.
            yield value if math.isfinite(split.gaps[-1]) else math.nan, seconds, Blocks({}, shown, dict(W))

    def iterate(self, problem: Problem, split: Split, targets: Tensor, W: Weights, V: Tensor) -> tuple[Weights, Tensor]:
        """a and z backwards, then all weights."""
        network = problem.network
        inverses = {n: self.inverse(network, W, V, n) for n in network.hidden}
        for rows, part in split.parts():
            self.update_activations(network, part, targets[rows], W, V, inverses)
        W = {edge: matrix for n in network.hidden for edge, matrix in self.update_weights(network, split, W, n).items()}
        V = least_squares(split.A[network.depth], targets, self.ridge)
        return W, V

    def inverse(self, network: Network, W: Weights, V: Tensor, n: int) -> Tensor:
        """The inverse of the second derivative of L in a_n, which is the same for all samples."""
        unit = torch.eye(network.widths[n], dtype=V.dtype, device=V.device)
        H = self.alpha * unit
        if n == network.depth:
            H += V.T @ V
        for k in network.targets(n):
            edge, M = network.edges[k, n], W.get((k, n))
            edge.adjoint(edge.apply(unit, M), M, out=H, alpha=self.beta)
        return torch.cholesky_inverse(torch.linalg.cholesky(H))

    def update_activations(
        self, network: Network, split: Split, targets: Tensor, W: Weights, V: Tensor, inverses: Layers
    ) -> None:
        """Minimise L over a_n, then over z_n, from the last layer to the first."""
        sums: Layers = {}  # the pre-activations W a that are still those of the present a
        for n in reversed(network.hidden):
            A, Z, P, Q = split.A[n], split.Z[n], split.P[n], split.Q[n]
            slope = network.activation.value(Z).sub_(Q).sub_(A).mul_(self.alpha)
            if n == network.depth:
                slope.addmm_(targets - A @ V.T, V)
            for k in network.targets(n):
                pull = sums.pop(k) if k in sums else network.pre_activation(k, split.A, W)
                pull.neg_().add_(split.Z[k]).add_(split.P[k]).mul_(self.beta)
                network.edges[k, n].adjoint(pull, W.get((k, n)), out=slope)
            A.addmm_(slope, inverses[n])
            sums[n] = network.pre_activation(n, split.A, W)
            Z.copy_(update_pre_activation(sums[n] - P, A + Q, self.beta, self.alpha, network.activation))

    def update_weights(self, network: Network, split: Split, W: Weights, n: int) -> Weights:
        """Minimise L (and a small ridge) over all matrices of layer n."""
        if not network.learned_sources(n):
            return {}
        goal = split.Z[n] + split.P[n]
        if fixed := network.fixed_sources(n):
            goal -= network.pre_activation(n, split.A, W, fixed)
        solution = least_squares(network.design(n, split.A).few()[0], goal, self.ridge)
        return {edge: part.contiguous() for edge, part in network.split_weights(n, solution).items()}


@dataclass(frozen=True)
class ADMM(QuadraticPenalty):
    """The same with multipliers, which rest during the first `warm_up` iterations and then move at every one."""

    warm_up: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.warm_up < self.epochs:
            raise ValueError(
                f"warm_up must be from 0 to {self.epochs - 1}, less than the epochs, got {self.warm_up}; multipliers "
                "that never move are those of QuadraticPenalty"
            )

    def multiplies(self, number: int) -> bool:
        return number > self.warm_up


def square(values: Tensor) -> float:
    norm = float(torch.linalg.vector_norm(values))
    return norm * norm  # infinity where norm**2 raises OverflowError


def least_squares(A: Tensor, T: Tensor, ridge: float) -> Tensor:
    """Minimise over M:  |T - A M'|^2 + ridge mean(diag A'A) |M|^2."""
    H = A.T @ A
    H.diagonal().add_(ridge * float(H.diagonal().mean()) + 1e-30)
    return torch.cholesky_solve(A.T @ T, torch.linalg.cholesky_ex(H)[0]).T.contiguous()


def update_pre_activation(inputs: Tensor, outputs: Tensor, beta: float, alpha: float, activation: Activation) -> Tensor:
    """Minimise over z, entry by entry:  beta (z - inputs)^2 + alpha (sigma(z) - outputs)^2.

    Inside the interval of the activation, below it and above it lies one parabola each; the best of their minima.
    """
    best = ((beta * inputs + alpha * outputs) / (beta + alpha)).clamp_(activation.lower, activation.upper)
    cost = beta * (best - inputs).square() + alpha * (best - outputs).square()
    sides = (
        (activation.lower, inputs.clamp(max=activation.lower)),
        (activation.upper, inputs.clamp(min=activation.upper)),
    )
    for bound, side in sides:
        if math.isfinite(bound):
            beside = beta * (side - inputs).square() + alpha * (outputs - bound).square()
            best, cost = torch.where(beside < cost, side, best), torch.minimum(beside, cost)
    return best
