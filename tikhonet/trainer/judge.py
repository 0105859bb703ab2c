"""What the epochs of a run are judged by: the loss on validation rows, or a metric in its place."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tikhonet.network.graph import tensor
from tikhonet.problem.losses import Loss
from tikhonet.problem.objective import Problem
from tikhonet.problem.samples import Reduce, Samples, keep
from tikhonet.trainer.batches import Batch, Validation, add_numbers, mean
from tikhonet.trainer.training import Measures

CHUNK = 4096
"""Rows whose scores are computed at once."""


class Metric(Protocol):
    """A number for the scores of some rows, by their targets and weights."""

    @property
    def larger(self) -> bool:
        """Whether a larger one is better."""

    def __call__(self, targets: Tensor, scores: Tensor, weight: Tensor | None) -> float: ...


@dataclass(frozen=True)
class Judge:
    """One set of validation rows or several, of which the last decides: by the metric, without one by the loss.

    Over the rows of several machines a metric is the mean of theirs, by weight.
    """

    loss: Loss
    sets: tuple[Batch, ...]
    metric: Metric | None = None
    reduce: Reduce = keep

    @classmethod
    def of(
        cls,
        problem: Problem,
        validation: Validation | list[Validation] | None,
        metric: Metric | None,
        first: Batch,
        reduce: Reduce = keep,
    ) -> Judge | None:
        """The judge by these rows, (X, targets) or (X, targets, weight), or a list of them; None without any."""
        if not validation:
            return None
        several = validation if isinstance(validation, list) else [validation]
        return cls(problem.loss, tuple(check_rows(problem, rows, first) for rows in several), metric, reduce)

    def __call__(self, scores: Callable[[Tensor], Tensor]) -> list[Measures]:
        """What each set says of the network that gives inputs these scores."""
        return [self.measure(rows, torch.cat([scores(X) for X in rows.X.split(CHUNK)])) for rows in self.sets]

    def measure(self, rows: Batch, scores: Tensor) -> Measures:
        _, targets, weight = rows
        loss = cost = mean(self.loss.rows(targets, scores), weight, self.reduce)
        error = metric = math.nan
        if targets.shape[1] > 1 and bool(((targets == targets.amax(1, keepdim=True)).sum(1) == 1).all()):
            error = mean((scores.argmax(1) != targets.argmax(1)).double(), weight, self.reduce)
        if self.metric:
            total, count = add_numbers(self.reduce, rows.total * self.metric(targets, scores, weight), rows.total)
            metric = total / count
            cost = math.inf if math.isnan(metric) else -metric if self.metric.larger else metric
        return Measures(loss, error, metric, cost)


def check_rows(problem: Problem, validation: Validation, first: Batch) -> Batch:
    """The validation rows in the type of the first batch and on its device; raises where they do not fit."""
    try:
        X, *rest = validation
        rows = Batch(*(tensor(part).to(first.X) for part in (problem.network.rows(X), *rest)))
        problem.check(Samples(*rows))
        outputs = first.targets.shape[1]
        if rows.targets.shape[1] != outputs:
            raise ValueError(f"targets must have {outputs} columns, got {rows.targets.shape[1]}")
    except ValueError as error:
        raise ValueError(f"validation: {error}") from None
    return rows
