"""The base of the classical hashing methods: `fit(X, y, seed)`, then `codes(X)`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from torch import Tensor

from tikhonet.hashing.codes import Codes, check_n_bits, pack

CHUNK = 8192


class Hash(ABC):
    """Codes are the signs of real scores."""

    def __init__(self, n_bits: int) -> None:
        check_n_bits(n_bits)
        self.n_bits = n_bits
        self.width_: int | None = None

    def fit(self, X: Any, y: Any = None, seed: int = 0) -> Self:
        """Learn from rows and, where the method is supervised, their labels."""
        rows = as_rows(X)
        self.learn(rows, y, torch.Generator().manual_seed(seed))
        self.width_ = rows.shape[1]
        return self

    def codes(self, X: Any) -> Codes:
        """Packed codes, one for each row."""
        rows = as_rows(X)
        if self.width_ is None:
            raise ValueError(f"{type(self).__name__} must be fitted before it makes codes; call fit(X, y) first")
        if rows.shape[1] != self.width_:
            raise ValueError(f"X must have {self.width_} columns, as in fit, got {rows.shape[1]}")
        return np.concatenate([pack(self.scores(part).cpu().numpy()) for part in rows.split(CHUNK)])

    @abstractmethod
    def learn(self, X: Tensor, y: Any, generator: torch.Generator) -> None: ...

    @abstractmethod
    def scores(self, X: Tensor) -> Tensor:
        """One real number for each bit, rows x n_bits."""


def as_rows(X: Any) -> Tensor:
    """X as a float32 matrix; tensors stay on their device."""
    if issparse(X):
        raise ValueError(f"X must be dense, got a sparse matrix of shape {X.shape}; use X.toarray()")
    if isinstance(X, Tensor) and X.layout != torch.strided:
        raise ValueError(f"X must be dense, got a sparse tensor of shape {tuple(X.shape)}; use X.to_dense()")
    if X.is_complex() if isinstance(X, Tensor) else np.iscomplexobj(X):
        raise ValueError("X must hold real numbers, got complex ones; pass their real and imaginary parts as columns")
    rows = X.float() if isinstance(X, Tensor) else torch.from_numpy(np.require(X, np.float32, ["C", "W"]))
    if rows.ndim != 2 or not len(rows):
        raise ValueError(f"X must be a matrix with one sample a row, got shape {tuple(rows.shape)}")
    if not rows.isfinite().all():
        raise ValueError("X must hold finite numbers, got NaN or infinity; replace them first")
    return rows


def as_labels(y: Any) -> NDArray[Any]:
    """y as an array in which no label is missing."""
    labels = np.asarray(y.cpu() if isinstance(y, Tensor) else y)
    if labels.ndim == 0:
        raise ValueError(f"y must hold a label for each row, got {y!r}")
    match labels.dtype.kind:
        case "f":
            missing = ~np.isfinite(labels)
        case "O":
            missing = (labels == np.array(None)) | (labels != labels)  # NaN is not equal to itself
        case _:
            return labels
    if missing.any():
        got = labels[missing][0]
        raise ValueError(f"y must hold labels, got {got} in row {np.argwhere(missing)[0, 0]}; leave such rows out")
    return labels


def as_indicator(y: Any, rows: int) -> Tensor:
    """Labels or an indicator matrix as zeros and ones, samples x labels."""
    if y is None or len(y) != rows:
        raise ValueError(f"y must hold a label for each of the {rows} rows, got {'none' if y is None else len(y)}")
    labels = as_labels(y)
    if labels.ndim == 1:
        classes, number = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y must hold at least 2 classes, got only {classes[0].item()!r}")
        return torch.nn.functional.one_hot(torch.from_numpy(number)).float()
    if labels.ndim != 2 or not np.isin(labels, (0, 1)).all():
        raise ValueError(f"y must be a vector of labels or an indicator matrix of 0 and 1, got shape {labels.shape}")
    return torch.from_numpy(labels.astype(np.float32))
