"""Rows in fixed blocks, whose sums are added in a fixed order: so sums have the same bits wherever they are computed.

A block is summed up by one thread, and the blocks' sums are added in pairs, pairs of pairs and so on. Which process or
thread has a block is of no matter then. Floating-point sums in any other order would differ in their last bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

MOST = 8
"""Blocks that all rows together are cut into, at most, and so processes that can share them."""
FEWEST_ROWS = 256
"""Rows of a block, at least: products of fewer rows are slow."""
ALIGNED = 16
"""Blocks begin at multiples of so many rows: BLAS may add in another order where memory is aligned in another way."""
LINE = 64
"""Bytes at whose multiples the memory of tensors begins."""

Part = TypeVar("Part")
Sum = TypeVar("Sum")
_pool: ContextVar[ThreadPoolExecutor | None] = ContextVar("pool", default=None)


class Place(NamedTuple):
    """Where a process's rows are among all: the first of them, the number of all, and its blocks of its own rows."""

    start: int
    total: int
    blocks: tuple[slice, ...]


def row_blocks(rows: int) -> tuple[slice, ...]:
    """The blocks of so many rows, of nearly equal sizes; their number is a power of 2."""
    count, units = 1, -(-rows // ALIGNED)
    while count < MOST and rows >= 2 * count * FEWEST_ROWS:
        count *= 2
    edges = [min(rows, ALIGNED * (units * k // count)) for k in range(count + 1)]
    return tuple(slice(start, stop) for start, stop in pairwise(edges))


def added_in_pairs(parts: Iterable[Part], add: Callable[[Part, Part], Part]) -> Part:
    """The sum of the parts: neighbours are added, then neighbours of these sums, and so on.

    Each sum is made as soon as both of its parts are there, so that of 2^k parts at most k + 1 are kept at a time.
    """
    sums: list[tuple[int, Part]] = []
    for part in parts:
        size = 1
        while sums and sums[-1][0] == size:
            part, size = add(sums.pop()[1], part), 2 * size
        sums.append((size, part))
    _, total = sums.pop()
    while sums:
        total = add(sums.pop()[1], total)
    return total


def in_aligned_memory(matrix: Tensor) -> Tensor:
    """The matrix, copied where its memory does not begin as that of a new tensor does."""
    matrix = matrix.contiguous()
    return matrix.clone() if matrix.device.type == "cpu" and matrix.data_ptr() % LINE else matrix


@contextmanager
def one_thread_a_block(wanted: bool = True) -> Iterator[None]:
    """Inside, an operation of torch's has one thread, and blocks of rows are worked on by as many as torch had.

    Products of several threads add up in an order that depends on their number. torch's number of threads is that of
    the whole process while this lasts.
    """
    count = torch.get_num_threads()
    if not wanted or count == 1:
        yield
        return
    torch.set_num_threads(1)
    with ThreadPoolExecutor(count) as pool:
        token = _pool.set(pool)
        try:
            yield
        finally:
            _pool.reset(token)
            torch.set_num_threads(count)


def of_each(work: Callable[[slice], Sum], blocks: Sequence[slice]) -> Iterator[Sum]:
    """The work on every block, in their order."""
    pool = _pool.get()
    if pool is None or len(blocks) == 1:
        return map(work, blocks)
    return pool.map(torch.no_grad()(work), blocks)
