"""Tables from files of arrays: .npy, .npz, .parquet and IDX."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.data.binary_layouts import parse_idx, unpack
from tikhonet.data.dataset import DataError
from tikhonet.data.tables import Table, TableFile, default_names, frame_or_matrix, whole_if_possible
from tikhonet.model.reading import load_arrays
from tikhonet.network.extras import MissingExtraError, require


class MatrixFile(TableFile):
    """.npy: an array whose first axis counts the samples; the other axes are flattened."""

    kind = ".npy"

    def read(self) -> Table:
        with self.path.open("rb") as file:
            loaded = load_arrays(file)
            return self.from_matrix(loaded) if isinstance(loaded, np.ndarray) else self.from_arrays(loaded)

    def from_matrix(self, values: NDArray[Any]) -> Table:
        if values.ndim == 0 or len(values) == 0:
            raise DataError(f"{self.path} holds no rows")
        rows = values.reshape(len(values), -1)
        names = default_names(rows.shape[1])
        rows = self.real_rows(rows, names)
        place = self.label_place(names)
        y = None if place is None else whole_if_possible(rows[:, place])
        return self.table(rows, names, place, y)

    def with_labels(self, table: Table, labels: NDArray[Any], name: str) -> Table:
        """The table with labels that lie beside it."""
        if labels.ndim not in (1, 2) or len(labels) != len(table.X) or labels.size == 0:
            raise DataError(
                f"{self.path}: the labels {name} must be {len(table.X)} values, or rows of them, "
                f"got shape {labels.shape}"
            )
        flat = labels.ravel() if labels.shape[1:] == (1,) else labels
        return Table(table.X, self.checked_labels(flat, name), table.feature_names, name)

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Table:
        held = list(arrays)
        name = "y" if self.label is None and "y" in held else self.label
        if name is not None and name not in held:
            raise DataError(f"{self.path} has no array {name!r} of labels; it holds {', '.join(held)}")
        others = [other for other in held if other != name]
        chosen = "X" if "X" in others else others[0] if len(others) == 1 else None
        if chosen is None:
            raise DataError(f"{self.path} must hold an array X (and y, if there are labels), got {', '.join(held)}")
        table = MatrixFile(self.path).from_matrix(arrays[chosen])
        return table if name is None else self.with_labels(table, arrays[str(name)], str(name))


class ArraysFile(MatrixFile):
    """.npz: an array X, or the only one, and an array of labels."""

    kind = ".npz"


class ParquetFile(TableFile):
    """.parquet: columns with names; one whose rows are lists of so many numbers, as embeddings are, counts as many."""

    kind = ".parquet"

    def read(self) -> Table:
        try:
            pyarrow, parquet = require("pyarrow"), require("pyarrow.parquet")
        except MissingExtraError as error:
            raise DataError(f"{self.path}: {error}, or save it as .csv or .npz") from None
        try:
            # The names alone first: pyarrow cannot read columns of one name.
            names = list(parquet.read_schema(self.path).names)
            self.check_names(names)
            columns = parquet.read_table(self.path)
        except pyarrow.ArrowException as error:
            raise ValueError(error) from None
        place = self.label_place(names)
        if not names or columns.num_rows == 0:
            raise DataError(f"{self.path} holds no rows or no columns")
        y, label = None, None
        arrays: dict[str, NDArray[Any]] = {}
        if place is not None:
            label = names[place]
            y = self.checked_labels(np.array(columns.column(place).to_pylist()), label)
            columns, names = columns.remove_column(place), names[:place] + names[place + 1 :]
        for name, column in zip(names, columns.columns, strict=True):
            found = self.expanded(name, column) if lists_numbers(column.type) else {name: decoded(column).to_numpy()}
            if len(found) > 1:
                self.check_names([*arrays, *names, *found])
            arrays |= found
            if self.wanted is None and any(values.dtype.kind not in "buif" for values in found.values()):
                raise DataError(
                    f"{self.path}, column {name!r} must hold numbers, got {column.type}; "
                    "convert it, remove it, or name it as the label if it is one"
                )
        if self.wanted is not None:
            return Table(frame_or_matrix(arrays), y, tuple(arrays), label, named=True)
        rows = self.real_rows(np.column_stack(list(arrays.values())), list(arrays))
        return Table(rows, y, tuple(arrays), label, named=True)

    def expanded(self, name: str, column: Any) -> dict[str, NDArray[Any]]:
        """A column of lists of one length as columns of numbers: name0, name1 and so on."""
        counted = require("pyarrow.compute").list_value_length(column).to_pylist()
        lengths = np.array([-1 if length is None else length for length in counted])
        if (wrong := np.flatnonzero(lengths != lengths[0])).size or lengths[0] < 1:
            row = int(wrong[0]) if wrong.size else 0
            held = "no list" if lengths[row] < 0 else f"{lengths[row]}"
            raise DataError(
                f"{self.path}, row {row + 1}: column {name!r} must hold lists of one length, here "
                f"{max(1, lengths[0])} numbers, got {held}; correct the row or remove it"
            )
        flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
        return {f"{name}{k}": values for k, values in enumerate(flat.reshape(len(lengths), -1).T)}


def lists_numbers(kind: Any) -> bool:
    """Whether an Arrow type is that of lists of numbers, of fixed length or not."""
    types = require("pyarrow").types
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(lists and (types.is_integer(kind.value_type) or types.is_floating(kind.value_type)))


def decoded(column: Any) -> Any:
    """A column of categories as their values: NumPy would read a missing one as the last of the others."""
    kind = column.type
    return column.cast(kind.value_type) if hasattr(kind, "value_type") and hasattr(kind, "index_type") else column


class IdxFile(MatrixFile):
    """IDX, raw or packed: images, whose labels are taken from the file of labels of the same name."""

    kind = "IDX (idx in its name, raw or .gz)"

    @classmethod
    def fits(cls, path: Path) -> bool:
        others = (format_ for format_ in cls.formats if format_ is not cls)
        return "idx" in path.name.lower() and not any(other.fits(path) for other in others)

    def read(self) -> Table:
        table = self.from_matrix(parse_idx(unpack(self.path.read_bytes())))
        beside = self.path.with_name(self.path.name.replace("images-idx3", "labels-idx1"))
        if self.label is not None or beside == self.path or not beside.is_file():
            return table
        return self.with_labels(table, parse_idx(unpack(beside.read_bytes())), beside.name)
