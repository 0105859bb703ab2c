"""One run of a solver: the solvers that parameters can name, the rows they run on, and what they leave."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from tikhonet.descent.certificates import Certificate, Check, certify, check_feasible
from tikhonet.descent.full import BlockDescent
from tikhonet.descent.network_descent import NetworkDescent, NetworkResult, Restored
from tikhonet.descent.result import NOT_CLAIMED, History, Result, Status
from tikhonet.descent.schedules import Power, Proximal, Schedule
from tikhonet.descent.slots import Slot
from tikhonet.descent.stationarity import Stationarity
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Network, Weights
from tikhonet.network.initial import deep_and_plain
from tikhonet.problem.lifts import Fenchel, Lift, Tikhonov
from tikhonet.problem.memory_budget import PER_ROW, bytes_of
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Reduce, keep
from tikhonet.trainer.batches import Validation
from tikhonet.trainer.judge import Metric
from tikhonet.trainer.recipe import IMAGES_BATCH
from tikhonet.trainer.run import Stochastic
from tikhonet.trainer.sparsity.zeros import check_sparsity
from tikhonet.trainer.state import TrainingState
from tikhonet.trainer.training import Epoch, Training

Watch = Callable[[Any], bool | None]
STEPS = 150
"""Mini-batch steps that small data get; large data get `EPOCHS` passes where those are more."""
EPOCHS = 10
SMALL_WORK = 1e8
"""Multiply-adds of a forward pass over a batch below which one thread computes: two were 4 to 40 times slower where
other processes had the cores, since each small product waits for both."""
GIVEN, SLOW = 0.6, 0.95
"""The first step, whatever the batch, and the momentum by 1000 rows of weights in a bounded set: on small tables the
rule's steps are as good there, and leave up to half as many nonzeros again in the l1 ball (docs/log/step_rule.md)."""


@dataclass(frozen=True)
class Trained:
    """The network and classifier that a run reached, and what it says of itself."""

    W: Weights
    V: Tensor
    status: Status
    history: History | list[Epoch]
    certificate: Certificate
    iterations: int
    state: TrainingState | None = None
    passes: int = 0
    """Epochs that the network has behind it, where epochs were judged by rows held out."""
    outputs: Tensor | None = None
    """The network's outputs for the rows that it was trained on, where codes were made of them."""
    kept: Any = None
    """What the target learned on the way, for itself."""
    network: Network | None = None
    """The network of W, where the target put layers on the one that was trained."""

    @classmethod
    def from_result(cls, result: Result) -> Trained:
        iterations = max(1, result.history.iterations)
        return cls(result.blocks.W, result.blocks.V, result.status, result.history, certify(result), iterations)

    @classmethod
    def from_training(cls, training: Training) -> Trained:
        blocks, epochs, state = training.blocks, training.epochs, replace(training.state, best=None)
        certificate, best = certify_training(training), training.state.best
        passes = best.passes if best else len(epochs)
        return cls(blocks.W, blocks.V, training.status, epochs, certificate, max(1, len(epochs)), state, passes)


@dataclass(frozen=True)
class Course:
    """A run that can begin: what is solved, how, on which rows, and from which weights or state of an earlier run."""

    method: FullBatch | MiniBatch
    solver: Any
    problem: Problem
    X: Tensor
    targets: Tensor
    weight: Tensor
    held_out: list[Validation]
    """Sets of rows that epochs are judged by; the last decides."""
    seed: int
    start: tuple[Weights, Tensor] | None = None
    state: TrainingState | None = None
    watch: Watch | None = None
    reduce: Reduce = keep
    """Adds up sums over rows, where several machines have some each."""
    slots: Callable[[], Slot] = Slot
    """The places of checkpoints, one for each run of the solver after the other."""
    metric: Metric | None = None
    """What epochs are judged by; None is the loss."""
    units: Tensor = field(default_factory=lambda: torch.ones(()))
    """What each feature was divided by; 0 for one that is constant."""

    @property
    def iterations(self) -> int:
        return self.method.iterations(self.solver)

    def run(self) -> Trained:
        return self.method.run(self)

    def start_weights(self) -> Weights | None:
        """The weights to begin with, in the type of the rows."""
        return {edge: matrix.to(self.X) for edge, matrix in self.start[0].items()} if self.start else None


