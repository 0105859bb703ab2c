"""The trainer with one ingredient exchanged: back-propagation for its sweep, no metric, Adam for its V- or W-step.

What a setting of the trainer changes needs no class here.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tikhonet.network.arguments import POSITIVE, check_numbers
from tikhonet.network.graph import Layers, Network, Weights
from tikhonet.network.initial import initial_weights
from tikhonet.optim import GramDescent, LastLayer
from tikhonet.paper.baselines.backprop import Watch, snapshot, watched
from tikhonet.problem.losses import Loss
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Reduce, keep
from tikhonet.trainer.batches import ArrayBatches, Batch
from tikhonet.trainer.recipe import USUAL, Recipe
from tikhonet.trainer.run import Stochastic
from tikhonet.trainer.saving import changed, saved
from tikhonet.trainer.state import TrainingState
from tikhonet.trainer.statistics import Gram, RunningClassifier
from tikhonet.trainer.step import Stepper
from tikhonet.trainer.sweep import Pass
from tikhonet.trainer.training import Training

POINTS = 30
"""Steps of a run at which cosines are measured, about: each costs a second backward pass."""
BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Adam's usual constants."""


def back_propagate(problem: Problem, V: Tensor, W: Weights, here: Pass, slope: Tensor) -> Layers:
    """The gradient of the loss in every layer's Z, for an activation that is a projection (its slope is 0 or 1)."""
    network = problem.network
    gradient: Layers = {}
    for n in reversed(network.hidden):
        pull = slope @ V if n == network.depth else torch.zeros_like(here.Z[n])
        for k in network.targets(n):
            network.edges[k, n].adjoint(gradient[k], W.get((k, n)), out=pull)
        if n in here.masks:
            pull *= here.masks[n]
        gradient[n] = pull * (network.activation.value(here.Z[n]) == here.Z[n])
    return gradient


@dataclass
class Cosines:
    """Hears, at some steps of a run, how well every layer's residual agrees with the back-propagated gradient."""

    steps: list[int] = field(default_factory=list)
    layers: dict[str, list[float]] = field(default_factory=dict)

    def hear(self, step: int, residuals: Layers, gradients: Mapping[int, Tensor]) -> None:
        self.steps.append(step)
        for n in sorted(residuals):
            cosine = torch.cosine_similarity(residuals[n].flatten().double(), gradients[n].flatten().double(), 0)
            self.layers.setdefault(f"W{n}", []).append(float(cosine))

    def table(self) -> dict[str, list[Any]]:
        """Steps and cosines by name; nothing where nothing was heard."""
        return {"steps": self.steps, **self.layers} if self.steps else {}


class WatchedStepper(Stepper):
    """The trainer's steps, heard by the `Cosines` of a run."""

    def residuals(self, state: TrainingState, here: Pass, slope: Tensor) -> Layers:
        found, heard = super().residuals(state, here, slope), getattr(self.recipe, "cosines", None)
        if heard and state.step % max(1, round(self.pace.total / POINTS)) == 0:
            heard.hear(state.step, found, back_propagate(self.problem, state.classifier.V, state.W, here, slope))
        return found


class BackPropagatedStepper(Stepper):
    """Exact back-propagation in place of the target sweep; all else stays."""

    def residuals(self, state: TrainingState, here: Pass, slope: Tensor) -> Layers:
        return back_propagate(self.problem, state.classifier.V, state.W, here, slope)


@saved
@dataclass(frozen=True)
class NoGram(Gram):
    """No metric: the gradient as it is."""

    name: ClassVar[str] = "none"

    def update(self, rows: Batch, total: float, *, beta: float, whole: Tensor | None = None) -> NoGram:
        return self

    def renewed(self) -> NoGram:
        return self

    def precondition(self, R: Tensor) -> Tensor:
        return R


@saved
@dataclass(frozen=True)
class AdamClassifier(RunningClassifier):
    """V moved by Adam along the gradient of each batch's mean loss, in place of the regression."""

    rate: float = 1e-3
    steps: int = 0
    first: Tensor | None = None
    second: Tensor | None = None

    def update(
        self, rows: Batch, total: float, loss: Loss, *, beta: float, ridge: float, reduce: Reduce = keep
    ) -> AdamClassifier:
        gradient = reduce(loss.gradient(rows.targets, rows.X @ self.V.T, rows.weight).T @ rows.X) / total
        first, second = (torch.zeros_like(gradient) if old is None else old for old in (self.first, self.second))
        first, second = first.lerp(gradient, 1 - BETAS[0]), second.lerp(gradient.square(), 1 - BETAS[1])
        steps = self.steps + 1
        size = (second / (1 - BETAS[1] ** steps)).sqrt() + EPSILON
        V = self.V - self.rate * (first / (1 - BETAS[0] ** steps)) / size
        return changed(self, V=V, steps=steps, first=first, second=second, weight=self.weight + total)


