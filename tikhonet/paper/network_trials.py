"""One trial: a method trains the paper's network from a seed, and the point it reached is certified and measured.

Every certificate is measured on the same training rows, those that the full-batch solvers see, so that the projected
gradients of all methods can be compared.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tikhonet.descent.certificates import Check, certify, check_feasible, check_stationary
from tikhonet.descent.full import BlockDescent
from tikhonet.descent.result import History, Result, Status
from tikhonet.descent.start import initial_blocks
from tikhonet.descent.stationarity import measure_stationarity
from tikhonet.model.svm import choose_svm
from tikhonet.network.graph import Network, Weights
from tikhonet.paper.experiment import Method, Watch
from tikhonet.paper.labelled_images import Images
from tikhonet.paper.records import Pictures, finite
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Samples
from tikhonet.trainer.sparsity.zeros import check_sparsity
from tikhonet.trainer.training import Training

TOLERANCE = BlockDescent().tol
"""A point is stationary when exact block steps would lower f by at most this share: the solvers' own rule."""
UNITS = 16
"""First-layer units whose weights are kept: those with the longest rows."""
MISTAKES = 24
"""Test images that are kept: those that are wrong by the largest margin."""
PATTERN = 112
"""Sides of the picture of a matrix's zeros; a larger matrix is averaged over blocks."""


@dataclass(frozen=True)
class Outcome:
    """The weights that a trial leaves, W being None where there is no network, and the fields of its record."""

    W: Weights | None
    V: Tensor | None
    fields: dict[str, Any]

    @property
    def diverged(self) -> bool:
        """Whether the weights are those before training diverged."""
        return bool(self.fields["status"] == Status.NONFINITE.name)


@dataclass(frozen=True)
class NetworkMethod(Method):
    """A way to train the paper's network for a problem.

    `rows` and `certified` (the rows of the certificate) are None for all of them.
    """

    problem: Problem = field(kw_only=True)
    solver: Any = field(default=None, kw_only=True)
    rows: int | None = field(default=None, kw_only=True)
    sparse: bool = field(default=False, kw_only=True)
    certified: int | None = field(default=None, kw_only=True)
    shorter_epochs: tuple[int, ...] = field(default=(), kw_only=True)
    """Epochs of shorter runs, each with steps of its own, which show what less time gives."""

    def settings(self) -> dict[str, Any]:
        """Every setting by name, read off the objects themselves."""
        problem = {name: value for name, value in plain(self.problem).items() if name != "network"}
        solver = {} if self.solver is None else plain(self.solver)
        name = type(self if self.solver is None else self.solver).__name__
        known = {"solver": name, "rows": self.rows, "certified": self.certified, **problem, **solver}
        return known | ({"shorter": str(self.shorter_epochs)} if self.shorter_epochs else {})

    @property
    def shorter(self) -> list[NetworkMethod]:
        """The method with fewer epochs."""
        return [
            replace(self, solver=replace(self.solver, epochs=epochs), shorter_epochs=())
            for epochs in self.shorter_epochs
        ]

    @abstractmethod
    def train(self, X: Tensor, targets: Tensor, seed: int, watch: Watch) -> Outcome:
        """Run the solver on its rows of the data; `watch` hears of every pass."""


class Untrained(NetworkMethod):
    """The network as it is drawn: what its random features alone are worth."""

    def train(self, X: Tensor, targets: Tensor, seed: int, watch: Watch) -> Outcome:
        W = self.problem.network.random_weights(seed, dtype=X.dtype)
        return Outcome(W, None, fields_of([], 0, 0.0, "UNTRAINED", "Nothing is trained."))


class Pixels(NetworkMethod):
    """No network: the classifier on the inputs."""

    def train(self, X: Tensor, targets: Tensor, seed: int, watch: Watch) -> Outcome:
        return Outcome(None, None, fields_of([], 0, 0.0, "NO_NETWORK", "There is no network."))


