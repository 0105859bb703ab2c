"""`partial_fit`: one epoch over new rows from the last state, and the head refitted on a sample of all rows seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tikhonet.descent.result import Status
from tikhonet.estimators.fitting import HOLD_OUT_FROM, Fitted, Plan, draw_seed, scaled
from tikhonet.estimators.parameters import Parameters, build_problem
from tikhonet.estimators.rows import Memory, Rows
from tikhonet.estimators.solvers import Trained
from tikhonet.estimators.targets import Target
from tikhonet.model.model import Model
from tikhonet.model.scaling import Scaling
from tikhonet.network.errors import ArgumentError
from tikhonet.trainer.batches import Batch


def fit_more(parameters: Parameters, rows: Rows, target: Target, last: Fitted | None) -> Fitted:
    """The last fit after one more epoch over canonical rows; those of the first call fix scaling and encoding.

    Where the rows that the last model learned from are gone, it stays until a better one is learned.
    """
    if not parameters._method().goes_on:
        raise ArgumentError(
            "solver",
            f'partial_fit needs solver="stochastic", got {parameters.solver!r}; use fit with warm_start=True',
        )
    network = parameters._network(rows.X.shape[1])
    if last and network != last.model.network:
        raise ArgumentError(
            "hidden_layer_sizes",
            "hidden_layer_sizes, network and skip must be those of the last fit for partial_fit to go on, "
            f"with widths {last.model.network.widths}, got {network.widths}; use fit to begin anew",
        )
    seed = draw_seed(parameters)
    scaling = last.model.scaling if last else Scaling.fit(rows.X, rows.weight)
    rows = scaled(rows, scaling, parameters.dtype)
    if not last:
        target = target.started(rows, seed, None)
    problem = build_problem(parameters, network, target.loss, float(rows.weight.sum()))
    plan = Plan(parameters, problem, target, scaling, seed)
    memory = last.memory if last else Memory()
    state = memory.state_for(parameters.dtype, parameters.device)
    start = (last.model.W, last.model.V) if last and not state else None
    trained = plan.train(rows, epochs=1, state=state, start=start)
    rows = memory.with_rows(rows)
    whole = last is None or memory.whole or outdoes(plan, trained, rows, last.model)
    memory = replace(memory, state=trained.state, rows=rows, whole=whole, of_fit=False)
    if last and not whole:
        return replace(last, memory=memory)
    trained = refit_V(plan, trained, rows)
    everything = np.ones(len(rows), bool)
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
