"""All that a prediction needs, as every export format takes it:

    u_0 = (clip(x, low, high) - shift) / scale
    u_n = max(0, sum over m in M_n of W_{n,m} u_m + b_n)
    scores = coef u_N + intercept

Estimators give it by `to_forward()`. Without `coef` the scores are the features u_N themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from tikhonet.network.graph import BIAS, Network, Pair, Weights

Floats = NDArray[np.floating[Any]]
Label = str | bool | int | float


@dataclass(frozen=True, eq=False, kw_only=True)
class Forward:
    """A trained network with its input scaling and its head. `classes` is empty where the scores are numbers."""

    network: Network
    W: Weights
    shift: Floats
    scale: Floats
    low: Floats
    high: Floats
    coef: Floats | None = None
    intercept: Floats | None = None
    classes: tuple[Label, ...] = ()
    sharpness: float = 1.0
    """Probabilities are the softmax of this times the scores."""

    def __post_init__(self) -> None:
        self.network.check_weights(self.W)
        for name in ("shift", "scale", "low", "high"):
            check(name, getattr(self, name), (self.inputs,))
        if not (self.scale > 0).all():
            raise ValueError("scale must hold positive numbers; use 1 for a constant feature")
        if not (self.low <= self.high).all():
            raise ValueError("low must not lie above high in any feature")
        if (self.coef is None) != (self.intercept is None):
            raise ValueError("coef and intercept must be given together, or neither for the features themselves")
        if self.coef is not None and self.intercept is not None:
            check("coef", self.coef, (len(self.coef), self.network.widths[-1]))
            check("intercept", self.intercept, (len(self.coef),))
        for n, m in self.W:
            check(f"W[{n}, {m}]", self.matrix((n, m)), self.network.shape((n, m)))
        if self.classes and len(self.classes) != self.outputs:
            raise ValueError(f"classes must hold one label for each of the {self.outputs} scores, got {self.classes}")

    @property
    def inputs(self) -> int:
        return self.network.widths[0]

    @property
    def outputs(self) -> int:
        return self.network.widths[-1] if self.coef is None else len(self.coef)

    @property
    def origin(self) -> Floats:
        """u_0 of x = 0."""
        origin: Floats = (np.clip(0.0, self.low, self.high) - self.shift) / self.scale
        return origin

    def matrix(self, edge: Pair) -> Floats:
        """W_{n,m} as an array, in the type that it was trained in."""
        values: Floats = self.W[edge].detach().cpu().numpy()
        return values

    @property
    def nonzero(self) -> float:
        """The share of the weights that are not zero, biases and head not counted."""
        matrices = [self.matrix(edge) for edge in self.W if edge[1] != BIAS]
        return sum(map(np.count_nonzero, matrices)) / max(1, sum(matrix.size for matrix in matrices))


def check(name: str, values: Floats, shape: tuple[int, ...]) -> None:
    if values.shape != shape or not np.isfinite(values).all():
        raise ValueError(f"{name} must hold finite numbers of shape {shape}, got shape {values.shape} or NaN, infinity")


def as_inputs(X: Any, inputs: int) -> Floats:
    """X in float64, a row or a matrix of finite rows with so many columns."""
    if not isinstance(X, np.ndarray) and issparse(X):  # the first test alone spares an array a microsecond
        raise ValueError(f"X must be dense, got a sparse matrix of shape {X.shape}; use X.toarray()")
    x: Floats = np.asarray(X, np.float64)
    if x.ndim not in (1, 2) or x.shape[-1] != inputs:
        raise ValueError(f"X must have {inputs} columns, got shape {x.shape}")
    # Kernels would differ on NaN. One product tells, in less than a microsecond a row, unless squares overflow.
    if not math.isfinite(np.vdot(x, x)) and not np.isfinite(x).all():
        row = int(np.argmin(np.isfinite(np.atleast_2d(x)).all(1)))
        raise ValueError(f"X must hold finite numbers, got NaN or infinity in row {row}; replace them first")
    return x


def single(name: str, values: Floats) -> NDArray[np.float32]:
    """The values in float32; an error where one of them is too large for it."""
    with np.errstate(over="ignore", under="ignore"):
        found = values.astype(np.float32)
    if not np.isfinite(found).all():
        raise ValueError(
            f"{name} must fit into float32, got {np.abs(values).max():.3g}; measure inputs and targets in other units"
        )
    return found
