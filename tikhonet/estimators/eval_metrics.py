"""What epochs are judged by in place of the loss: accuracy, log loss, AUC, R2, MAE, RMSE, or a function of one's own.

They are computed from what the network, with V in place of a head, predicts after an epoch. A metric becomes known by
being defined.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tikhonet.estimators.rows import Floats
from tikhonet.network.errors import ArgumentError
from tikhonet.network.registry import Named, Registry

Decode = Callable[[Floats, Floats, Floats, bool], tuple[NDArray[Any], Floats, Floats]]


class EvalMetric(Named, ABC):
    """A number for predictions; a subclass with a `name` is known to the estimators by it."""

    for_classes: ClassVar[bool] = False
    """Whether y is the places of classes and predictions are their probabilities; else both are numbers."""
    larger: bool = False
    """Whether a larger one is better."""
    believed: ClassVar[bool] = True
    """Whether it looks at the sizes of probabilities, so that they have to be calibrated first."""
    kinds: ClassVar[Registry[type[EvalMetric]]] = Registry("eval_metric")

    @abstractmethod
    def __call__(self, y: NDArray[Any], predicted: Floats, weight: Floats) -> float:
        """The metric of rows with these weights; numbers are matrices, with a column for each output."""


class Accuracy(EvalMetric):
    """The share of rows whose most probable class is theirs."""

    name, for_classes, larger, believed = "accuracy", True, True, False

    def __call__(self, y: NDArray[Any], predicted: Floats, weight: Floats) -> float:
        return float(np.average(predicted.argmax(1) == y, weights=weight))


class LogLoss(EvalMetric):
    """The mean of -log P(class)."""

    name, for_classes = "log_loss", True

    def __call__(self, y: NDArray[Any], predicted: Floats, weight: Floats) -> float:
        chosen = np.maximum(predicted[np.arange(len(y)), y], np.finfo(float).tiny)
        return -float(np.average(np.log(chosen), weights=weight))


class AUC(EvalMetric):
    """The area under the ROC curve; of several classes the mean, each against the others."""

    name, for_classes, larger = "auc", True, True

    def __call__(self, y: NDArray[Any], predicted: Floats, weight: Floats) -> float:
        from sklearn.metrics import roc_auc_score

        present = np.unique(y)
        if len(present) < 2:
            message = 'eval_metric="auc" needs validation rows of at least two classes, got one; use "log_loss"'
            raise ArgumentError("eval_metric", message)
        areas = [roc_auc_score(y == k, predicted[:, k], sample_weight=weight) for k in present]
        return float(np.mean(areas))


class R2(EvalMetric):
    """The share of the variance that is explained; of several outputs the mean."""

    name, larger = "r2", True

    def __call__(self, y: NDArray[Any], predicted: Floats, weight: Floats) -> float:
        from sklearn.metrics import r2_score

        return float(r2_score(y, predicted, sample_weight=weight))


class MAE(EvalMetric):
    """The mean absolute difference."""

    name = "mae"

    def __call__(self, y: NDArray[Any], predicted: Floats, weight: Floats) -> float:
        return float(np.average(np.abs(y - predicted).mean(1), weights=weight))


class RMSE(EvalMetric):
    """The root of the mean square difference; of several outputs the mean of theirs."""

    name = "rmse"

    def __call__(self, y: NDArray[Any], predicted: Floats, weight: Floats) -> float:
        return float(np.sqrt(np.average(np.square(y - predicted), axis=0, weights=weight)).mean())


@dataclass(frozen=True)
class Own(EvalMetric):
    """A function of y and predictions, whose larger values are better; it gets weights where it asks for them."""

    function: Callable[..., Any]
    labels: NDArray[Any] | None = None
    """The classes; without any, y is numbers."""
    larger = True

    def __call__(self, y: NDArray[Any], predicted: Floats, weight: Floats) -> float:
        if self.labels is not None:
            y = self.labels[y]
        elif y.shape[1] == 1:
            y, predicted = y[:, 0], predicted[:, 0]
        weighs = "sample_weight" in signature(self.function).parameters
        found = self.function(y, predicted, **{"sample_weight": weight} if weighs else {})
        try:
            return float(found)
        except (TypeError, ValueError):
            message = f"eval_metric must return a number, larger for better, got {type(found).__name__}"
            raise ArgumentError("eval_metric", message) from None


def metric_names(classes: bool) -> list[str]:
    """The metrics of classes, or of numbers."""
    return [name for name, kind in EvalMetric.kinds.items() if kind.for_classes == classes]


def make_metric(chosen: Any, labels: NDArray[Any] | None = None) -> EvalMetric | None:
    """The metric of this name or function; None where epochs are judged by the loss."""
    if chosen is None:
        return None
    return EvalMetric.kinds[chosen]() if isinstance(chosen, str) else Own(chosen, labels)


@dataclass(frozen=True)
class Judged:
    """A metric as the trainer asks for it: of encoded targets and scores, which `decode` understands."""

    metric: EvalMetric
    decode: Decode

    @property
    def larger(self) -> bool:
        return self.metric.larger

    def __call__(self, targets: Tensor, scores: Tensor, weight: Tensor | None) -> float:
        T, S = (part.cpu().double().numpy() for part in (targets, scores))
        rows = np.ones(len(T)) if weight is None else weight.cpu().double().numpy()
        return self.metric(*self.decode(T, S, rows, self.metric.believed))
