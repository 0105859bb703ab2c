"""Several labels a row: each by itself, with a logistic regression of its own on features that all share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, log_expit
from sklearn.utils.multiclass import is_multilabel
from torch import Tensor

from tikhonet.estimators.rows import Floats, Rows
from tikhonet.estimators.targets import Classes, Target
from tikhonet.model.head_data import HeadData
from tikhonet.model.heads import Head, HeadKind
from tikhonet.model.links import Sigmoid
from tikhonet.model.loss_head import LossHead
from tikhonet.model.model import Model
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.losses import Logistic
from tikhonet.problem.objective import Problem


@dataclass(frozen=True, eq=False)
class Labels(Classes):
    """Any number of labels a row: a score for every label, whose sigmoid is its probability."""

    def in_numbers(self, y: Any, name: str = "y") -> Floats:
        Y = np.asarray(y, np.float64)
        if Y.ndim != 2 or Y.shape[1] != len(self.labels) or not np.isin(Y, (0, 1)).all():
            message = f"{name} must hold 0 and 1 in {len(self.labels)} columns, got shape {Y.shape}"
            raise ArgumentError(name, message)
        return Y

    def factors(self, class_weight: Any, rows: Rows) -> Floats:
        if class_weight is not None:
            message = f"class_weight must be None where rows have several labels, got {class_weight!r}"
            raise ArgumentError("class_weight", message)
        return np.ones(len(self.labels))

    def encode(self, Y: Floats) -> Tensor:
        return self.loss.marks(torch.from_numpy(Y))

    def rises(self, Y: Floats) -> list[int]:
        return Target.rises(self, Y)

    def head(self, V: Floats) -> HeadKind:
        if self.chosen_head != "logistic":
            message = f'head must be "logistic" where rows have several labels, got {self.chosen_head!r}'
            raise ArgumentError("head", message)
        return LossHead(V, trained_by=Logistic())

    def score_loss(self, head: Head, data: HeadData) -> float:
        return LossHead(head.coef, trained_by=Logistic()).loss(head, data)

    def calibrated(self, problem: Problem, model: Model, scaled: Floats, data: HeadData) -> Self:
        return self

    def decode(self, T: Floats, S: Floats, weight: Floats, believed: bool) -> tuple[NDArray[Any], Floats, Floats]:
        """Every pair of row and label as a row of two classes."""
        scores, present = S.reshape(-1, 1), (T.min() < T).reshape(-1).astype(np.intp)
        middle = 0.5 * (float(T.max()) + float(T.min())) if self.loss.for_numbers else 0.0
        pairs = np.hstack([middle - scores, scores - middle])
        two = replace(self, labels=np.arange(2))
        return Classes.decode(two, np.eye(2)[present], pairs, weight.repeat(T.shape[1]), believed)

    def in_model(self) -> dict[str, Any]:
        return {"link": Sigmoid()}

    def to_file(self) -> dict[str, Any]:
        return {"several": True, **super().to_file()}

    def decide(self, scores: Floats) -> Floats:
        return scores

    def choose(self, scores: Floats) -> NDArray[Any]:
        return (scores > 0).astype(np.int64)

    def probabilities(self, scores: Floats) -> Floats:
        found: Floats = expit(scores)
        return found

    def log_probabilities(self, scores: Floats) -> Floats:
        found: Floats = log_expit(scores)
        return found


def is_indicator(y: Any) -> bool:
    """Whether y is a matrix of 0 and 1 with a column for each label."""
    try:
        with np.errstate(invalid="ignore"):
            return bool(is_multilabel(y))
    except (TypeError, ValueError):  # scikit-learn's checks of y will say what is wrong
        return False