class FullBatch(NetworkMethod):
    """Block coordinate descent over all rows at once; the solver is a `BlockDescent` or a `NetworkDescent`."""

    @property
    def steps(self) -> int:
        return int(self.solver.max_iter)

    def train(self, X: Tensor, targets: Tensor, seed: int, watch: Watch) -> Outcome:
        X, targets = X[: self.rows], targets[: self.rows]

        def heard(history: History) -> None:
            watch(history.iterations)

        return self.outcome(self.solver.run(self.problem, X, targets, seed=seed, watch=heard))

    def outcome(self, result: Result) -> Outcome:
        stop_if_interrupted(result.status)
        certificate, history = certify(result), result.history
        objective = [value / len(result.samples) for value in history.objective]
        fields = fields_of(objective, 0, history.seconds, result.status.name, result.message)
        reached, start = certificate.stationarity.total, history.stationarity[0].total
        checked = {"residual": finite(reached), "start_residual": finite(start), "checks": dicts(certificate.checks)}
        return Outcome(result.blocks.W, result.blocks.V, fields | checked)


class MiniBatch(NetworkMethod):
    """Training on mini-batches; the solver is a `Stochastic` or a `Backprop`."""

    @property
    def steps(self) -> int:
        return int(self.solver.epochs)

    def train(self, X: Tensor, targets: Tensor, seed: int, watch: Watch) -> Outcome:
        rows = X[: self.rows], targets[: self.rows]
        training = self.solver.run(self.problem, *rows, seed=seed, watch=lambda epoch, *_: watch(epoch.number))
        stop_if_interrupted(training.status)
        losses, seconds = [epoch.loss for epoch in training.epochs], sum(epoch.seconds for epoch in training.epochs)
        fields = fields_of(losses, 1, seconds, training.status.name, training.message)
        found = Outcome(training.blocks.W, training.blocks.V, fields)
        # The blocks of a diverged run are those before it diverged: there is nothing to certify.
        if not found.diverged and all(bool(M.isfinite().all()) for M in (found.V, *training.blocks.W.values())):
            fields |= certified(training, losses, Samples(X[: self.certified], targets[: self.certified]), seed)
        return found


def certified(training: Training, losses: list[float], samples: Samples, seed: int) -> dict[str, Any]:
    """The certificate of a network at the point U = its forward pass, where the tight lift is zero."""
    problem, W, V = training.problem, training.blocks.W, training.blocks.V
    blocks = Blocks(problem.network.forward(samples.X, W), V, W)
    start = measure_stationarity(problem, initial_blocks(problem, samples, seed, "forward"), samples)
    stationarity = measure_stationarity(problem, blocks, samples)
    rises = [later - earlier for earlier, later in pairwise(losses)]
    worst = max(rises, default=0.0)
    risen = f"{len(losses)} epochs, largest rise {max(worst, 0.0):.3g} of a mean loss of {losses[-1]:.3g}"
    checks = (
        check_feasible(problem, blocks),
        *(check_sparsity(training.sparsity) if training.sparsity else ()),
        Check("descent", "the training loss falls at every epoch", worst <= 0 if rises else None, risen),
        check_stationary(stationarity, TOLERANCE),
    )
    residuals = {"residual": finite(stationarity.total), "start_residual": finite(start.total)}
    return residuals | {"checks": dicts(checks)}


def fields_of(objective: list[float], first: int, seconds: float, status: str, message: str) -> dict[str, Any]:
    """The fields of a record that every trial fills; those of a certificate are empty."""
    return {
        "passes": max(0, len(objective) - 1 + first),
        "objective": [finite(value) for value in objective],
        "first_pass": first,
        "seconds": seconds,
        "status": status,
        "message": message,
        "residual": None,
        "start_residual": None,
        "checks": [],
    }


def dicts(checks: Iterable[Check]) -> list[dict[str, Any]]:
    return [asdict(check) for check in checks]


def plain(thing: Any) -> dict[str, Any]:
    """A dictionary, or the fields of an object, as JSON knows it."""
    values = thing if isinstance(thing, dict) else {known.name: getattr(thing, known.name) for known in fields(thing)}
    return {
        name: value if isinstance(value, bool | int | float | str | None) else repr(value)
        for name, value in values.items()
    }