@dataclass(frozen=True)
class FullBatch:
    """A solver that takes all rows at once, with the lift, the gamma and the ridge of V (a row) that go with it."""

    schedule: Schedule
    lift: type[Lift]
    gamma: float
    ridge: float = 0.0
    options: dict[str, Any] = field(default_factory=dict)
    ridge_W: float = 0.0
    goes_on: ClassVar[bool] = False
    """Whether a run can go on from the state of another: for partial_fit, budgets and rounds of codes."""
    on_disk: ClassVar[bool] = True
    """Whether rows may be on disk."""
    not_claimed: ClassVar[Mapping[str, str]] = NOT_CLAIMED

    def build(self, parameters: Any, rows: int, network: Network | None = None) -> Any:
        """The solver for so many rows; without a network, for a shallow one."""
        parameters._budget()  # which it refuses
        check_products(parameters)
        limit = 100 if parameters.max_iter == "auto" else int(parameters.max_iter)
        memory = parameters.memory_budget
        budget = None if memory is None else max(0.0, bytes_of(memory) - PER_ROW * rows)
        options = self.options | {"check_every": 5, "memory_budget": budget}
        return BlockDescent(self.schedule, limit, parameters.tol, **options)

    def shared(self, solver: Any, ranks: int) -> Any:
        """The solver on one of so many ranks, which share its batches."""
        return solver

    def iterations(self, solver: BlockDescent) -> int:
        """How many iterations it may do."""
        return solver.max_iter

    def run(self, course: Course) -> Trained:
        if course.metric:
            raise ArgumentError("eval_metric", 'eval_metric needs solver="stochastic", which has epochs; leave it out')
        X, targets, problem, blocks = course.X, course.targets, course.problem, None
        if W := course.start_weights():
            assert course.start is not None
            V = course.start[1].to(X)
            if len(V) != targets.shape[1]:  # V of other targets is of no use, the network is
                V = V.new_zeros(targets.shape[1], V.shape[1])
            blocks = Blocks(problem.network.forward(X, W), V, W)
        options = {"weight": course.weight, "seed": course.seed, "reduce": course.reduce, "slot": course.slots()}
        return Trained.from_result(course.solver.run(problem, X, targets, start=blocks, watch=course.watch, **options))


class NetworkBatch(FullBatch):
    """Full-batch descent on the network's own loss, of which a run can certify that it ends at a stationary point."""

    on_disk: ClassVar[bool] = False
    not_claimed: ClassVar[Mapping[str, str]] = NetworkResult.not_claimed

    def build(self, parameters: Any, rows: int, network: Network | None = None) -> Any:
        parameters._budget()
        check_products(parameters)
        if parameters._constraint() is not None:
            message = 'constraint must be None for solver="certified", whose ridges hold the weights, got '
            raise ArgumentError("constraint", f"{message}{parameters.constraint!r}")
        return NetworkDescent(1000 if parameters.max_iter == "auto" else int(parameters.max_iter), parameters.tol)


