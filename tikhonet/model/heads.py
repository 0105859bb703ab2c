"""Sec. 3.2: the linear map on the learned features that replaces V.

    scores = coef features + intercept

Each kind has one strength of regularisation. It is chosen on rows that the network was not trained on, the only ones
on which its features are honest; then the map is fitted on all rows that may be used.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import has_fit_parameter

from tikhonet.estimators.rows import Floats
from tikhonet.model.probabilities import cross_entropy, sharpness
from tikhonet.model.svm import fit_linear_svm

Labels = NDArray[np.intp]

UNREACHED = 1e3
"""The score of a class without rows lies this far below zero."""
C_GRID = (0.3, 3.0, 30.0, 300.0)
SVM_GRID = (0.1, 1.0, 10.0, 100.0)
RIDGE_GRID = tuple(10.0**power for power in range(-6, 1))
NO_REGRESSOR = "head must have one row of coef_ for each target, and predict by it, got {}; use Ridge or Lasso"
NO_CLASSIFIER = "head must have one row of coef_ for each class, got {}; use LinearSVC or LogisticRegression"
ENOUGH = 5000
"""Rows that are enough to choose a strength on."""


@dataclass(frozen=True)
class Head:
    coef: Floats
    intercept: Floats

    def __call__(self, features: Floats) -> Floats:
        scores: Floats = features @ self.coef.T + self.intercept
        return scores


@dataclass(frozen=True)
class HeadData:
    """Features, computed when they are first asked for, with their targets (numbers, or labels as one column)."""

    compute: Callable[[], Floats]
    Y: Floats
    weight: Floats

    @cached_property
    def features(self) -> Floats:
        return self.compute()

    @property
    def labels(self) -> Labels:
        return self.Y[:, 0].astype(np.intp)

    @property
    def norm(self) -> float:
        """The rms norm of the features; divided by it, a strength has no units."""
        return float(np.sqrt(self.weight @ np.square(self.features).sum(1) / self.weight.sum())) or 1.0

    def take(self, index: Any) -> HeadData:
        return HeadData(lambda: self.features[index], self.Y[index], self.weight[index])


@dataclass(frozen=True)
class Kind:
    """How a head of some kind is fitted with a given strength, and by which loss a strength is judged."""

    fit: Callable[[HeadData, float], Head]
    loss: Callable[[Head, HeadData], float] = lambda head, data: 0.0
    grid: tuple[float, ...] = ()
    default: float = 0.0
    calibrated: bool = False
    """Whether the softmax of its scores is a probability already."""

    def choose(self, data: HeadData, judge: HeadData, total: float) -> float:
        """The strength with the least loss on the rows to judge by, for a final fit on rows of this total weight."""
        if not self.grid:
            return self.default
        data = data.take(slice(0, ENOUGH))  # in fingerprint order, so the first rows are a random sample
        # A strength is weighed against the sum over all rows: with fewer rows, each has to count for more.
        data = replace(data, weight=data.weight * (total / data.weight.sum()))
        return min(self.grid, key=lambda strength: self.loss(self.fit(data, strength), judge))


def trained(V: Floats) -> Kind:
    """V as the solver left it."""
    return Kind(lambda data, strength: Head(V, np.zeros(len(V))))


def ridge(targets: Callable[[HeadData], Floats]) -> Kind:
    """Minimise over V, b:  1/2 sum_i w_i |V f_i + b - t_i|^2 + r/2 |V|^2,  r a share of the Gram matrix's trace."""
    cache: dict[int, Any] = {}

    def fit(data: HeadData, strength: float) -> Head:
        if id(data) not in cache:
            share = data.weight / data.weight.sum()
            centre, mean = share @ data.features, share @ targets(data)
            A = data.features - centre
            weighted = A * share[:, None]
            values, vectors = np.linalg.eigh(weighted.T @ A)
            cross = (targets(data) - mean).T @ weighted @ vectors
            cache[id(data)] = data, values, vectors, cross, centre, mean
        _, values, vectors, cross, centre, mean = cache[id(data)]
        level = max(strength * float(values.sum()), float(np.finfo(float).tiny))
        coef = cross / (np.maximum(values, 0) + level) @ vectors.T
        return Head(coef, mean - coef @ centre)

    def loss(head: Head, data: HeadData) -> float:
        return float(data.weight @ np.square(head(data.features) - targets(data)).sum(1))

    return Kind(fit, loss, RIDGE_GRID, default=1e-3)


