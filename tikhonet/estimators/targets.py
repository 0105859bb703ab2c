"""Targets: how y is encoded for the loss, which head goes on the features, and how far its scores are believed.

The training rows hold y as numbers (`Rows.Y`): a class as its place among the classes, numbers as they are. A target
is never changed: what it learns from rows comes as a new one.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import type_of_target
from torch import Tensor

from tikhonet.estimators.all_ranks import class_totals
from tikhonet.estimators.callbacks import users_level
from tikhonet.estimators.energy import energies
from tikhonet.estimators.eval_metrics import EvalMetric, Judged
from tikhonet.estimators.monotone import Signs
from tikhonet.estimators.rows import Floats, Rows
from tikhonet.model.head_data import HeadData, cross_entropy, sharpness
from tikhonet.model.heads import Head, HeadKind, head_names, make_head
from tikhonet.model.model import Model
from tikhonet.model.monotone_head import MonotoneHead
from tikhonet.model.reading import check_growth
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Network, Weights
from tikhonet.problem.losses import Logistic, Loss
from tikhonet.problem.objective import Problem
from tikhonet.problem.samples import Reduce, keep
from tikhonet.trainer.judge import Metric

if TYPE_CHECKING:
    from tikhonet.estimators.solvers import Course, Trained

MANY = 20
"""More different whole numbers than this, and than a tenth of the rows, may be numbers rather than classes."""


class Target(ABC):
    """All that `fit` must know of y."""

    loss: Loss
    metric: EvalMetric | None = None
    signs: Signs | None = None
    """Which inputs scores are to rise or fall with."""
    holds_out = True
    """Whether rows may be held out, to stop early by and to choose the head's strength on."""
    believes = False
    """Whether it learns how far scores are to be believed."""

    def in_numbers(self, y: Any, name: str = "y") -> Floats:
        """The matrix Y of an argument `name` that holds labels, one row each."""
        return np.asarray(y, np.float64).reshape(len(y), -1)

    @abstractmethod
    def encode(self, Y: Floats) -> Tensor:
        """Targets of the loss, one row for each row of Y."""

    def outputs(self, Y: Floats) -> int:
        """Columns of the targets of the loss."""
        return int(Y.shape[1])

    def rises(self, Y: Floats) -> list[int]:
        """Which scores rise (1) and which fall (-1) where predictions rise."""
        message = "monotonic_cst needs one number or one of two classes a row, got another y; leave it out"
        raise ArgumentError("monotonic_cst", message)

    @abstractmethod
    def head(self, V: Floats) -> HeadKind:
        """The kind of linear map that goes on the features, where the solver left this V."""

    def check_head(self, width: int, outputs: int, reduce: Reduce = keep) -> None:
        """Raise where the head cannot go on so many features for so many columns of Y, before anything is trained."""
        kind = self.head(np.zeros((0, width)))
        if reduce is not keep and not kind.by_sums:
            raise ArgumentError(
                "head",
                "head must need sums over rows alone where several machines have some each, got one that "
                f"scikit-learn fits; use {', '.join(sorted(head_names(not kind.classes, by_sums=True)))}",
            )
        kind.check(width, outputs)

    def started(self, rows: Rows, seed: int, last: Target | None, reduce: Reduce = keep) -> Self:
        """The target with what its encoding learns from the scaled training rows; `last` is that of a warm start."""
        return self

    def begins(self, model: Model, network: Network) -> Weights | None:
        """The weights of an earlier model that a warm start of this network begins with; None where it cannot."""
        return model.W if model.network == network else None

    def train(self, course: Course) -> Trained:
        """Run the solver."""
        return course.run()

    def in_own_units(self, head: Head) -> Head:
        """The head whose scores are in the units of y."""
        return head

    def in_model(self) -> dict[str, Any]:
        """The fields of the model that the target decides."""
        return {}

    def score_loss(self, head: Head, data: HeadData) -> float:
        """How far the scores of a head in the units of y are from the targets."""
        return 0.0

    def calibrated(self, problem: Problem, model: Model, scaled: Floats, data: HeadData) -> Self:
        """The target that knows how far scores are to be believed, by rows not trained on where there are any."""
        return self

    def judge(self) -> Metric | None:
        """What epochs are judged by; None is the loss."""
        return Judged(self.metric, self.decode) if self.metric else None

    def decode(self, T: Floats, S: Floats, weight: Floats, believed: bool) -> tuple[NDArray[Any], Floats, Floats]:
        """What targets of the loss, scores of the network and weights mean to a metric: y, predictions and weights."""
        raise NotImplementedError

    def of_inputs(self, places: NDArray[np.int64]) -> Self:
        """The target of a network that takes these of the inputs only."""
        return replace(self, signs=self.signs.take(places)) if self.signs else self  # type: ignore[type-var]

    def finished(self, trained: Trained) -> Self:
        """The target as it is kept after training."""
        return self

    def averaged(self) -> Self:
        """The target of scores that are a mean of calibrated ones."""
        return self

    def shares(self, losses: Sequence[float]) -> list[float]:
        """How much each of several networks with these held-out losses counts in the mean of their scores."""
        return [1 / len(losses)] * len(losses)


