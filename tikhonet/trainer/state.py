"""The state of a stochastic run: all that changes from step to step, as one value that can be saved."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from tikhonet.network.graph import Weights
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.trainer.batches import Batch
from tikhonet.trainer.saving import changed, from_plain, saved, to_plain
from tikhonet.trainer.sparsity.scopes import Support
from tikhonet.trainer.statistics import LayerState, RunningClassifier, is_finite
from tikhonet.trainer.training import Epoch

saved(Blocks)


@saved
@dataclass(frozen=True)
class TrainingState:
    """All that a run carries from one step to the next; given back as `resume`, it goes on bit for bit.

    A step writes over some matrices of the state that it is given (`copy` says which) and returns the next one.
    """

    W: Weights
    average: Blocks
    """The running average of V and W (without U), which is what a user sees."""
    layers: dict[int, LayerState]
    classifier: RunningClassifier
    scale: float
    """The rms of the inputs, by which they are divided."""
    generator: Tensor
    """The state of the random numbers."""
    step: int = 0
    trust: float = 1.0
    """The factor by which steps are cut back after a rise."""
    rejected: int = 0
    loss: float = math.nan
    """The running mean loss, and the loss of the first batch as its scale."""
    first_loss: float = math.nan
    epochs: list[Epoch] = field(default_factory=list)
    support: Support | None = None
    """Where weights may be nonzero under a budget, and the share of them that this is."""
    density: float = 1.0
    best: TrainingState | None = None
    """The state after the best epoch; None without validation data."""
    undone: int = 0
    """Epochs that were taken back, so that steps anneal from the best one on."""
    end: int = 0
    """The epoch that the run then ends with; 0 where it ends with the solver's last one."""

    good: TrainingState | None = None
    """Within an epoch: the last good state, which a bad stretch goes back to."""
    opened: Tensor | None = None
    """Within an epoch: the state of the random numbers before the order of its rows was drawn."""
    batches: int = 0
    """How many batches of the epoch are done, their summed loss and their summed weight."""
    epoch_loss: float = 0.0
    epoch_rows: float = 0.0

    def copy(self) -> TrainingState:
        """A state that no later step writes over: W and V are new tensors after every step, the rest is cloned."""
        W = {pair: matrix.clone() for pair, matrix in self.average.W.items()}
        return changed(
            self,
            average=Blocks({}, self.average.V.clone(), W),
            layers={n: layer.copy() for n, layer in self.layers.items()},
            classifier=self.classifier.copy(),
        )

    @property
    def passes(self) -> int:
        """Epochs that the weights have behind them."""
        return len(self.epochs) - self.undone

    @property
    def finite(self) -> bool:
        """Whether all weights, and their average, are numbers."""
        average, V = self.average, self.classifier.V
        return is_finite(V, average.V, *self.W.values(), *average.W.values())

    def open_epoch(self, kept: TrainingState | None = None) -> TrainingState:
        """At the begin of an epoch: this state (or a copy that is `kept`) is the good one, as in a resumed run."""
        good = changed(kept or self.copy(), loss=self.loss if self.step else math.inf, best=None)
        return changed(self, good=good, opened=self.generator, batches=0, epoch_loss=0.0, epoch_rows=0.0)

    def close_epoch(self) -> TrainingState:
        """Between two epochs nothing but their results is kept."""
        return changed(self, good=None, opened=None, batches=0, epoch_loss=0.0, epoch_rows=0.0)

    def state_dict(self) -> dict[str, Any]:
        """The state as nested dicts of tensors, numbers and strings; save them, or copy first, before the next step."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TrainingState:
        """The state that `state_dict` gave."""
        state = from_plain(data)
        if not isinstance(state, cls):
            raise ValueError(f"data must be what TrainingState.state_dict gave, got {type(state).__name__}")
        return state


def check_resumed(problem: Problem, state: TrainingState | None, first: Batch) -> None:
    """Raise unless the state is one of a run of this network with such targets."""
    if state is None:
        return
    try:
        problem.network.check_weights(state.W)
    except ValueError as error:
        raise ValueError(f"resume must be the state of a run of the same network: {error}") from None
    V, new = state.classifier.V, first.targets
    then, now = f"{len(V)} targets in {V.dtype}", f"{new.shape[1]} targets in {new.dtype}"
    if now != then:
        raise ValueError(f"resume must be the state of a run with {now}, got one with {then}")
