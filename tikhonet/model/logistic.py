"""Logistic regression from sums over rows alone, for rows on several machines; one machine has scikit-learn's."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from tikhonet.model.head_data import HeadData
from tikhonet.model.scaling import Floats

STEPS = {"maxiter": 300, "gtol": 1e-4, "ftol": 64 * np.finfo(float).eps}
"""Those of scikit-learn's solver."""


def fit_logistic(
    data: HeadData, targets: Floats, C: float, start: tuple[Floats, Floats] | None = None
) -> tuple[Floats, Floats]:
    """Minimise over V, b:  sum_i w_i cross-entropy(y_i, V f_i + b) + 1/(2 C) |V|^2,  f divided by its rms norm.

    `targets` has a column for each class, 1 where a row belongs to it. A class without rows on any machine has NaN.
    `start` is where the search begins. Each of its steps adds up gradient and loss over the machines in one go.
    """
    norm, total, present = data.norm, data.total, np.flatnonzero(data.sum(targets.sum(0)) > 0)
    A, T = np.column_stack([data.features / norm, np.ones(len(targets))]), targets[:, present]

    def loss(point: Floats) -> tuple[float, Floats]:
        M = point.reshape(len(present), -1)
        log_p = log_softmax(A @ M.T, axis=1)
        slope = data.weight[:, None] * (np.exp(log_p) - T)
        sums = data.sum(np.append(slope.T @ A, -data.weight @ (T * log_p).sum(1)))
        pull = M / C
        pull[:, -1] = 0.0  # the intercept is free
        return float(sums[-1] + 0.5 * (pull * M).sum()) / total, (sums[:-1] + pull.ravel()) / total

    first = np.zeros((len(present), A.shape[1]))
    if start is not None:
        first = np.column_stack([start[0] * norm, start[1]])[present]
    found = minimize(loss, first.ravel(), jac=True, method="L-BFGS-B", options=STEPS).x.reshape(first.shape)
    V, b = np.full((targets.shape[1], A.shape[1] - 1), np.nan), np.full(targets.shape[1], np.nan)
    V[present], b[present] = found[:, :-1] / norm, found[:, -1]
    return V, b
