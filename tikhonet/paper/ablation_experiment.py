"""What each ingredient of the trainer brings: all of them switched one at a time on the paper's network."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tikhonet.data.dataset import Dataset
from tikhonet.model.head_data import HeadData
from tikhonet.model.heads import make_head
from tikhonet.model.svm import choose_svm
from tikhonet.network.graph import Network
from tikhonet.paper.ablated_steps import (
    AdamV,
    AdamWithExactV,
    BackPropagated,
    Cosines,
    GramOnModule,
    Watched,
)
from tikhonet.paper.ablation_findings import Ablation, AblationRow, ablation_claims, ablation_figures
from tikhonet.paper.baselines.backprop import Backprop
from tikhonet.paper.comparison import Claim
from tikhonet.paper.experiment import DIVERGED, Column, Experiment, Score, Size, Watch
from tikhonet.paper.labelled_images import SETS, Images, read_images
from tikhonet.paper.network_trials import NetworkMethod, Outcome, percent_wrong, stop_if_interrupted
from tikhonet.paper.records import Record, finite
from tikhonet.paper.sheets import Figure
from tikhonet.problem.lifts import Fenchel, Tikhonov
from tikhonet.problem.objective import Problem

SETTINGS: Sequence[tuple[str, str, str, dict[str, Any]]] = (
    *(
        ("targets", f"targets-{damping:g}", f"Targets further off: damping {damping:g}", {"damping_U": damping})
        for damping in (3.0, 0.3, 0.03)
    ),
    ("metric", "metric-none", "No metric", {"metric": "none"}),
    ("metric", "metric-full", "The whole Gram matrix", {"metric": "full"}),
    ("metric", "metric-full-1", "The whole Gram matrix, damping 1", {"metric": "full", "damping_W": 1.0}),
    *(("step", f"change-{size:g}", f"Fixed change of {size:g}", {"change": size}) for size in (0.1, 0.3, 0.6, 1.2)),
    *(("momentum", f"momentum-{size:g}", f"Momentum {size:g}", {"momentum": size}) for size in (0.0, 0.8, 0.95)),
    ("averaging", "last-weights", "No averaging", {"averaging": 0.0}),
    ("dropout", "no-dropout", "No dropout", {"drop_inputs": 0.0, "drop_features": 0.0}),
    *(
        ("start", f"scale-{size:g}", f"Initial scale {size:g}", {"initial_scale": size})
        for size in (0.1, 0.5, 1.0, 1.41)
    ),
    ("start", "looks-linear", "Looks-linear start", {"initial": "looks-linear"}),
)
"""Ingredients that are settings of the trainer; one that it has anyway is left out."""
PART, ROWS = "-10000", 10_000
"""The ending of a data set's name that stands for its first images."""


@dataclass(frozen=True, kw_only=True)
class AblationSize(Size):
    """How much is done: epochs and rows of a batch of the trainer; learning rate and batch of Adam."""

    epochs: int
    batch_size: int
    adam: tuple[float, int]


QUICK = AblationSize("quick", epochs=10, batch_size=100, adam=(5e-3, 32), threads=1)
FULL = AblationSize("full", epochs=3, batch_size=1000, adam=(5e-4, 32), threads=1)


@dataclass(frozen=True, kw_only=True)
class AblationRecord(Record):
    """A trial: a network with one ingredient of its training exchanged, and a head on its features."""

    ingredient: str
    """What was exchanged."""
    place: int
    """In the order of the page."""
    objective: list[float | None]
    """The mean training loss of every epoch."""
    error: float | None
    """Test error in percent by the method's head (V, unless it is what is exchanged); None where training diverged."""
    cosines: dict[str, Any]
    """By layer, the cosines of the residual with the back-propagated gradient, at `steps`; none for the references."""

    @property
    def score(self) -> float | None:
        return self.error


