"""Magnitude pruning of back-propagated networks, by torch.nn.utils.prune: what a budget of nonzeros is compared with.

The smallest weights by magnitude are set to zero and stay so while training goes on: all at once ("one-shot", then
fine-tuning), or ever more of them by the cubic schedule

    kept(t) = share + (1 - share) (1 - (t - begin) / (end - begin))^3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from tikhonet.network.graph import BIAS, Pair, Weights

Over = Literal["layer", "network"]
EVERY = 20
"""Steps between two prunings of a gradual schedule."""


@dataclass(frozen=True)
class Pruning:
    """Which share of the weights is kept, rounded down but at least one, and when the others go.

    `begin` and `end` are shares of the run; equal, they mean one-shot pruning with fine-tuning. `over`: the smallest
    weights of each matrix, or of all together. Biases are neither counted nor pruned.
    """

    share: float
    begin: float = 0.5
    end: float = 0.5
    over: Over = "network"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share must lie in (0, 1], got {self.share}; 0.02 keeps 2% of the weights")
        if not 0 <= self.begin <= self.end < 1:
            raise ValueError(f"begin and end must satisfy 0 <= begin <= end < 1, got {self.begin} and {self.end}")
        if self.over not in get_args(Over):
            raise ValueError(f"over must be one of {', '.join(get_args(Over))}, got {self.over!r}")

    @property
    def one_shot(self) -> bool:
        return self.begin == self.end

    def kept(self, done: float) -> float:
        """The share of weights that are kept when this share of the run is done."""
        if done < self.begin:
            return 1.0
        left = 1 - (done - self.begin) / (self.end - self.begin) if done < self.end else 0.0
        return self.share + (1 - self.share) * left**3


class Matrix(nn.Module):
    """One learned matrix as a module of its own, which is what torch prunes."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight: Tensor = nn.Parameter(weight)

    def forward(self) -> Tensor:
        return self.weight


class PrunedWeights:
    """Weights under pruning: what is trained, the masked matrices, and the next pruning."""

    def __init__(self, pruning: Pruning, W: Weights, steps: int) -> None:
        self.pruning, self.steps, self.step = pruning, steps, 0
        self.matrices = {edge: Matrix(matrix.detach().clone()) for edge, matrix in W.items()}
        self.parameters = [parameter for matrix in self.matrices.values() for parameter in matrix.parameters()]
        counted = [edge for edge in W if edge[1] != BIAS]
        self.groups: list[list[Pair]] = [counted] if pruning.over == "network" else [[edge] for edge in counted]

    def weights(self) -> Weights:
        """The masked matrices, differentiably."""
        return {edge: matrix() for edge, matrix in self.matrices.items()}

    def advance(self) -> None:
        """Called after every step of the optimiser: prune where it is time."""
        self.step += 1
        # Before the first step all are there, also where the schedule begins and ends at 0 and kept(0) is the share.
        before = self.pruning.kept((self.step - 1) / self.steps) if self.step > 1 else 1.0
        now = self.pruning.kept(self.step / self.steps)
        # The last pruning is done on its very step: the share is met even where it is the only one.
        if now < before and (self.step % EVERY == 0 or now == self.pruning.share):
            for group in self.groups:
                self.prune(group, now)

    def prune(self, group: list[Pair], share: float) -> None:
        modules = [(self.matrices[edge], "weight") for edge in group]
        masks = [getattr(module, "weight_mask", torch.ones_like(module.weight)) for module, _ in modules]
        left, total = int(sum(int(mask.sum()) for mask in masks)), sum(mask.numel() for mask in masks)
        surplus = left - max(1, int(share * total * (1 + 1e-12)))
        if surplus > 0:
            prune.global_unstructured(modules, pruning_method=prune.L1Unstructured, amount=surplus)
