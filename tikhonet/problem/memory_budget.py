"""How much memory a run may use: a budget in words or bytes, and its refusal where it cannot be kept to."""

from __future__ import annotations

import math
import re
from typing import Any

from tikhonet.network.errors import ArgumentError

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
PER_ROW = 88
"""Bytes of memory that a fit needs for each row, wherever X is: label, weight, two keys, a sum, places and orders."""


def bytes_of(memory: Any) -> float:
    """`"1.5 GB"`, or a number of bytes, as bytes."""
    found = re.fullmatch(r"\s*([\d.]+)\s*([KMGT]?I?)B?\s*", str(memory).upper())
    try:
        if found:
            return float(found[1]) * UNITS[found[2]]
    except (ValueError, KeyError):
        pass
    raise ArgumentError(
        "memory_budget", f'memory_budget must be a number of bytes, or text such as "500MB" or "2GB", got {memory!r}'
    )


def check_budget(budget: float, needed: float, rows: float, remedy: str) -> None:
    """Raise where a budget is less than what is needed for so many rows."""
    if needed > budget:
        raise ArgumentError(
            "memory_budget",
            f"memory_budget must be at least {math.ceil(needed / 1e6):,} MB for {rows:,.0f} rows of this network, "
            f"got {budget / 1e6:,.0f} MB; raise it, or use {remedy}",
        )
