"""From rows and parameters to a `Problem`, a solver, and what it leaves: one shape for all three solvers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from tikhonet.descent.certificates import Certificate, Check, certify
from tikhonet.descent.full import BlockDescent
from tikhonet.descent.result import History, Result, Status
from tikhonet.descent.schedules import Power, Proximal
from tikhonet.estimators.parameters import Parameters
from tikhonet.model.model import Model
from tikhonet.network.graph import Network, Weights
from tikhonet.network.initial import deep_and_plain
from tikhonet.problem.objective import Blocks, Problem, Stationarity
from tikhonet.problem.sets import Everything
from tikhonet.trainer.batches import Validation
from tikhonet.trainer.recipe import DEEP
from tikhonet.trainer.run import Stochastic
from tikhonet.trainer.sparsity.zeros import check_sparsity, measure_sparsity
from tikhonet.trainer.state import TrainingState
from tikhonet.trainer.training import Epoch, Training

Watch = Callable[[Any], bool | None]
STEPS = 150
"""Mini-batch steps that small data get; large data get `EPOCHS` passes where those are more."""
EPOCHS = 10
CHANGE = 0.6
"""The relative change of a layer's pre-activations by the first step, whatever the size of the batches; that of deep
plain networks is the trainer's own."""
HOLD_OUT_FROM = 100
"""Fewer rows are all trained on: what could be held out of them would tell nothing."""


@dataclass(frozen=True)
class Data:
    """Scaled inputs, encoded targets and weights, as tensors; the same of the held-out rows, if any."""

    X: Tensor
    targets: Tensor
    weight: Tensor
    held_out: Validation | None = None

    def __len__(self) -> int:
        return len(self.X)


@dataclass(frozen=True)
class Trained:
    """The network and classifier that a run reached, and what it says of itself."""

    W: Weights
    V: Tensor
    status: Status
    message: str
    history: History | list[Epoch]
    certificate: Certificate
    iterations: int
    state: TrainingState | None = None
    outputs: Tensor | None = None
    """Of the network for the rows that it was trained on, where codes were made of them."""


def build_problem(parameters: Parameters, network: Network, rows: float) -> Problem:
    constraint = parameters._constraint()
    return Problem(
        network,
        loss=parameters._loss(),
        lift=parameters._lift(),
        gamma=parameters._gamma(),
        W_set=Everything() if constraint is None else constraint,
        # Without a ridge the features carry the labels almost free of charge; 0.02 a row did best on the digits.
        ridge_V=0.02 * rows if parameters.solver == "proximal" else 0.0,
    )


def cause_of_zeros(parameters: Parameters, model: Model) -> dict[str, Any]:
    """What makes weights zero in a fit with these parameters, in plain words."""
    problem = build_problem(parameters, model.network, 1.0)
    found = measure_sparsity(problem, model.W, parameters._budget()).as_dict()
    return {name: found[name] for name in ("kind", "asked", "over")}


def count_zeros(model: Model) -> dict[str, Any]:
    """The share of weights that are zero, and numbers by the name of the matrix."""
    matrices = {f"W[{n},{m}]": model.W[n, m] for n, m in model.network.penalised}
    nonzeros = {name: int(matrix.count_nonzero()) for name, matrix in matrices.items()}
    weights = {name: matrix.numel() for name, matrix in matrices.items()}
    return {"zeros": 1 - sum(nonzeros.values()) / sum(weights.values()), "nonzeros": nonzeros, "weights": weights}


def build_solver(parameters: Parameters, rows: int, network: Network | None = None) -> Stochastic | BlockDescent:
    """The solver that the parameters name, for so many rows; without a network, for a shallow one."""
    budget = parameters._budget()
    chosen = None if parameters.max_iter == "auto" else int(parameters.max_iter)
    if parameters.solver == "proximal":
        schedule = Proximal(0.1)
        start: Any = {"initial_features": "forward", "extrapolate": True}
        return BlockDescent(schedule, chosen or 100, parameters.tol, check_every=5, **start)
    if parameters.solver == "alg1":
        return BlockDescent(Power(2), chosen or 100, parameters.tol, check_every=5)
    batch = default_batch(rows) if parameters.batch_size == "auto" else min(int(parameters.batch_size), rows)
    deep = network is not None and deep_and_plain(network)
    drop = (None, None) if deep and isinstance(parameters.dropout, str) else dropout_of(parameters)
    size = rows / max(1, round(rows / batch))
    return Stochastic(
        # `Stochastic` takes shorter steps for batches below 1000 rows; small data have no time for that.
        change=(DEEP.change if deep else CHANGE) / min(1.5, math.sqrt(size / 1000)),
        initial=parameters.initial,
        epochs=chosen or default_epochs(rows, batch),
        batch_size=batch,
        drop_inputs=drop[0],
        drop_features=drop[1],
        patience=parameters.n_iter_no_change,
        budget=budget,
    )


