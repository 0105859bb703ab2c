"""A head that is fitted by the loss of the network, for losses that are not squares.

Minimise over V and b, the weights adding up to 1:

    sum_i w_i loss(t_i, V f_i + b) + r/2 |V|^2,    r a share of the trace of the features' covariance

It is the ridge regression of `Ridge` with another loss. In the coordinates in which covariance + r is the identity
quasi-Newton steps need no more of the curvature than its size.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.optimize import minimize

from tikhonet.model.head_data import HeadData
from tikhonet.model.heads import Head, Ridge
from tikhonet.model.scaling import Floats
from tikhonet.problem.losses import Loss, Squared

STEPS = 100
"""Quasi-Newton steps at most; about thirty are usual."""
TOLERANCE = 1e-5
"""The largest entry of the gradient to end at, where a mean loss is about 1."""


@dataclass
class LossHead(Ridge):
    """The head of the formula above."""

    trained_by: Loss = Squared()
    calibrated = True  # it needs no more than its fit
    _start: Head | None = field(default=None, init=False, repr=False)

    def loss(self, head: Head, data: HeadData) -> float:
        return float(data.sum(data.weight @ self._rows(self.trained_by.sharpened(), head(data.features), data)[0]))

    def fit(self, data: HeadData, strength: float) -> Head:
        """The head of this strength, from where the last one ended: first by the loss, then by it sharpened."""
        (values, vectors, _, centre, mean), level = self._decomposed(data, strength)
        size, total = np.sqrt(np.maximum(values, 0) + level), data.total
        turn, shrink, outputs = vectors / size, level / size**2, len(mean)
        x = np.zeros((outputs, len(size) + 1))
        if self._start is not None:
            x[:, :-1] = self._start.coef @ vectors * size
            x[:, -1] = self._start.intercept + self._start.coef @ centre

        def slopes(part: HeadData, V: Floats, b: Floats, loss: Loss) -> Floats:
            """The loss of some rows, and its slopes in V and in b, of features that are not turned."""
            rows, slope = self._rows(loss, part.features @ V.T + b, part)
            weighted = slope * (part.weight / total)[:, None]
            ends = [part.weight / total @ rows], (weighted.T @ part.features).ravel(), weighted.sum(0)
            return np.concatenate(ends)

        def objective(x: Floats, loss: Loss) -> tuple[float, Floats]:
            A, b = np.split(x.reshape(outputs, -1), [-1], axis=1)
            V = A @ turn.T
            sums = data.over_rows(lambda part: slopes(part, V, b[:, 0] - V @ centre, loss))
            slope_V, slope_b = sums[1:-outputs].reshape(outputs, -1), sums[-outputs:]
            gradient = np.hstack([(slope_V - np.outer(slope_b, centre)) @ turn + shrink * A, slope_b[:, None]])
            return float(sums[0]) + 0.5 * float((shrink * A**2).sum()), gradient.ravel()

        for loss in dict.fromkeys((self.trained_by, self.trained_by.sharpened())):
            options = {"maxiter": STEPS, "gtol": TOLERANCE, "maxcor": 20}
            x = minimize(objective, x.ravel(), (loss,), "L-BFGS-B", jac=True, options=options).x.reshape(outputs, -1)
        coef = x[:, :-1] / size @ vectors.T
        self._start = Head(coef, x[:, -1] - coef @ centre)
        return self._start

    def _rows(self, loss: Loss, scores: Floats, data: HeadData) -> tuple[Floats, Floats]:
        """The loss of each row, and its slope in the scores."""
        T, S = torch.from_numpy(self.targets(data)), torch.from_numpy(scores)
        return loss.rows(T, S).numpy(), loss.slope(T, S).numpy()
