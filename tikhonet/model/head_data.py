"""Features that a head is fitted to, and how far its scores are believed; every sum over rows ends in `reduce`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from tikhonet.model.scaling import Floats, added
from tikhonet.problem.samples import Reduce, keep

Labels = NDArray[np.intp]


@dataclass(frozen=True)
class HeadData:
    """Features, computed when they are first asked for, with their targets (numbers, or labels as one column)."""

    compute: Callable[[], Floats]
    Y: Floats
    weight: Floats
    reduce: Reduce = keep
    """Adds up sums over rows, where several machines have some each."""
    pieces: Callable[[], Iterator[tuple[slice, Floats]]] | None = None
    """Features of some rows after the other, where memory has no room for all."""

    @cached_property
    def features(self) -> Floats:
        return self.compute()

    @property
    def labels(self) -> Labels:
        return self.Y[:, 0].astype(np.intp)

    @property
    def norm(self) -> float:
        """The rms norm of the features; divided by it, a strength has no units."""
        squares = self.over_rows(lambda part: part.weight @ np.square(part.features).sum(1))
        return float(np.sqrt(squares / self.total)) or 1.0

    @property
    def total(self) -> float:
        """The weight of all rows."""
        return float(self.sum(self.weight.sum()))

    def sum(self, values: Any) -> Floats:
        """Sums over rows of this machine, added to those of the others."""
        return added(values, self.reduce)

    def parts(self) -> Iterator[HeadData]:
        """The rows by parts whose features are in memory, one after the other; without `pieces` all are one part."""
        if self.pieces is None:
            yield self
            return
        for rows, features in self.pieces():
            yield HeadData(lambda features=features: features, self.Y[rows], self.weight[rows])  # type: ignore[misc]

    @property
    def width(self) -> int:
        """The number of features."""
        return int(next(self.parts()).features.shape[1])

    def over_rows(self, function: Callable[[HeadData], Any]) -> Floats:
        """The sum over all rows of what the function finds in parts of them."""
        return self.sum(sum(function(part) for part in self.parts()))

    def take(self, index: Any) -> HeadData:
        return HeadData(lambda: self.features[index], self.Y[index], self.weight[index], self.reduce)


def cross_entropy(scores: Floats, data: HeadData) -> float:
    """The weighted mean of -log P(label), each label taken as certain but for one part in (rows + 2), as Platt does.

    Without that doubt a few rows that are all right would make any score a certainty.
    """
    log_p = log_softmax(scores, axis=1)
    doubt = 1 / (float(data.sum(len(scores))) + 2)
    rows = (1 - doubt) * log_p[np.arange(len(scores)), data.labels] + doubt * log_p.mean(1)
    return -float(data.sum(data.weight @ rows) / data.total)


def sharpness(scores: Floats, data: HeadData) -> float:
    """Minimise over s > 0 the cross-entropy of softmax(s * scores): how much these scores are to be believed."""
    deviations = np.abs(scores - scores.mean(1, keepdims=True))
    size = float(data.sum(deviations.sum()) / data.sum(deviations.size)) or 1.0
    found = minimize_scalar(
        lambda log_s: cross_entropy(np.exp(log_s) / size * scores, data), bounds=(-5.0, 5.0), method="bounded"
    )
    return float(np.exp(found.x)) / size
