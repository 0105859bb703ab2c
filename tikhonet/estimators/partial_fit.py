"""`partial_fit`: one epoch over new rows from the last state, and the head refitted on a sample of all rows seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tikhonet.descent.result import Status
from tikhonet.estimators.all_ranks import check_alone
from tikhonet.estimators.fitting import Fitted, Plan, draw_seed, set_up
from tikhonet.estimators.hold_out import HOLD_OUT_FROM
from tikhonet.estimators.parameters import Parameters, build_problem
from tikhonet.estimators.rows import Memory, Rows, canonical, joined, sample
from tikhonet.estimators.several import widened
from tikhonet.estimators.solvers import Trained
from tikhonet.estimators.targets import Target
from tikhonet.model.model import Model
from tikhonet.model.scaling import Scaling
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Network
from tikhonet.trainer.batches import Batch

MOST_EPOCHS = 10
"""Epochs over the first rows of a stream, however many calls they came in."""


def fit_more(parameters: Parameters, rows: Rows, target: Target, last: Fitted | None) -> Fitted:
    """The last fit after one more epoch over canonical rows.

    Scaling, encoding and the unit of weights are those of all rows so far until these are `HOLD_OUT_FROM`: up to there
    each call begins anew, on all of them. After that they stay, but for features that had been constant.

    Where the rows that the last model learned from are gone, it stays until a better one is learned.
    """
    check_alone("partial_fit")
    if not parameters._method().goes_on:
        raise ArgumentError(
            "solver",
            f'partial_fit needs solver="stochastic", got {parameters.solver!r}; use fit with warm_start=True',
        )
    network = parameters._network(rows.X.shape[1])
    if last and last.model.network != network and not is_several(last.model.network, network):
        raise ArgumentError(
            "hidden_layer_sizes",
            "hidden_layer_sizes, network and skip must be those of the last fit for partial_fit to go on, "
            f"with widths {last.model.network.widths}, got {network.widths}; use fit to begin anew",
        )
    with set_up(parameters, rows, target):
        if last is None or last.memory.first:
            return begin(parameters, rows, target, network, last.memory if last else Memory())
        return go_on(parameters, rows, target, last)


def is_several(wide: Network, network: Network) -> bool:
    """Whether the wide network is several of the other side by side; it goes on as one."""
    times = wide.widths[-1] // network.widths[-1]
    return times > 1 and wide == widened(network, network.widths[0], times)


def begin(parameters: Parameters, rows: Rows, target: Target, network: Network, memory: Memory) -> Fitted:
    """A fit of all rows of a stream so far, with as many epochs as there were calls."""
    if memory.first:
        both = joined(memory.first, rows)
        rows = canonical(both.X, both.Y, both.weight)
    seed, calls, unit = draw_seed(parameters), memory.calls + 1, rows.mean_weight()
    first, rows = rows if len(rows) < HOLD_OUT_FROM else None, rows.weighed_in(unit)
    scaling = Scaling.fit(rows.X, rows.weight, network.shapes[0])
    rows = rows.scaled((), parameters.dtype, scaling)[1]
    target = target.started(rows, seed, None)
    plan = plan_for(parameters, rows, target, network, scaling, seed)
    trained = plan.train(rows, epochs=min(calls, MOST_EPOCHS))
    memory = Memory(trained.state, sample(rows), True, None, False, unit, float(rows.weight.sum()), first, calls)
    return with_new_head(plan, trained, memory)


def go_on(parameters: Parameters, rows: Rows, target: Target, last: Fitted) -> Fitted:
    """The last fit after one more epoch over these rows."""
    seed, before = draw_seed(parameters), last.memory
    rows = rows.weighed_in(before.unit or rows.mean_weight())
    scaling, shape = last.model.scaling, last.model.network.shapes[0]
    scaling = scaling.with_more(rows.X, rows.weight, before.seen, shape) if before.seen else scaling
    rows = rows.scaled((), parameters.dtype, scaling)[1]
    plan = plan_for(parameters, rows, target, last.model.network, scaling, seed)
    state = before.state_for(parameters.dtype, parameters.device)
    trained = plan.train(rows, epochs=1, state=state, start=None if state else (last.model.W, last.model.V))
    seen = before.seen and before.seen + float(rows.weight.sum())
    rows = before.rescaled(last.model.scaling, scaling).with_rows(rows)
    whole = before.whole or outdoes(plan, trained, rows, last.model)
    memory = replace(before, state=trained.state, rows=rows, whole=whole, of_fit=False, seen=seen)
    return with_new_head(plan, trained, memory) if whole else replace(last, memory=memory)


def plan_for(parameters: Parameters, rows: Rows, target: Target, network: Network, scaling: Scaling, seed: int) -> Plan:
    problem = build_problem(parameters, network, target.loss, float(rows.weight.sum()))
    return Plan(parameters, problem, target, scaling, seed)


def with_new_head(plan: Plan, trained: Trained, memory: Memory) -> Fitted:
    """The fit with V and head refitted on the rows that are remembered."""
    assert memory.rows is not None
    rows, everything = memory.rows, np.ones(len(memory.rows), bool)
    trained = refit_V(plan, trained, rows)
    strength, target = plan.judge(trained, rows, ~everything, everything, memory.strength)
    return replace(replace(plan, target=target).finish(trained, rows, strength), memory=memory)


def refit_V(plan: Plan, trained: Trained, rows: Rows) -> Trained:
    """The run with V fitted to these rows: the solver fits it to those of one call only, which may be very few."""
    if trained.status is Status.NONFINITE:
        return trained
    solver = plan.parameters._method().build(plan.parameters, len(rows), plan.network)
    X, targets, weight = (part.to(trained.V) for part in plan.tensors(rows))
    features = plan.network.features(X, trained.W)
    return replace(trained, V=solver.refit_V(plan.problem, trained.V, [Batch(features, targets, weight)]))


def outdoes(plan: Plan, trained: Trained, rows: Rows, last: Model) -> bool:
    """Whether this network, with a head fitted on two thirds of the rows, beats the last model on the others.

    It is asked where the rows that the last model learned from are gone: a few new ones make a worse one.
    """
    if len(rows) < HOLD_OUT_FROM or trained.status is Status.NONFINITE:
        return False
    judge = np.arange(len(rows)) % 3 == 0  # the order is as good as random
    test, rest = (rows.take(np.flatnonzero(mask)) for mask in (judge, ~judge))
    trained = refit_V(plan, trained, rest)
    strength = plan.target.head(trained.V.cpu().double().numpy()).default
    models = plan.with_head(trained, rest, strength), last
    new, old = (plan.target.score_loss(model.linear_head, plan.head_data(model, test)) for model in models)
    return new < old
