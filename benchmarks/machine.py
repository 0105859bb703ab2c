"""This machine's own matrix-product rate, and what it is: every benchmark prints both."""

from __future__ import annotations

import platform
import time

import torch


def product_seconds(rows: int, width: int, dtype: torch.dtype = torch.float32, repeats: int = 5) -> float:
    """Seconds of one product (rows x width) (width x width), the best of a few after warming up."""
    A, B = torch.randn(rows, width, dtype=dtype), torch.randn(width, width, dtype=dtype)
    out = torch.empty_like(A)
    best = float("inf")
    for _ in range(repeats + 1):
        start = time.perf_counter()
        torch.mm(A, B, out=out)
        best = min(best, time.perf_counter() - start)
    return best


def describe() -> str:
    return (
        f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"Python {platform.python_version()}"
    )
