"""A head whose scores rise with features that rise, and fall with those that fall.

Minimise over V with a given sign for each feature, and b, the weights adding up to 1:

    sum_i w_i loss(t_i, V f_i + b) + r/2 |V|^2,    r a share of the trace of the features' covariance

It is the head of `LossHead` within bounds, for one number a row or for two classes, whose scores are opposite.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize

from tikhonet.model.head_data import HeadData, cross_entropy
from tikhonet.model.heads import Head
from tikhonet.model.loss_head import LossHead
from tikhonet.model.scaling import Floats
from tikhonet.problem.losses import Loss

STEPS = 300
"""Quasi-Newton steps at most."""
TOLERANCE = 1e-5
"""The largest entry of the projected gradient to end at, where a mean loss is about 1."""


def unit_signs(width: int) -> Floats:
    """Whether the units of a layer rise (1) or fall (-1) with what is to rise: by turns.

    ReLU is convex, so that a sum of rising units is too, and falling ones with negative weights add what is concave.
    """
    return np.where(np.arange(width) % 2, -1.0, 1.0)


@dataclass
class MonotoneHead(LossHead):
    """The head of the formula above."""

    by_parts = False
    _begin: Floats | None = field(default=None, init=False, repr=False)

    def loss(self, head: Head, data: HeadData) -> float:
        return cross_entropy(head(data.features), data) if self.classes else super().loss(head, data)

    def targets(self, data: HeadData) -> Floats:
        """The numbers; of classes, whether each is the second, whose score over the first the head has."""
        return data.Y if self.classes else super().targets(data)

    def fit(self, data: HeadData, strength: float) -> Head:
        """The head of this strength, from where the last one ended: first by the loss, then by it sharpened."""
        share, signs = data.weight / data.total, unit_signs(data.features.shape[1])
        centre = data.sum(share @ data.features)
        variance = data.sum(share @ np.square(data.features - centre))
        # In these units every curvature is about 1: by variances alone, a unit that is nearly dead stops the descent.
        ridge = strength * (variance.sum() or 1.0)
        size = signs * np.sqrt(variance + ridge)
        features, shrink = (data.features - centre) / size, ridge / size**2

        def objective(x: Floats, loss: Loss) -> tuple[float, Floats]:
            rows, slopes = self._rows(loss, (features @ x[1:] + x[0])[:, None], data)
            slope = slopes[:, 0]
            sums = data.sum(np.concatenate([[share @ rows, share @ slope], (share * slope) @ features]))
            sums[2:] += shrink * x[1:]
            return float(sums[0]) + 0.5 * float(shrink @ x[1:] ** 2), sums[1:]

        x = np.zeros(len(size) + 1) if self._begin is None else self._begin * np.append(1.0, size)
        bounds, options = [(None, None)] + [(0, None)] * len(size), {"maxiter": STEPS, "gtol": TOLERANCE, "maxcor": 20}
        for loss in dict.fromkeys((self.trained_by, self.trained_by.sharpened())):
            x = minimize(objective, x, (loss,), "L-BFGS-B", jac=True, bounds=bounds, options=options).x
        coef = x[1:] / size
        self._begin = np.append(x[0], coef)
        sides = np.array([-0.5, 0.5] if self.classes else [1.0])
        return Head(np.outer(sides, coef), sides * (x[0] - coef @ centre))
