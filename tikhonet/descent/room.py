"""What a full-batch run with its samples in maps of files needs of memory and disk, counted before anything is made.

Of the samples only chunks are in memory, one for each thread that works on them. What remains are the sums over the
samples, the matrices that are made of them, and a few numbers for each row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from tikhonet.problem.memory_budget import check_budget
from tikhonet.problem.objective import Problem
from tikhonet.problem.row_blocks import row_blocks

DRAWN = 4096
"""Rows of U that are drawn at random at a time: other ranks' rows are drawn too, and forgotten."""
OWN, EXACT = 11, 8
"""Matrices like all layers of a chunk that are made of it at once, in the type of X and in float64."""
SUMS, SQUARES = 8, 8
"""Sums of blocks of rows that are kept at a time, and matrices like the largest Gram matrix that solving makes."""
LAYERS = 4
"""Matrices like all hidden layers that a run has at most: U, the minimisers, relaxed ones, and those of the iteration
before or the last guess."""
SMALLEST = 64
"""Rows of a chunk, at least: the products of fewer are slow."""


@dataclass(frozen=True)
class Room:
    """What a run may use and what it needs, in bytes above those that the process has at its begin."""

    budget: float
    needed: float
    disk: float
    """What its files take at most."""
    chunk_rows: int
    """Rows that are worked on at a time: as many as were asked for, or as there is room for."""

    @classmethod
    def of(
        cls, problem: Problem, rows: int, outputs: int, dtype: torch.dtype, chunk_rows: int, budget: float, threads: int
    ) -> Room:
        """The room of a run; raises where the budget is too small."""
        needed = memory_needed(problem, rows, outputs, dtype, chunk_rows, threads)
        while needed > budget and chunk_rows >= 2 * SMALLEST:
            chunk_rows //= 2
            needed = memory_needed(problem, rows, outputs, dtype, chunk_rows, threads)
        check_budget(budget, needed, rows, "fewer rows, narrower layers or fewer threads")
        widths = problem.network.widths
        numbers = widths[0] + outputs + LAYERS * sum(widths[1:])
        return cls(budget, needed, float(rows * dtype.itemsize * numbers), chunk_rows)

    def __str__(self) -> str:
        needed, budget, disk = (math.ceil(part / 1e6) for part in (self.needed, self.budget, self.disk))
        return f"{needed:,} MB of memory of {budget:,} allowed, {disk:,} MB of disk"


def memory_needed(
    problem: Problem, rows: int, outputs: int, dtype: torch.dtype, chunk_rows: int, threads: int
) -> float:
    """Bytes that a run takes whose samples are in files, so many rows of which each thread works on at a time."""
    network, number = problem.network, dtype.itemsize
    inputs = [sum(network.stacked_widths(n)) for n in network.hidden] + [network.widths[-1]]
    matrices = sum(width * network.widths[n] for width, n in zip(inputs, network.hidden, strict=False))
    sums = matrices + sum(width**2 for width in inputs) + network.widths[-1] * outputs
    layers = sum(network.widths) + outputs + 1
    most = max(block.stop - block.start for block in row_blocks(rows))
    chunk = min(chunk_rows, most) * layers * (OWN * number + EXACT * 8)
    fixed = 8 * (SUMS * sums + SQUARES * max(inputs) ** 2) + 4 * number * rows
    drawn = min(DRAWN, rows) * max(network.widths) * (16 + 2 * number)
    return float(fixed + max(threads * chunk, drawn))
