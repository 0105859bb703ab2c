"""Descent on the network's own loss in the blocks of Alg. 1, with U restored by a forward pass after every step.

The W-step is the least-squares problem of Sec. 3.1 for all layers at once, but with the network above a layer
linearised in place of the targets that a u-step would give it: the Gauss-Newton model of the loss, damped in the metric
of the Gram matrices. The V-step is exact. A step is kept only if the regularised loss falls by a share of what the
model promises, else the damping grows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import ClassVar

import torch

from tikhonet.descent.linear import update_classifier
from tikhonet.descent.network_loss import Expansion, Matrices, NetworkLoss, inner, measure_network
from tikhonet.descent.result import NOT_CLAIMED_OF_NETWORKS, BlockStep, History, Result, Status
from tikhonet.descent.schedules import Schedule
from tikhonet.descent.start import check_blocks, initial_blocks
from tikhonet.descent.stationarity import Stationarity
from tikhonet.network.arguments import COUNT, SHARE, check_callable, check_numbers, check_type
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Array, Weights, tensor
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Reduce, Samples, keep

ACCEPTED, TRUSTED = 0.1, 0.5
"""The share of the model's decrease that a step must bring, and that at which the damping is taken back."""
LEAST, FIRST, LARGEST = 1e-8, 1e-3, 1e10
"""The damping, relative to the model's own curvature."""


@dataclass(frozen=True)
class Restored(Schedule):
    """Whole steps, as short as the loss asks for."""

    full_steps: ClassVar[bool] = True

    def theta(self, t: int) -> float:
        return 1.0

    def reach(self, t: int) -> float:
        return 9.0 * t

    def outlook(self, t: int) -> str:
        return "theta = 1 throughout, damping by the measured decrease"


@dataclass(frozen=True)
class NetworkResult(Result):
    """A run of `NetworkDescent`; U is the forward pass, its history that of the regularised loss."""

    loss: NetworkLoss = field(kw_only=True, repr=False)
    not_claimed: ClassVar[Mapping[str, str]] = NOT_CLAIMED_OF_NETWORKS

    def measure(self) -> Stationarity:
        return measure_network(self.loss, self.blocks)


@dataclass(frozen=True)
class NetworkDescent:
    """Minimise Eq. 2 itself: joint Gauss-Newton steps of W, exact steps of V, a loss that falls with every step.

    `tol`: a point is stationary when steps of its blocks would lower the loss by at most this share of it.
    `rounding`: the share of a layer's pre-activations (their root mean square at the start) over which kinks are
    rounded. `inner_steps` and `inner_tol` bound the conjugate gradients of a step. `check_every`: iterations between
    two measurements of stationarity. Sets are not supported: hold V and W by ridges, which also make them bounded.
    """

    max_iter: int = 200
    tol: float = 1e-6
    rounding: float = 0.02
    inner_steps: int = 60
    inner_tol: float = 0.1
    check_every: int = 5
    chunk_rows: int = 2048

    def __post_init__(self) -> None:
        check_numbers(self, COUNT, ["max_iter", "inner_steps", "check_every", "chunk_rows"])
        check_numbers(self, SHARE, ["tol", "rounding", "inner_tol"])

    @torch.no_grad()
    def run(
        self,
        problem: Problem,
        X: Array,
        targets: Array,
        *,
        weight: Array | None = None,
        seed: int = 0,
        start: Blocks | None = None,
        reduce: Reduce = keep,
        watch: Callable[[History], bool | None] | None = None,
    ) -> NetworkResult:
        """Minimise Eq. 2 on these samples, from V and W of `start` or from random ones.

        `watch` is called with the history after every iteration, and ends the run by returning True.
        """
        check_type("problem", problem, Problem)
        check_type("start", start, Blocks, NoneType)
        if watch is not None:
            check_callable("watch", watch)
        if not all(set_.everything for set_ in (problem.V_set, *map(problem.edge_set, problem.network.learned))):
            raise ArgumentError("problem", "problem must have no sets V_set and W_set; hold V and W by ridges instead")
        X, targets = tensor(X, "X"), tensor(targets, "targets")
        samples = Samples(X, targets, None if weight is None else tensor(weight, "weight"), self.chunk_rows, reduce)
        problem.check(samples)
        blocks = start or initial_blocks(problem, samples, seed, "forward")
        check_blocks(problem, replace(blocks, U=problem.network.forward(X, blocks.W)), samples)
        return _Run(self, NetworkLoss.rounding(problem, samples, blocks.W, self.rounding), blocks).go(watch)