@dataclass(frozen=True, eq=False)
class Classes(Target):
    """One class a row: scores for every class, and probabilities that are calibrated on held-out rows."""

    labels: NDArray[Any]
    loss: Loss
    chosen_head: Any = "logistic"
    decision: str = "forward"
    sharpness: Mapping[str, float] = field(default_factory=lambda: {"forward": 1.0})
    """By decision rule: probabilities are the softmax of this times the scores."""
    believes = True
    metric: EvalMetric | None = None
    signs: Signs | None = None

    def in_numbers(self, y: Any, name: str = "y") -> Floats:
        """Labels as their places among the classes, in one column."""
        y = np.ravel(y)
        codes = np.searchsorted(self.labels, y)
        unknown = self.labels[np.minimum(codes, len(self.labels) - 1)] != y
        if unknown.any():
            found = np.unique(y[unknown])
            raise ArgumentError(name, f"{name} must hold the classes {self.labels}, got {found}")
        column: Floats = codes[:, None].astype(np.float64)
        return column

    def factors(self, class_weight: Any, rows: Rows) -> Floats:
        """The weight of each class, "balanced" by these rows."""
        if class_weight is None:
            return np.ones(len(self.labels))
        totals = class_totals(np.bincount(rows.Y[:, 0].astype(np.intp), rows.weight, len(self.labels)))
        # Not every call of partial_fit has rows of all classes; those without any need no weight.
        known = np.flatnonzero(totals) if class_weight == "balanced" else np.arange(len(self.labels))
        factors, names = np.ones(len(self.labels)), self.labels[known]
        factors[known] = compute_class_weight(class_weight, classes=names, y=names, sample_weight=totals[known])
        if not (np.isfinite(factors).all() and (factors >= 0).all() and factors[totals > 0].any()):
            raise ArgumentError(
                "class_weight",
                f"class_weight must hold finite weights of at least 0, not 0 for all rows, got {class_weight!r}",
            )
        return factors

    def encode(self, Y: Floats) -> Tensor:
        return self.loss.encode(torch.from_numpy(Y[:, 0].astype(np.int64)), len(self.labels))

    def outputs(self, Y: Floats) -> int:
        return len(self.labels)

    def rises(self, Y: Floats) -> list[int]:
        return [-1, 1] if len(self.labels) == 2 else super().rises(Y)

    def head(self, V: Floats) -> HeadKind:
        if self.signs and self.chosen_head == "logistic":
            return MonotoneHead(V, len(self.labels), trained_by=Logistic())
        return make_head(self.chosen_head, V, len(self.labels))

    def score_loss(self, head: Head, data: HeadData) -> float:
        scores = head(data.features)
        return cross_entropy(sharpness(scores, data) * scores, data)

    def calibrated(self, problem: Problem, model: Model, scaled: Floats, data: HeadData) -> Self:
        found = {"forward": 1.0}
        if not self.head(model.linear_head.coef).calibrated:
            found["forward"] = sharpness(model.linear_head(data.features), data)
        if self.decision == "energy":
            scores = -energies(problem, model.W, model.V, scaled, len(self.labels))
            found["energy"] = sharpness(scores, data)
        return replace(self, sharpness=found)

    def averaged(self) -> Self:
        return replace(self, sharpness={"forward": 1.0})

    def decide(self, scores: Floats) -> Floats:
        """The score of each class; for two classes that of the second over the first."""
        binary: Floats = scores[:, -1] - scores[:, 0]
        return binary if len(self.labels) == 2 else scores

    def choose(self, scores: Floats) -> NDArray[Any]:
        """The class with the largest score."""
        labels: NDArray[Any] = self.labels[scores.argmax(1)]
        return labels

    def probabilities(self, logits: Floats) -> Floats:
        found: Floats = softmax(logits, axis=1)
        return found

    def log_probabilities(self, logits: Floats) -> Floats:
        """The logarithms of the probabilities, finite also where these round to 0."""
        found: Floats = log_softmax(logits, axis=1)
        return found

    def decode(self, T: Floats, S: Floats, weight: Floats, believed: bool) -> tuple[NDArray[Any], Floats, Floats]:
        """Places of classes, and probabilities that are as sharp as suits these rows."""
        codes = T.argmax(1)
        data = HeadData(lambda: S, codes[:, None], weight)
        return codes, softmax((sharpness(S, data) if believed else 1.0) * S, axis=1), weight

    def in_model(self) -> dict[str, Any]:
        labels = self.labels.tolist()
        plain = all(isinstance(label, str | bool | int | float) for label in labels)
        return {"classes": tuple(labels) if plain else (), "sharpness": self.sharpness["forward"]}

    def to_file(self) -> dict[str, Any]:
        """The part that a model file keeps, as plain JSON."""
        labels = self.labels
        return {"classes": labels.tolist(), "dtype": labels.dtype.str, "sharpness": dict(self.sharpness)}

    def from_file(self, kept: dict[str, Any], model: Model) -> Self:
        """The target with the classes and the sharpness that `to_file` gave."""
        dtype = np.dtype(str(kept["dtype"]))
        if dtype.kind not in "biufUO":
            raise ValueError(f"classes must be numbers or strings, got {dtype}")
        names = list(kept["classes"])
        if not 2 <= len(names) == model.outputs == len(model.V):
            raise ValueError(f"there are {model.outputs} scores and {len(model.V)} rows of V for {len(names)} classes")
        check_growth(len(names) * dtype.itemsize, sum(len(str(name)) for name in names))
        labels = np.array(names, dtype)
        if labels.tolist() != names or len(set(names)) < len(names):
            raise ValueError(f"classes must be different from each other and fit their type, {dtype.str[:80]}")
        measured = {rule: float(value) for rule, value in dict(kept["sharpness"]).items()}
        if measured.get("energy") == 1.0:
            del measured["energy"]  # what older files say where it was not measured
        if "forward" not in measured or not set(measured) <= {"forward", "energy"}:
            raise ValueError(f"sharpness must hold that of the rules forward and energy, got {measured}")
        return replace(self, labels=labels, sharpness=measured)


def takes_numbers(y: NDArray[Any], target: str) -> bool:
    """Whether y is numbers, not classes; "auto" takes whole numbers for classes, and warns where that may be wrong."""
    if target != "auto":
        return target == "numbers"
    if type_of_target(y, input_name="y").startswith("continuous"):
        return True
    kinds = len(np.unique(y)) if y.dtype.kind == "f" else 0
    if kinds > max(MANY, len(y) // 10):
        warnings.warn(
            f'y holds {kinds} different whole numbers in {len(y)} rows, which target="auto" takes for classes; '
            'use target="numbers" if near numbers are alike, else target="classes"',
            stacklevel=users_level(),
        )
    return False
