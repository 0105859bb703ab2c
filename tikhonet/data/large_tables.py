"""Files of rows that are read by pieces, for fits with a budget of memory: .npy and .parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.data.array_tables import MatrixFile, ParquetFile, lists_numbers
from tikhonet.data.dataset import DataError
from tikhonet.data.tables import Label, Table, TableFile, default_names, readable, whole_if_possible
from tikhonet.estimators.streams import numbers_of, rows_of
from tikhonet.network.extras import require
from tikhonet.problem.disk_rows import DiskRows

PIECE = 4096
KINDS = (".npy", ".parquet")


@dataclass(frozen=True)
class Pieces:
    """Rows on disk: a shape, and pieces of at most so many rows, in order, as often as they are asked for.

    A piece is a matrix of numbers, or a record batch of Arrow where a column holds anything else.
    """

    shape: tuple[int, int]
    pieces: Callable[[int], Iterator[Any]]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Pieces:
        """A share of the rows, as one of several processes takes it; all are read, and the others are left out."""
        start, stop, _ = rows.indices(len(self))

        def pieces(size: int) -> Iterator[Any]:
            at = 0
            for piece in self.pieces(size):
                inside = slice(max(0, start - at), max(0, min(len(piece), stop - at)))
                if inside.start < inside.stop:
                    yield rows_of(piece, inside)
                at += len(piece)
                if at >= stop:
                    return

        return Pieces((stop - start, self.shape[1]), pieces)


def stream_table(path: Path, label: Label = None) -> Table:
    """A table whose X is `Pieces`; the labels are in memory."""
    if path.suffix.lower() not in KINDS:
        raise DataError(
            f"{path} can only be read whole, which a budget of memory is against; save it as {' or '.join(KINDS)}"
        )
    if not path.is_file():
        raise DataError(f"{path} does not exist; name a file: {' or '.join(KINDS)}")
    with readable(path):
        return matrix(MatrixFile(path, label)) if path.suffix.lower() == ".npy" else parquet(ParquetFile(path, label))


def matrix(file: TableFile) -> Table:
    """A matrix of numbers, one of whose columns may hold the labels."""
    values = np.load(file.path, mmap_mode="r", allow_pickle=False)
    if values.ndim != 2 or 0 in values.shape or values.dtype.kind not in "buif" or not values.flags.c_contiguous:
        raise DataError(
            f"{file.path} must hold a matrix of numbers, row by row, got {values.dtype} of shape {values.shape}"
        )
    rows = DiskRows(file.path, len(values), values.shape[1], values.dtype, values.offset)
    names = default_names(rows.width)
    place = file.label_place(names)
    y = None

    def read(size: int) -> Iterator[NDArray[Any]]:
        for start in range(0, len(rows), size):
            part = rows.read(slice(start, start + size))
            yield part if place is None else np.delete(part, place, 1)

    if place is not None:
        columns = (rows.read(slice(start, start + PIECE))[:, place] for start in range(0, len(rows), PIECE))
        y = file.checked_labels(whole_if_possible(np.concatenate(list(columns)).astype(np.float64)), names[place])
    others = tuple(name for k, name in enumerate(names) if k != place)
    return Table(Pieces((len(rows), len(others)), read), y, others, None if place is None else names[place])


def parquet(file: TableFile) -> Table:
    """Columns with names, one of which may hold the labels."""
    pyarrow, library = require("pyarrow"), require("pyarrow.parquet")
    try:
        opened = library.ParquetFile(file.path)
        names = list(opened.schema_arrow.names)
        file.check_names(names)
        place = file.label_place(names)
        others = [name for k, name in enumerate(names) if k != place]
        if listed := [name for name in others if lists_numbers(opened.schema_arrow.field(name).type)]:
            raise DataError(
                f"{file.path}: column {listed[0]!r} holds lists, which cannot be read by pieces; save them as .npy"
            )
        y = None
        if place is not None:
            column = library.read_table(file.path, columns=[names[place]]).column(0)
            y = file.checked_labels(np.array(column.to_pylist()), names[place])
    except pyarrow.ArrowException as error:
        raise ValueError(error) from None

    def read(size: int) -> Iterator[Any]:
        for batch in opened.iter_batches(batch_size=size, columns=others, use_threads=False):
            yield numbers_of(batch)

    label = None if place is None else names[place]
    return Table(Pieces((opened.metadata.num_rows, len(others)), read), y, tuple(others), label, named=True)
