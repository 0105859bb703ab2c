"""The quality of codes without any labels: are their bits balanced, independent, and do codes differ?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.hashing.codes import Codes, check_codes, unpack

CHUNK = 8192


@dataclass(frozen=True)
class CodeReport:
    """For n codes with bits b_k in {0, 1} of mean m_k."""

    codes: int
    n_bits: int
    balance: float
    """The mean over bits of 1 - |2 m_k - 1|: 1 where each is set in half of the codes, 0 where all are constant."""
    least_balance: float
    """The balance of the worst bit."""
    constant_bits: int
    correlation: float
    """The mean of |corr(b_j, b_k)| over pairs of different bits, where a constant bit has correlation 0."""
    distinct: int
    """Different codes."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.codes:,} codes of {self.n_bits} bits, {self.distinct:,} distinct\n"
            f"bit balance {self.balance:.3f} (worst bit {self.least_balance:.3f}, {self.constant_bits} constant)\n"
            f"mean absolute correlation between bits {self.correlation:.3f}"
        )


def code_report(codes: Codes, n_bits: int) -> CodeReport:
    """Balance, correlation and number of distinct codes."""
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
    balance = 1 - np.abs(2 * mean - 1)
    return CodeReport(
        codes=len(codes),
        n_bits=int(n_bits),
        balance=float(balance.mean()),
        least_balance=float(balance.min()),
        constant_bits=int((~varies).sum()),
        correlation=float((correlation.sum() - np.trace(correlation)) / pairs),
        distinct=len(np.unique(codes, axis=0)),
    )


def moments(codes: Codes, n_bits: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums of bits and of products of two bits: exact, since counts below 2^24 are whole numbers in float32."""
    sums, products = np.zeros(n_bits), np.zeros((n_bits, n_bits))
    for start in range(0, len(codes), CHUNK):
        bits = unpack(codes[start : start + CHUNK], n_bits).astype(np.float32)
        sums += bits.sum(0)
        products += bits.T @ bits
    return sums, products