@dataclass(frozen=True)
class Variant(NetworkMethod):
    """A way to train the network, and the head that reads its features: "V", "svm" or "logistic"."""

    ingredient: str = field(kw_only=True)
    place: int = field(default=0, kw_only=True)
    head: str = field(default="V", kw_only=True)

    @property
    def steps(self) -> int:
        return int(self.solver.epochs)

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"head": self.head}

    def train(self, X: Tensor, targets: Tensor, seed: int, watch: Watch) -> Outcome:
        solver, cosines = self.watched()
        clock = time.process_time()
        training = solver.run(self.problem, X, targets, seed=seed, watch=lambda epoch, *_: watch(epoch.number))
        seconds = time.process_time() - clock
        stop_if_interrupted(training.status)
        losses = [finite(epoch.loss) for epoch in training.epochs]
        found = {"passes": len(losses), "objective": losses, "seconds": seconds, "cosines": cosines.table()}
        status = {"status": training.status.name, "message": training.message}
        return Outcome(training.blocks.W, training.blocks.V, found | status)

    def watched(self) -> tuple[Any, Cosines]:
        """The solver, and the cosines that it fills; a reference leaves them empty."""
        return self.solver, Cosines()


class Ablated(Variant):
    """The trainer with one ingredient exchanged."""

    def watched(self) -> tuple[Any, Cosines]:
        cosines = Cosines()
        return replace(self.solver, cosines=cosines), cosines


