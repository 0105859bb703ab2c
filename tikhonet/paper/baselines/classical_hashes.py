"""Classical hashing by signs of linear maps or a predicted class; all have `fit(X, y, seed)` and `codes(X)`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from torch import Tensor

from tikhonet.hashing.codes import Codes, check_n_bits, pack
from tikhonet.hashing.codewords import codewords

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


class LinearHash(Hash):
    """bit_k(x) = sign of p_k . (x - mean)."""

    mean: Tensor
    P: Tensor
    """Directions, features x n_bits."""

    def scores(self, X: Tensor) -> Tensor:
        return (X - self.mean) @ self.P

    def learn(self, X: Tensor, y: Any, generator: torch.Generator) -> None:
        self.mean = X.mean(0)
        self.P = self.directions(X, generator).to(X)

    @abstractmethod
    def directions(self, X: Tensor, generator: torch.Generator) -> Tensor:
        """P of these rows, whose mean is known."""


class RandomProjections(LinearHash):
    """Locality-sensitive hashing for angles: normal directions, which the data do not influence."""

    def directions(self, X: Tensor, generator: torch.Generator) -> Tensor:
        return torch.randn(X.shape[1], self.n_bits, generator=generator)


class PrincipalComponents(LinearHash):
    """The n_bits directions of largest variance."""

    def directions(self, X: Tensor, generator: torch.Generator) -> Tensor:
        if self.n_bits > X.shape[1]:
            raise ValueError(
                f"n_bits must be at most the number of features ({X.shape[1]}) for principal components, "
                f"got {self.n_bits}; use fewer bits or RandomProjections"
            )
        covariance = torch.zeros(X.shape[1], X.shape[1], dtype=torch.float64, device=X.device)
        for part in X.split(CHUNK):
            centred = (part - self.mean).double()
            covariance += centred.T @ centred
        vectors: Tensor = torch.linalg.eigh(covariance).eigenvectors
        return vectors[:, -self.n_bits :].flip(1)


class ITQ(PrincipalComponents):
    """Iterative quantisation: principal components turned so that they lie near the corners of the cube.

        minimise over signs B and rotations R:  |B - Z R|^2,   Z the projected rows

    by turns: B = sign(Z R); R = S T' from the singular value decomposition Z'B = S D T' (Gong and Lazebnik, CVPR 2011).
    """

    def __init__(self, n_bits: int, iterations: int = 50) -> None:
        super().__init__(n_bits)
        if iterations < 1:
            raise ValueError(f"iterations must be at least 1, got {iterations}")
        self.iterations = iterations

    def directions(self, X: Tensor, generator: torch.Generator) -> Tensor:
        components = super().directions(X, generator)
        Z = (X - self.mean) @ components.to(X)
        start = torch.randn(self.n_bits, self.n_bits, generator=generator, dtype=torch.float64)
        R: Tensor = torch.linalg.qr(start.to(Z.device)).Q
        self.losses_: list[float] = []
        for _ in range(self.iterations):
            turned = Z @ R.to(Z)
            B = torch.where(turned > 0, 1.0, -1.0)
            self.losses_.append(float((B - turned).square().mean()))
            S, _, T = torch.linalg.svd((Z.T @ B).double())
            R = S @ T
        return components @ R


class ClassifierHash:
    """A classifier used as a hash: the code of a row is the codeword of its predicted class.

    It ignores all that hashing is about, and beats many hashing methods on data with few classes (Sablayrolles et al.,
    *How should we evaluate supervised hashing?*, 2017), so a comparison without it says little. `classifier` is
    anything with `fit(X, y)` and `predict(X)`; it is fitted in place.
    """

    def __init__(self, n_bits: int, classifier: Any) -> None:
        check_n_bits(n_bits)
        for method in ("fit", "predict"):
            if not hasattr(classifier, method):
                raise ValueError(f"classifier must have fit and predict, got {type(classifier).__name__}")
        self.n_bits, self.classifier = n_bits, classifier
        self.classes_: Any = None

    def fit(self, X: Any, y: Any, seed: int = 0) -> Self:
        self.assign(y, seed)
        self.classifier.fit(X, y)
        return self

    def assign(self, y: Any, seed: int = 0) -> Self:
        """Give every class its word; all that is to do where the classifier is fitted already."""
        labels = as_labels(y)
        if labels.ndim != 1:
            raise ValueError(f"y must be a vector of labels, got shape {labels.shape}; a class has one codeword")
        classes = np.unique(labels)
        if len(classes) < 2:
            raise ValueError(f"y must hold at least 2 classes, got {len(classes)}")
        self.words_ = pack(codewords(len(classes), self.n_bits, seed))
        self.classes_ = classes
        return self

    def codes(self, X: Any) -> Codes:
        """Packed codes, one for each row."""
        if self.classes_ is None:
            raise ValueError("ClassifierHash must be fitted before it makes codes; call fit(X, y) first")
        return self.codes_of(self.classifier.predict(X))

    def codes_of(self, labels: Any) -> Codes:
        """The codewords of labels."""
        labels = np.asarray(labels)
        unknown = ~np.isin(labels, self.classes_)
        if unknown.any():
            raise ValueError(f"labels must be classes of y, got {labels[unknown][0]!r}")
        found: Codes = self.words_[np.searchsorted(self.classes_, labels)]
        return found
