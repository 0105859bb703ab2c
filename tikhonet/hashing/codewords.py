"""One code for each class, with every bit set in half of them: all far apart, or nearer where classes are alike."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from tikhonet.estimators.rows import Floats
from tikhonet.hashing.code_training import RIDGE, update_regression
from tikhonet.hashing.codes import check_n_bits
from tikhonet.model.scaling import Standard
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.samples import Reduce, keep

Signs = NDArray[np.float64]
CANDIDATES = 256
FEWEST = 16
CLOSENESS = 0.3
"""The words of the two classes that are most alike agree in so large a part of the bits beyond what others do."""


def codewords(classes: int, n_bits: int, seed: int = 0, alike: Floats | None = None) -> Signs:
    """Words of -1 and +1, classes x n_bits, bit by bit.

    Every bit splits the classes into halves, so the sum of all distances is as large as it can be. Of `CANDIDATES`
    random splits (fewer for more than 256 classes) each bit takes the one that least agrees on pairs that agree much
    already,

        minimise over c:  sum over i, j of exp((s_ij - max s) / 2) c_i c_j,    s_ij = <word i, word j>,

    which evens the distances out. With `alike`, classes x classes (`likeness`), it takes the one that brings the
    agreements s_ij nearest to what is wanted of so many bits: CLOSENESS alike_ij - 1/(classes - 1) of each. Words that
    would be equal (many classes, few bits) make way for unused ones.
    """
    check_n_bits(n_bits)
    if classes < 2:
        raise ArgumentError("classes", f"classes must be at least 2, got {classes}")
    if classes > 2**n_bits:
        least = (classes - 1).bit_length()
        message = f"n_bits must be at least {least} to give {classes} classes a code each, got {n_bits}"
        raise ArgumentError("n_bits", message)
    rng = np.random.default_rng(seed)
    words = np.empty((classes, n_bits))
    agreement = np.zeros((classes, classes), np.int16)
    for bit in range(n_bits):
        splits = balanced_splits(classes, rng)
        if alike is None:
            np.fill_diagonal(agreement, -n_bits)
            urgency = urgencies(n_bits, max(0, int(agreement.max())))[agreement + n_bits]
        else:
            urgency = agreement - (bit + 1) * (CLOSENESS * alike - 1 / (classes - 1))
        np.fill_diagonal(urgency, 0)
        words[:, bit] = splits[np.argmin(np.einsum("ci,ij,cj->c", splits, urgency, splits, optimize=True))]
        sides = words[:, bit].astype(np.int16)
        agreement += np.outer(sides, sides)
    return replace_repeated(words, rng)


def likeness(X: Floats, Y: Floats, weight: Floats, reduce: Reduce = keep) -> Floats:
    """How alike classes are, at most 1, and 0 on average: what a linear regression sees of one in rows of the other.

    Y has a column for each class, 1 where a row is of it. It is symmetric, and 0 for a class and itself.
    """
    Z = torch.from_numpy(np.column_stack([Standard.fit(X, weight, reduce)(X), np.ones(len(X))]))
    labels, shares = torch.from_numpy(Y).to(Z), torch.from_numpy(weight).to(Z)
    own = labels * shares[:, None]
    rows = reduce(own.sum(0))
    G = update_regression(Z, labels, shares, RIDGE * float(rows.sum()), reduce)
    seen = (reduce(own.T @ Z) @ G / rows[:, None]).double().numpy()
    others = ~np.eye(len(seen), dtype=bool)
    found: Floats = np.where(others, seen + seen.T, 0.0)
    found[others] -= found[others].mean()
    return found / max(float(np.abs(found).max()), 1e-12)


def urgencies(n_bits: int, largest: int) -> Signs:
    """exp((s - max s) / 2) for s from -n_bits to n_bits: so few that a table is faster than the function."""
    return np.exp((np.arange(-n_bits, n_bits + 1) - largest) / 2)


def balanced_splits(classes: int, rng: np.random.Generator) -> Signs:
    """Random signs for the classes, as many of one as of the other (one more of either for an odd number)."""
    # A candidate costs the square of the number of classes: all 256 took 25 s for 3,000 classes and 48 bits.
    count = min(CANDIDATES, max(FEWEST, CANDIDATES * 256**2 // classes**2))
    order = rng.random((count, classes)).argsort(1)
    signs: Signs = np.where(order < classes // 2, 1.0, -1.0) * rng.choice([-1.0, 1.0], (count, 1))
    return signs


def replace_repeated(words: Signs, rng: np.random.Generator) -> Signs:
    """The words, those that stand there already drawn anew until all differ."""
    while True:
        first = np.unique(words, axis=0, return_index=True)[1]
        repeated = np.setdiff1d(np.arange(len(words)), first)
        if not len(repeated):
            return words
        words[repeated] = rng.choice([-1.0, 1.0], (len(repeated), words.shape[1]))
