"""Where matrices with a row for every sample are kept: in memory, or in maps of files that need not stay there.

A map is an ordinary tensor, so that solvers make no difference. Pages that were read or written count as memory of
the process until they are given back, which `release` does after each chunk of rows. Their content stays in the file.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor

from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import tensor
from tikhonet.problem.disk_rows import rows_of_file
from tikhonet.problem.row_blocks import in_aligned_memory

PIECE = 1024
"""Rows that are copied to a file at a time."""


class RowStore:
    """Matrices in memory."""

    def empty(self, rows: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """A matrix to be filled."""
        return torch.empty(rows, width, dtype=dtype, device=device)

    def keep(self, name: str, source: Any) -> Tensor:
        """The matrix of an argument: a tensor, or an array as a copy."""
        return in_aligned_memory(tensor(source, name))

    def release(self) -> None:
        """Give back what memory holds of matrices that are in files."""

    def __repr__(self) -> str:
        return "IN_MEMORY"


IN_MEMORY = RowStore()


class MappedStore(RowStore):
    """Matrices in files of the folder of temporary files, each gone with the last tensor that shows it."""

    def __repr__(self) -> str:
        return "MappedStore()"

    def __init__(self) -> None:
        self._maps: WeakSet[mmap.mmap] = WeakSet()

    def empty(self, rows: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        found = map_of(max(1, rows * width) * dtype.itemsize)
        self._maps.add(found)
        return torch.frombuffer(found, dtype=dtype, count=rows * width).view(rows, width)

    def keep(self, name: str, source: Any) -> Tensor:
        """A copy in a file, made by pieces; of a map of a file, or of `DiskRows`, no more than a piece is in memory."""
        if isinstance(source, np.memmap):
            source = rows_of_file(source)
        first = tensor(source[:1], name)
        if first.ndim != 2 or not len(source) or first.device.type != "cpu":
            place = "" if first.device.type == "cpu" else f" on {first.device}"
            shape = (len(source), *first.shape[1:])
            raise ArgumentError(name, f"{name} must be a matrix in memory or on disk, got shape {shape}{place}")
        kept = self.empty(len(source), first.shape[1], first.dtype, first.device)
        for start in range(0, len(source), PIECE):
            rows = slice(start, start + PIECE)
            kept[rows] = tensor(source[rows], name)
            self.release()
        return kept

    def release(self) -> None:
        if hasattr(mmap, "MADV_DONTNEED"):
            for found in list(self._maps):
                found.madvise(mmap.MADV_DONTNEED)


def map_of(size: int) -> mmap.mmap:
    """A map of a new file without a name.

    Its room on the disk is taken now: a full disk would kill the process later, when a page has no place.
    """
    folder = tempfile.gettempdir()
    with tempfile.TemporaryFile(prefix="tikhonet-") as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
        except OSError as error:
            reason = f"{error.strerror}: {size / 1e6:.0f} MB more were needed; make room, or set TMPDIR"
            raise OSError(error.errno, reason, folder) from None
        return mmap.mmap(file.fileno(), size)
