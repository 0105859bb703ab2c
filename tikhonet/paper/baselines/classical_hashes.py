"""Classical hashing by signs of linear maps or a predicted class; all have `fit(X, y, seed)` and `codes(X)`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import check_array
from torch import Tensor

from tikhonet.hashing.codes import Codes, check_n_bits, pack, signs
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
        return np.concatenate([pack(self.scores(part).numpy()) for part in rows.split(CHUNK)])

    @abstractmethod
    def learn(self, X: Tensor, y: Any, generator: torch.Generator) -> None: ...

    @abstractmethod
    def scores(self, X: Tensor) -> Tensor:
        """One real number for each bit, rows x n_bits."""


def as_rows(X: Any) -> Tensor:
    """X as a float32 matrix, checked as scikit-learn does."""
    return torch.from_numpy(np.require(check_array(X, dtype=np.float32, input_name="X"), requirements=["C", "W"]))


def as_indicator(y: Any, rows: int) -> Tensor:
    """Labels or an indicator matrix as zeros and ones, samples x labels."""
    if y is None or len(y) != rows:
        raise ValueError(f"y must hold a label for each of the {rows} rows, got {'none' if y is None else len(y)}")
    labels = check_array(y, dtype=None, ensure_2d=False, input_name="y")
    if labels.ndim == 1:
        number = LabelEncoder().fit_transform(labels)
        if number.max() < 1 or None in labels.tolist():
            raise ValueError(f"y must hold at least 2 classes and no None, got {set(labels.tolist())}")
        return torch.nn.functional.one_hot(torch.from_numpy(number)).float()
    if not np.isin(labels, (0, 1)).all():
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
        covariance = torch.zeros(X.shape[1], X.shape[1], dtype=torch.float64)
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
        R: Tensor = torch.linalg.qr(start).Q
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
    *How should we evaluate supervised hashing?*, 2017), so a comparison without it says little. `classifier` is one of
    scikit-learn's kind; it is fitted in place. A `soft` code is made of the signs of the mean of the codewords under
    the predicted probabilities, so that it says something of the second class too.
    """

    def __init__(self, n_bits: int, classifier: Any, soft: bool = False) -> None:
        check_n_bits(n_bits)
        self.n_bits, self.classifier, self.soft = n_bits, classifier, soft

    def fit(self, X: Any, y: Any, seed: int = 0) -> Self:
        self.classifier.fit(X, y)
        return self.assign(seed)

    def assign(self, seed: int = 0) -> Self:
        """Give every class its word; all that is to do where the classifier is fitted already."""
        self.words_ = pack(codewords(len(self.classifier.classes_), self.n_bits, seed))
        return self

    def scores(self, X: Any) -> NDArray[Any]:
        """One real number for each bit, whose sign is the bit."""
        if self.soft:
            mean: NDArray[Any] = self.classifier.predict_proba(X) @ signs(self.words_, self.n_bits)
            return mean
        predicted = self.classifier.predict(X)
        words: NDArray[Any] = signs(self.words_[np.searchsorted(self.classifier.classes_, predicted)], self.n_bits)
        return words

    def codes(self, X: Any) -> Codes:
        """Packed codes, one for each row."""
        return pack(self.scores(X))
