"""All that a prediction needs, and the one way to compute it:

    e = the encoded row x: numbers with missing ones filled in, indicators, pieces, categories
    u_0 = (clip(e, low, high) - shift) / scale
    u_n = activation(sum over m in M_n of W_{n,m} u_m)
    scores = link(coef u_N + intercept)

Files, exports, kernels and torch modules are made of a `Model`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from torch import Tensor

from tikhonet.model.columns import Columns
from tikhonet.model.encoding import Encoding
from tikhonet.model.heads import Head
from tikhonet.model.kernels import Fastest, SparseLayers
from tikhonet.model.links import Linear, Link
from tikhonet.model.scaling import Floats, Scaling
from tikhonet.network.graph import Network, Weights
from tikhonet.network.operations import Operation, Window

Label = str | bool | int | float

CHUNK = 4096
"""Rows at a time, so that memory does not grow with their number."""
SPARSE_BELOW = 0.3
"""With more nonzeros than this share no sparse kernel wins, and none is tried."""


@dataclass(frozen=True, eq=False)
class Model:
    """Columns, scaling, network and head. Without a head the scores are the features u_N themselves.

    X is rows of numbers throughout, one for each field of the columns.
    """

    scaling: Scaling
    network: Network
    W: Weights
    V: Tensor = field(default_factory=lambda: torch.empty(0, 0))
    """The classifier as the solver left it, empty where none is known; predictions use the head."""
    head: Head | None = None
    classes: tuple[Label, ...] = ()
    """Labels, one for each score; none where the scores are numbers."""
    sharpness: float = 1.0
    """Probabilities are the softmax of this times the scores."""
    link: Link = Linear()
    """What is made of the head's scores: nothing, but for counts and labels."""
    columns: Columns | None = None
    """The columns of the table; None where its rows are the numbers that the scaling takes."""

    def __post_init__(self) -> None:
        self.network.check_weights(self.W)
        if self.columns is not None and self.columns.encoding.outputs != self.inputs:
            made = self.columns.encoding.outputs
            raise ValueError(f"columns must make as many numbers as the network takes ({self.inputs}), got {made}")
        for name, vector in vars(self.scaling).items():
            check_shape(name, vector, (self.inputs,))
        if self.head is not None:
            check_shape("coef", self.head.coef, (len(self.head.coef), self.network.widths[-1]))
            check_shape("intercept", self.head.intercept, (self.outputs,))
        if self.classes and len(self.classes) != self.outputs:
            raise ValueError(f"classes must hold one label for each of the {self.outputs} scores, got {self.classes}")

    @property
    def inputs(self) -> int:
        """The numbers that the network takes."""
        return self.network.widths[0]

    @property
    def encoding(self) -> Encoding | None:
        """What makes inputs of rows; None where rows are inputs."""
        return None if self.columns is None or self.columns.encoding.bare else self.columns.encoding

    @property
    def fields(self) -> int:
        """The numbers of a row."""
        return self.inputs if self.columns is None else len(self.columns.encoding.fields)

    def scaled(self, X: Floats, dtype: Any = np.float64) -> Floats:
        """The inputs of the network for rows of numbers; images may come in their shape."""
        X = self.network.rows(X)
        return self.scaling(X if self.encoding is None else self.encoding(X), dtype)

    @property
    def outputs(self) -> int:
        return self.network.widths[-1] if self.head is None else len(self.head.coef)

    @property
    def linear_head(self) -> Head:
        """The head; without one, the identity."""
        return self.head or Head(np.eye(self.outputs), np.zeros(self.outputs))

    @property
    def nonzero(self) -> float:
        """The share of the weights that are not zero, biases and head not counted."""
        matrices = [self.W[pair] for pair in self.network.penalised]
        entries = sum(int(matrix.count_nonzero()) for matrix in matrices)
        return entries / max(1, sum(matrix.numel() for matrix in matrices))

    def scores(self, X: Floats, device: str = "cpu") -> Floats:
        """Scores of the classes, outputs, or features, in float64: one row for each row of X."""
        return self.link(self.linear_scores(X, device))

    def linear_scores(self, X: Floats, device: str = "cpu") -> Floats:
        """The scores before the link."""
        features = self.features(X, device)
        return features if self.head is None else self.head(features)

    def dense_scores(self, X: Floats, dtype: str = "float64") -> Floats:
        """The scores by products of whole matrices in this type, which is that of the weights for the least work."""
        features = self.dense_features(X, dtype=dtype)
        return features if self.head is None else self.link(self.head(features))

    def features(self, X: Floats, device: str = "cpu") -> Floats:
        """The last hidden layer (Eq. 1); for a sparse network by whichever kernel is faster for so many rows."""
        if torch.device(device).type == "cpu" and self.sparse_features is not None:
            return self.sparse_features(X)
        return self.dense_features(X, device)

    def dense_features(self, X: Floats, device: str = "cpu", dtype: str = "float64") -> Floats:
        """The last hidden layer by products of whole matrices, in torch."""
        chunks = (X[start : start + CHUNK] for start in range(0, len(X), CHUNK))
        return np.concatenate([self.scaled_features(self.scaled(rows, dtype), device, dtype) for rows in chunks])

    def scaled_features(self, scaled: Floats, device: str = "cpu", dtype: str = "float64") -> Floats:
        """The last hidden layer for scaled inputs; in float64 a row's features do not depend on its neighbours."""
        kind = getattr(torch, dtype)
        W = {pair: matrix.detach().to(device, kind) for pair, matrix in self.W.items()}
        features: Floats = self.network.features(torch.from_numpy(scaled).to(device, kind), W).cpu().numpy()
        return features

    @cached_property
    def sparse_features(self) -> Fastest | None:
        """The features in float64 by the faster of two kernels; None for a network that is not sparse."""
        finite = all(bool(matrix.isfinite().all()) for matrix in self.W.values())
        if not finite or self.nonzero >= SPARSE_BELOW or self.network.has_images:
            return None  # a convolution has far fewer weights than its matrix has entries
        layers = SparseLayers.of(self.network, self.W, np.float64)
        return Fastest({"dense": lambda: self.dense_features, "csr": lambda: lambda X: layers.features(self.scaled(X))})

    def astype(self, dtype: str) -> Model:
        """The model with weights and head in this type; raises where a number is too large for it."""

        def converted(name: str, values: Floats) -> Floats:
            return single(name, values) if dtype == "float32" else values.astype(dtype)

        W = {(n, m): torch.from_numpy(converted(f"W[{n}, {m}]", array(M))) for (n, m), M in self.W.items()}
        head = self.head and Head(*(converted(name, values) for name, values in vars(self.head).items()))
        return replace(self, W=W, head=head)

    def labels(self, scores: Floats) -> Any:
        """The label of the highest score where there are classes, else the scores."""
        return np.array(self.classes)[scores.argmax(-1)] if self.classes else scores

    def terms(self, n: int) -> Iterator[tuple[int, Operation | Window]]:
        """Each source of layer n with what it adds to the sum, as export formats see it."""
        for m in self.network.sources(n):
            edge, W = self.network.edges[n, m], self.W.get((n, m))
            yield m, edge.window(W) or edge.export(W)

    def checked(self) -> Model:
        """The model itself; raises where it holds what formats and kernels could not say, or would differ on."""
        head = {} if self.head is None else vars(self.head)
        weights = {f"W[{n}, {m}]": array(matrix) for (n, m), matrix in self.W.items()}
        for name, values in {**vars(self.scaling), **head, **weights}.items():
            if not np.isfinite(values).all():
                raise ValueError(f"{name} must hold finite numbers, got NaN or infinity; fit again")
        check_scores(self.scaling, self._largest_scores, self.classes, self.sharpness)
        return self

    def _largest_scores(self, inputs: Floats) -> Floats:
        """Bounds of the absolute scores where scaled inputs have these: the forward pass with absolute weights."""
        W = {pair: matrix.detach().abs().to("cpu", torch.float64) for pair, matrix in self.W.items()}
        features: Floats = self.network.features(torch.from_numpy(inputs)[None], W).numpy()
        return features if self.head is None else Head(*(np.abs(part) for part in vars(self.head).values()))(features)

    def __getstate__(self) -> dict[str, Any]:
        """Pickles and copies leave out what is made on demand."""
        return {part.name: getattr(self, part.name) for part in fields(self)}


