"""Sec. 3.2: the logistic regression that replaces V on the learned features f, in units of their rms norm.

    minimise over V, b:  1/w sum_i w_i cross-entropy(y_i, V f_i + b) + 1/(2 C w) |V|^2,   w = sum_i w_i

Features are alike, so that V's rows have directions of very different curvature. L-BFGS works in coordinates in which
a bound of the Hessian, c/w sum_i w_i f_i f_i' + 1/(C w), is the identity: a third of the iterations do. V is turned and
not the features, of which one part after the other may come from disk. Every sum over rows ends in `reduce`, one for
each iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from tikhonet.model.head_data import HeadData
from tikhonet.model.scaling import Floats

TOL = 1e-3
"""The largest entry of the gradient, in these coordinates, where a fit ends; the loss is then far from none."""
MOST_STEPS = 300


@dataclass(frozen=True)
class Spectrum:
    """The features of some rows, with the eigenvectors of their Gram matrix, which all strengths share."""

    data: HeadData
    values: Floats
    vectors: Floats
    """Divided by the norm."""
    centre: Floats

    @classmethod
    def of(cls, data: HeadData) -> Spectrum:
        total, norm = data.total, data.norm
        centre = data.over_rows(lambda part: part.weight / total @ part.features)

        def gram(part: HeadData) -> Floats:
            A = (part.features - centre) / norm
            product: Floats = (A * (part.weight / total)[:, None]).T @ A
            return product

        values, vectors = np.linalg.eigh(data.over_rows(gram))
        return cls(data, np.maximum(values, 0.0), vectors / norm, centre)

    def fit(self, present: Any, strength: float, start: tuple[Floats, Floats] | None = None) -> Any:
        """V and b for features as they are, with a row for each class that is present, from those of another fit.

        For two classes there is one row that is penalised, half of which goes to each.
        """
        classes, total = len(present), self.data.total
        rows = 1 if classes == 2 else classes
        ridge = 1 / (strength * total)
        unit = 1 / np.sqrt((0.25 if rows == 1 else 0.5) * self.values + ridge)
        turn, shrunk = self.vectors * unit, ridge * np.square(unit)
        sides = np.array([[-0.5], [0.5]]) if rows == 1 else np.eye(classes)

        def slopes(part: HeadData, V: Floats, b: Floats) -> Floats:
            """The loss of some rows, and its slopes in b and in V, of features that are not turned."""
            codes, own, share = np.searchsorted(present, part.labels), np.arange(len(part.Y)), part.weight / total
            log_p = log_softmax((part.features @ V.T + b) @ sides.T, axis=1)
            slope = np.exp(log_p)
            slope[own, codes] -= 1
            slope = (slope * share[:, None]) @ sides
            return np.concatenate([[-share @ log_p[own, codes]], slope.sum(0), (slope.T @ part.features).ravel()])

        def objective(flat: Floats) -> tuple[float, Floats]:
            V, b = flat[rows:].reshape(rows, -1), flat[:rows]
            turned = V @ turn.T
            sums = self.data.over_rows(lambda part: slopes(part, turned, b - turned @ self.centre))
            pull = (sums[1 + rows :].reshape(rows, -1) - np.outer(sums[1 : 1 + rows], self.centre)) @ turn
            value = sums[0] + 0.5 * np.square(V) @ shrunk @ np.ones(rows)
            return float(value), np.concatenate([sums[1 : 1 + rows], (pull + V * shrunk).ravel()])

        first = np.zeros(rows * (1 + len(unit)))
        if start is not None:
            V, b = (sides.T @ part / (0.5 if rows == 1 else 1.0) for part in start)
            norm = np.linalg.norm(self.vectors[:, 0])
            first = np.concatenate([b + V @ self.centre, ((V @ self.vectors) / norm**2 / unit).ravel()])
        options = {"maxiter": MOST_STEPS, "gtol": TOL, "ftol": 0.0}
        found = minimize(objective, first, jac=True, method="L-BFGS-B", options=options).x
        V = (found[rows:].reshape(rows, -1) * unit) @ self.vectors.T
        return sides @ V, sides @ (found[:rows] - V @ self.centre)
