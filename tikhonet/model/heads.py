"""Sec. 3.2: the linear map on the learned features that replaces V.

    scores = coef features + intercept,    P(class | x) = softmax(sharpness * scores)

A kind of head has one strength of regularisation. It is chosen on rows that the network was not trained on, the only
ones on which its features are honest; then the map is fitted on all rows that may be used. A new kind is a subclass of
`HeadKind`, and its name is known to the estimators from then on. Sums over rows end in the `reduce` of the data.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch

from tikhonet.model.head_data import HeadData, cross_entropy, sharpness
from tikhonet.model.logistic import Spectrum
from tikhonet.model.scaling import Floats
from tikhonet.model.svm import GRID, fit_linear_svm
from tikhonet.network.errors import ArgumentError
from tikhonet.network.registry import Named, Registry

UNREACHED = 1e3
"""The score of a class without rows lies this far below zero."""
NO_REGRESSOR = "head must have one row of coef_ for each target, and predict by it, got {}; use Ridge or Lasso"
NO_CLASSIFIER = "head must have one row of coef_ for each class, got {}; use LinearSVC or LogisticRegression"
ENOUGH = 5000
"""Rows that are enough to choose a strength on."""


@dataclass(frozen=True)
class Head:
    """A linear map from features to scores."""

    coef: Floats
    intercept: Floats

    def __call__(self, features: Floats) -> Floats:
        scores: Floats = features @ self.coef.T + self.intercept
        return scores


@dataclass
class HeadKind(Named, ABC):
    """How a head is fitted with a given strength, and by which loss a strength is judged.

    `V` is the classifier as the solver left it, `classes` their number (0 where the targets are numbers), `standard`
    brings numbers into the units that the solver saw.
    """

    V: Floats
    classes: int = 0
    standard: Callable[[Floats], Floats] | None = None

    for_classes: ClassVar[bool] = True
    for_numbers: ClassVar[bool] = False
    grid: ClassVar[tuple[float, ...]] = ()
    default: ClassVar[float] = 0.0
    calibrated: ClassVar[bool] = False
    """Whether the softmax of its scores is a probability already."""
    by_sums: ClassVar[bool] = True
    """Whether it needs sums over rows alone, so that several machines can have some each."""
    by_parts: ClassVar[bool] = False
    """Whether it is fitted by one part of the rows after the other, so that their features need not be in memory."""
    kinds: ClassVar[Registry[type[HeadKind]]] = Registry("head")

    @abstractmethod
    def fit(self, data: HeadData, strength: float) -> Head:
        """The head of this strength."""

    def check(self, width: int, outputs: int) -> None:
        """Raise where no head of this kind can be fitted on so many features, before anything is trained."""

    def loss(self, head: Head, data: HeadData) -> float:
        """The sum of squares of the scores' differences to the targets."""
        return float(data.sum(data.weight @ np.square(head(data.features) - self.targets(data)).sum(1)))

    def targets(self, data: HeadData) -> Floats:
        """The scores to aim at: 1 for the label's class and 0 for the others, or the numbers."""
        if self.classes:
            return np.eye(self.classes)[data.labels]
        return data.Y if self.standard is None else self.standard(data.Y)

    def choose(self, data: HeadData, judge: HeadData, total: float) -> float:
        """The strength with the least loss on the rows to judge by, for a final fit on rows of this total weight."""
        if not self.grid:
            return self.default
        if len(data.Y) > ENOUGH:
            data = data.take(slice(0, ENOUGH))  # in fingerprint order, so the first rows are a random sample
        # A strength is weighed against the sum over all rows: with fewer rows, each has to count for more.
        data = replace(data, weight=data.weight * (total / data.total))
        return min(self.grid, key=lambda strength: self.loss(self.fit(data, strength), judge))


def head_names(numbers: bool = False, by_sums: bool = False) -> set[str]:
    """The kinds of heads for classes, or for numbers; all, or those that need sums over rows alone."""
    kinds = {name: kind for name, kind in HeadKind.kinds.items() if kind.by_sums or not by_sums}
    return {name for name, kind in kinds.items() if (kind.for_numbers if numbers else kind.for_classes)}


