"""Codes to begin with: far apart for different classes, and with every bit set in half of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tikhonet.estimators.rows import Floats

CANDIDATES = 256


def class_codewords(classes: int, n_bits: int, rng: np.random.Generator) -> Floats:
    """A row of n_bits signs for each class, bit by bit.

    Every bit splits the classes into halves, so the sum of all distances is as large as it can be. Of `CANDIDATES`
    random splits each bit takes the one that least agrees on pairs that agree much already,

        minimise over c:  sum over i, j of exp((s_ij - max s) / 2) c_i c_j,    s_ij = <codeword i, codeword j>,

    which evens the distances out.
    """
    if classes > 2**n_bits:
        least = (classes - 1).bit_length()
        raise ValueError(f"n_bits must be at least {least} to give {classes} classes a code each, got {n_bits}")
    codewords = np.empty((classes, n_bits))
    agreement = np.zeros((classes, classes))
    for bit in range(n_bits):
        splits = balanced_splits(classes, rng)
        urgency = np.exp((agreement - agreement.max(initial=0, where=~np.eye(classes, dtype=bool))) / 2)
        np.fill_diagonal(urgency, 0)
        codewords[:, bit] = splits[np.argmin(np.einsum("ci,ij,cj->c", splits, urgency, splits, optimize=True))]
        agreement += np.outer(codewords[:, bit], codewords[:, bit])
    return codewords


def balanced_splits(classes: int, rng: np.random.Generator) -> Floats:
    """Random signs for the classes, as many of one as of the other (one more of either for an odd number)."""
    order = rng.random((CANDIDATES, classes)).argsort(1)
    signs: Floats = np.where(order < classes // 2, 1.0, -1.0) * rng.choice([-1.0, 1.0], (CANDIDATES, 1))
    return signs


def rotations(width: int, n_bits: int, rng: np.random.Generator) -> Floats:
    """Directions in a space of this width, one column for each bit: orthonormal within every `width` of them."""
    blocks = [np.linalg.qr(rng.normal(size=(width, width)))[0] for _ in range(-(-n_bits // width))]
    directions: Floats = np.concatenate(blocks, axis=1)[:, :n_bits]
    return directions


def least_distance(codewords: Floats) -> int:
    """The least Hamming distance between two of the codewords."""
    products: NDArray[np.float64] = codewords @ codewords.T
    np.fill_diagonal(products, -np.inf)
    return int((codewords.shape[1] - products.max()) / 2)
