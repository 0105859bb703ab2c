"""Each feature in units of its own spread, so that no unit of measurement matters.

    x  ->  (clip(x, low, high) - shift) / scale

`shift` and `scale` are the weighted mean and standard deviation; the pixels of a channel of images share one of each,
so that a pixel keeps its brightness among its neighbours. Where only a share p < 1/2 of the rows is not zero, the
deviation is divided by sqrt(2p): that of a pixel which is seldom inked says how seldom rather than how much. The
bounds lie `LIMIT` times the scale away, for the wild outlier; a constant feature has both bounds at its value, so it is
zero always. A feature that is missing (NaN) counts as its mean, so it is zero too. Every sum over rows ends in
`reduce`, and a largest value is found by sums too (`largest_exponent`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tikhonet.problem.samples import Reduce, keep

Floats = NDArray[np.floating[Any]]

CHUNK = 256
"""Rows at a time, so that what is made of them stays in the cache."""
LIMIT = 5.0
OFFSET, BITS = 1074, 12
"""Exponents of floating-point numbers, -1073 to 1024, are whole numbers of 12 bits from 1 on after this is added."""
TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Scaling:
    """The four vectors of the formula above, one number for each feature."""

    shift: Floats
    scale: Floats
    low: Floats
    high: Floats

    @classmethod
    def fit(cls, X: Floats, weight: Floats, shape: tuple[int, ...] = (), reduce: Reduce = keep) -> Scaling:
        """The scaling of rows, which are images where a shape (channels, height, width) is given."""
        shift, scale = spread(X, weight, reduce)
        nonzero = weighted_sum(lambda rows: rows != 0, X, weight, reduce) / added(weight.sum(), reduce)
        return cls.of_moments(shift, scale, nonzero, shape)

    @classmethod
    def of_moments(cls, shift: Floats, scale: Floats, nonzero: Floats, shape: tuple[int, ...]) -> Scaling:
        """The scaling of features with these means, deviations and shares of rows that are not zero."""
        if (pixels := math.prod(shape[1:])) > 1:
            shift, scale = together(shift, scale, pixels)
            nonzero = nonzero.reshape(-1, pixels).mean(1).repeat(pixels)
        scale = scale / np.sqrt(np.clip(2 * nonzero, TINY, 1.0))
        reach = LIMIT * np.where(scale > 0, scale, 0.0)
        return cls(shift, np.where(scale > 0, scale, 1.0), shift - reach, shift + reach)

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Which features were not constant."""
        return self.low < self.high

    def with_more(self, X: Floats, weight: Floats, seen: float, shape: tuple[int, ...] = ()) -> Scaling:
        """The scaling after more rows.

        Features that were constant in rows of total weight `seen`, and no more are, get the spread of all rows; the
        others stay.
        """
        if self.varies.all():
            return self
        now = Scaling.fit(np.vstack([self.shift, X]), np.concatenate([[seen], weight]), shape)
        return Scaling(*(np.where(self.varies, old, vars(now)[name]) for name, old in vars(self).items()))

    def __call__(self, X: Floats, dtype: Any = np.float64) -> Floats:
        """Computed in float64, whatever comes out."""
        scaled = np.empty(X.shape, dtype)
        for rows in chunks(X):
            part = np.maximum(X[rows], self.low)
            np.minimum(part, self.high, out=part)
            part -= self.shift
            if np.isnan(part.sum()):
                part[np.isnan(part)] = 0.0
            scaled[rows] = np.divide(part, self.scale, out=part)
        return scaled


@dataclass(frozen=True)
class Standard:
    """Targets in units of their own spread:  y -> (y - mean) / deviation;  one that is constant keeps its unit."""

    mean: Floats
    deviation: Floats

    @classmethod
    def fit(cls, Y: Floats, weight: Floats, reduce: Reduce = keep) -> Standard:
        mean, deviation = spread(Y, weight, reduce)
        return cls(mean, np.where(deviation > 0, deviation, 1.0))

    def __call__(self, Y: Floats) -> Floats:
        standard: Floats = (Y - self.mean) / self.deviation
        return standard


def spread(X: Floats, weight: Floats, reduce: Reduce = keep) -> tuple[Floats, Floats]:
    """Weighted mean and standard deviation of each column; that of a column that is constant but for rounding is 0."""
    largest = np.maximum(X.max(0), -X.min(0))
    # In units of a power of two near the largest value: exact, and no square overflows.
    unit = np.ldexp(1.0, np.minimum(largest_exponent(largest, reduce), 1023))
    share = weight / added(weight.sum(), reduce)
    mean = weighted_sum(lambda rows: rows / unit, X, share, reduce)
    variance = weighted_sum(lambda rows: np.square(rows / unit - mean), X, share, reduce)
    constant = variance <= (10 * np.finfo(float).eps) ** 2 * (1 + added(len(X), reduce) * mean**2)
    return mean * unit, np.where(constant, 0.0, np.sqrt(variance)) * unit


def together(mean: Floats, deviation: Floats, pixels: int) -> tuple[Floats, Floats]:
    """Mean and deviation of so many neighbouring columns at once, from those of each."""
    unit = np.maximum(np.abs(mean), deviation).reshape(-1, pixels).max(1, keepdims=True)
    unit[unit == 0] = 1.0
    means, deviations = mean.reshape(-1, pixels) / unit, deviation.reshape(-1, pixels) / unit
    middle = means.mean(1, keepdims=True)
    total = np.sqrt((deviations**2 + (means - middle) ** 2).mean(1, keepdims=True))
    total[total <= 10 * np.finfo(float).eps] = 0.0
    return (middle * unit).repeat(pixels), (total * unit).repeat(pixels)


def largest_exponent(largest: Floats, reduce: Reduce) -> NDArray[np.int64]:
    """The exponent of the largest of the ranks' numbers, 1 for zero, in each column.

    It is found bit by bit from the highest, by the sum over ranks of those that have it set and are not beaten yet.
    """
    offset = np.where(largest > 0, np.frexp(largest)[1].astype(np.int64) + OFFSET, 0)
    found = np.zeros_like(offset)
    for bit in reversed(range(BITS)):
        leads = offset >> bit == (found >> bit) + 1
        found += np.where(added(leads, reduce) > 0, 1 << bit, 0)
    return np.where(found > 0, found - OFFSET, 1)


def weighted_sum(function: Callable[[Floats], Any], X: Floats, weight: Floats, reduce: Reduce = keep) -> Floats:
    """The sum of weight * function(row) over the rows of all ranks."""
    return added(sum((weight[rows] @ function(X[rows]) for rows in chunks(X)), np.zeros(X.shape[1])), reduce)


def added(values: Any, reduce: Reduce) -> Floats:
    """The sums over rows of this rank, added to those of the others."""
    total: Floats = reduce(torch.from_numpy(np.array(values, np.float64))).numpy()
    return total


def chunks(X: Floats) -> Iterator[slice]:
    return (slice(start, start + CHUNK) for start in range(0, len(X), CHUNK))
