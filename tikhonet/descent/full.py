"""Alg. 1 over all samples, and its proximal variant, which converges where the blocks are bounded.

The loop around `block_steps`, which watches it: clock, history, stationarity, non-finite numbers. The schedule makes
it Alg. 1 (theta_t = 1/t^2 or any other) or proximal block coordinate descent (theta = 1).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from tikhonet.descent.block_steps import block_steps, relax_layers, relax_weights
from tikhonet.descent.result import BlockStep, History, Result, Status
from tikhonet.descent.room import Room
from tikhonet.descent.schedules import Proximal, Schedule
from tikhonet.descent.slots import Slot
from tikhonet.descent.start import FullBatchSolver, Watch, check_blocks
from tikhonet.descent.stationarity import Stationarity, measure_stationarity
from tikhonet.network.arguments import COUNT, SHARE, check_choice, check_numbers, check_type
from tikhonet.network.graph import Array, Layers, Weights, tensor
from tikhonet.problem.memory_budget import bytes_of
from tikhonet.problem.objective import Blocks, Problem, Terms
from tikhonet.problem.samples import Samples

LONGEST, LEAST_FALL = 1.0, 0.01
"""An extrapolation goes at most as far as the last iteration did, and must bring this share of the decrease that a
block step of its length promises. On the small networks of the tests both cost no iterations: 155 and 165, where
neither had it 205 and 220."""
MOVED = -1
"""The name of the sum of squares that U has moved by, beside the terms of Eq. 4, which layers name."""


@dataclass(frozen=True)
class DescentState:
    """All that a full-batch run carries from one iteration to the next; of U the hidden layers."""

    iteration: int
    blocks: Blocks
    terms: Terms
    history: History
    last: Blocks | None = None
    """The blocks of the iteration before, where runs extrapolate."""
    momentum: float = 0.5
    guess: Layers = field(default_factory=dict)
    """The last minimisers over U, where steps are short."""
    guess_W: Weights = field(default_factory=dict)
    """The last minimisers over W, where steps are short."""

    def with_rows(self, change: Callable[[Tensor], Tensor]) -> DescentState:
        """The state with all of its U changed."""

        def of(layers: Layers) -> Layers:
            return {n: change(layer) for n, layer in layers.items()}

        blocks, last = (found and replace(found, U=of(found.U)) for found in (self.blocks, self.last))
        assert blocks
        return replace(self, blocks=blocks, last=last, guess=of(self.guess))


@dataclass(frozen=True)
class BlockDescent(FullBatchSolver[Result]):
    """Block coordinate descent on the lifted objective (Eq. 4) over all samples.

    Every block is moved towards the minimiser of its sub-problem, which is convex; V and W in closed form or by a
    projected method, U by a batched quadratic programme.

    Parameters
    ----------
    schedule : Schedule, default=Proximal()
        `Power(2)` is the paper's Alg. 1, `Proximal()` the variant that converges where ridges or bounded sets hold
        every block.
    max_iter : int, default=100
        Iterations at most.
    tol : float, default=1e-06
        A point is stationary when exact steps of its blocks would lower f by at most this share of it.
    inner_tol : float, default=0.001
        A bound on the relative optimality residual of each sub-problem.
    initial_features : {"random", "forward"}, default="random"
        Where U starts.
    extrapolate : bool, default=False
        Try, after each iteration, to go on along it, and take that step only if f falls by ``c |step|^2``.
    check_every : int, default=1
        Iterations between two measurements of stationarity (one costs about eight products of
        samples x width x width in float64).
    chunk_rows : int, default=2048
        Rows that a pass over the data holds at a time.
    same_bits : bool, default=True
        Results do not depend on the number of threads, nor on that of processes that `Ranks` has (1, 2, 4 or 8):
        operations have one thread each, which work on blocks of rows.
    memory_budget : float or str, default=None
        Memory that a run may use beside what the process has, such as "1GB"; X, targets and U are then in temporary
        files. X and targets may be maps of files (``np.load(path, mmap_mode="r")``). The bits are the same, unless
        there is no room for `chunk_rows` rows at a time: with fewer (`result.room`) results agree to `inner_tol`.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import BlockDescent, Network, Problem
    >>> X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    >>> problem = Problem(Network.chain([3, 4], bias=True), lift="fenchel", gamma=1.0, ridge_V=0.1, ridge_W=0.1)
    >>> result = BlockDescent(max_iter=20).run(problem, X, X[:, :2].abs())
    >>> result.history.objective[-1] < result.history.objective[0]
    True
    """

    schedule: Schedule = Proximal()
    max_iter: int = 100
    tol: float = 1e-6
    inner_tol: float = 1e-3
    initial_features: Literal["random", "forward"] = "random"
    extrapolate: bool = False
    check_every: int = 1
    chunk_rows: int = 2048
    same_bits: bool = True
    memory_budget: float | str | None = None

    def __post_init__(self) -> None:
        check_type("schedule", self.schedule, Schedule)
        check_type("same_bits", self.same_bits, bool)
        check_numbers(self, COUNT, ["max_iter", "check_every", "chunk_rows"])
        check_numbers(self, SHARE, ["tol", "inner_tol"])
        check_choice("initial_features", self.initial_features, "random", "forward")
        check_type("extrapolate", self.extrapolate, bool)
        if self.extrapolate and not self.schedule.full_steps:
            raise ValueError("extrapolate needs a schedule of full steps such as Proximal(); Alg. 1 has no such step")

    def _check(self, problem: Problem) -> None:
        self.schedule.check(self.max_iter)

    def _run(self, problem: Problem, samples: Samples, blocks: Blocks, watch: Watch | None, slot: Slot) -> Result:
        check_blocks(problem, blocks, samples)
        blocks = replace(blocks, U=blocks.U | problem.network.layers(samples.X))
        return _Run(self, problem, samples, blocks, slot).go(watch)

    def _room(self, problem: Problem, X: Array, targets: Array) -> Room | None:
        if self.memory_budget is None:
            return None
        budget = bytes_of(self.memory_budget)
        first, outputs = tensor(X[:1], "X"), tensor(targets[:1], "targets").shape[-1]
        threads = torch.get_num_threads() if self.same_bits else 1
        return Room.of(problem, len(X), outputs, first.dtype, self.chunk_rows, budget, threads)


class _Run:
    """One run of `BlockDescent`: the loop around `block_steps`, and its record."""

    def __init__(self, solver: BlockDescent, problem: Problem, samples: Samples, blocks: Blocks, slot: Slot) -> None:
        self.solver, self.problem, self.samples, self.blocks, self.slot = solver, problem, samples, blocks, slot
        self.guess: Layers = {}
        self.guess_W: Weights = {}
        self.last, self.momentum, self.done = blocks, 0.5, 0
        self.terms = Terms(0.0, {})
        self.history = History(self.terms, solver.tol)
        found = slot.resume(self.state, self.check_found)
        if found is None:
            self.terms = problem.objective(blocks, samples)
            self.history = History(self.terms, solver.tol)
            self.measure(0)
        else:
            self.blocks, self.last = self.whole(found.blocks), self.whole(found.last or found.blocks)
            self.done, self.terms, self.history = found.iteration, found.terms, found.history
            self.momentum, self.guess, self.guess_W = found.momentum, found.guess, found.guess_W

    @property
    def state(self) -> DescentState:
        given = self.problem.network.layers(self.samples.X)

        def own(blocks: Blocks) -> Blocks:
            return replace(blocks, U={n: layer for n, layer in blocks.U.items() if n not in given})

        last, guesses = own(self.last) if self.solver.extrapolate else None, (self.guess, self.guess_W)
        return DescentState(self.done, own(self.blocks), self.terms, self.history, last, self.momentum, *guesses)

    def whole(self, blocks: Blocks) -> Blocks:
        """The blocks with the layers that are given."""
        return replace(blocks, U=blocks.U | self.problem.network.layers(self.samples.X))

    def check_found(self, state: DescentState) -> None:
        """Raise unless a state is one of this run's."""
        check_blocks(self.problem, self.whole(state.blocks), self.samples)
        if not 0 <= state.momentum <= LONGEST:
            raise ValueError(f"momentum must lie in 0 to {LONGEST:g}, got {state.momentum:g}")

    def go(self, watch: Watch | None) -> Result:
        status, detail = self.slot.ended or (None, "")
        try:
            for t in range(self.done + 1, self.solver.max_iter + 1) if status is None else ():
                detail = self.iterate(t)
                if detail:
                    status = Status.NONFINITE
                else:
                    if self.solver.extrapolate:
                        self.extrapolate(t)
                    status = self.check(t)
                self.done = t
                if watch and watch(self.history):
                    status = status or Status.INTERRUPTED
                if status:
                    break
                self.slot.offer(self.state, t)
            status = status or Status.MAX_ITER
            self.slot.end(self.state, status, detail)
        except KeyboardInterrupt:
            # The block steps before it are done and recorded: the point is feasible, f has not risen.
            status = status or Status.INTERRUPTED
        assert status is not None
        return Result(self.problem, self.samples, self.solver.schedule, self.blocks, status, self.history, detail)

    def iterate(self, t: int) -> str:
        """Iteration t; returns where it broke, if a number was not finite."""
        schedule, clock = self.solver.schedule, time.perf_counter()
        theta, rho = schedule.theta(t), schedule.rho(t)
        tol, guesses = self.solver.inner_tol, (self.guess, self.guess_W)
        for move in block_steps(self.problem, self.blocks, self.samples, theta, rho, tol, *guesses):
            known = move.sums.lifts(move.blocks.W) if move.sums else {}
            terms, distance = self.compare(move.blocks, move.block, move.layers, known)
            if not math.isfinite(move.solution.residual + distance + terms.total):
                return f"{move.where_nonfinite(terms)}, iteration {t}"
            now, solution = time.perf_counter(), move.solution
            self.history.steps.append(
                BlockStep(
                    iteration=t,
                    block=move.label,
                    terms=terms,
                    decrease=self.terms.total - terms.total,
                    promised=schedule.promised_decrease(t, distance),
                    # By convexity an inexact minimiser x^ costs the bound at most r (|x - x^| + |g|).
                    slack=solution.residual * (distance + theta * solution.gradient),
                    distance=distance,
                    residual=solution.residual,
                    relative=solution.relative,
                    inner_steps=solution.steps,
                    seconds=now - clock,
                )
            )
            self.blocks, self.terms, clock = move.blocks, terms, now
            if theta < 1:  # with short steps the next minimiser is far nearer to this one than to the blocks
                if move.block == "U":
                    self.guess |= solution.point
                elif move.block == "W":
                    self.guess_W = solution.point
        return ""

    def compare(
        self, blocks: Blocks, block: str, layers: tuple[int, ...], known: Mapping[int, float]
    ) -> tuple[Terms, float]:
        """The terms of these blocks, and how far they are from the current ones, each sample's part by its weight.

        `known` are sums of the lift by layer.
        """
        old, changed = self.blocks, [n for n in blocks.U if blocks.U[n] is not self.blocks.U[n]]
        changes = [blocks.V - old.V, *(blocks.W[edge] - old.W[edge] for edge in blocks.W)]
        square = math.fsum(float(change.double().square().sum()) for change in changes)
        terms_of = self.problem.changed_rows(blocks, self.samples, block, layers, known)

        def values(rows: slice) -> dict[int, Tensor]:
            parts = [(blocks.U[n][rows] - old.U[n][rows]).square().sum(1) for n in changed]
            return terms_of(rows) | ({MOVED: torch.stack(parts).sum(0)} if parts else {})

        needless = block == "W" and not changed and known.keys() >= set(layers)
        sums = {} if needless else self.samples.weighted_sums(values)
        terms = self.problem.terms_with(self.terms, {**sums, **known}, blocks)
        return terms, math.sqrt(square + sums.get(MOVED, 0.0))

    def extrapolate(self, t: int) -> None:
        """Go on along the change from the last iteration's result to this one's.

        Kept only if f falls by some c |step|^2, which is what the proof of convergence asks of every step.
        """
        clock, here, there = time.perf_counter(), self.blocks, self.last
        self.last, longer = here, 1 + self.momentum
        hidden, value_ = self.problem.network.hidden, self.problem.network.activation.value_
        blocks = Blocks(
            relax_layers(there.U, {n: here.U[n] for n in hidden}, longer, self.samples, value_),
            self.problem.V_set.project(torch.lerp(there.V, here.V, longer)),
            relax_weights(self.problem, there.W, here.W, longer),
        )
        terms, distance = self.compare(blocks, "U", hidden, {})
        decrease = self.terms.total - terms.total
        promised = LEAST_FALL * self.solver.schedule.promised_decrease(t, distance)
        accepted = decrease > promised
        self.momentum = min(LONGEST, 1.5 * self.momentum) if accepted else 0.5 * self.momentum
        step = BlockStep(t, "extrapolation", self.terms, 0.0)
        if accepted:
            self.blocks, self.terms = blocks, terms
            step = replace(step, terms=terms, decrease=decrease, promised=promised, distance=distance)
        self.history.steps.append(replace(step, seconds=time.perf_counter() - clock))

    def check(self, t: int) -> Status | None:
        """How the run ends here, if it does."""
        exhausted = self.solver.schedule.exhausted(t)
        due = exhausted or t % self.solver.check_every == 0 or t == self.solver.max_iter
        if due and self.measure(t).within(self.solver.tol):
            return Status.STATIONARY
        return Status.SCHEDULE_EXHAUSTED if exhausted else None

    def measure(self, t: int) -> Stationarity:
        found = measure_stationarity(self.problem, self.blocks, self.samples)
        self.history.stationarity[t], self.history.norms[t] = found, self.blocks.norms()
        return found
