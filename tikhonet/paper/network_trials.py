"""One trial: a method trains the paper's network from a seed, and what it reached is certified.

Every certificate is measured on the same training rows, those that the full-batch solvers see, so that the projected
gradients of all methods can be compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any

from torch import Tensor

from tikhonet.descent.certificates import Check, certify, check_feasible, check_stationary
from tikhonet.descent.full import BlockDescent
from tikhonet.descent.result import History, Status
from tikhonet.descent.start import initial_blocks
from tikhonet.network.graph import Weights
from tikhonet.paper.baselines.backprop import Backprop
from tikhonet.paper.experiment import Method, Watch
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Samples
from tikhonet.trainer.run import Stochastic
from tikhonet.trainer.sparsity.zeros import check_sparsity
from tikhonet.trainer.training import Epoch, Training

TOLERANCE = BlockDescent().tol
"""A point is stationary when its projected gradient is this much of the starting point's: the solvers' own rule."""


@dataclass(frozen=True)
class Untrained:
    """The network as it is drawn: what its random features alone are worth."""


@dataclass(frozen=True)
class Pixels:
    """No network: the classifier on the inputs."""


Solver = BlockDescent | Stochastic | Backprop | Untrained | Pixels


@dataclass(frozen=True)
class NetworkMethod(Method):
    """A way to train the paper's network: the problem, its solver, and the number of rows.

    `rows` and `certified` (the rows of the certificate) are None for all of them.
    """

    problem: Problem = field(kw_only=True)
    solver: Solver = field(kw_only=True)
    rows: int | None = None
    sparse: bool = False
    certified: int | None = None

    @property
    def steps(self) -> int:
        match self.solver:
            case BlockDescent(max_iter=count) | Stochastic(epochs=count) | Backprop(epochs=count):
                return count
        return 1

    def settings(self) -> dict[str, Any]:
        """Every setting by name, read off the objects themselves."""
        problem = {name: value for name, value in plain(self.problem).items() if name != "network"}
        return {
            "solver": type(self.solver).__name__,
            "rows": self.rows,
            "certified": self.certified,
            **problem,
            **plain(self.solver),
        }


def plain(thing: Any) -> dict[str, Any]:
    """A dictionary, or the fields of an object, as JSON knows it."""
    values = thing if isinstance(thing, dict) else {known.name: getattr(thing, known.name) for known in fields(thing)}
    return {
        name: value if isinstance(value, bool | int | float | str | None) else repr(value)
        for name, value in values.items()
    }


@dataclass(frozen=True)
class Outcome:
    """What a trial leaves; W is None where there is no network."""

    W: Weights | None
    V: Tensor | None
    objective: list[float]
    first_pass: int
    seconds: float
    status: str
    message: str
    checks: tuple[Check, ...] = ()
    residual: float = math.nan
    start_residual: float = math.nan


def train(method: NetworkMethod, X: Tensor, targets: Tensor, seed: int, watch: Watch) -> Outcome:
    """Run the method's solver on its rows of the data; `watch` hears of every pass."""
    certified = X[: method.certified], targets[: method.certified]
    X, targets = X[: method.rows], targets[: method.rows]
    match method.solver:
        case BlockDescent() as solver:
            return descend(solver, method.problem, X, targets, seed, watch)
        case Stochastic() as solver:

            def heard(epoch: Epoch) -> None:
                watch(epoch.number)

            training = solver.run(method.problem, X, targets, seed=seed, watch=heard)
        case Backprop() as solver:
            training = solver.run(method.problem, X, targets, seed=seed, watch=lambda epoch, _: watch(epoch.number))
        case Untrained():
            W = method.problem.network.random_weights(seed, dtype=X.dtype)
            return Outcome(W, None, [], 0, 0.0, "UNTRAINED", "Nothing is trained.")
        case Pixels():
            return Outcome(None, None, [], 0, 0.0, "NO_NETWORK", "There is no network.")
    return certify_training(training, *certified, seed)


def descend(solver: BlockDescent, problem: Problem, X: Tensor, targets: Tensor, seed: int, watch: Watch) -> Outcome:
    def heard(history: History) -> None:
        watch(history.iterations)

    result = solver.run(problem, X, targets, seed=seed, watch=heard)
    stop_if_interrupted(result.status)
    certificate, history = certify(result), result.history
    return Outcome(
        result.blocks.W,
        result.blocks.V,
        [value / len(X) for value in history.objective],
        0,
        history.seconds,
        result.status.name,
        result.message,
        certificate.checks,
        certificate.stationarity.total,
        history.stationarity[0].total,
    )


def certify_training(training: Training, X: Tensor, targets: Tensor, seed: int) -> Outcome:
    """A network that was trained on mini-batches, at the point U = its forward pass, where the tight lift is zero."""
    stop_if_interrupted(training.status)
    problem, W, V = training.problem, training.blocks.W, training.blocks.V
    losses = [epoch.loss for epoch in training.epochs]
    checks: tuple[Check, ...] = ()
    residual = first = math.nan
    # The blocks of a diverged run are those before it diverged: there is nothing to certify.
    if training.status is not Status.NONFINITE and all(bool(M.isfinite().all()) for M in (V, *W.values())):
        samples, blocks = Samples(X, targets), Blocks(problem.network.forward(X, W), V, W)
        start = problem.stationarity(initial_blocks(problem, samples, seed, "forward"), samples)
        stationarity = problem.stationarity(blocks, samples)
        residual, first = stationarity.total, start.total
        rises = [later - earlier for earlier, later in pairwise(losses)]
        worst = max(rises, default=0.0)
        checks = (
            check_feasible(problem, blocks),
            *(check_sparsity(training.sparsity) if training.sparsity else ()),
            Check(
                "descent",
                "the training loss falls at every epoch",
                worst <= 0 if rises else None,
                f"{len(losses)} epochs, largest rise {max(worst, 0.0):.3g} of a mean loss of {losses[-1]:.3g}",
            ),
            check_stationary(stationarity, start.tolerance(TOLERANCE)),
        )
    return Outcome(
        W,
        V,
        losses,
        1,
        sum(epoch.seconds for epoch in training.epochs),
        training.status.name,
        training.message,
        checks,
        residual,
        first,
    )


def stop_if_interrupted(status: Status) -> None:
    """The solvers turn Ctrl-C into a result; an unfinished trial must not become a record."""
    if status is Status.INTERRUPTED:
        raise KeyboardInterrupt
