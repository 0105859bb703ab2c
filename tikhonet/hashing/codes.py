"""Binary codes as packed bytes, the Hamming distance between them, and their quality without any labels.

A code of n_bits bits is a row of ceil(n_bits / 8) bytes as `np.packbits` makes it: bit 0 is the highest bit of byte 0.
Where n_bits is no multiple of 8 the last byte ends in zeros. Two codes of one length then have the same distance with
or without their padding, so distances need no n_bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tikhonet.network.errors import ArgumentError

Codes = NDArray[np.uint8]
Words = NDArray[np.uint64]

FEWEST_BITS, MOST_BITS = 8, 512
BLOCK = 2**18
"""Distances held at a time; their 2 MB of words stay in the cache, which is a third faster than 16 MB."""
FIRST, ASKED, MOST_CODES = 5, 1000, 50_000
"""Neighbours that may be tied, codes that are asked for theirs, and codes that these are among."""
ROWS = 8192
"""Codes whose bits are unpacked at a time."""


def pack(bits: ArrayLike) -> Codes:
    """Codes of rows of bits or signs: bit k is 1 where the number in column k is positive.

    Parameters
    ----------
    bits : array-like
        Codes x bits: booleans, zeros and ones, signs -1 and +1, or real scores.

    Returns
    -------
    array of uint8
        A row of ceil(bits / 8) bytes for each code.

    Examples
    --------
    >>> from tikhonet.hashing import pack
    >>> pack([[1, 0, 0, 0, 0, 0, 0, 1]])
    array([[129]], dtype=uint8)
    """
    values = np.asarray(bits)
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise ValueError(
            f"bits must be a matrix of booleans or numbers, one row a code, got {values.dtype} of shape {values.shape}"
        )
    check_n_bits(values.shape[1])
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise ValueError("bits must be numbers, got NaN, which has no sign; replace it first")
    return np.packbits(values > 0, axis=1)


def unpack(codes: Codes, n_bits: int) -> NDArray[np.bool_]:
    """The bits of codes.

    Parameters
    ----------
    codes : array of uint8
        Packed codes.
    n_bits : int
        Their length.

    Returns
    -------
    array of bool
        Codes x bits.

    Examples
    --------
    >>> from tikhonet.hashing import pack, unpack
    >>> unpack(pack([[1, 0, 0, 0, 0, 0, 0, 1]]), 8).astype(int)
    array([[1, 0, 0, 0, 0, 0, 0, 1]])
    """
    check_codes(codes, n_bits)
    return np.unpackbits(codes, axis=1, count=n_bits).astype(bool)


def signs(codes: Codes, n_bits: int) -> NDArray[np.float32]:
    """The bits of codes as -1 and +1.

    Parameters
    ----------
    codes : array of uint8
        Packed codes.
    n_bits : int
        Their length.

    Returns
    -------
    array of float32
        Codes x bits.

    Examples
    --------
    >>> from tikhonet.hashing import pack, signs
    >>> signs(pack([[1, 0, 0, 0, 0, 0, 0, 1]]), 8)[0, :2].tolist()
    [1.0, -1.0]
    """
    return np.where(unpack(codes, n_bits), np.float32(1), np.float32(-1))


def n_bytes(n_bits: int) -> int:
    """Bytes of a code of so many bits."""
    return -(-n_bits // 8)


def is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_n_bits(n_bits: int) -> None:
    if not is_whole(n_bits) or not FEWEST_BITS <= n_bits <= MOST_BITS:
        message = f"n_bits must be a whole number from {FEWEST_BITS} to {MOST_BITS}, got {n_bits!r}"
        raise ArgumentError("n_bits", message)


def check_codes(codes: Any, n_bits: int | None = None, name: str = "codes") -> None:
    """Raise unless `codes` are packed codes, of `n_bits` bits where that is given."""
    if not isinstance(codes, np.ndarray) or codes.dtype != np.uint8 or codes.ndim != 2:
        kind = f"{codes.dtype} of shape {codes.shape}" if isinstance(codes, np.ndarray) else type(codes).__name__
        raise ValueError(f"{name} must be a uint8 matrix of packed codes, got {kind}; pack bits or signs with pack()")
    if n_bits is None:
        if not 1 <= codes.shape[1] <= n_bytes(MOST_BITS):
            raise ValueError(f"{name} must have 1 to {n_bytes(MOST_BITS)} bytes a code, got {codes.shape[1]}")
        return
    check_n_bits(n_bits)
    if codes.shape[1] != n_bytes(n_bits):
        raise ValueError(
            f"{name} must have {n_bytes(n_bits)} bytes a code ({n_bits} bits), got {codes.shape[1]}; "
            "use codes of one length throughout"
        )
    padding = (1 << (-n_bits % 8)) - 1
    if padding and (codes[:, -1] & padding).any():
        raise ValueError(f"{name} must end in zeros after bit {n_bits}, got ones there; pack them with pack()")


def hamming(a: Codes, b: Codes) -> NDArray[np.uint16]:
    """The Hamming distances of every pair of codes.

    Parameters
    ----------
    a : array of uint8
        Packed codes.
    b : array of uint8
        Packed codes of the same length.

    Returns
    -------
    array of uint16
        len(a) x len(b).

    Examples
    --------
    >>> import numpy as np
    >>> from tikhonet.hashing import hamming, pack
    >>> codes = pack(np.eye(8)[:2])
    >>> hamming(codes, codes).tolist()
    [[0, 2], [2, 0]]
    """
    distances = np.empty((len(a), len(b)), np.uint16)
    for rows, block in distance_blocks(a, b):
        distances[rows] = block
    return distances


def distance_blocks(a: Codes, b: Codes) -> Iterator[tuple[slice, NDArray[np.uint16]]]:
    """The distances by rows of `a`: (rows, distances), about `BLOCK` distances at a time.

    The memory of one block is used again for the next.
    """
    check_codes(a, name="a")
    check_codes(b, name="b")
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"a and b must be codes of one length, got {a.shape[1]} and {b.shape[1]} bytes")
    rows_a, rows_b = as_words(a), as_words(b)
    height = max(1, min(len(a), BLOCK // max(1, len(b))))
    words = np.empty((height, len(b)), np.uint64)
    counts = np.empty((height, len(b)), np.uint8)
    sums = np.empty((height, len(b)), np.uint16)
    for start in range(0, len(a), height):
        size = min(height, len(a) - start)
        block = sums[:size]
        for place, (left, right) in enumerate(zip(rows_a, rows_b, strict=True)):
            np.bitwise_xor(left[start : start + size, None], right, out=words[:size])
            if place == 0:
                np.bitwise_count(words[:size], out=block, casting="unsafe")
            else:
                block += np.bitwise_count(words[:size], out=counts[:size])
        yield slice(start, start + size), block


def as_words(codes: Codes) -> Words:
    """The codes as 64-bit words, words x codes: each word's column is contiguous. Short codes end in zeros."""
    width = -(-codes.shape[1] // 8) * 8
    padded = np.zeros((len(codes), width), np.uint8)
    padded[:, : codes.shape[1]] = codes
    return np.ascontiguousarray(padded.view(np.uint64).T)


@dataclass(frozen=True)
class CodeReport:
    """What codes are like: for n codes with bits b_k in {0, 1} of mean m_k.

    Parameters
    ----------
    codes : int
        Their number n.
    n_bits : int
        Their length.
    balance : float
        The mean over bits of ``1 - |2 m_k - 1|``: 1 where each is set in half of the codes, 0 where all are constant.
    least_balance : float
        The balance of the worst bit.
    constant_bits : int
        Bits that all codes have alike.
    correlation : float
        The mean of ``|corr(b_j, b_k)|`` over pairs of different bits, where a constant bit has correlation 0.
    distinct : int
        Different codes.
    entropy : float, optional
        Of the codes, in bits: log2 n where all differ, 0 where all are equal. Models of version 0.1 do not know it.
    tied : float, optional
        The share of codes whose five nearest others are all at one distance, so that nothing orders them (of 1,000
        codes, among at most 50,000). None where a code has less than five others, unless all are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhonet.hashing import code_report, pack
    >>> print(code_report(pack(np.eye(8)), 8))
    8 codes of 8 bits, 8 distinct (entropy 3.0 bits), the first 5 neighbours tied for 100.0%
    bit balance 0.250 (worst bit 0.250, 0 constant)
    mean absolute correlation between bits 0.143
    """

    codes: int
    n_bits: int
    balance: float
    least_balance: float
    constant_bits: int
    correlation: float
    distinct: int
    entropy: float | None = None
    tied: float | None = None

    @property
    def ties(self) -> str:
        """How far codes tell rows apart, in words."""
        entropy = "" if self.entropy is None else f" (entropy {self.entropy:.1f} bits)"
        tied = "" if self.tied is None else f", the first {FIRST} neighbours tied for {100 * self.tied:.1f}%"
        return f"{self.distinct:,} distinct{entropy}{tied}"

    def to_dict(self) -> dict[str, Any]:
        """The report as plain numbers.

        Returns
        -------
        dict
            By the names of the parameters.
        """
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.codes:,} codes of {self.n_bits} bits, {self.ties}\n"
            f"bit balance {self.balance:.3f} (worst bit {self.least_balance:.3f}, {self.constant_bits} constant)\n"
            f"mean absolute correlation between bits {self.correlation:.3f}"
        )


