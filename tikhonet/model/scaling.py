"""Each feature in units of its own spread, so that no unit of measurement matters.

    x  ->  (clip(x, low, high) - shift) / scale

`shift` and `scale` are the weighted mean and standard deviation. Where only a share p < 1/2 of the rows is not zero,
the deviation is divided by sqrt(2p): that of a pixel which is seldom inked says how seldom rather than how much. The
bounds lie `LIMIT` times the scale away, for the wild outlier; a constant feature has both bounds at its value, so it is
zero always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

CHUNK = 256
"""Rows at a time, so that what is made of them stays in the cache."""
LIMIT = 5.0
TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Scaling:
    """The four vectors of the formula above, one number for each feature."""

    shift: Floats
    scale: Floats
    low: Floats
    high: Floats

    @classmethod
    def fit(cls, X: Floats, weight: Floats, limit: float = LIMIT) -> Scaling:
        shift, scale = spread(X, weight)
        nonzero = weighted_sum(lambda rows: rows != 0, X, weight) / weight.sum()
        scale = scale / np.sqrt(np.clip(2 * nonzero, TINY, 1.0))
        reach = limit * np.where(scale > 0, scale, 0.0)
        return cls(shift, np.where(scale > 0, scale, 1.0), shift - reach, shift + reach)

    def __call__(self, X: Floats, dtype: Any = np.float64) -> Floats:
        """Computed in float64, whatever comes out."""
        scaled = np.empty(X.shape, dtype)
        for rows in chunks(X):
            part = np.maximum(X[rows], self.low)
            np.minimum(part, self.high, out=part)
            part -= self.shift
            scaled[rows] = np.divide(part, self.scale, out=part)
        return scaled


@dataclass(frozen=True)
class Standard:
    """Targets in units of their own spread:  y -> (y - mean) / deviation;  one that is constant keeps its unit."""

    mean: Floats
    deviation: Floats

    @classmethod
    def fit(cls, Y: Floats, weight: Floats) -> Standard:
        mean, deviation = spread(Y, weight)
        return cls(mean, np.where(deviation > 0, deviation, 1.0))

    def __call__(self, Y: Floats) -> Floats:
        standard: Floats = (Y - self.mean) / self.deviation
        return standard


def spread(X: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Weighted mean and standard deviation of each column; that of a column that is constant but for rounding is 0."""
    largest = np.maximum(X.max(0), -X.min(0))
    # In units of a power of two near the largest value: exact, and no square overflows.
    unit = np.ldexp(1.0, np.frexp(np.where(largest > 0, largest, 1.0))[1])
    share = weight / weight.sum()
    mean = weighted_sum(lambda rows: rows / unit, X, share)
    variance = weighted_sum(lambda rows: np.square(rows / unit - mean), X, share)
    constant = variance <= (10 * np.finfo(float).eps) ** 2 * (1 + len(X) * mean**2)
    return mean * unit, np.where(constant, 0.0, np.sqrt(variance)) * unit


def weighted_sum(function: Callable[[Floats], Any], X: Floats, weight: Floats) -> Floats:
    """The sum of weight * function(row) over the rows."""
    total: Floats = sum((weight[rows] @ function(X[rows]) for rows in chunks(X)), np.zeros(X.shape[1]))
    return total


def chunks(X: Floats) -> Iterator[slice]:
    return (slice(start, start + CHUNK) for start in range(0, len(X), CHUNK))