def make_head(head: Any, V: Floats, classes: int = 0, standard: Callable[[Floats], Floats] | None = None) -> HeadKind:
    """The kind of this name, or one that fits a linear model of scikit-learn's."""
    if not isinstance(head, str):
        return EstimatorHead(V, classes, standard, head)
    names = head_names(numbers=not classes)
    if head not in names:
        raise ArgumentError("head", f"head must be one of {', '.join(sorted(names))} or a linear model, got {head!r}")
    return HeadKind.kinds[head](V, classes, standard)


class TrainedHead(HeadKind):
    """V as the solver left it."""

    name = "trained"
    for_numbers = by_parts = True

    def fit(self, data: HeadData, strength: float) -> Head:
        return Head(self.V, np.zeros(len(self.V)))


@dataclass
class Ridge(HeadKind):
    """Minimise over V, b:  1/2 sum_i w_i |V f_i + b - t_i|^2 + r/2 |V|^2,  r a share of the Gram matrix's trace."""

    name = "ridge"
    for_numbers = by_parts = True
    grid = tuple(10.0**power for power in range(-6, 1))
    default = 1e-3

    _last: tuple[HeadData, tuple[Floats, ...]] | None = field(default=None, init=False, repr=False)

    def fit(self, data: HeadData, strength: float) -> Head:
        (values, vectors, cross, centre, mean), level = self._decomposed(data, strength)
        coef = cross / (np.maximum(values, 0) + level) @ vectors.T
        return Head(coef, mean - coef @ centre)

    def _decomposed(self, data: HeadData, strength: float) -> tuple[tuple[Floats, ...], float]:
        """What `_decompose` finds, once for all strengths, and r."""
        if self._last is None or self._last[0] is not data:
            self._last = data, self._decompose(data)
        return self._last[1], max(strength * float(self._last[1][0].sum()), float(np.finfo(float).tiny))

    def _decompose(self, data: HeadData) -> tuple[Floats, ...]:
        """The Gram matrix's eigenvalues and vectors, which all strengths share; targets' products; both means."""
        total, width = data.total, data.width
        means = data.over_rows(lambda part: part.weight / total @ np.hstack([part.features, self.targets(part)]))
        centre, mean = means[:width], means[width:]

        def products(part: HeadData) -> Floats:
            A = part.features - centre
            weighted = A * (part.weight / total)[:, None]
            return np.vstack([weighted.T @ A, (self.targets(part) - mean).T @ weighted])

        sums = data.over_rows(products)
        values, vectors = np.linalg.eigh(sums[:width])
        return values, vectors, sums[width:] @ vectors, centre, mean


@dataclass
class EstimatorHead(HeadKind):
    """Any linear model of scikit-learn's, fitted on the features divided by their rms norm."""

    estimator: Any = None
    by_sums = False

    def fit(self, data: HeadData, strength: float) -> Head:
        from sklearn.base import clone

        estimator = clone(self.estimator)
        return self._classifier(estimator, data) if self.classes else self._regressor(estimator, data)

    def check(self, width: int, outputs: int) -> None:
        """Fit it on random features: errors of its own prove nothing there, but what it is made of does."""
        if self.estimator is None:
            return
        rng, classes = np.random.default_rng(0), min(self.classes, 4)
        features = rng.normal(size=(60, width))
        Y = np.arange(60.0)[:, None] % classes if classes else rng.normal(size=(60, outputs))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                replace(self, classes=classes, standard=None).fit(HeadData(lambda: features, Y, np.ones(60)), 0.0)
            except ArgumentError:
                raise
            except (ArithmeticError, RuntimeError, TypeError, ValueError):
                return

    def _linear(self, estimator: Any, data: HeadData, targets: Any, refusal: str) -> Head:
        from sklearn.utils.validation import has_fit_parameter

        norm = data.norm
        weights = {"sample_weight": data.weight} if has_fit_parameter(estimator, "sample_weight") else {}
        fitted = estimator.fit(data.features / norm, targets, **weights)
        if not hasattr(fitted, "coef_"):
            raise ArgumentError("head", refusal.format(estimator))
        # In the order that a model file has, so that a loaded model rounds the same.
        coef = np.ascontiguousarray(np.atleast_2d(fitted.coef_) / norm)
        return Head(coef, np.zeros(len(coef)) + np.atleast_1d(fitted.intercept_))

    def _regressor(self, estimator: Any, data: HeadData) -> Head:
        """A head of numbers, where predictions are what the coefficients say: with a log link they are not."""
        targets = self.targets(data)
        outputs, rows = targets.shape[1], data.features[:10]
        head = self._linear(estimator, data, targets[:, 0] if outputs == 1 else targets, NO_REGRESSOR)
        with np.errstate(all="ignore"):  # what a link makes of a score may overflow
            predicted = np.reshape(estimator.predict(rows / data.norm), (len(rows), -1))
            if not gives(head, rows, predicted, outputs):
                raise ArgumentError("head", NO_REGRESSOR.format(estimator))
        return head

    def _classifier(self, estimator: Any, data: HeadData) -> Head:
        """A head with a score for every class: opposite ones for two, and out of reach for a class without rows."""
        coef, intercept = np.zeros((self.classes, data.features.shape[1])), np.full(self.classes, -UNREACHED)
        present, rows = np.unique(data.labels), data.features[:10]
        if len(present) == 1:
            intercept[present] = 0.0
            return Head(coef, intercept)
        head = self._linear(estimator, data, data.labels, NO_CLASSIFIER)
        if len(present) == 2 and len(head.coef) == 1:
            head = Head(np.vstack([-head.coef, head.coef]) / 2, np.concatenate([-head.intercept, head.intercept]) / 2)
        elif not gives(head, rows, estimator.decision_function(rows / data.norm), len(present)):
            raise ArgumentError("head", NO_CLASSIFIER.format(estimator))  # rows of SVC's coef_ are pairs of classes
        coef[present], intercept[present] = head.coef, head.intercept
        return Head(coef, intercept)


