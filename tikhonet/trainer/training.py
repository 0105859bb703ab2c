"""What the stochastic trainer leaves behind: its epochs, and the network with the way it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tikhonet.descent.result import Result, Status
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.trainer.saving import saved
from tikhonet.trainer.sparsity.zeros import Sparsity


@saved
@dataclass(frozen=True)
class Epoch:
    """One pass of the stochastic trainer over the data."""

    number: int
    loss: float
    """The mean training loss, each batch's before its own step."""
    validation_loss: float
    """The mean loss on the validation data, by their weights; without any, the training loss."""
    validation_error: float
    """The share of validation rows, by weight, whose largest score is not their target's; NaN for one output."""
    seconds: float
    trust: float
    rejected: int
    density: float = 1.0
    """The share of weights that a budget still allowed."""


def best_epoch(epochs: Sequence[Epoch]) -> Epoch:
    """The epoch with the least validation loss, among those whose density is the last one's."""
    return min(epochs, key=lambda epoch: (epoch.density, epoch.validation_loss))


@dataclass(frozen=True)
class Training:
    """A finished run: V and W (`blocks.U` is empty unless polished), and its epochs."""

    problem: Problem
    blocks: Blocks = field(repr=False)
    status: Status
    epochs: list[Epoch] = field(repr=False)
    state: Any = field(repr=False)
    """A `TrainingState` to go on from; baselines keep their own here."""
    detail: str = ""
    polished: Result | None = field(default=None, repr=False)
    """The full-batch run that finished it: its history says what it cost and what it changed."""
    sparsity: Sparsity | None = field(default=None, repr=False)
    """Which weights are zero, and why; None where it was not measured."""

    @property
    def message(self) -> str:
        return f"{self.status.value} ({self.detail})" if self.detail else self.status.value
