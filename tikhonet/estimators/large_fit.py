"""Fits of data that memory has no room for: rows by rows from a stream to disk, then mini-batches of them.

What a fit needs is counted before anything is made. Labels, weights and keys of all rows are in memory; X is on disk;
rows that epochs are judged by and rows that the head is fitted on are as many as there is room for.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tikhonet.descent.room import SMALLEST, memory_needed
from tikhonet.estimators.fitting import Fitted, Plan, draw_seed, set_up
from tikhonet.estimators.hold_out import hold_out
from tikhonet.estimators.large_rows import LargeRows, Survey, on_disk
from tikhonet.estimators.parameters import Parameters, build_problem
from tikhonet.estimators.rows import Rows
from tikhonet.estimators.sessions import session_of
from tikhonet.estimators.streams import Stream
from tikhonet.estimators.targets import Target
from tikhonet.model.scaling import Scaling
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Network
from tikhonet.problem.losses import Squared
from tikhonet.problem.memory_budget import PER_ROW, bytes_of, check_budget
from tikhonet.trainer.sweep import Dropout

STATES = 8
"""Matrices like the weights and the sums that a run keeps: its state, its averages, its good and its best one."""
HEAD = 6
"""Matrices like the features that a head makes."""
WORK = 5
"""Matrices like the layers of a batch, and like a piece of rows, that are made of it at once."""
LEAST = 1000
"""Rows that the head needs, at least, and rows of a piece, at most."""


@dataclass(frozen=True)
class Room:
    """What a fit may use, and what of it each part takes, in bytes above those that the process has at its begin."""

    budget: float
    rows: float
    state: float
    """The state of training, with what is kept of each row."""
    work: float
    """The work on a batch, and the pools of its dropout masks."""
    piece: int
    """Rows of the stream that are read at a time."""
    head_row: float
    """A row of those that the head is fitted on."""
    judge_row: float
    """A row of those that epochs are judged by."""

    @classmethod
    def of(cls, parameters: Parameters, network: Network, rows: float, outputs: int) -> Room:
        budget, number = bytes_of(parameters.memory_budget), np.dtype(parameters.dtype).itemsize
        width = network.widths[0]
        needs = batch_memory if parameters._method().goes_on else all_rows_memory
        state, work = needs(parameters, network, max(1, int(rows)), outputs)
        piece = int(min(LEAST, max(64, 0.1 * budget / (8 * WORK * width))))
        head_row, judge_row = 8 * (HEAD * network.widths[-1] + 6 * outputs), number * (2 * width + 2 * outputs)
        return cls(budget, rows, state + PER_ROW * rows, work, piece, float(head_row), float(judge_row))

    @property
    def needed(self) -> float:
        """The least that such a fit needs."""
        few = min(LEAST, self.rows)
        return self.state + max(self.work + few / 2 * self.judge_row, few * self.head_row)

    @property
    def sample(self) -> int:
        """Rows that the head is fitted on, those that are held out among them."""
        return int((self.budget - self.state) / self.head_row)

    @property
    def held_out(self) -> int:
        """Rows that epochs are judged by."""
        return min(self.sample // 2, int((self.budget - self.state - self.work) / self.judge_row))

    @property
    def sorting(self) -> float:
        """What the order of the rows may take."""
        return max(2**20, 0.5 * (self.budget - PER_ROW * self.rows))

    def check(self) -> None:
        check_budget(self.budget, self.needed, self.rows, "fewer rows, narrower layers or smaller batches")


def batch_memory(parameters: Parameters, network: Network, rows: int, outputs: int) -> tuple[float, float]:
    """Bytes of the state of training on mini-batches, and of the work on a batch."""
    number, width = np.dtype(parameters.dtype).itemsize, network.widths[0]
    batch = parameters._method().build(parameters, rows, network).batch_size
    matrices = sum(math.prod(network.shape(pair)) for pair in network.learned) + network.widths[-1] * outputs
    sums = sum(inputs**2 for inputs in network.widths)
    pools = [Dropout.size(batch * layer) for layer in (width, network.widths[-1])]
    layers = batch * (sum(network.widths) + outputs)
    return float(number * STATES * (matrices + sums)), float(number * (sum(pools) + max(WORK * layers, max(pools))))


def all_rows_memory(parameters: Parameters, network: Network, rows: int, outputs: int) -> tuple[float, float]:
    """Bytes of a full-batch run whose layers are on disk, at least; nothing of it stays."""
    problem, threads = build_problem(parameters, network, Squared(), 1.0), parameters.n_jobs or -1
    count = threads if threads > 0 else torch.get_num_threads()
    return 0.0, memory_needed(problem, rows, outputs, getattr(torch, parameters.dtype), SMALLEST, count)


def fit_large(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Fitted, int, tuple[str, ...]]:
    """Fit within `memory_budget`; also the number of columns, and their names where they have any."""
    bytes_of(estimator.memory_budget)
    stream = Stream.of(X, y, sample_weight)
    check_allowed(estimator)
    width = next(iter(stream.checked(1))).X.shape[1]
    network = estimator._network(width)

    def room(rows: float, outputs: int) -> Room:
        found = Room.of(estimator, network, rows, outputs)
        found.check()
        return found

    survey = Survey.of(stream, room(stream.rows or 1, 1).piece)
    target = estimator._target_of(survey.y)
    Y = target.in_numbers(survey.y)
    labelled = Rows(survey.weight[:, None], Y, survey.weight)
    survey = replace(survey, weight=estimator._weigher(target, labelled)(labelled).weight).merged(Y)
    plan = room(len(survey.y), target.outputs(Y))
    survey = replace(survey, y=survey.y[:0], keys=survey.keys[:0])
    scaling = survey.moments.scaling(network.shapes[0])
    with tempfile.TemporaryDirectory(prefix="tikhonet-") as folder:
        rows = on_disk(stream, survey, Y, scaling, estimator.dtype, Path(folder), plan.piece, plan.sorting)
        return fit_rows(estimator, rows, target, scaling, plan), width, stream.names


def check_allowed(parameters: Parameters) -> None:
    """Raise where a parameter needs all rows in memory."""
    method = parameters._method()
    if not method.on_disk:
        raise ArgumentError(
            "memory_budget",
            f'memory_budget must be None with solver="{parameters.solver}", which keeps the hidden layers of all rows '
            'in memory; use solver="stochastic" or "proximal"',
        )
    plain: dict[str, tuple[Any, ...]] = {} if method.goes_on else {"checkpoint": (None,), "device": ("cpu",)}
    plain |= {"n_bins": ("auto", 0), "warm_start": (False,), "n_networks": ("auto", 1), "decision": ("forward",)}
    for name, allowed in (plain | {"categorical_features": ("from_dtype", None), "monotonic_cst": (None,)}).items():
        given = getattr(parameters, name, allowed[0])
        if not any(given is one or (isinstance(given, (str, int)) and given == one) for one in allowed):
            raise ArgumentError("memory_budget", f"memory_budget must be None with {name}={given!r}; leave out one")


def fit_rows(estimator: Any, rows: LargeRows, target: Target, scaling: Scaling, room: Room) -> Fitted:
    """Train on rows that are on disk, scaled and in order."""
    unit = rows.mean_weight()
    rows = replace(rows, weight=rows.weight / unit)
    with set_up(estimator, rows, target) as network, session_of(estimator, rows) as session:
        seed = session.seed(lambda: draw_seed(estimator))
        target = target.started(rows, seed, None)
        judge = hold_out(estimator, rows, seed, len(rows), room.held_out)
        epochs = judge.any() and estimator._method().goes_on
        held_out = [rows.loaded(np.flatnonzero(judge))] if epochs else []
        training = rows.take(np.flatnonzero(~judge))
        problem = build_problem(estimator, network, target.loss, float(training.weight.sum()))
        plan = Plan(estimator, problem, target, scaling, seed, unit=unit, session=session)
        trained = plan.train(training, held_out)
        # The order of rows is as good as random, so that the first of them are a fair sample.
        chosen = np.concatenate([np.flatnonzero(judge), np.flatnonzero(~judge)[: room.sample - int(judge.sum())]])
        some, held = rows.take(chosen), judge[chosen]
        strength, target = plan.judge(trained, some, held, np.ones(len(some), bool))
        fitted = replace(plan, target=target).finish(trained, some, strength)
        return replace(fitted, memory=replace(fitted.memory, rows=None, whole=False))  # the file of the rows is gone
