"""One code for each class, far from those of the others.

The rows of a Hadamard matrix of order n and their negatives differ in half of their places or in all of them. No m
words of n bits are all further apart than n m / (2 (m - 1)) (Plotkin's bound: 0.56 n for 10 words), so little is left.
Such matrices are made here for n = q + 1 with a prime q = 3 mod 4 (Paley), and for twice any such order (Sylvester).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tikhonet.hashing.codes import check_n_bits, hamming, pack

Signs = NDArray[np.int8]
POOL = 2048
"""Random words beside the Hadamard ones: for more classes than twice the bits, and for lengths that have no matrix."""


def codewords(classes: int, n_bits: int, seed: int = 0) -> Signs:
    """Words of -1 and +1, classes x n_bits, each chosen as the farthest from those before it (by its nearest of them).

    The candidates are Hadamard words and random ones. Different classes have different words.
    """
    check_n_bits(n_bits)
    if not 2 <= classes <= 2**n_bits // 2:
        raise ValueError(f"classes must be from 2 to {2**n_bits // 2} for words of {n_bits} bits, got {classes}")
    rng = np.random.default_rng(seed)
    matrix = truncated_hadamard(n_bits)
    drawn = (2 * rng.integers(0, 2, (POOL + 4 * classes, n_bits)) - 1).astype(np.int8)
    words = np.concatenate([matrix, -matrix, drawn])
    packed = pack(words)
    chosen = [0]
    nearest = hamming(packed, packed[:1])[:, 0]
    while len(chosen) < classes:
        chosen.append(int(nearest.argmax()))
        if nearest[chosen[-1]] == 0:
            raise ValueError(f"classes must be fewer for words of {n_bits} bits, got {classes}; use more bits")
        nearest = np.minimum(nearest, hamming(packed, packed[chosen[-1:]])[:, 0])
    return words[chosen]


def truncated_hadamard(n: int) -> Signs:
    """The rows of the smallest known Hadamard matrix of order n or more, cut to n columns."""
    order = n
    while (matrix := hadamard(order)) is None:
        order += 1
    return matrix[:, order - n :]


def hadamard(order: int) -> Signs | None:
    """H with H H' = order I, by Paley's and Sylvester's constructions; None where they have none."""
    if order == 1:
        return np.ones((1, 1), np.int8)
    q = order - 1
    if q % 4 == 3 and is_prime(q):
        return paley(q)
    half = hadamard(order // 2) if order % 2 == 0 else None
    return None if half is None else np.block([[half, half], [half, -half]])


def paley(q: int) -> Signs:
    """I + [[0, 1'], [-1, C]] with C_ij = 1 where i - j is a square modulo q, -1 where not, 0 on the diagonal."""
    character = np.full(q, -1, np.int8)
    character[np.arange(1, q) ** 2 % q] = 1
    character[0] = 0
    matrix = np.ones((q + 1, q + 1), np.int8)
    matrix[1:, 0] = -1
    matrix[1:, 1:] = character[np.subtract.outer(np.arange(q), np.arange(q)) % q] + np.eye(q, dtype=np.int8)
    return matrix


def is_prime(q: int) -> bool:
    return q > 1 and all(q % divisor for divisor in range(2, int(q**0.5) + 1))
