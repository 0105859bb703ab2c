"""Descent on the network's own loss in the blocks of Alg. 1, with U restored by a forward pass after every step.

The V-step is exact. The W-step follows the gradient of the regularised loss in the metric of the W-step of Sec. 3.1,
the Gram matrices of the layers' inputs with their ridges, which the last steps' changes of the gradient improve
(limited-memory BFGS). It is kept only if the loss, V fitted anew, falls by enough; else it is halved.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from tikhonet.descent.linear import update_classifier
from tikhonet.descent.network_loss import Expansion, Matrices, NetworkLoss, measure_network
from tikhonet.descent.result import NETWORK_WORDS, NOT_CLAIMED_OF_NETWORKS, BlockStep, History, Result, Status
from tikhonet.descent.schedules import Schedule
from tikhonet.descent.slots import Slot
from tikhonet.descent.start import FullBatchSolver, Watch, check_blocks
from tikhonet.descent.stationarity import Stationarity, solve_scaled
from tikhonet.network.arguments import COUNT, SHARE, check_numbers, check_type
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Weights
from tikhonet.problem.objective import Blocks, Problem, Terms
from tikhonet.problem.samples import Samples

ACCEPTED, FALL, SHORTEST = 1e-4, 0.05, 1e-10
"""A step of W must bring this share of the decrease that its slope says, and this share of the least ridge times the
square of its length; the shortest one that is tried, in whole steps."""
MEMORY = 30
"""Steps that the metric of the W-step is improved by."""


@dataclass(frozen=True)
class Restored(Schedule):
    """Whole steps, as short as the loss asks for."""

    full_steps: ClassVar[bool] = True

    def theta(self, t: int) -> float:
        return 1.0

    def reach(self, t: int) -> float:
        return 9.0 * t

    def outlook(self, t: int) -> str:
        return "theta = 1 throughout, steps as long as the loss falls"


@dataclass(frozen=True)
class NetworkResult(Result):
    """A run of `NetworkDescent`; U is the forward pass, its history that of the regularised loss."""

    loss: NetworkLoss = field(kw_only=True, repr=False)
    not_claimed: ClassVar[Mapping[str, str]] = NOT_CLAIMED_OF_NETWORKS
    words: ClassVar[tuple[str, str]] = NETWORK_WORDS

    def measure(self) -> Stationarity:
        return measure_network(self.loss, self.blocks)


@dataclass(frozen=True)
class NetworkDescent(FullBatchSolver[NetworkResult]):
    """Minimise the network's own loss (Eq. 2): quasi-Newton steps of W and exact steps of V, each of which lowers it.

        ``L(V, W) = sum_i loss(y_i, V u_{i,N}) + ridges, u by the forward pass of W``

    Sets are not supported: hold V and W by ridges, which also make them bounded.

    Parameters
    ----------
    max_iter : int, default=1000
        Iterations at most.
    tol : float, default=1e-06
        A point is stationary when steps of its blocks would lower the loss by at most this share of it.
    rounding : float, default=0.05
        The share of a layer's pre-activations (their root mean square at the start) over which kinks are rounded.
    check_every : int, default=10
        Iterations between two measurements of stationarity (one costs about two iterations).
    chunk_rows : int, default=2048
        Rows that a pass over the data holds at a time.
    same_bits : bool, default=True
        Results do not depend on the number of threads, as in `BlockDescent`.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Network, NetworkDescent, Problem, certify
    >>> X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> problem = Problem(Network.chain([3, 4], bias=True), lift="fenchel", ridge_V=0.1, ridge_W=0.1)
    >>> result = NetworkDescent(tol=1e-3).run(problem, X, X[:, :2].abs())
    >>> certify(result).stationary
    True
    """

    max_iter: int = 1000
    tol: float = 1e-6
    rounding: float = 0.05
    check_every: int = 10
    chunk_rows: int = 2048
    same_bits: bool = True

    def __post_init__(self) -> None:
        check_type("same_bits", self.same_bits, bool)
        check_numbers(self, COUNT, ["max_iter", "check_every", "chunk_rows"])
        check_numbers(self, SHARE, ["tol", "rounding"])

    def _check(self, problem: Problem) -> None:
        if not all(set_.everything for set_ in (problem.V_set, *map(problem.edge_set, problem.network.learned))):
            raise ArgumentError("problem", "problem must have no sets V_set and W_set; hold V and W by ridges instead")

    def _run(
        self, problem: Problem, samples: Samples, blocks: Blocks, watch: Watch | None, slot: Slot
    ) -> NetworkResult:
        check_blocks(problem, replace(blocks, U=problem.network.forward(samples.X, blocks.W)), samples)
        width = NetworkLoss.widths(problem, samples, blocks.W, self.rounding)
        return _Run(self, NetworkLoss(problem, samples, width), blocks, slot).go(watch)


@dataclass(frozen=True)
class Metric:
    """Limited-memory BFGS: an inverse Hessian from the last changes of W and of the gradient, around a first guess."""

    pairs: tuple[tuple[Matrices, Matrices], ...] = ()

    def grown(self, step: Matrices, change: Matrices) -> Metric:
        """The metric that also knows how this step changed the gradient, where the loss is convex along it."""
        fits = inner(step, change) > 1e-10 * math.sqrt(inner(step, step) * inner(change, change))
        return Metric((*self.pairs, (step, change))[-MEMORY:]) if fits else self

    def solve(self, gradient: Matrices, guess: Callable[[Matrices], Matrices]) -> Matrices:
        """The inverse Hessian times the gradient; `guess` is the first guess of it, whose size is put right."""
        rest, lengths = gradient, []
        for step, change in reversed(self.pairs):
            lengths.append(inner(step, rest) / inner(step, change))
            rest = added(rest, -lengths[-1], change)
        found = guess(rest)
        if self.pairs:
            step, change = self.pairs[-1]
            size = inner(step, change) / inner(change, guess(change))
            found = {name: size * part for name, part in found.items()}
        for (step, change), length in zip(self.pairs, reversed(lengths), strict=True):
            found = added(found, length - inner(change, found) / inner(step, change), step)
        return found


def inner(A: Matrices, B: Matrices) -> float:
    return math.fsum(float((A[name] * B[name]).sum()) for name in A)


def added(A: Matrices, scale: float, B: Matrices) -> Matrices:
    return {name: A[name] + scale * B[name] for name in A}


@dataclass(frozen=True)
class NetworkState:
    """All that a run carries from one iteration to the next; U is a forward pass, so it is left out."""

    iteration: int
    blocks: Blocks
    terms: Terms
    history: History
    pairs: list[list[Matrices]]
    """Those of the metric."""


class _Run:
    """One run of `NetworkDescent`."""

    def __init__(self, solver: NetworkDescent, loss: NetworkLoss, blocks: Blocks, slot: Slot) -> None:
        self.solver, self.loss, self.problem, self.slot = solver, loss, loss.problem, slot
        self.blocks, self.metric, self.done = loss.forward(blocks.V, blocks.W), Metric(), 0
        self.terms = loss.terms(self.blocks)
        self.history = History(self.terms, solver.tol)
        self.ridge = min([self.problem.ridge_V, *map(self.problem.edge_ridge, self.problem.network.learned)])
        found = slot.resume(self.state, self.check_found)
        if found is None:
            self.measure(0)
        else:
            self.blocks, self.metric = (
                loss.forward(found.blocks.V, found.blocks.W),
                Metric(tuple((step, change) for step, change in found.pairs)),
            )
            self.done, self.terms, self.history = found.iteration, found.terms, found.history

    @property
    def state(self) -> NetworkState:
        pairs = [[step, change] for step, change in self.metric.pairs]
        return NetworkState(self.done, replace(self.blocks, U={}), self.terms, self.history, pairs)

    def check_found(self, state: NetworkState) -> None:
        """Raise unless the metric of a state is one of this network's matrices."""
        network, W = self.problem.network, self.blocks.W
        shapes = {str(n): network.stacked_weights(n, W).shape for n in network.hidden if network.learned_sources(n)}
        for step, change in state.pairs:
            found = ({name: matrix.flatten(0, -2).shape for name, matrix in part.items()} for part in (step, change))
            if any(part != shapes for part in found) or not inner(step, change) > 0:
                raise ValueError(
                    f"the metric must hold matrices of the shapes {shapes}, along which the loss is convex"
                )

    def go(self, watch: Watch | None) -> NetworkResult:
        status, _ = self.slot.ended or (None, "")
        try:
            if not self.done and status is None:
                self.take(1, "V", self.with_classifier(self.blocks.W), time.perf_counter())
            here = self.expand()
            for t in range(self.done + 1, self.solver.max_iter + 1) if status is None else ():
                here, moved = self.iterate(t, here)
                status, self.done = self.check(t, moved), t
                if watch and watch(self.history):
                    status = status or Status.INTERRUPTED
                if status:
                    break
                self.slot.offer(self.state, t)
            status = status or Status.MAX_ITER
            self.slot.end(self.state, status)
        except KeyboardInterrupt:
            status = status or Status.INTERRUPTED
        point = (self.problem, self.loss.samples, Restored(), self.blocks)
        return NetworkResult(*point, status or Status.MAX_ITER, self.history, loss=self.loss)

    def check(self, t: int, moved: bool) -> Status | None:
        """How the run ends here, if it does."""
        due = not moved or t % self.solver.check_every == 0 or t == self.solver.max_iter
        if due and self.measure(t).within(self.solver.tol):
            return Status.STATIONARY
        if not moved:
            return Status.STALLED if math.isfinite(self.terms.total) else Status.NONFINITE
        return None

    def expand(self) -> Expansion:
        return Expansion(self.loss, self.blocks.V, self.blocks.W)

    def with_classifier(self, W: Weights) -> Blocks:
        """The forward pass of W, and the V that is best for it."""
        blocks = self.loss.forward(self.blocks.V, W)
        return replace(blocks, V=update_classifier(self.problem, blocks, self.loss.samples, 0.0, tol=1e-6).point)

    def iterate(self, t: int, here: Expansion) -> tuple[Expansion, bool]:
        """A step of W and V from here; where it leads, and whether there was one that lowers the loss."""
        clock, layers = time.perf_counter(), [str(n) for n in here.learned]
        gradient = {name: here.gradient[name] for name in layers}

        def guess(R: Matrices) -> Matrices:
            return {name: solve_scaled(here.fits[name].H, part) for name, part in R.items()}

        for metric in (self.metric, Metric()):  # where the first has become useless, the second still leads downward
            direction, length = metric.solve(gradient, guess), 1.0
            slope = inner(gradient, direction)
            while length >= SHORTEST and slope > 0:
                if self.take(t, "W, V", self.moved(here, direction, length), clock, length * slope):
                    there = self.expand()
                    change = {name: there.gradient[name] - gradient[name] for name in layers}
                    step = {name: there.fits[name].M - here.fits[name].M for name in layers}
                    self.metric = metric.grown(step, change)
                    return there, True
                length /= 2
        return here, False

    def moved(self, here: Expansion, direction: Matrices, length: float) -> Blocks:
        W = dict(self.blocks.W)
        for name, part in direction.items():
            matrix = (here.fits[name].M - length * part).to(self.blocks.V)
            W |= self.problem.network.split_weights(int(name), matrix.flatten(0, -2))
        return self.with_classifier(W)

    def take(self, t: int, name: str, blocks: Blocks, clock: float, predicted: float = 0.0) -> bool:
        """Go to these blocks if the loss falls by enough."""
        terms, changes = self.loss.terms(blocks), [blocks.V - self.blocks.V]
        changes += [blocks.W[edge] - self.blocks.W[edge] for edge in blocks.W]
        distance = math.sqrt(math.fsum(float(change.double().square().sum()) for change in changes))
        decrease, promised = self.terms.total - terms.total, FALL * self.ridge * distance**2
        if not decrease >= max(promised, ACCEPTED * predicted):  # nor if it is not finite
            return False
        seconds = time.perf_counter() - clock
        step = BlockStep(t, name, terms, decrease, promised, distance=distance, seconds=seconds)
        self.history.steps.append(step)
        self.blocks, self.terms = blocks, terms
        return True

    def measure(self, t: int) -> Stationarity:
        found = measure_network(self.loss, self.blocks)
        self.history.stationarity[t], self.history.norms[t] = found, self.blocks.norms()
        return found
