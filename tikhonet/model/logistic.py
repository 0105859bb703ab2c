"""Sec. 3.2: the logistic regression that replaces V on the learned features f, in units of their rms norm.

    minimise over V, b:  1/w sum_i w_i cross-entropy(y_i, V f_i + b) + 1/(2 C w) |V|^2,   w = sum_i w_i

Features are alike, so that V's rows have directions of very different curvature. L-BFGS works in coordinates in which
a bound of the Hessian, c/w sum_i w_i f_i f_i' + 1/(C w), is the identity: a third of the iterations do. Every sum over
rows ends in `reduce`, one for each iteration.
"""

from __future__ import annotations

from collections.abc import Callable
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
    """Features that are centred and turned to the eigenvectors of their Gram matrix, which all strengths share."""

    turned: Floats
    values: Floats
    vectors: Floats
    """Divided by the norm."""
    centre: Floats
    share: Floats
    """The weight of each row, of all rows' together."""
    total: float
    sum: Callable[[Any], Floats]
    """Adds up what several machines have each."""

    @classmethod
    def of(cls, data: HeadData) -> Spectrum:
        share, norm = data.weight / data.total, data.norm
        centre = data.sum(share @ data.features)
        A = (data.features - centre) / norm
        values, vectors = np.linalg.eigh(data.sum((A * share[:, None]).T @ A))
        return cls(A @ vectors, np.maximum(values, 0.0), vectors / norm, centre, share, data.total, data.sum)

    def fit(self, codes: Any, classes: int, strength: float, start: tuple[Floats, Floats] | None = None) -> Any:
        """V and b for features as they are, with a row for each class, from those of another fit.

        For two classes there is one row that is penalised, half of which goes to each.
        """
        rows = 1 if classes == 2 else classes
        ridge = 1 / (strength * self.total)
        unit = 1 / np.sqrt((0.25 if rows == 1 else 0.5) * self.values + ridge)
        A, shrunk, own = self.turned * unit, ridge * np.square(unit), np.arange(len(codes))
        sides = np.array([[-0.5], [0.5]]) if rows == 1 else np.eye(classes)

        def objective(flat: Floats) -> tuple[float, Floats]:
            V, b = flat[rows:].reshape(rows, -1), flat[:rows]
            log_p = log_softmax((A @ V.T + b) @ sides.T, axis=1)
            slope = np.exp(log_p)
            slope[own, codes] -= 1
            slope = (slope * self.share[:, None]) @ sides
            sums = self.sum(np.concatenate([[-self.share @ log_p[own, codes]], slope.sum(0), (slope.T @ A).ravel()]))
            value = sums[0] + 0.5 * np.square(V) @ shrunk @ np.ones(rows)
            return float(value), sums[1:] + np.concatenate([np.zeros(rows), (V * shrunk).ravel()])

        first = np.zeros(rows * (1 + len(unit)))
        if start is not None:
            V, b = (sides.T @ part / (0.5 if rows == 1 else 1.0) for part in start)
            norm = np.linalg.norm(self.vectors[:, 0])
            first = np.concatenate([b + V @ self.centre, ((V @ self.vectors) / norm**2 / unit).ravel()])
        options = {"maxiter": MOST_STEPS, "gtol": TOL, "ftol": 0.0}
        found = minimize(objective, first, jac=True, method="L-BFGS-B", options=options).x
        V = (found[rows:].reshape(rows, -1) * unit) @ self.vectors.T
        return sides @ V, sides @ (found[:rows] - V @ self.centre)