class MiniBatch:
    """The stochastic trainer, as `FullBatch` describes a solver."""

    lift, gamma, ridge, ridge_W, goes_on, on_disk = Fenchel, 1.0, 0.0, 0.0, True, True
    not_claimed: ClassVar[dict[str, str]] = NOT_CLAIMED | {
        "convergence": "mini-batch steps do not settle at a stationary point, and no theorem says that they would",
        "descent": "a step may raise the objective",
        "gradient_free": "its steps follow the back-propagated gradient, in the metric of the Gram matrices",
        "step_length": "the length of its steps is a rule that experiments found, not one that a proof gives",
    }

    def build(self, parameters: Any, rows: int, network: Network | None = None) -> Any:
        images, budget = network is not None and network.has_images, parameters._budget()
        auto = min(default_batch(rows), IMAGES_BATCH) if images else default_batch(rows)
        batch = auto if parameters.batch_size == "auto" else min(int(parameters.batch_size), rows)
        deep = network is not None and deep_and_plain(network)
        drop = (None, None) if (deep or images) and isinstance(parameters.dropout, str) else parameters._dropout()
        set_ = parameters._constraint()
        given = set_ is not None and not (set_.cone or budget or deep or images)
        size = rows / max(1, round(rows / batch))
        return Stochastic(
            change=GIVEN / min(1.5, math.sqrt(size / 1000)) if given else None,
            momentum=SLOW if given else None,
            initial=parameters.initial,
            epochs=default_epochs(rows, batch) if parameters.max_iter == "auto" else int(parameters.max_iter),
            batch_size=batch,
            drop_inputs=drop[0],
            drop_features=drop[1],
            decay=None if isinstance(parameters.decay, str) else float(parameters.decay),
            patience=parameters.n_iter_no_change,
            budget=budget,
            products=parameters.products,
        )

    def shared(self, solver: Any, ranks: int) -> Any:
        return replace(solver, batch_size=-(-solver.batch_size // ranks))

    def iterations(self, solver: Stochastic) -> int:
        return solver.epochs

    def run(self, course: Course) -> Trained:
        # Each run anneals its steps anew, however many there were before.
        state = course.state and replace(course.state, step=0, epochs=[], best=None, undone=0, end=0)
        alike = course.reduce is keep and bool((course.weight == course.weight[0]).all())
        training = course.solver.run(
            course.problem,
            course.X,
            course.targets,
            weight=None if alike else course.weight,  # weights that are all alike only cost time
            validation=course.held_out,
            metric=course.metric,
            start=course.start[0] if course.start else None,
            resume=state,
            seed=course.seed,
            dtype=course.X.dtype,
            device=course.X.device,
            reduce=course.reduce,
            watch=course.watch,
            slot=course.slots(),
        )
        return Trained.from_training(training)


METHODS: dict[str, FullBatch | MiniBatch] = {
    "stochastic": MiniBatch(),
    # Without a ridge the features carry the labels almost free of charge; 0.02 a row did best on the digits.
    "proximal": FullBatch(
        Proximal(0.1), Fenchel, 1.0, ridge=0.02, options={"initial_features": "forward", "extrapolate": True}
    ),
    "alg1": FullBatch(Power(2), Tikhonov, 0.1),
    # Ridges for each row, chosen on rows of the digits that were held out (benchmarks/certified.py).
    "certified": NetworkBatch(Restored(), Fenchel, 1.0, ridge=0.01, ridge_W=0.002),
}


def check_products(parameters: Any) -> None:
    """Raise where a full-batch solver is asked for rounded products."""
    if parameters.products != "float32":
        raise ArgumentError(
            "products",
            f'products must be "float32" for solver="{parameters.solver}", got {parameters.products!r}; '
            'use solver="stochastic"',
        )


def default_batch(rows: int) -> int:
    """200 rows of small data, a fifth of larger ones, at most the 1000 rows that a step is made for."""
    return min(rows, 1000, max(200, rows // 5))


def default_epochs(rows: int, batch: int) -> int:
    """As many passes as give small data enough steps: half of them from 2,000 rows on, where batches are larger."""
    steps = STEPS * min(1.0, max(0.5, 1000 / rows))
    return max(EPOCHS, math.ceil(steps / max(1, round(rows / batch))))


@contextmanager
def threads(count: int | None, work: float) -> Iterator[None]:
    """Let torch use so many threads, at most one for each core; -1 is as many as torch has now.

    None is one thread for steps of fewer than `SMALL_WORK` multiply-adds, else as many as torch has.
    """
    before = torch.get_num_threads()
    if count is None:
        count = 1 if work < SMALL_WORK else before
    wanted = min(count, os.cpu_count() or 1) if count > 0 else max(1, before + 1 + count)
    forked = wanted > 1 and threaded_process() != os.getpid()
    torch.set_num_threads(1 if forked else wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def threaded_process() -> int:
    """The process that torch's threads are in. One forked from it has none of them, and would wait: it uses one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))
    return os.getpid()


def certify_training(training: Training) -> Certificate:
    """Certify a mini-batch run: its weights are in their sets; the rest was not measured."""
    undone = training.epochs[-1].rejected if training.epochs else 0
    remedy = "`tikhonet certify MODEL --data ...` measures it for a saved classifier or regressor"
    checks = (
        check_feasible(training.problem, training.blocks),
        *(check_sparsity(training.sparsity) if training.sparsity else ()),
        Check("descent", "f falls at every step", None, f"mini-batch steps promise nothing; {undone} were undone"),
        Check("stationary", "the point is stationary", None, f"not measured; {remedy}"),
    )
    unknown = dict.fromkeys(("U", "V", "W"), math.nan)
    return Certificate(checks, Stationarity(unknown, unknown, math.nan), None, MiniBatch.not_claimed)