def check_shape(name: str, values: Floats, shape: tuple[int, ...]) -> None:
    if values.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {values.shape}")


def check_scores(
    scaling: Scaling, largest: Callable[[Floats], Floats], classes: tuple[Label, ...], sharpness: float
) -> None:
    """Raise unless every row of finite numbers has finite scores, and every score a label of its own.

    Inputs are clipped, so their largest values are known; `largest` tells those of the scores.
    """
    if not (scaling.low <= scaling.high).all():
        raise ValueError("low must not lie above high in any feature")
    with np.errstate(all="ignore"):
        if not ((scaling.scale > 0) & np.isfinite(1 / scaling.scale)).all():
            raise ValueError("scale must hold positive numbers whose inverses are finite; use 1 for a constant feature")
        ends = [np.abs((end - scaling.shift) / scaling.scale) for end in (scaling.low, scaling.high)]
        scores = largest(np.maximum(*ends))
        if not (sharpness > 0 and np.isfinite(scores).all() and np.isfinite(sharpness * scores).all()):
            raise ValueError(
                "weights, head, scaling and sharpness must give finite scores for every row, but some row would have "
                "infinite ones; measure inputs and targets in other units, and fit again"
            )
    for label in classes:
        if not isinstance(label, Label):
            raise ValueError(f"classes must be numbers or strings, got {str(label)[:80]}")
    if len(set(classes)) < len(classes):
        raise ValueError("classes must all be different, got one of them twice")


