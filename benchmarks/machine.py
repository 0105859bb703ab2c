"""What the benchmarks share: the machine and its own matrix-product rate, images as tensors, and files of runs."""

from __future__ import annotations

import json
import platform
import time
from collections import Counter
from pathlib import Path

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tikhonet import data


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


class CountProducts(TorchDispatchMode):
    """Counts the multiplications of all matrix products that pass, by type."""

    def __init__(self) -> None:
        super().__init__()
        self.multiplications: Counter[torch.dtype] = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.addmm_):
            A, B = args[-2:]
            self.multiplications[A.dtype] += A.shape[0] * A.shape[1] * B.shape[1]
        return function(*args, **(kwargs or {}))


def describe() -> str:
    return (
        f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"Python {platform.python_version()}"
    )


def images(name: str, split: str, home: str | None) -> tuple[Tensor, Tensor]:
    """Rows in [0, 1] and labels of a data set of `tikhonet.data`."""
    found = data.load(name, split, home)
    return torch.from_numpy(found.X), torch.from_numpy(found.y)


def lines(store: Path) -> list[dict]:
    """The runs in a file, one a line."""
    return [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []


def save(store: Path, record: dict) -> None:
    store.parent.mkdir(parents=True, exist_ok=True)
    with store.open("a") as file:
        file.write(json.dumps(record | {"machine": describe()}) + "\n")


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def seconds_to(curve: list, error: float) -> float:
    """The seconds after which a curve of (epoch, seconds, error) is at an error."""
    return next((seconds for _, seconds, reached in curve if reached <= error), float("inf"))
