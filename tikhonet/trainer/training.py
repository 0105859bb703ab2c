"""What the stochastic trainer leaves behind: its epochs, and the network with the way it ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tikhonet.descent.result import Result, Status
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.trainer.saving import saved
from tikhonet.trainer.sparsity.zeros import Sparsity


@saved
@dataclass(frozen=True)
class Measures:
    """What one set of validation rows says of a network, by their weights."""

    loss: float
    """The mean loss."""
    error: float
    """The share of rows whose largest score is not their target's; NaN for one output, or for several labels a row."""
    metric: float
    """The metric that the run was given; NaN without one."""
    cost: float
    """What epochs are compared by, the least being best: the metric, negated where larger is better, or the loss."""


@saved
@dataclass(frozen=True)
class Epoch:
    """One pass of the stochastic trainer over the data."""

    number: int
    loss: float
    """The mean training loss, each batch's before its own step."""
    validation_loss: float
    """That of the last set of validation rows; without any, the training loss."""
    validation_error: float
    """That of the last set of validation rows; NaN for one output."""
    seconds: float
    trust: float
    rejected: int
    density: float = 1.0
    """The share of weights that a budget still allowed."""
    validation: list[Measures] = field(default_factory=list)
    """What each set of validation rows says, in the order given; the last decides which epoch is best."""

    @property
    def metric(self) -> float:
        """The metric on the last set of validation rows; NaN without one."""
        return self.validation[-1].metric if self.validation else math.nan

    @property
    def cost(self) -> float:
        """What epochs are compared by, the least being best."""
        return self.validation[-1].cost if self.validation else self.validation_loss


def best_epoch(epochs: Sequence[Epoch]) -> Epoch:
    """The epoch with the least cost, then the least validation loss, among those whose density is the last one's."""
    return min(epochs, key=lambda epoch: (epoch.density, epoch.cost, epoch.validation_loss))


@dataclass(frozen=True)
class Training:
    """A finished run of the stochastic trainer: V and W, and its epochs.

    Parameters
    ----------
    problem : Problem
        What was trained.
    blocks : Blocks
        V and W; its U is empty unless the run was polished.
    status : Status
        How the run ended.
    epochs : list of Epoch
        Loss, validation loss and error, and seconds of each epoch.
    state : TrainingState
        The state to go on from; baselines keep their own here.
    detail : str, default=""
        Where a NONFINITE run broke.
    polished : Result, optional
        The full-batch run that finished it: its history says what it cost and what it changed.
    sparsity : Sparsity, optional
        Which weights are zero, and why; None where it was not measured.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Network, Problem, Stochastic
    >>> X = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> problem = Problem(Network.chain([3, 8], bias=True), lift="fenchel", gamma=1.0)
    >>> training = Stochastic(epochs=2, batch_size=32).run(problem, X, X[:, :1].abs())
    >>> training.status.name, [epoch.number for epoch in training.epochs]
    ('FINISHED', [1, 2])
    """

    problem: Problem
    blocks: Blocks = field(repr=False)
    status: Status
    epochs: list[Epoch] = field(repr=False)
    state: Any = field(repr=False)
    detail: str = ""
    polished: Result | None = field(default=None, repr=False)
    sparsity: Sparsity | None = field(default=None, repr=False)

    @property
    def message(self) -> str:
        """How the run ended, in a sentence."""
        return f"{self.status.value} ({self.detail})" if self.detail else self.status.value