def code_report(codes: Codes, n_bits: int) -> CodeReport:
    """Balance and correlation of the bits, number and entropy of distinct codes, ties among the nearest.

    Parameters
    ----------
    codes : array of uint8
        Packed codes.
    n_bits : int
        Their length.

    Returns
    -------
    CodeReport
        The measures.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhonet.hashing import code_report, pack
    >>> code_report(pack(np.eye(8)), 8).distinct
    8
    """
    check_codes(codes, n_bits)
    if not len(codes):
        raise ValueError("codes must hold at least one code, got none")
    sums, products = moments(codes, n_bits)
    mean = sums / len(codes)
    covariance = products / len(codes) - np.outer(mean, mean)
    variance = mean * (1 - mean)
    varies = (sums > 0) & (sums < len(codes))
    scale = np.where(varies, np.sqrt(np.where(varies, variance, 1)), np.inf)
    correlation = np.abs(covariance / np.outer(scale, scale))
    pairs = n_bits * (n_bits - 1)
    shares = np.unique(codes, axis=0, return_counts=True)[1] / len(codes)
    balance = 1 - np.abs(2 * mean - 1)
    return CodeReport(
        codes=len(codes),
        n_bits=int(n_bits),
        balance=float(balance.mean()),
        least_balance=float(balance.min()),
        constant_bits=int((~varies).sum()),
        correlation=float((correlation.sum() - np.trace(correlation)) / pairs),
        distinct=len(shares),
        entropy=max(0.0, float(-(shares @ np.log2(shares)))),
        tied=tied_share(codes),
    )


def tied_share(codes: Codes) -> float | None:
    """The share of codes whose `FIRST` nearest others are all at one distance.

    1 where all codes are equal, so that nothing orders them however few they are; else None where there are fewer
    others.
    """
    base = codes[:: -(-len(codes) // MOST_CODES)]
    if (base == base[0]).all():
        return 1.0
    if len(base) <= FIRST:
        return None
    asked = np.arange(0, len(base), -(-len(base) // ASKED))
    tied = 0
    for _, block in distance_blocks(base[asked], base):
        # The nearest is the code itself or one that is equal to it; without it, the rest begins.
        nearest = np.partition(block, FIRST, axis=1)[:, : FIRST + 1]
        nearest.sort(axis=1)
        tied += int((nearest[:, 1] == nearest[:, FIRST]).sum())
    return tied / len(asked)


def moments(codes: Codes, n_bits: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums of bits and of products of two bits: exact, since counts below 2^24 are whole numbers in float32."""
    sums, products = np.zeros(n_bits), np.zeros((n_bits, n_bits))
    for start in range(0, len(codes), ROWS):
        bits = unpack(codes[start : start + ROWS], n_bits).astype(np.float32)
        sums += bits.sum(0)
        products += bits.T @ bits
    return sums, products