def stop_if_interrupted(status: Status) -> None:
    """The solvers turn Ctrl-C into a result; an unfinished trial must not become a record."""
    if status is Status.INTERRUPTED:
        raise KeyboardInterrupt


def refit(
    network: Network, outcome: Outcome, X: Tensor, y: Tensor, data: Images, seed: int
) -> tuple[dict[str, Any], Tensor | None]:
    """A linear SVM on the features; its C is chosen on a tenth of the training rows, the same way for all.

    The test errors in percent by the SVM and by V, and the SVM's scores of the test images; none where it diverged.
    """
    features, tested = X, torch.tensor(data.X_test, dtype=torch.float32)
    truth = torch.tensor(data.y_test, dtype=torch.int64)
    if outcome.W is not None:
        features, tested = (network.features(part, outcome.W) for part in (features, tested))
    if outcome.diverged or not bool(features.isfinite().all() & tested.isfinite().all()):
        return {"error": None, "error_V": None, "C": None}, None
    svm = choose_svm(features, y, classes=data.classes, seed=seed)
    scores = svm.scores(tested)
    by_V = None if outcome.V is None else percent_wrong(tested @ outcome.V.T, truth)
    return {"error": percent_wrong(scores, truth), "error_V": by_V, "C": svm.C}, scores


def percent_wrong(scores: Tensor, labels: Tensor) -> float:
    return 100 * float((scores.argmax(1) != labels).double().mean())


def nonzero(outcome: Outcome) -> dict[str, float]:
    """Percent of weights that are not exactly zero, by layer."""
    matrices = {} if outcome.W is None else {f"W{n}": M for (n, _), M in outcome.W.items()}
    if outcome.V is not None:
        matrices["V"] = outcome.V
    return {name: 100 * float((M != 0).double().mean()) for name, M in matrices.items()}


def picture_arrays(outcome: Outcome, scores: Tensor | None, data: Images) -> Pictures:
    """Small arrays from which the report draws."""
    found: Pictures = {}
    if outcome.W is not None:
        found |= weight_pictures(outcome.W)
    if scores is not None:
        found |= mistake_pictures(scores, data)
    return found


def weight_pictures(W: Weights) -> Pictures:
    first = W[min(W)].nan_to_num()
    longest = first.norm(dim=1).argsort(descending=True, stable=True)[:UNITS]
    # Half precision has no room for the weights of a diverged run, so each unit is in units of its largest weight.
    scaled = first[longest] / first[longest].abs().amax(1, keepdim=True).clamp(min=1e-30)
    patterns = {f"pattern_W{n}": pattern(M) for (n, _), M in W.items()}
    return {"units": longest.numpy(), "weights": scaled.numpy().astype(np.float16), **patterns}


def pattern(M: Tensor) -> NDArray[Any]:
    """The share of nonzeros in each block of the matrix, in 255ths."""
    rows, columns = (min(PATTERN, size) for size in M.shape)
    share = torch.nn.functional.adaptive_avg_pool2d((M != 0).float()[None, None], (rows, columns))[0, 0]
    return (255 * share).round().to(torch.uint8).numpy()


def mistake_pictures(scores: Tensor, data: Images) -> Pictures:
    truth = torch.as_tensor(data.y_test, dtype=torch.int64)
    predicted = scores.argmax(1)
    counts = torch.bincount(truth * data.classes + predicted, minlength=data.classes**2)
    margin = scores.amax(1) - scores.gather(1, truth[:, None]).squeeze(1)
    worst = margin.argsort(descending=True, stable=True)[: min(MISTAKES, int((predicted != truth).sum()))].numpy()
    shades = data.X_test[worst].reshape(len(worst), *data.shape)
    top = max(float(data.X_test.max()), 1e-30)
    return {
        "confusion": counts.reshape(data.classes, data.classes).numpy(),
        "mistakes": np.rint(255 * np.clip(shades / top, 0, 1)).astype(np.uint8),
        "mistakes_true": truth.numpy()[worst],
        "mistakes_predicted": predicted.numpy()[worst],
    }
