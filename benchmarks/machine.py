"""This machine's own matrix-product rate, and what it is: every benchmark prints both."""

from __future__ import annotations

import platform
import time

import torch


def product_seconds(rows: int, width: int, dtype: torch.dtype = torch.float32, seconds: float = 1.0) -> float:
    """Seconds of one product (rows x width) (width x width): the mean over a second, after warming up."""
    A, B = torch.randn(rows, width, dtype=dtype), torch.randn(width, width, dtype=dtype)
    out = torch.empty_like(A)
    for _ in range(3):
        torch.mm(A, B, out=out)
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        torch.mm(A, B, out=out)
        count += 1
    return (time.perf_counter() - start) / count


def describe() -> str:
    return (
        f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"Python {platform.python_version()}"
    )
