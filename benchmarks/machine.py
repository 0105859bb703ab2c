"""What the benchmarks share: the machine and its matrix-product rate, images as tensors, and files of runs.

A benchmark that is called with `--record` adds a line to `results/benchmarks/NAME/records.jsonl`, from which
`docs/tables.py` makes the tables of the documents.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import sys
import time
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tikhonet import data
from tikhonet.paper.records import VERSION, append_record, hardware, seal, versions

RESULTS = Path(__file__).resolve().parents[1] / "results" / "benchmarks"


def product_seconds(rows: int, width: int, dtype: torch.dtype = torch.float32) -> float:
    """CPU seconds of one product (rows x width) (width x width): the mean over a second, after warming up."""
    A, B = torch.randn(rows, width, dtype=dtype), torch.randn(width, width, dtype=dtype)
    out = torch.empty_like(A)
    for _ in range(3):
        torch.mm(A, B, out=out)
    count, start = 0, time.process_time()
    while time.process_time() - start < 1:
        torch.mm(A, B, out=out)
        count += 1
    return (time.process_time() - start) / count


class CountProducts(TorchDispatchMode):
    """Counts the multiplications of all matrix products that pass, by type."""

    def __init__(self) -> None:
        super().__init__()
        self.multiplications: Counter[torch.dtype] = Counter()

    @property
    def total(self) -> int:
        """The multiplications of all types."""
        return self.multiplications.total()

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


def arguments(description: str) -> argparse.ArgumentParser:
    """A parser with `--record`; its description is the first line of a benchmark's docstring."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="add a line to results/benchmarks")
    return parser


@dataclass(frozen=True)
class Measured:
    """What a run measured, with everything that its seconds depend on: of packages, those named too."""

    content: dict[str, Any]
    packages: tuple[str, ...] = ()

    def to_json(self) -> str:
        used = versions() | {package: version(package) for package in self.packages}
        return seal({"version": VERSION, **self.content, "versions": used, "hardware": hardware()})


def record(options: argparse.Namespace, values: dict[str, Any]) -> None:
    """Keep what a run measured and its command, if that was asked for; the benchmark is the script that runs."""
    if options.record:
        name = Path(sys.argv[0]).stem
        words = [word for word in sys.argv[1:] if word != "--record"]
        hidden = {at + 1 for at, word in enumerate(words) if word == "--data"}  # a folder of this machine
        shown = ["DIR" if at in hidden else word for at, word in enumerate(words)]
        command = shlex.join(["python", f"benchmarks/{name}.py", *shown])
        append_record(RESULTS / name, Measured({"benchmark": name, "command": command, "values": values}))


def lines(store: Path) -> list[dict]:
    """The runs in a file, one a line."""
    return [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []


def save(store: Path, record: dict) -> None:
    store.parent.mkdir(parents=True, exist_ok=True)
    with store.open("a") as file:
        file.write(json.dumps(record | {"machine": describe()}) + "\n")
