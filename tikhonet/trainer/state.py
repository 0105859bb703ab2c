"""The state of a stochastic run: all that changes from step to step, as one value that can be saved; and its start."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from tikhonet.network.graph import Weights
from tikhonet.network.initial import initial_weights
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Reduce
from tikhonet.trainer.batches import Batch
from tikhonet.trainer.recipe import Preset, Recipe
from tikhonet.trainer.saving import from_plain, saved, to_plain
from tikhonet.trainer.sparsity.scopes import Support
from tikhonet.trainer.statistics import Gram, LayerState, RunningClassifier, mean_squares
from tikhonet.trainer.training import Epoch

SILENT = 1e-12
"""The rms of pre-activations below which no scale makes anything of a layer."""

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
    """The state after the epoch with the least validation loss; None without validation data."""

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
        return replace(
            self,
            average=Blocks({}, self.average.V.clone(), W),
            layers={n: layer.copy() for n, layer in self.layers.items()},
            classifier=self.classifier.copy(),
        )

    def open_epoch(self) -> TrainingState:
        """At the begin of an epoch: this state is the good one, so a resumed run has the same."""
        good = replace(self.copy(), loss=self.loss if self.step else math.inf, best=None)
        return replace(self, good=good, opened=self.generator, batches=0, epoch_loss=0.0, epoch_rows=0.0)

    def close_epoch(self) -> TrainingState:
        """Between two epochs nothing but their results is kept."""
        return replace(self, good=None, opened=None, batches=0, epoch_loss=0.0, epoch_rows=0.0)

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


def first_state(
    problem: Problem,
    recipe: Recipe,
    preset: Preset,
    first: Batch,
    start: Weights | None,
    *,
    scale: float,
    seed: int,
    generator: torch.Generator,
    reduce: Reduce,
) -> TrainingState:
    """Where a run begins: at the weights `start`, which are in units of the inputs as given, or at random ones."""
    network, X = problem.network, first.X
    if start is None:
        W = initial_weights(network, recipe.initial, seed, recipe.initial_scale, dtype=X.dtype, device=X.device)
        W = even_out(problem, X / scale, W, recipe.initial_scale, reduce)
    else:
        network.check_weights(start)
        # In units of the scaled inputs a bias is smaller by their scale.
        W = {pair: M.to(X) / (scale if network.edges[pair].constant else 1.0) for pair, M in start.items()}
    W = {pair: recipe.place(problem.edge_set(pair), matrix) for pair, matrix in W.items()}
    layers = {}
    for n in network.hidden:
        if network.learned_sources(n):
            momentum = torch.zeros_like(network.stacked_weights(n, W))
            metric = Gram.kinds[preset.metric]
            gram = metric.empty(momentum.shape[1], recipe.rank, preset.damping_W, generator, X)
            layers[n] = LayerState(gram, momentum)
    classifier = RunningClassifier.start(X.new_zeros(first.targets.shape[1], network.widths[-1]))
    average = Blocks({}, classifier.V.clone(), {pair: matrix.clone() for pair, matrix in W.items()})
    return TrainingState(W, average, layers, classifier, scale, generator.get_state())


def even_out(problem: Problem, X: Tensor, W: Weights, scale: float, reduce: Reduce) -> Weights:
    """Scale random weights so that signals neither vanish nor grow with depth.

    A layer without identity sources gets pre-activations of rms `scale` on the first batch.
    """
    network = problem.network
    U = network.layers(X)
    for n in network.hidden:
        Z = network.pre_activation(n, U, W)
        if not network.fixed_sources(n):
            size = float(mean_squares(reduce, Z)[0].sqrt())
            factor = scale / size if size > SILENT else 1.0
            W |= {(n, m): W[n, m] * factor for m in network.learned_sources(n)}
            Z *= factor
        U[n] = network.activation.value_(Z)
    return W
