"""The contenders of the comparison with rivals: how each draws a setting at random, and how it trains on which rows.

A drawn setting is a dictionary of numbers and words, which stands in the record of its trial. Ranges are wide enough to
hold the usual settings of each solver with room on both sides; all share those of dropout, loss and initial scale.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from tikhonet.descent.result import Status
from tikhonet.network.graph import Network
from tikhonet.paper.baselines.backprop import Backprop
from tikhonet.paper.labelled_images import Images
from tikhonet.problem.lifts import Fenchel
from tikhonet.problem.losses import Loss
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.trainer.run import Stochastic

Setting = dict[str, Any]
Heard = Callable[[int, Blocks], None]
"""Called after every epoch with its number and the blocks then."""
DROPOUT = ((0.0, 0.0), (0.1, 0.0), (0.1, 0.2), (0.2, 0.2))
"""Shares of inputs and of features."""
SCALES = (0.5, 1.0, 1.41)
TUNED = 10_000
"""Rows that a tuning trial trains on, at most: on all of MNIST two hundred trials for each length would take hours."""
AGAIN = 5
"""Settings of a contender, the best on so few rows, that are tried again on all but those that are held out, where
there are more: what is best on few rows need not be on many."""
BATCHES = (16, 32, 64, 128, 256, 512)


def between(rng: random.Random, low: float, high: float) -> float:
    """A number whose logarithm is uniform, to three digits."""
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.3g}")


@dataclass(frozen=True)
class Part:
    """Rows to train on, and rows to measure on."""

    X: Tensor
    y: Tensor
    X_seen: Tensor
    y_seen: Tensor
    classes: int

    @classmethod
    def of(cls, classes: int, *arrays: NDArray[Any]) -> Part:
        X, X_seen = (torch.tensor(rows, dtype=torch.float32) for rows in arrays[::2])
        y, y_seen = (torch.tensor(labels, dtype=torch.int64) for labels in arrays[1::2])
        return cls(X, y, X_seen, y_seen, classes)


@dataclass(frozen=True)
class Split:
    """Images of which the last sixth of the training part is held out, and of which the first `rows` are trained on."""

    images: Images
    name: str
    rows: int | None = None

    @cached_property
    def parts(self) -> dict[str, Part]:
        """By stage: tuning never sees the test images, and a final run trains on all rows, the held-out ones too."""
        images, held = self.images, max(1, len(self.images.X_train) // 6)
        X, y = images.X_train, images.y_train
        most = min(len(X) - held, self.rows or len(X))
        few = min(most, TUNED)
        tuning, again = ((X[:count], y[:count], X[-held:], y[-held:]) for count in (few, most))
        final = X[: self.rows], y[: self.rows], images.X_test, images.y_test
        stages = {"tuning": tuning} | ({"again": again} if few < most else {}) | {"final": final}
        return {stage: Part.of(images.classes, *rows) for stage, rows in stages.items()}

    def describe(self) -> dict[str, Any]:
        counts = {f"{stage}_rows": len(self.parts[stage].X) for stage in ("tuning", "final")}
        held = {"held_out": len(self.parts["tuning"].X_seen)}
        return self.images.describe() | {"name": self.name} | counts | held


@dataclass(frozen=True, kw_only=True)
class Contender(ABC):
    """A way to train the paper's network, with the settings that it is searched over."""

    name: str
    title: str
    family: str = "sgd"
    batches: tuple[int, ...] = BATCHES
    share: float = 1.0
    """The part of the trials that it gets: less than all where a trial takes many times as long as the others'."""

    def draw(self, number: int) -> Setting:
        """The setting of this trial: always the same one."""
        rng = random.Random(f"{self.name} {number}")
        inputs, features = rng.choice(DROPOUT)
        shared = {"batch_size": rng.choice(self.batches), "drop_inputs": inputs, "drop_features": features}
        return shared | {"initial_scale": rng.choice(SCALES)} | self.own(rng)

    def settings(self, trials: int) -> list[Setting]:
        """The settings that are tried."""
        return [self.draw(number) for number in range(max(1, round(self.share * trials)))]

    @abstractmethod
    def own(self, rng: random.Random) -> Setting: ...

    @abstractmethod
    def train(self, setting: Setting, epochs: int, part: Part, seed: int, heard: Heard) -> Status: ...


