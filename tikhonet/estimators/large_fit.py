"""Fits of data that memory has no room for: rows by rows from a stream to disk, then mini-batches of them.

What a fit needs is counted before anything is made. Labels, weights and keys of all rows are in memory; X and the
features of the head are on disk; rows that epochs are judged by are as many as there is room for.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tikhonet.descent.room import SMALLEST, memory_needed
from tikhonet.estimators.all_ranks import anywhere, row_count
from tikhonet.estimators.checks import check_magnitude
from tikhonet.estimators.column_summaries import FEWEST, MANY, Summaries
from tikhonet.estimators.large_rows import LargeRows, Moments, Survey, on_disk
from tikhonet.estimators.parameters import Parameters, build_problem
from tikhonet.estimators.rows import Floats, Rows
from tikhonet.estimators.streams import Stream
from tikhonet.estimators.tabular import Inputs, Table
from tikhonet.model.column import Values
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Network
from tikhonet.problem.losses import Squared
from tikhonet.problem.memory_budget import PER_ROW, bytes_of, check_budget
from tikhonet.problem.ranks import current_reduce
from tikhonet.problem.samples import keep
from tikhonet.trainer.sweep import Dropout

STATES = 8
"""Matrices like the weights and the sums that a run keeps: its state, its averages, its good and its best one."""
HEAD = 6
"""Matrices like the features that a head makes."""
WORK = 5
"""Matrices like the layers of a batch, and like a piece of rows, that are made of it at once."""
LEAST = 1000
"""Rows that the head needs, at least, and rows of a piece, at most."""
SUMMARIES = 0.2
"""The share of the budget that summaries of columns may take while these are learned."""
LARGEST = 1e150
"""Numbers beyond it could not be squared."""


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
    def of(cls, parameters: Parameters, network: Network, rows: float, outputs: int, networks: int = 1) -> Room:
        budget, number = bytes_of(parameters.memory_budget), np.dtype(parameters.dtype).itemsize
        width = network.widths[0]
        needs = batch_memory if parameters._method().goes_on else all_rows_memory
        state, work = needs(parameters, network, max(1, int(rows)), outputs)
        piece = int(min(LEAST, max(64, 0.1 * budget / (8 * WORK * width))))
        head_row, judge_row = 8 * (HEAD * network.widths[-1] + 6 * outputs), number * (2 * width + 2 * outputs)
        return cls(budget, rows, networks * state + PER_ROW * rows, work, piece, float(head_row), float(judge_row))

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


def fit_large(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """Fit within `memory_budget`: survey the rows, learn the columns, scale to disk, train on the rows there."""
    bytes_of(estimator.memory_budget)
    check_allowed(estimator)
    inputs, reduce = Inputs(estimator), current_reduce()
    inputs.begin_anew()
    stream = Stream.of(inputs.images(X), y, sample_weight)
    columns = inputs.columns_of(next(iter(stream.checked(1))).X, stream.names)

    def room(parameters: Any, rows: float, outputs: int, width: int, networks: int = 1) -> Room:
        found = Room.of(parameters, parameters._network(width), rows, outputs, networks)
        found.check()
        return found

    size = room(inputs.shaped(estimator), stream.rows or 1, 1, columns).piece
    survey = Survey.of(tables(inputs, stream, size))
    target = estimator._target_of(survey.y)
    Y = target.in_numbers(survey.y)
    labelled = Rows(survey.weight[:, None], Y, survey.weight)
    survey = replace(survey, weight=estimator._weigher(target, labelled)(labelled).weight).merged(Y)
    different = row_count(int(np.count_nonzero(survey.weight)))
    moments = learn(estimator, inputs, stream, survey, size, different)
    sized, networks = estimator._sized(different, inputs), estimator._networks(different, inputs)
    plan = room(sized, len(survey.y), target.outputs(Y), len(moments.mean), networks)
    survey = replace(survey, y=survey.y[:0], keys=survey.keys[:0])
    scaling = moments.over(reduce).scaling(sized._network(len(moments.mean)).shapes[0])
    size = min(size, plan.piece)
    encoded = (inputs.inputs_of(table) for table, _, _ in tables(inputs, stream, size))
    with tempfile.TemporaryDirectory(prefix="tikhonet-") as folder:
        disk, chosen = on_disk(encoded, survey, scaling, estimator.dtype, Path(folder), size, plan.sorting)
        rows = LargeRows(disk, Y[chosen], survey.weight[chosen], scaling, plan.held_out, plan.sample)
        return estimator._fit_networks(inputs, rows, target, [])


def tables(inputs: Inputs, stream: Stream, size: int) -> Iterator[tuple[Table, Any, Floats]]:
    """The pieces of a stream as tables that are checked, each with its labels and weights."""
    for X, y, weight in stream.checked(size):
        table = inputs.piece(X)
        for values in table if isinstance(table, list) else [table]:
            check_magnitude("X", values.array if isinstance(values, Values) else values, LARGEST)
        assert weight is not None
        yield table, y, weight


def learn(estimator: Any, inputs: Inputs, stream: Stream, survey: Survey, size: int, different: int) -> Moments:
    """Let the inputs know their columns, where these are more than numbers; the moments of what is made of them."""
    bins = estimator._bins(inputs.seen.n_features_in_) if estimator._cuts(different) else 0
    if not (bins or anywhere(survey.moments is None)):
        assert survey.moments is not None
        return survey.moments
    most = int(SUMMARIES * bytes_of(estimator.memory_budget) / (48 * inputs.seen.n_features_in_))
    summaries = Summaries(min(MANY, max(FEWEST, most)))
    for table, _, weight in tables(inputs, stream, size):
        summaries.add(inputs.as_columns(table), weight)
    columns = summaries.columns(bins)
    inputs.columns = inputs.bare(columns, (table for table, _, _ in tables(inputs, stream, size)))
    moments: Moments | None = None
    for table, _, weight in tables(inputs, stream, size):
        X = inputs.inputs_of(table)
        moments = moments or Moments.none(X.shape[1])
        moments.add(X, weight)
    assert moments is not None
    return moments


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
    for name, allowed in (plain | {"warm_start": (False,), "decision": ("forward",)}).items():
        given = getattr(parameters, name, allowed[0])
        if given not in allowed:
            raise ArgumentError("memory_budget", f"memory_budget must be None with {name}={given!r}; leave out one")
    if not method.goes_on and current_reduce() is not keep:
        raise ArgumentError("memory_budget", 'memory_budget must be None on several ranks but for solver="stochastic"')
