"""What a hasher learns from: labels, sets of labels, numbers or a similarity, all as one matrix Y.

Two samples are alike as far as <y_i, y_j> says: 1 for the same class, the number of common labels for sets of them,
and for a similarity S the entry s_ij itself, by the leading eigenpairs of its positive part, S ~ Y Y'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import eigsh
from sklearn.utils import check_array
from sklearn.utils.multiclass import type_of_target

from tikhonet.estimators.rows import Floats
from tikhonet.estimators.scaling import spread
from tikhonet.hashing.codewords import codewords

SMALL = 2000
"""Samples up to which all eigenpairs of a similarity are computed at once."""


@dataclass(frozen=True)
class Supervision:
    Y: Floats
    kind: Literal["classes", "sets", "numbers"]
    """Of what: one label a row, or several, as columns that are 1 where a row has the label; or any numbers."""

    def starting_map(self, weight: Floats, n_bits: int, seed: int) -> tuple[Floats, Floats]:
        """(C, t) of the first codes, sign(Y C - t).

        A class starts with its codeword. Sets of labels and numbers are cut by hyperplanes. Through zero, two sets
        would differ in as many bits as the angle between them is wide, most where they have no label in common; through
        the mean, bits would be balanced. Sets are cut halfway, numbers not far from their mean.
        """
        rng = np.random.default_rng(seed)
        if self.kind == "classes":
            # Half a vote decides for equal rows of two classes.
            return codewords(self.Y.shape[1], n_bits, seed), rng.choice([-0.5, 0.5], n_bits)
        directions = rotations(self.Y.shape[1], n_bits, rng)
        mean, deviation = spread(self.Y @ directions, weight)
        if self.kind == "sets":
            return directions, mean / 2
        return directions, mean + deviation * rng.uniform(-1, 1, n_bits) / self.Y.shape[1]


def rotations(width: int, n_bits: int, rng: np.random.Generator) -> Floats:
    """Directions in a space of this width, one column for each bit: orthonormal within every `width` of them."""
    blocks = [np.linalg.qr(rng.normal(size=(width, width)))[0] for _ in range(-(-n_bits // width))]
    directions: Floats = np.concatenate(blocks, axis=1)[:, :n_bits]
    return directions


def from_targets(y: Any) -> tuple[Supervision, NDArray[Any] | None]:
    """From classes (one column), an indicator matrix of labels, or real numbers; with the classes, if any."""
    y = y.toarray() if sparse.issparse(y) else np.asarray(y)
    kind = type_of_target(y, input_name="y")
    if kind in ("binary", "multiclass"):
        classes, codes = np.unique(np.ravel(y), return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"y must hold at least 2 classes, got 1 class: {classes[0].item()!r}; codes would all be equal"
            )
        return Supervision(np.eye(len(classes))[codes], "classes"), classes
    if kind.startswith("continuous"):
        numbers = np.asarray(y, np.float64).reshape(len(y), -1)
        mean, deviation = spread(numbers, np.ones(len(numbers)))
        if not deviation.any():
            raise ValueError("y must hold different numbers, got one value only; codes would all be equal")
        return Supervision((numbers - mean) / np.where(deviation > 0, deviation, 1.0), "numbers"), None
    if kind == "multilabel-indicator":
        if not np.isin(y, (0, 1)).all():
            raise ValueError(f"y must be 0 or 1 where labels have columns, got {y.min()} to {y.max()}; use y > 0")
        if not (y != y[0]).any():
            raise ValueError("y must hold different sets of labels, got one class of rows only; codes would be equal")
        return Supervision(np.asarray(y, np.float64), "classes" if (y.sum(1) == 1).all() else "sets"), None
    raise ValueError(
        f"Unknown label type: y must hold one class a row, an indicator matrix of labels (0 and 1), or real numbers, "
        f"got {kind}; use sklearn.preprocessing.MultiLabelBinarizer for sets of labels"
    )


def from_similarity(S: Any, rows: int, n_bits: int) -> Supervision:
    """S ~ Y Y', from at most n_bits leading eigenpairs with positive eigenvalues."""
    coarse = getattr(S, "dtype", None) in (np.float32, np.float16)
    S = check_array(S, accept_sparse="csr", dtype=np.float64, input_name="similarity")
    if S.shape[0] != S.shape[1]:
        raise ValueError(f"similarity must be a square matrix, rows x rows, got shape {S.shape}")
    if S.shape[0] != rows:
        raise ValueError(f"similarity must have a row and a column for each row of X ({rows}), got shape {S.shape}")
    if abs(S - S.T).max() > (1e-5 if coarse else 1e-8) * max(abs(S).max(), 1e-300):
        raise ValueError("similarity must be symmetric, got one that is not; use (S + S.T) / 2")
    S = (S + S.T) / 2
    if rows <= max(SMALL, n_bits + 1):
        values, vectors = np.linalg.eigh(S.toarray() if sparse.issparse(S) else S)
    else:
        values, vectors = eigsh(S, k=n_bits, which="LA", v0=np.ones(rows))
    values, vectors = values[-n_bits:], vectors[:, -n_bits:]
    keep = values > 1e-9 * float(abs(S).sum(axis=1).max())  # a bound on every eigenvalue
    if not keep.any():
        raise ValueError("similarity must be positive for some pairs of rows, got none; similar pairs have values > 0")
    Y: Floats = vectors[:, keep] * np.sqrt(values[keep])
    if np.abs(Y - Y[0]).max() <= 1e-9 * np.abs(Y).max():
        raise ValueError("similarity must tell rows apart, got one class of rows only; codes would all be equal")
    return Supervision(Y, "numbers")