class AdamVStepper(WatchedStepper):
    """Adam for V at every step, from random numbers; W as in the trainer."""

    @classmethod
    def of(cls, *arguments: Any) -> Stepper:
        stepper = super().of(*arguments)
        return replace(stepper, pace=replace(stepper.pace, classifier_every=1))

    def begin(
        self, first: Batch, start: Weights | None, scale: float, seed: int, generator: torch.Generator
    ) -> TrainingState:
        state = super().begin(first, start, scale, seed, generator)
        V, rate = state.classifier.V, getattr(self.recipe, "rate", AdamClassifier.rate)
        draw = torch.randn(V.shape, generator=torch.Generator().manual_seed(seed)).to(V) / V.shape[1] ** 0.5
        sums = RunningClassifier.start(draw)
        return changed(state, classifier=AdamClassifier(sums.S, sums.T, sums.V, rate=rate))


@dataclass(frozen=True, kw_only=True)
class Watched(Stochastic):
    """The trainer, with cosines where somebody listens."""

    cosines: Cosines | None = field(default=None, repr=False, compare=False)

    stepper: ClassVar[type[Stepper]] = WatchedStepper


class BackPropagated(Watched):
    """The trainer with the back-propagated gradient in every layer."""

    stepper: ClassVar[type[Stepper]] = BackPropagatedStepper


@dataclass(frozen=True, kw_only=True)
class AdamV(Watched):
    """The trainer with V moved by Adam, at a constant rate."""

    rate: float = 1e-3

    stepper: ClassVar[type[Stepper]] = AdamVStepper

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, POSITIVE, ["rate"])


class NetworkModule(nn.Module):
    """A network of dense and fixed edges as a torch module, with its classifier and dropout."""

    def __init__(self, network: Network, W: Weights, outputs: int, drop_inputs: float, drop_features: float) -> None:
        super().__init__()
        self.network, self.drop_inputs, self.drop_features = network, nn.Dropout(drop_inputs), nn.Dropout(drop_features)
        self.layers = {pair: dense(M) for pair, M in W.items()}
        self.learned = nn.ModuleList(self.layers.values())
        self.last = nn.Linear(network.widths[-1], outputs, bias=False)

    def forward(self, X: Tensor) -> Tensor:
        network = self.network
        U = network.layers(self.drop_inputs(X))
        for n in network.hidden:
            parts = [self.layers[n, m](U[m]) for m in network.learned_sources(n)]
            parts += [network.edges[n, m].apply(U[m], None) for m in network.fixed_sources(n)]
            U[n] = network.activation.value(torch.stack(parts).sum(0))
        scores: Tensor = self.last(self.drop_features(U[network.depth]))
        return scores

    @property
    def blocks(self) -> Blocks:
        return snapshot(self.last.weight, {pair: layer.weight for pair, layer in self.layers.items()})


def dense(weight: Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.load_state_dict({"weight": weight})
    return layer


@dataclass(frozen=True, kw_only=True)
class OnModule(ABC):
    """The network as a torch module, trained by pieces of `tikhonet.optim`, with dropout as the trainer has it."""

    epochs: int
    batch_size: int
    drop_inputs: float = USUAL.drop_inputs
    drop_features: float = USUAL.drop_features

    def run(
        self, problem: Problem, X: Tensor, targets: Tensor, *, seed: int = 0, watch: Watch | None = None
    ) -> Training:
        W = initial_weights(problem.network, "gaussian", seed, Recipe.initial_scale)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = NetworkModule(problem.network, W, targets.shape[1], self.drop_inputs, self.drop_features)
            return watched(problem, model.blocks, self.passes(problem, model, X, targets, seed), watch, "epoch {}")

    def passes(
        self, problem: Problem, model: NetworkModule, X: Tensor, targets: Tensor, seed: int
    ) -> Iterator[tuple[float, float, Blocks]]:
        batches, generator = ArrayBatches(X, targets, size=self.batch_size), torch.Generator().manual_seed(seed)
        loss_of, step, refit = self.optimiser(problem, model, self.epochs * len(batches))
        for number in range(1, self.epochs + 1):
            clock, total = time.perf_counter(), 0.0
            for batch in batches.epoch(generator):
                model.zero_grad()
                loss = loss_of(model(batch.X), batch.targets)
                loss.backward()
                step()
                total += float(loss.detach()) * len(batch.X)
            if number == self.epochs:
                refit(model, [(X, targets)])
            yield total / len(X), time.perf_counter() - clock, model.blocks

    @abstractmethod
    def optimiser(self, problem: Problem, model: NetworkModule, steps: int) -> tuple[Any, Any, Any]:
        """The functions that compute the loss of scores and targets, step, and refit the last layer in the end."""


class GramOnModule(OnModule):
    """`GramDescent` with its defaults."""

    def optimiser(self, problem: Problem, model: NetworkModule, steps: int) -> tuple[Any, Any, Any]:
        optimizer = GramDescent(model, steps, loss=problem.loss)
        return optimizer.loss, optimizer.step, optimizer.refit


@dataclass(frozen=True, kw_only=True)
class AdamWithExactV(OnModule):
    """Adam for W, its rate falling by a cosine, and the exact V-step after every batch."""

    rate: float

    def optimiser(self, problem: Problem, model: NetworkModule, steps: int) -> tuple[Any, Any, Any]:
        last = LastLayer(model.last, problem.loss)
        adam = torch.optim.Adam(model.learned.parameters(), self.rate, fused=True)
        decay = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)

        def step() -> None:
            adam.step()
            decay.step()
            last.step()

        return last.loss, step, last.refit