def default_batch(rows: int) -> int:
    """200 rows of small data, a tenth of larger ones, at most the 1000 rows that a step is made for."""
    return min(rows, 1000, max(200, rows // 10))


def default_epochs(rows: int, batch: int) -> int:
    return max(EPOCHS, math.ceil(STEPS / max(1, round(rows / batch))))


def dropout_of(parameters: Parameters) -> tuple[float | None, float | None]:
    """Of inputs and last features; None is what suits the network and the run."""
    if isinstance(parameters.dropout, str):
        return parameters._default_dropout if parameters.sparsity is None else parameters._sparse_dropout
    if isinstance(parameters.dropout, Real):
        return float(parameters.dropout), float(parameters.dropout)
    inputs, features = (float(share) for share in parameters.dropout)
    return inputs, features


def train(
    parameters: Parameters,
    problem: Problem,
    data: Data,
    *,
    seed: int,
    start: tuple[Weights, Tensor] | None = None,
    state: TrainingState | None = None,
    epochs: int | None = None,
    watch: Watch | None = None,
) -> Trained:
    """Run the solver, from the weights and classifier in `start` or the state of an earlier run, if any."""
    solver = build_solver(parameters, len(data), problem.network)
    with threads(parameters.n_jobs):
        if isinstance(solver, BlockDescent):
            blocks = None
            if start:
                W = {edge: matrix.to(data.X) for edge, matrix in start[0].items()}
                V = start[1].to(data.X)
                if len(V) != data.targets.shape[1]:  # V of other targets is of no use, the network is
                    V = V.new_zeros(data.targets.shape[1], V.shape[1])
                blocks = Blocks(problem.network.forward(data.X, W), V, W)
            result = solver.run(problem, data.X, data.targets, weight=data.weight, seed=seed, start=blocks, watch=watch)
            return from_result(result)
        if epochs:
            solver = replace(solver, epochs=epochs)
        if state:
            # Each run anneals its steps anew, however many there were before.
            state = replace(state, step=0, epochs=[], best=None)
        return from_training(
            solver.run(
                problem,
                data.X,
                data.targets,
                weight=data.weight,
                validation=data.held_out,
                start=start[0] if start else None,
                resume=state,
                seed=seed,
                dtype=data.X.dtype,
                device=data.X.device,
                watch=watch,
            )
        )


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count if count > 0 else max(1, torch.get_num_threads() + 1 + count))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def from_result(result: Result) -> Trained:
    iterations = max(1, result.history.iterations)
    blocks, end = result.blocks, (result.status, result.message, result.history)
    return Trained(blocks.W, blocks.V, *end, certify(result), iterations)


def from_training(training: Training) -> Trained:
    blocks, end = training.blocks, (training.status, training.message, training.epochs)
    iterations = max(1, len(training.epochs))
    return Trained(blocks.W, blocks.V, *end, certify_training(training), iterations, replace(training.state, best=None))


def certify_training(training: Training) -> Certificate:
    """What can be said of a mini-batch run: its weights are in their sets; the rest was not measured."""
    problem, W = training.problem, training.blocks.W
    excess = {f"W[{n},{m}]": problem.edge_set((n, m)).violation(M) for (n, m), M in W.items()}
    worst = max(excess, key=lambda name: math.inf if math.isnan(excess[name]) else excess[name])
    figure = f"worst: {worst}, exceeds its set by {max(excess[worst], 0.0):.3g}"
    undone = training.epochs[-1].rejected if training.epochs else 0
    remedy = "`tikhonet certify MODEL --data ...` measures it for a saved classifier or regressor"
    checks = (
        Check("feasible", "the weights are feasible", excess[worst] <= 0, figure),
        *(check_sparsity(training.sparsity) if training.sparsity else ()),
        Check("descent", "f falls at every step", None, f"mini-batch steps promise nothing; {undone} were undone"),
        Check("stationary", "the point is stationary", None, f"not measured; {remedy}"),
    )
    unknown = Stationarity(dict.fromkeys(("U", "V", "W"), math.nan))
    return Certificate(checks, unknown, None)
