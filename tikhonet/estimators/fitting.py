"""Every fit: rows -> scaling -> targets -> `Problem` -> solver -> head, in one direction; nothing is set on the way."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from tikhonet.descent.certificates import Certificate
from tikhonet.descent.devices import check_device
from tikhonet.descent.result import History, Status
from tikhonet.estimators.all_ranks import check_rows, one_seed
from tikhonet.estimators.callbacks import watching
from tikhonet.estimators.checks import check_size
from tikhonet.estimators.hold_out import hold_out, rows_held_out
from tikhonet.estimators.parameters import Parameters, build_problem
from tikhonet.estimators.rows import Floats, Mask, Memory, Rows, joined, names
from tikhonet.estimators.sessions import NO_SESSION, Session, session_of
from tikhonet.estimators.solvers import Course, Trained, threads
from tikhonet.estimators.stopping import warn_if_short
from tikhonet.estimators.targets import Target
from tikhonet.model.head_data import HeadData
from tikhonet.model.heads import ENOUGH, Head
from tikhonet.model.model import Model
from tikhonet.model.scaling import Scaling
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Network, Weights
from tikhonet.problem.objective import Problem
from tikhonet.problem.ranks import current_reduce
from tikhonet.problem.samples import Reduce, keep, rank_of
from tikhonet.trainer.batches import Validation, add_numbers
from tikhonet.trainer.sparsity.zeros import measure_sparsity
from tikhonet.trainer.training import Epoch

RETRAIN_BELOW = 1000
"""With fewer rows, those held out are missed: the network is trained again on all, as long as was best."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """All that a fit leaves. A model file keeps neither history nor certificate, nor the memory."""

    model: Model
    target: Target
    zeros: dict[str, Any]
    """The cause of weights that are zero, by `cause_of_zeros`."""
    iterations: int
    status: Status
    history: History | list[Epoch] | None = None
    certificate: Certificate | None = None
    memory: Memory = Memory()
    """The state and rows that `partial_fit` goes on with."""
    importances: Floats | None = None
    """How much each column matters, once it was asked for."""


@dataclass(frozen=True)
class Plan:
    """All that the steps of one fit have in common."""

    parameters: Parameters
    problem: Problem
    target: Target
    scaling: Scaling
    seed: int
    reduce: Reduce = keep
    unit: float = 1.0
    """The mean of the weights as they were given."""
    session: Session = NO_SESSION

    @property
    def network(self) -> Network:
        return self.problem.network

    def tensors(self, rows: Rows) -> tuple[Any, Any, Tensor]:
        return rows.tensors(self.target.encode, check_device(self.parameters.device))

    def validation(self, rows: Rows) -> Validation:
        """The rows that epochs are judged by; weights that are all alike say nothing, and are left out."""
        X, targets, weight = self.tensors(rows)
        return (X, targets, weight) if np.ptp(rows.weight) > 0 else (X, targets)

    def course(self, rows: Rows, held_out: Sequence[Rows] = (), epochs: int | None = None, **start: Any) -> Course:
        """A run of the solver on these rows."""
        method = self.parameters._method()
        count, ranks = round(add_numbers(self.reduce, len(rows))[0]), rank_of(self.reduce)[1]
        solver = method.shared(method.build(self.parameters, count, self.network), ranks)
        solver = replace(solver, epochs=epochs) if epochs else solver
        sets, data = [self.validation(part) for part in held_out], self.tensors(rows)
        slots = partial(self.session.slot, partial(names, rows))
        start |= {"reduce": self.reduce, "metric": self.target.judge(), "slots": slots}
        start["units"] = torch.from_numpy(np.where(self.scaling.varies, self.scaling.scale, 0.0))
        return Course(method, solver, self.problem, *data, sets, self.seed, **start)

    def train(self, rows: Rows, held_out: Sequence[Rows] = (), *, epochs: int | None = None, **start: Any) -> Trained:
        """Train on these rows, with bar and callbacks; say so where the run stopped short."""
        parameters, course = self.parameters, self.course(rows, held_out, epochs, **start)
        verbose = parameters.verbose and rank_of(self.reduce)[0] == 0
        with watching(parameters.callbacks, verbose, course.iterations, self.agreed) as watch:
            trained = self.target.train(replace(course, watch=watch))
        if not epochs:
            warn_if_short(parameters, trained, watch.asked, bool(self.scaling.varies.any()))
        return trained

    def agreed(self, asked: bool) -> bool:
        """Whether any rank asked for the end: all of them stop at the same epoch."""
        return add_numbers(self.reduce, asked)[0] > 0

    def retrain(self, trained: Trained, rows: Rows, **start: Any) -> Trained:
        """Train on all rows as long as the network was that is best on those held out, in a run of the same plan."""
        assert trained.state
        planned = trained.state.end - trained.state.undone
        start["watch"] = lambda epoch: epoch.number >= trained.passes
        again = self.course(rows, epochs=planned or None, **start).run()
        if again.iterations < trained.passes:  # interrupted
            return trained
        return replace(trained, W=again.W, V=again.V, state=again.state)

    def model_of(self, trained: Trained) -> Model:
        """The model with V in place of a head."""
        W = {edge: matrix.cpu() for edge, matrix in trained.W.items()}
        V = trained.V.cpu()
        return Model(self.scaling, trained.network or self.network, W, V, Head(V.double().numpy(), np.zeros(len(V))))

    def with_head(self, trained: Trained, rows: Rows, strength: float) -> Model:
        """The model with a head fitted on these rows."""
        model = self.model_of(trained)
        kind = self.target.head(model.linear_head.coef)
        head = kind.fit(self.head_data(model, rows if kind.by_parts else rows.at_hand()), strength)
        return replace(model, **{"head": self.target.in_own_units(head)} | self.target.in_model())

    def head_data(self, model: Model, rows: Rows) -> HeadData:
        return rows.head_data(lambda X: model.scaled_features(X, self.parameters.device), self.reduce)

    def judge(
        self, trained: Trained, rows: Rows, judge: Mask, final: Mask, last: float | None = None
    ) -> tuple[float, Target]:
        """The head's strength, and the target calibrated, by the rows to judge by.

        Without any it is the last strength, where this kind of head knows it.
        """
        model = self.model_of(trained)
        kind = self.target.head(model.linear_head.coef)
        believed = self.target.believes and not kind.calibrated
        held = rows.take(np.flatnonzero(judge)) if judge.any() else rows.at_hand()
        rest = data = self.head_data(model, held)
        strength = last if last in kind.grid else kind.default
        if judge.any():
            others = np.flatnonzero(~judge)
            rest = self.head_data(model, rows.take(others[:ENOUGH]))
            strength = kind.choose(rest, data, add_numbers(self.reduce, rows.weight[final].sum())[0])
            if believed and len(others) > ENOUGH:
                rest = self.head_data(model, rows.take(others) if kind.by_parts else rows.take(others).at_hand())
        if believed:
            model = replace(model, head=kind.fit(rest, strength))
        return strength, self.target.calibrated(self.problem, model, held.X, data)

    def finish(self, trained: Trained, rows: Rows, strength: float) -> Fitted:
        """The head on these rows, and all that is kept."""
        model = self.with_head(trained, rows, strength)
        problem = self.problem if set(self.network.learned) <= set(model.W) else Problem(model.network)
        zeros = cause_of_zeros(self.parameters, problem, model)
        ended = trained.iterations, trained.status, trained.history, trained.certificate
        keeps = hasattr(self.parameters, "partial_fit")
        memory = Memory.after_fit(trained.state, rows, strength, self.unit) if keeps else Memory()
        return Fitted(model, self.target.finished(trained), zeros, *ended, memory)


def fit(
    parameters: Parameters,
    rows: Rows,
    target: Target,
    *,
    validation: Sequence[Rows] = (),
    last: Fitted | None = None,
    reduce: Reduce | None = None,
    turn: int = 0,
    session: Session | None = None,
) -> Fitted:
    """Train the network on canonical rows, then the head on its features; `last` is where a warm start begins.

    The last set of `validation` rows decides which epoch is best; without any, some of the rows are held out for it. A
    network of another `turn` begins with other random weights. A `session` of checkpoints is opened where none is
    given.

    `reduce` adds up all sums over rows, where several machines have some each: of scaling, solver and head; without
    one it is that of `with Ranks()`.
    """
    if parameters.memory_budget is not None and not rows.on_disk:
        raise ArgumentError(
            "memory_budget", f"memory_budget must be None for {type(parameters).__name__}, which takes all rows at once"
        )
    reduce = reduce or current_reduce()
    check_rows(len(rows), reduce)
    with (
        set_up(parameters, rows, target, reduce) as network,
        session_of(parameters, rows, validation, last.model if last else None, reduce, session) as session,
    ):
        return fit_all(parameters, rows, target, network, validation, last, reduce, turn, session)


@contextmanager
def set_up(parameters: Parameters, rows: Rows, target: Target, reduce: Reduce = keep) -> Iterator[Network]:
    """The network to train, after all checks that need no training, with threads for work of its size."""
    network, outputs = parameters._network(rows.X.shape[1]), target.outputs(rows.Y)
    check_device(parameters.device)
    solver = parameters._method().build(parameters, len(rows), network)
    at_once = len(rows) if parameters.memory_budget is None else getattr(solver, "chunk_rows", len(rows))
    batch = getattr(solver, "batch_size", at_once)
    check_size(network, len(rows), batch, outputs, parameters.dtype)
    target.check_head(network.widths[-1], rows.Y.shape[1], reduce)
    weights = sum(math.prod(network.shape(pair)) for pair in network.learned) + network.widths[-1] * outputs
    with threads(parameters.n_jobs, batch * weights):
        yield network


def fit_all(
    parameters: Parameters,
    rows: Rows,
    target: Target,
    network: Network,
    validation: Sequence[Rows],
    last: Fitted | None,
    reduce: Reduce,
    turn: int,
    session: Session,
) -> Fitted:
    """Scaling, network, head, one after the other."""
    inputs = rows.X.shape[1]
    warm = warm_start(parameters, last, inputs)
    seed = one_seed(session.seed(lambda: draw_seed(parameters, turn)), reduce)
    unit = rows.mean_weight(reduce)
    rows = rows.weighed_in(unit)
    scaling, rows = rows.scaled(network.shapes[0], parameters.dtype, warm.model.scaling if warm else None, reduce)
    count = round(add_numbers(reduce, len(rows))[0])
    target = target.started(rows, seed, warm.target if warm else None, reduce)
    watched = [part.scaled(network.shapes[0], parameters.dtype, scaling)[1] for part in validation]
    if watched:
        judge = np.repeat([False, True], [len(rows), len(watched[-1])])
        rows, final = joined(rows, watched.pop()), ~judge
    else:
        draw = partial(hold_out, parameters, rows, seed, count, rows.most_held_out)
        judge = session.hold_out(partial(names, rows), draw) if target.holds_out else np.zeros(len(rows), bool)
        final = np.ones(len(rows), bool)
    training = rows.take(np.flatnonzero(~judge))
    held_out = [*watched, rows.loaded(np.flatnonzero(judge))] if judge.any() else []
    problem = build_problem(parameters, network, target.loss, add_numbers(reduce, training.weight.sum())[0])
    problem = target.signs.confine(problem) if target.signs else problem
    plan = Plan(parameters, problem, target, scaling, seed, reduce, unit, session)
    start = started(warm, target, network)
    trained = plan.train(training, held_out, start=start)
    strength, target = plan.judge(trained, rows, judge, final)
    plan = replace(plan, target=target)
    ended_well = trained.status in (Status.FINISHED, Status.EARLY_STOPPED)
    if held_out and not validation and count < RETRAIN_BELOW and ended_well:
        trained = plan.retrain(trained, rows, start=start)
    return plan.finish(trained, rows if final.all() else rows.take(np.flatnonzero(final)), strength)


def warm_start(parameters: Parameters, last: Fitted | None, inputs: int) -> Fitted | None:
    """The last fit, where one of so many inputs goes on with its scaling and its weights."""
    return last if last and parameters.warm_start and last.model.network.widths[0] == inputs else None


def started(warm: Fitted | None, target: Target, network: Network) -> tuple[Weights, Tensor] | None:
    """W and V that a warm start begins with; None where it has none for this network."""
    begun = target.begins(warm.model, network) if warm else None
    return (begun, warm.model.V) if warm and begun else None


def draw_seed(parameters: Parameters, turn: int = 0) -> int:
    random = check_random_state(parameters.random_state)
    return [int(random.randint(2**31 - 1)) for _ in range(turn + 1)][-1]


def most_iterations(parameters: Parameters, rows: int, network: Network | None = None) -> int:
    """How many epochs or iterations a fit of this network (a dense one) on so many rows may do."""
    method = parameters._method()
    return method.iterations(method.build(parameters, max(1, rows - rows_held_out(parameters, rows, rows)), network))


def cause_of_zeros(parameters: Parameters, problem: Problem, model: Model) -> dict[str, Any]:
    """The kind of zeros that weights have (by a set, a budget, both or none), and the budget that was asked for."""
    found = measure_sparsity(problem, model.W, parameters._budget()).as_dict()
    return {name: found[name] for name in ("kind", "asked", "over")}