class _Run:
    """One run of `NetworkDescent`."""

    def __init__(self, solver: NetworkDescent, loss: NetworkLoss, blocks: Blocks) -> None:
        self.solver, self.loss, self.problem = solver, loss, loss.problem
        self.blocks = loss.forward(blocks.V, blocks.W)
        self.terms, self.damping = loss.terms(self.blocks), FIRST
        self.history = History(self.terms, solver.tol)
        ridges = [self.problem.ridge_V, *map(self.problem.edge_ridge, self.problem.network.learned)]
        self.fall = 0.5 * ACCEPTED * min(ridges)
        """Every step of length d lowers the loss by at least this times d^2."""
        self.measure(0)

    def go(self, watch: Callable[[History], bool | None] | None) -> NetworkResult:
        status, detail = None, ""
        try:
            self.take(1, "V", self.with_classifier(self.blocks.W), time.perf_counter())
            for t in range(1, self.solver.max_iter + 1):
                moved = self.iterate(t)
                if not math.isfinite(self.terms.total):
                    status, detail = Status.NONFINITE, f"iteration {t}"
                elif (not moved or t % self.solver.check_every == 0) and self.measure(t).within(self.solver.tol):
                    status = Status.STATIONARY
                elif not moved:
                    status = Status.STALLED
                if watch and watch(self.history):
                    status = status or Status.INTERRUPTED
                if status:
                    break
        except KeyboardInterrupt:
            status = status or Status.INTERRUPTED
        if status is None:
            status = Status.STATIONARY if self.measure(t).within(self.solver.tol) else Status.MAX_ITER
        samples, status = self.loss.samples, status or Status.MAX_ITER
        return NetworkResult(
            self.problem, samples, Restored(), self.blocks, status, self.history, detail, loss=self.loss
        )

    def with_classifier(self, W: Weights) -> Blocks:
        """The forward pass of W, and the V that is best for it."""
        blocks = self.loss.forward(self.blocks.V, W)
        return replace(blocks, V=update_classifier(self.problem, blocks, self.loss.samples, 0.0, tol=1e-6).point)

    def iterate(self, t: int) -> bool:
        """A step of W and V; whether there was one that lowers the loss."""
        clock, network = time.perf_counter(), self.problem.network
        here = Expansion(self.loss, self.blocks.V, self.blocks.W)
        while self.damping <= LARGEST:
            step, count = solve_damped(here, self.damping, self.solver.inner_steps, self.solver.inner_tol)
            predicted = -0.5 * inner(here.gradient, step)
            W = dict(self.blocks.W)
            for n in here.learned:
                W |= network.split_weights(n, (here.fits[str(n)].M + step[str(n)]).to(self.blocks.V))
            share = self.take(t, "W, V", self.with_classifier(W), clock, predicted, count)
            if share >= ACCEPTED:
                self.damping = max(LEAST, self.damping / 4) if share >= TRUSTED else self.damping
                return True
            self.damping = 4 * max(self.damping, FIRST)
        self.damping = FIRST
        return False

    def take(self, t: int, name: str, blocks: Blocks, clock: float, predicted: float = 0.0, count: int = 1) -> float:
        """Go to these blocks if the loss falls as it must; returns what it falls by, relative to what was predicted."""
        terms, changes = self.loss.terms(blocks), [blocks.V - self.blocks.V]
        changes += [blocks.W[edge] - self.blocks.W[edge] for edge in blocks.W]
        distance = math.sqrt(math.fsum(float(change.double().square().sum()) for change in changes))
        decrease, promised = self.terms.total - terms.total, self.fall * distance**2
        if not decrease >= max(promised, ACCEPTED * predicted):
            return 0.0
        seconds = time.perf_counter() - clock
        self.history.steps.append(
            BlockStep(t, name, terms, decrease, promised, distance=distance, inner_steps=count, seconds=seconds)
        )
        self.blocks, self.terms = blocks, terms
        return decrease / predicted if predicted > 0 else 1.0

    def measure(self, t: int) -> Stationarity:
        found = measure_network(self.loss, self.blocks)
        self.history.stationarity[t], self.history.norms[t] = found, self.blocks.norms()
        return found


def solve_damped(here: Expansion, damping: float, most: int, tol: float) -> tuple[Matrices, int]:
    """Conjugate gradients for  (H + damping c Gram) S = -gradient,  H the Gauss-Newton matrix with its ridges.

    The preconditioner is the Gram matrix of each block with its ridge. Whenever it ends, S lowers the model.
    """
    metric = {name: fit.gram * (0.0 if name == "V" else damping) for name, fit in here.fits.items()}
    factors = {name: torch.linalg.cholesky_ex(fit.H + metric[name])[0] for name, fit in here.fits.items()}

    def precondition(R: Matrices) -> Matrices:
        return {name: torch.cholesky_solve(part.T, factors[name]).T for name, part in R.items()}

    def added(A: Matrices, scale: float, B: Matrices) -> Matrices:
        return {name: A[name] + scale * B[name] for name in A}

    rest: Matrices = {name: -part for name, part in here.gradient.items()}
    S: Matrices = {name: torch.zeros_like(part) for name, part in rest.items()}
    direction = scaled = precondition(rest)
    square = first = inner(rest, scaled)
    count = 0
    while count < most and square > tol**2 * first:
        product = here.product(direction)
        product = {name: part + direction[name] @ metric[name] for name, part in product.items()}
        curvature = inner(direction, product)
        if not curvature > 0:
            break
        length, count = square / curvature, count + 1
        S, rest = added(S, length, direction), added(rest, -length, product)
        scaled = precondition(rest)
        former, square = square, inner(rest, scaled)
        direction = added(scaled, square / former, direction)
    return S, count