class AblationExperiment(Experiment):
    """Test error of the trainer with every ingredient switched, and its residuals beside the gradient."""

    name = "ablation"
    title = "What does the work in the trainer?"
    lead = (
        "The paper's network, trained by the stochastic trainer with one ingredient exchanged at a time, from the same "
        "seeds. Differences are paired by seed. All errors are of the test images: nothing was chosen by them here."
    )
    data_sets = (*SETS, *(f"{name}{PART}" for name in SETS[1:]))
    sizes = (QUICK, FULL)
    record = AblationRecord
    score = Score("error_percent", "test error %", 2)

    def read(self, name: str, load: Callable[[str, str], Dataset]) -> Images:
        """A data set; `mnist-10000` is the first 10,000 training images of one, and all test images."""
        data = read_images(name.removesuffix(PART), load)
        few = slice(ROWS if name.endswith(PART) else None)
        return replace(data, X_train=data.X_train[few], y_train=data.y_train[few])

    def methods(self, size: AblationSize, data: Images, epochs: int | None = None) -> list[Variant]:
        """The trainer, its variants, and the references; `epochs` sets the passes of every one of them."""
        passes: dict[str, Any] = {"epochs": epochs or size.epochs, "batch_size": size.batch_size}
        tight = Problem(Network.paper(data.X_train.shape[1]), lift=Fenchel())
        trainer, rate, rows = Watched(**passes), *size.adam
        preset = trainer.preset(tight.network, passes["epochs"] * len(data.X_train) / 1000)
        usual = {**vars(trainer), **vars(preset)}
        found: list[Variant] = [
            Ablated("default", "The trainer", "stochastic", ingredient="", solver=trainer, problem=tight)
        ]

        def vary(ingredient: str, name: str, title: str, solver: Any = trainer, **parts: Any) -> None:
            known = {"ingredient": ingredient, "solver": solver, "problem": tight} | parts
            found.append(Ablated(name, title, "proximal", **known))

        vary("sweep", "backprop", "Exact back-propagation", BackPropagated(**passes))
        vary("lift", "tikhonov", "The paper's lift", problem=replace(tight, lift=Tikhonov()))
        for step in (1e-3, 3e-3, 1e-2):
            vary("V-step", f"adam-V-{step:g}", f"V by Adam, rate {step:g}", AdamV(**passes, rate=step))
        for ingredient, name, title, settings in SETTINGS:
            if any(usual[key] != value for key, value in settings.items()):
                vary(ingredient, name, title, replace(trainer, **settings))
        for head, title in (("svm", "A linear SVM in place of V"), ("logistic", "Logistic regression in place of V")):
            vary("head", f"head-{head}", title, head=head)
        small: dict[str, Any] = {"epochs": passes["epochs"], "batch_size": rows}
        dropout: dict[str, Any] = {"drop_inputs": preset.drop_inputs, "drop_features": preset.drop_features}
        references = (
            (
                "optim",
                "tikhonet.optim on a module",
                GramOnModule(**passes | dropout | {"batch_size": max(rows, size.batch_size // 5)}),
            ),
            ("adam-W", "W by Adam, V exact", AdamWithExactV(**small | dropout, rate=rate)),
            ("adam", "Adam for both", Backprop("Adam", rate, **small)),
        )
        for name, title, solver in references:
            found.append(Variant(name, title, "sgd", ingredient="reference", solver=solver, problem=tight))
        return [replace(method, place=place) for place, method in enumerate(found)]

    def trial(self, method: Variant, data: Images, seed: int, watch: Watch) -> dict[str, Any]:
        X, y = torch.tensor(data.X_train, dtype=torch.float32), torch.tensor(data.y_train, dtype=torch.int64)
        outcome = method.train(X, method.problem.loss.encode(y, data.classes), seed, watch)
        error = None if outcome.diverged else HEADS[method.head](method.problem.network, outcome, data, seed)
        place = {"ingredient": method.ingredient, "place": method.place, "samples": len(X)}
        return outcome.fields | place | {"error": error}

    def order(self, row: AblationRow) -> int:
        return row.place

    def compare(self, records: Sequence[Record]) -> Ablation:
        return Ablation.of(records, AblationRow, self.order)

    def findings(self, results: Ablation) -> list[Claim]:
        return ablation_claims(results)

    def figures(self, results: Ablation) -> list[Figure]:
        return ablation_figures(results)

    def columns(self, results: Ablation) -> list[Column]:
        return [
            Column("exchanged", lambda row: row.ingredient, str, text=True),
            Column("test error %", lambda row: row.score, self.score.form, unknown=DIVERGED),
            Column("standard error", lambda row: row.spread, "{:.2f}".format, wide=True),
            Column("against the trainer", lambda row: results.difference(row).mean, "{:+.2f}".format),
            Column("standard error, paired", lambda row: results.difference(row).error, "{:.2f}".format),
            Column("p, paired t", lambda row: results.difference(row).p, "{:.2g}".format, wide=True),
            Column("cosine", lambda row: row.cosine, "{:.4f}".format, under="least of a layer"),
            Column("CPU s", lambda row: row.seconds),
        ]


def features_of(network: Network, outcome: Outcome, data: Images) -> tuple[Tensor, Tensor]:
    """The features of the training and of the test images."""
    assert outcome.W is not None
    first, second = (network.features(torch.tensor(X).float(), outcome.W) for X in (data.X_train, data.X_test))
    return first, second


def error_by_V(network: Network, outcome: Outcome, data: Images, seed: int) -> float:
    """Test error in percent by V as training left it."""
    assert outcome.V is not None
    return percent_wrong(features_of(network, outcome, data)[1] @ outcome.V.T, torch.tensor(data.y_test).long())


def error_by_svm(network: Network, outcome: Outcome, data: Images, seed: int) -> float:
    """Test error in percent by a linear SVM, its C chosen on a tenth of the training images."""
    features, tested = features_of(network, outcome, data)
    svm = choose_svm(features, torch.tensor(data.y_train).long(), classes=data.classes, seed=seed)
    return percent_wrong(svm.scores(tested), torch.tensor(data.y_test).long())


def error_by_logistic(network: Network, outcome: Outcome, data: Images, seed: int) -> float:
    """Test error in percent by logistic regression, its strength chosen on a tenth of the training images."""
    assert outcome.V is not None
    features, tested = (part.numpy() for part in features_of(network, outcome, data))
    rows = HeadData(lambda: features, data.y_train[:, None].astype(float), np.ones(len(features)))
    kind, held = make_head("logistic", outcome.V.numpy(), data.classes), len(features) // 10
    strength = kind.choose(rows.take(slice(held, None)), rows.take(slice(held)), len(features))
    scores = torch.from_numpy(kind.fit(rows, strength)(tested))
    return percent_wrong(scores, torch.tensor(data.y_test).long())


HEADS = {"V": error_by_V, "svm": error_by_svm, "logistic": error_by_logistic}
