"""Rows that come by pieces, from data that memory has no room for: arrays on disk, Arrow, or the user's own pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tikhonet.estimators.rows import Floats
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.disk_rows import rows_of_file

NUMBERS = "int", "uint", "float", "double", "halffloat"
"""How the types of columns of numbers begin in Arrow."""


class Piece(NamedTuple):
    """Some rows: a matrix or a frame, labels, and weights where there are any."""

    X: Any
    y: NDArray[Any]
    weight: Floats | None = None


@dataclass(frozen=True)
class Stream:
    """Pieces of rows, as often as they are asked for, always in the same order.

    `rows` is their number, where that is known before they are read, and `names` those of the columns.
    """

    pieces: Callable[[int], Iterator[Piece]]
    """Pieces of at most so many rows."""
    rows: int | None = None
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, X: Any, y: Any, weight: Any = None) -> Stream:
        """The stream of an array (a map of a file too), a data set or table of Arrow, or an iterable of pieces."""
        if hasattr(X, "pieces"):
            return piece_stream(X, y, weight)
        if hasattr(X, "iter_batches") or hasattr(X, "to_batches"):
            return arrow_stream(X, y, weight)
        if hasattr(X, "shape"):
            return array_stream(X, y, weight)
        if y is not None or weight is not None or iter(X) is X:
            raise ArgumentError(
                "X",
                "X must be an array, a data set of Arrow, or an iterable of pieces (X, y) or (X, y, weight), which "
                f"can be iterated twice and has no y or sample_weight beside it, got {type(X).__name__}",
            )
        return cls(lambda size: (cut for piece in X for cut in cut_up(Piece(*piece), size)))

    def checked(self, size: int) -> Iterator[Piece]:
        """The pieces, each with a label for each row."""
        start = 0
        for X, y, weight in self.pieces(size):
            y = np.asarray(y)
            if len(y) != len(X) or (weight is not None and len(weight) != len(X)):
                where = f"X in rows {start} to {start + len(X)}"
                raise ArgumentError(
                    "y", f"y and sample_weight must have one number for each row of X, {where} have not"
                )
            start += len(X)
            if len(X):
                yield Piece(X, y, np.ones(len(X)) if weight is None else np.asarray(weight, np.float64))
        if not start:
            raise ArgumentError("X", "X must have at least one row, got none")


def cut_up(piece: Piece, size: int) -> Iterator[Piece]:
    """A piece as smaller ones."""
    for start in range(0, len(piece.X), size):
        rows = slice(start, start + size)
        yield Piece(rows_of(piece.X, rows), piece.y[rows], None if piece.weight is None else piece.weight[rows])


def rows_of(X: Any, rows: slice) -> Any:
    """Some rows of a matrix, of one in a file, or of a frame."""
    if hasattr(X, "read"):
        return X.read(rows)
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X.slice(rows.start, rows.stop - rows.start) if hasattr(X, "column_names") else X[rows]


def numbers_of(batch: Any) -> Any:
    """A record batch of Arrow as a matrix, NaN where a number is missing, where all its columns hold numbers."""
    if not all(str(kind).startswith(NUMBERS) for kind in batch.schema.types):
        return batch
    part = np.empty((batch.num_rows, batch.num_columns))
    for k, column in enumerate(batch.columns):
        part[:, k] = column.to_numpy(zero_copy_only=False)
    return part


def piece_stream(X: Any, y: Any, weight: Any) -> Stream:
    """Pieces of X, of whose rows the labels are known beside it."""

    def pieces(size: int) -> Iterator[Piece]:
        start = 0
        for part in X.pieces(size):
            rows = slice(start, start + len(part))
            yield Piece(part, y[rows], None if weight is None else weight[rows])
            start = rows.stop

    return Stream(pieces, len(X))


def array_stream(X: Any, y: Any, weight: Any) -> Stream:
    """Rows of an array; of a map of a file they are read from the file, so that they do not stay in memory."""
    y = np.asarray(y)
    if y.ndim != 1 or len(y) != len(X) or len(X.shape) != 2:
        raise ArgumentError(
            "y", f"X must be a matrix and y a vector of as many rows, got shapes {X.shape} and {y.shape}"
        )
    whole = Piece(rows_of_file(X) if isinstance(X, np.memmap) else X, y, weight)
    return Stream(partial(cut_up, whole), len(X))


def arrow_stream(X: Any, y: Any, weight: Any) -> Stream:
    """Record batches of a Parquet file, a data set or a table; y may be the name of a column."""
    schema = X.schema_arrow if hasattr(X, "schema_arrow") else X.schema
    label = y if isinstance(y, str) else None
    if label is not None and label not in schema.names:
        raise ArgumentError(
            "y", f"y must be labels or the name of a column of X, got {label!r}; it has {schema.names[:10]}"
        )
    names = tuple(name for name in schema.names if name != label)
    labels = None if label is not None else np.asarray(y)

    def pieces(size: int) -> Iterator[Piece]:
        start = 0
        options = {} if hasattr(X, "num_rows") and not hasattr(X, "count_rows") else {"batch_size": size}
        for batch in X.iter_batches(batch_size=size) if hasattr(X, "iter_batches") else X.to_batches(**options):
            rows = slice(start, start + batch.num_rows)
            found = np.array(batch.column(label).to_pylist()) if labels is None else labels[rows]
            part = Piece(batch.select(names), found, None if weight is None else np.asarray(weight)[rows])
            for piece in cut_up(part, size):
                yield piece._replace(X=numbers_of(piece.X))
            start = rows.stop

    rows = X.metadata.num_rows if hasattr(X, "iter_batches") else None
    return Stream(pieces, rows or (X.count_rows() if hasattr(X, "count_rows") else len(X)), names)
