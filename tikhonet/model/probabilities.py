"""Probabilities from scores:  P(class | x) = softmax(sharpness * scores)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from tikhonet.estimators.rows import Floats

Labels = NDArray[np.signedinteger[Any]]


def cross_entropy(scores: Floats, labels: Labels, weight: Floats) -> float:
    """The weighted mean of -log P(label), each label taken as certain but for one part in (rows + 2), as Platt does.

    Without that doubt a few rows that are all right would make any score a certainty.
    """
    log_p = log_softmax(scores, axis=1)
    doubt = 1 / (len(labels) + 2)
    rows = (1 - doubt) * log_p[np.arange(len(labels)), labels] + doubt * log_p.mean(1)
    return -float(weight @ rows / weight.sum())


def sharpness(scores: Floats, labels: Labels, weight: Floats) -> float:
    """Minimise over s > 0 the cross-entropy of softmax(s * scores): how much these scores are to be believed."""
    size = float(np.abs(scores - scores.mean(1, keepdims=True)).mean()) or 1.0
    found = minimize_scalar(
        lambda log_s: cross_entropy(np.exp(log_s) / size * scores, labels, weight), bounds=(-5.0, 5.0), method="bounded"
    )
    return float(np.exp(found.x)) / size
