"""Rows that come by pieces, from data that memory has no room for: arrays on disk, Arrow, or the user's own pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tikhonet.estimators.checks import check_magnitude
from tikhonet.estimators.rows import Floats
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.disk_rows import rows_of_file

LARGEST = 1e150
"""Numbers beyond it could not be squared."""


class Piece(NamedTuple):
    """Some rows: numbers, labels, and weights where there are any."""

    X: Floats
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
        """The pieces, each a matrix of finite numbers with a label for each row."""
        start, width = 0, None
        for X, y, weight in self.pieces(size):
            X, y = np.asarray(X), np.asarray(y)
            where = f"X in rows {start} to {start + len(X)}"
            if X.ndim != 2 or X.dtype.kind not in "buif" or X.shape[1] != (width or X.shape[1]) or not X.shape[1]:
                raise ArgumentError(
                    "X", f"{where} must be numbers with {width or 'some'} columns, got {X.dtype} {X.shape}"
                )
            X = X.astype(np.float64)
            if not np.isfinite(X).all():
                raise ArgumentError("X", f"{where} must be finite where memory_budget is given, got NaN or infinity")
            check_magnitude("X", X, LARGEST)
            if len(y) != len(X) or (weight is not None and len(weight) != len(X)):
                raise ArgumentError(
                    "y", f"y and sample_weight must have one number for each row of X, {where} have not"
                )
            start, width = start + len(X), X.shape[1]
            yield Piece(X, y, None if weight is None else np.asarray(weight, np.float64))
        if not start:
            raise ArgumentError("X", "X must have at least one row, got none")


def cut_up(piece: Piece, size: int) -> Iterator[Piece]:
    """A piece as smaller ones."""
    for start in range(0, len(piece.X), size):
        rows = slice(start, start + size)
        yield Piece(piece.X[rows], piece.y[rows], None if piece.weight is None else piece.weight[rows])


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
    read = rows_of_file(X).read if isinstance(X, np.memmap) else X.__getitem__

    def pieces(size: int) -> Iterator[Piece]:
        for start in range(0, len(X), size):
            rows = slice(start, start + size)
            yield Piece(read(rows), y[rows], None if weight is None else weight[rows])

    return Stream(pieces, len(X))


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
            columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in names]
            rows = slice(start, start + batch.num_rows)
            part = np.empty((batch.num_rows, len(names)))
            for k, column in enumerate(columns):
                if column.dtype.kind not in "buif":
                    raise ArgumentError("X", f"column {names[k]!r} of X must hold numbers where memory_budget is given")
                part[:, k] = column
            found = np.array(batch.column(label).to_pylist()) if labels is None else labels[rows]
            yield from cut_up(Piece(part, found, None if weight is None else np.asarray(weight)[rows]), size)
            start = rows.stop

    rows = X.metadata.num_rows if hasattr(X, "iter_batches") else None
    return Stream(pieces, rows or (X.count_rows() if hasattr(X, "count_rows") else len(X)), names)