def array(values: Tensor) -> Floats:
    """A tensor as an array, in the type that it was trained in."""
    found: Floats = values.detach().cpu().numpy()
    return found


def single(name: str, values: Floats) -> NDArray[np.float32]:
    """The values in float32; an error where one of them is too large for it."""
    with np.errstate(over="ignore", under="ignore"):
        found = values.astype(np.float32)
    if not np.isfinite(found).all():
        raise ValueError(
            f"{name} must fit into float32, got {np.abs(values).max():.3g}; measure inputs and targets in other units"
        )
    return found


def as_inputs(X: Any, inputs: int, encoding: Encoding | None = None) -> Floats:
    """X in float64, a row or a matrix of finite rows with so many columns; encoded, where there is an encoding."""
    if not isinstance(X, np.ndarray) and issparse(X):  # the first test alone spares an array a microsecond
        raise ValueError(f"X must be dense, got a sparse matrix of shape {X.shape}; use X.toarray()")
    x: Floats = np.asarray(X, np.float64)
    columns = inputs if encoding is None else len(encoding.fields)
    if x.ndim not in (1, 2) or x.shape[-1] != columns:
        raise ValueError(f"X must have {columns} columns, got shape {x.shape}")
    if encoding is not None:
        if np.isinf(x).any():
            raise ValueError("X must hold finite numbers, NaN where one is missing, got infinity; replace it first")
        return encoding(np.atleast_2d(x)).reshape(*x.shape[:-1], inputs)
    # Kernels would differ on NaN. One product tells, in less than a microsecond a row, unless squares overflow.
    if not math.isfinite(np.vdot(x, x)) and not np.isfinite(x).all():
        row = int(np.argmin(np.isfinite(np.atleast_2d(x)).all(1)))
        raise ValueError(f"X must hold finite numbers, got NaN or infinity in row {row}; replace them first")
    return x