def gives(head: Head, rows: Floats, scores: Floats, outputs: int) -> bool:
    """Whether the head has a row for each output, and gives these scores."""
    fits = head.coef.shape == (outputs, rows.shape[1]) and scores.shape == (len(rows), outputs)
    return fits and np.allclose(head(rows), scores, atol=1e-6 * float(np.abs(scores).max()))


@dataclass
class Logistic(HeadKind):
    """Minimise over V, b:  sum_i w_i cross-entropy(y_i, V f_i + b) + 1/(2 C) |V|^2."""

    name = "logistic"
    grid = (0.3, 3.0, 30.0, 300.0)
    default = 10.0
    calibrated = by_sums = by_parts = True

    _last: tuple[HeadData, Spectrum] | None = field(default=None, init=False, repr=False)
    _start: tuple[Floats, Floats] | None = field(default=None, init=False, repr=False)

    def fit(self, data: HeadData, strength: float) -> Head:
        present = np.flatnonzero(data.sum(np.bincount(data.labels, minlength=self.classes)))
        coef, intercept = np.zeros((self.classes, data.width)), np.full(self.classes, -UNREACHED)
        if len(present) == 1:
            intercept[present] = 0.0
            return Head(coef, intercept)
        if self._last is None or self._last[0] is not data:
            self._last = data, Spectrum.of(data)
        # Along the grid each fit starts from where the last one ended.
        start = self._start if self._start and len(self._start[1]) == len(present) else None
        self._start = coef[present], intercept[present] = self._last[1].fit(present, strength, start)
        return Head(coef, intercept)

    def loss(self, head: Head, data: HeadData) -> float:
        return cross_entropy(head(data.features), data)


class SVM(HeadKind):
    """LinearSVC's squared hinge, one class against the others; C judged by the probabilities that come of it."""

    name = "svm"
    grid = GRID
    default = 1.0

    def fit(self, data: HeadData, strength: float) -> Head:
        arrays = data.features, data.labels.astype(np.int64), data.weight
        features, labels, weight = (torch.from_numpy(array) for array in arrays)
        found = fit_linear_svm(features, labels, strength, classes=self.classes, weight=weight, reduce=data.reduce)
        # With two classes the scores are opposite numbers; halved, their difference is LinearSVC's decision function.
        half = 0.5 if self.classes == 2 else 1.0
        return Head(half * found.V.numpy() / found.norm, half * found.intercept.numpy())

    def loss(self, head: Head, data: HeadData) -> float:
        scores = head(data.features)
        return cross_entropy(sharpness(scores, data) * scores, data)