@dataclass(frozen=True, kw_only=True)
class Gradient(Contender):
    """Back-propagation with one rule, over its rate, decay (none in every second trial), loss and options."""

    rule: str
    rate: tuple[float, float]
    decay: tuple[float, float] = (1e-6, 1e-3)
    losses: tuple[str, ...] = ("squared", "softmax")
    options: dict[str, tuple[float, float]] = field(default_factory=dict)

    def own(self, rng: random.Random) -> Setting:
        drawn: Setting = {"rate": between(rng, *self.rate), "loss": rng.choice(self.losses)}
        drawn["decay"] = between(rng, *self.decay) if rng.random() < 0.5 else None
        return drawn | {name: between(rng, *ends) for name, ends in self.options.items()}

    def train(self, setting: Setting, epochs: int, part: Part, seed: int, heard: Heard) -> Status:
        loss = Loss.kinds[setting["loss"]]()
        options = {name: setting[name] for name in self.options}
        plain = {name: value for name, value in setting.items() if name not in ("loss", *options)}
        solver = Backprop(self.rule, epochs=epochs, options=options or None, **plain)
        problem = Problem(Network.paper(part.X.shape[1]), lift=Fenchel(), loss=loss)
        targets = loss.encode(part.y, part.classes)
        return solver.run(
            problem, part.X, targets, seed=seed, watch=lambda epoch, blocks: heard(epoch.number, blocks)
        ).status


@dataclass(frozen=True, kw_only=True)
class BlockDescent(Contender):
    """The stochastic trainer, its step left to its rule in every second trial; its first trial is its defaults."""

    def own(self, rng: random.Random) -> Setting:
        return {
            "change": between(rng, 0.1, 2.0) if rng.random() < 0.5 else None,
            "momentum": rng.choice((0.7, 0.8, 0.9, 0.95)),
            "ridge_V": between(rng, 0.01, 1.0),
        }

    def settings(self, trials: int) -> list[Setting]:
        return [{}, *super().settings(trials)]

    def train(self, setting: Setting, epochs: int, part: Part, seed: int, heard: Heard) -> Status:
        solver = Stochastic(epochs=epochs, **setting)
        problem = Problem(Network.paper(part.X.shape[1]), lift=Fenchel())
        targets, state = problem.loss.encode(part.y, part.classes), None
        for number in range(1, epochs + 1):  # epoch by epoch, since `watch` does not see the blocks
            last = replace(solver, refit=number == epochs)
            training = last.run(problem, part.X, targets, seed=seed, resume=state, watch=lambda epoch: True)
            if training.status is Status.NONFINITE:
                return training.status
            state = training.state
            heard(number, training.blocks)
        return Status.FINISHED


LARGE = (128, 256, 512)
"""Batches of the rules that multiply whole matrices at every step, 784 rows at a time or more: smaller batches would
take them ten times as long as the others."""
CONTENDERS: tuple[Contender, ...] = (
    BlockDescent(name="bcd", title="Stochastic BCD", family="stochastic", batches=(100, 250, 500, 1000, 2000)),
    Gradient(name="sgd", title="SGD", rule="SGD", rate=(3e-3, 0.3)),
    Gradient(name="nesterov", title="Nesterov", rule="Nesterov", rate=(3e-3, 0.3)),
    Gradient(name="adagrad", title="AdaGrad", rule="AdaGrad", rate=(1e-3, 0.05)),
    Gradient(name="adadelta", title="AdaDelta", rule="AdaDelta", rate=(0.3, 10.0)),
    Gradient(name="rmsprop", title="RMSProp", rule="RMSProp", rate=(5e-5, 3e-3)),
    Gradient(name="adam", title="Adam", rule="Adam", rate=(1e-4, 5e-3)),
    Gradient(
        name="adamw",
        title="AdamW",
        rule="AdamW",
        rate=(1e-4, 5e-3),
        decay=(1e-3, 1.0),
        losses=("softmax",),
    ),
    Gradient(name="schedule-free", title="Schedule-free", rule="ScheduleFree", rate=(5e-4, 2e-2), decay=(1e-3, 1.0)),
    Gradient(
        name="locoprop",
        title="LocoProp-M",
        rule="LocoProp",
        rate=(5e-5, 2e-3),
        decay=(1e-3, 1.0),
        options={"pull": (1.0, 30.0)},
        batches=(32, 64, 128, 256, 512),
    ),
    Gradient(
        name="kfac",
        title="One-sided K-FAC",
        rule="InputKFAC",
        rate=(0.01, 0.5),
        options={"damping": (0.3, 30.0)},
        batches=(64, *LARGE),
    ),
    Gradient(name="muon", title="Muon", rule="Muon", rate=(2e-3, 3e-2), decay=(1e-3, 1.0), batches=LARGE, share=0.375),
    Gradient(name="soap", title="SOAP", rule="SOAP", rate=(1e-3, 2e-2), decay=(1e-3, 1.0), batches=LARGE, share=0.375),
)
