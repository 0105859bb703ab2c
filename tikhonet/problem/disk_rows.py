"""Rows that stay on disk: a matrix in a file, read by pieces into tensors.

The file is read, not mapped: pages of a map count as memory of the process as soon as they are touched, and a limit
on its addresses counts the whole map.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DiskRows:
    """Some rows of a matrix in a file, row by row; `places` and `columns` say which numbers of it, None all of them.

    It has what batches ask of a tensor: a length, a shape, a type, a device, and rows by slices or by numbers.
    """

    path: Path
    count: int
    width: int
    kind: np.dtype[Any]
    offset: int = 0
    places: Places | None = None
    device: torch.device = torch.device("cpu")
    """Where batches of these rows are to be."""
    columns: Places | None = None

    def __len__(self) -> int:
        return self.count if self.places is None else len(self.places)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.width if self.columns is None else len(self.columns)

    @property
    def dtype(self) -> torch.dtype:
        return torch.from_numpy(np.empty(0, self.kind)).dtype

    def take(self, index: NDArray[np.intp]) -> DiskRows:
        """Some of these rows, still on disk."""
        return replace(self, places=index if self.places is None else self.places[index])

    def __getitem__(self, rows: Any) -> Tensor:
        return torch.from_numpy(self.read(rows))

    def read(self, rows: Any) -> NDArray[Any]:
        """Rows by a slice, or by their numbers."""
        found = self._read(rows)
        return found if self.columns is None else found.take(self.columns, 1)

    def _read(self, rows: Any) -> NDArray[Any]:
        with self.path.open("rb", buffering=0) as file:
            if isinstance(rows, slice) and self.places is None:
                start, stop, _ = rows.indices(self.count)
                found = np.empty((max(0, stop - start), self.width), self.kind)
                self._fill(file, memoryview(found.data).cast("B"), start)
                return found
            if self.places is not None:
                rows = self.places[rows]
            found = np.empty((len(rows), self.width), self.kind)
            size, view = self.width * self.kind.itemsize, memoryview(found.data).cast("B")
            order = np.argsort(rows)  # forward through the file
            for place, row in zip(order.tolist(), np.asarray(rows)[order].tolist(), strict=True):
                self._fill(file, view[place * size : (place + 1) * size], row)
            return found

    def _fill(self, file: FileIO, view: memoryview, row: int) -> None:
        at, done = self.offset + row * self.width * self.kind.itemsize, 0
        while done < len(view):
            if hasattr(os, "preadv"):
                got = os.preadv(file.fileno(), [view[done:]], at + done)
            else:
                file.seek(at + done)
                got = file.readinto(view[done:])
            if not got:
                raise OSError(0, "is shorter than its rows; was it changed meanwhile?", str(self.path))
            done += got


def rows_of_file(X: np.memmap[Any, Any]) -> DiskRows | np.memmap[Any, Any]:
    """The rows of the file that a map shows, which are read and not mapped; the map where it has parts of rows only."""
    whole = X.ndim == 2 and X.flags.c_contiguous and X.filename is not None and X.base is not None
    if not whole or isinstance(X.base, np.memmap):
        return X
    return DiskRows(Path(X.filename or ""), len(X), X.shape[1], X.dtype, getattr(X, "offset", 0))