def logistic(classes: int) -> Kind:
    """Minimise over V, b:  sum_i w_i cross-entropy(y_i, V f_i + b) + 1/(2 C) |V|^2."""
    # Along the grid each fit starts from where the last one ended.
    model = LogisticRegression(max_iter=300, warm_start=True)

    def fit(data: HeadData, C: float) -> Head:
        with warnings.catch_warnings():
            # 300 steps bring the loss to where it stays; the last digits of V do not matter to a prediction.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return fit_classifier(model.set_params(C=C), data, classes)

    def loss(head: Head, data: HeadData) -> float:
        return cross_entropy(head(data.features), data.labels, data.weight)

    return Kind(fit, loss, C_GRID, default=10.0, calibrated=True)


def svm(classes: int) -> Kind:
    """LinearSVC's squared hinge, one class against the others; C judged by the probabilities that come of it."""

    def fit(data: HeadData, C: float) -> Head:
        arrays = data.features, data.labels.astype(np.int64), data.weight
        features, labels, weight = (torch.from_numpy(array) for array in arrays)
        found = fit_linear_svm(features, labels, C, classes=classes, weight=weight)
        # With two classes the scores are opposite numbers; halved, their difference is LinearSVC's decision function.
        half = 0.5 if classes == 2 else 1.0
        return Head(half * found.V.numpy() / found.norm, half * found.intercept.numpy())

    def loss(head: Head, data: HeadData) -> float:
        scores = head(data.features)
        return cross_entropy(sharpness(scores, data.labels, data.weight) * scores, data.labels, data.weight)

    return Kind(fit, loss, SVM_GRID, default=1.0)


def fit_estimator(estimator: Any, data: HeadData, targets: Any, refusal: str = NO_REGRESSOR) -> Head:
    """Any linear model of scikit-learn's, fitted on the features divided by their rms norm."""
    norm = data.norm
    weights = {"sample_weight": data.weight} if has_fit_parameter(estimator, "sample_weight") else {}
    fitted = estimator.fit(data.features / norm, targets, **weights)
    if not hasattr(fitted, "coef_"):
        raise ValueError(refusal.format(estimator))
    # In the order that a model file has, so that a loaded model rounds the same.
    coef = np.ascontiguousarray(np.atleast_2d(fitted.coef_) / norm)
    return Head(coef, np.zeros(len(coef)) + np.atleast_1d(fitted.intercept_))


def fit_regressor(estimator: Any, data: HeadData, targets: Floats) -> Head:
    """The same for numbers, where predictions are what the coefficients say: with a log link they are not."""
    outputs = targets.shape[1]
    head = fit_estimator(estimator, data, targets[:, 0] if outputs == 1 else targets)
    rows = data.features[:10]
    with np.errstate(all="ignore"):  # what a link makes of a score may overflow
        predicted = np.reshape(estimator.predict(rows / data.norm), (len(rows), -1))
        scores = head(rows)
    same = head.coef.shape == (outputs, rows.shape[1]) and scores.shape == predicted.shape
    if not (same and np.allclose(scores, predicted, atol=1e-6 * float(np.abs(predicted).max()))):
        raise ValueError(NO_REGRESSOR.format(estimator))
    return head


def fit_classifier(estimator: Any, data: HeadData, classes: int) -> Head:
    """The same with a score for every class: opposite ones for two, and out of reach for a class without rows."""
    labels = data.labels
    coef, intercept = np.zeros((classes, data.features.shape[1])), np.full(classes, -UNREACHED)
    present = np.unique(labels)
    if len(present) == 1:
        intercept[present] = 0.0
        return Head(coef, intercept)
    head = fit_estimator(estimator, data, labels, NO_CLASSIFIER)
    if len(present) == 2 and len(head.coef) == 1:
        head = Head(np.vstack([-head.coef, head.coef]) / 2, np.concatenate([-head.intercept, head.intercept]) / 2)
    elif not has_scores_of(estimator, head, data, len(present)):
        raise ValueError(NO_CLASSIFIER.format(estimator))
    coef[present], intercept[present] = head.coef, head.intercept
    return Head(coef, intercept)


def has_scores_of(estimator: Any, head: Head, data: HeadData, classes: int) -> bool:
    """Whether the rows of the head are the classes' own; those of SVC belong to pairs of classes, three for three."""
    rows = data.features[:10]
    scores = estimator.decision_function(rows / data.norm)
    fits = len(head.coef) == classes and scores.shape == (len(rows), classes)
    return fits and np.allclose(head(rows), scores, atol=1e-6 * float(np.abs(scores).max()))
