"""The user's own files as tables: .npy, .npz, .csv, .parquet and IDX. Nothing in a file is ever executed."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.data.csv_table import read_csv
from tikhonet.data.errors import DataError
from tikhonet.data.formats import UNREADABLE, parse_idx, unpack
from tikhonet.data.home import StrPath
from tikhonet.data.table import (
    Label,
    Table,
    as_real,
    check_finite,
    check_names,
    from_matrix,
    is_missing,
    locate,
    whole_if_possible,
)

KINDS = ".npy, .npz, .csv, .parquet or IDX (idx in its name, raw or .gz)"
MALFORMED = (*UNREADABLE, ValueError, MemoryError, RuntimeError, TokenError, zipfile.BadZipFile)
"""What the parsers of numpy and zipfile raise on damaged files, found by damaging some."""


def read_table(path: StrPath, label: Label = None, header: bool | None = None, text_labels: bool = False) -> Table:
    """X, y and the names of the columns.

    label        the column of the labels by name or index, in .npz the name of their array; None leaves y out, but for
                 .npz, which then takes its array `y`, and for IDX images, which take the IDX labels of the same name
    header       of .csv: whether the first row holds names; None takes it for such if it holds no number
    text_labels  of .csv: leave labels as they are written, where otherwise they become numbers if all of them are such
    """
    path = Path(path).expanduser()
    if not path.is_file():
        state = "is a folder; use read_folder for images, or" if path.is_dir() else "does not exist;"
        raise DataError(f"{path} {state} name a file: {KINDS}")
    try:
        return _read(path, label, header, text_labels)
    except DataError:
        raise
    except MALFORMED as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path} cannot be read: {reason}; use another copy or another format") from None


def _read(path: Path, label: Label, header: bool | None, text_labels: bool) -> Table:
    match path.suffix.lower():
        case ".csv":
            return read_csv(path, label, header, text_labels)
        case ".npy" | ".npz":
            return _read_numpy(path, label)
        case ".parquet":
            return _read_parquet(path, label)
    if "idx" in path.name.lower():
        return _read_idx(path, label)
    raise DataError(f"{path} is of an unknown kind; it must be {KINDS}")


def _read_numpy(path: Path, label: Label) -> Table:
    # Opened here, because numpy leaves a damaged .npz open.
    with path.open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        return from_matrix(loaded, path, label) if isinstance(loaded, np.ndarray) else _from_npz(loaded, path, label)


def _from_npz(arrays: Mapping[str, NDArray[Any]], path: Path, label: Label) -> Table:
    held = list(arrays)
    name = "y" if label is None and "y" in held else label
    if name is not None and name not in held:
        raise DataError(f"{path} has no array {name!r} of labels; it holds {', '.join(held)}")
    others = [other for other in held if other != name]
    chosen = "X" if "X" in others else others[0] if len(others) == 1 else None
    if chosen is None:
        raise DataError(f"{path} must hold an array X (and y, if there are labels), got {', '.join(held)}")
    table = from_matrix(arrays[chosen], path, None)
    return table if name is None else _with_labels(table, arrays[str(name)], str(name), path)


def _read_idx(path: Path, label: Label) -> Table:
    table = from_matrix(parse_idx(unpack(path.read_bytes())), path, label)
    beside = path.with_name(path.name.replace("images-idx3", "labels-idx1"))
    if label is not None or beside == path or not beside.is_file():
        return table
    return _with_labels(table, parse_idx(unpack(beside.read_bytes())), beside.name, path)


def _with_labels(table: Table, labels: NDArray[Any], name: str, path: Path) -> Table:
    if labels.ndim not in (1, 2) or len(labels) != len(table.X) or labels.size == 0:
        raise DataError(
            f"{path}: the labels {name} must be {len(table.X)} values, or rows of them, got shape {labels.shape}"
        )
    flat = labels.ravel() if labels.shape[1:] == (1,) else labels
    return Table(table.X, _checked_labels(flat, path, name), table.feature_names, name)


def _read_parquet(path: Path, label: Label) -> Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(f"{path} needs pyarrow to be read; pip install pyarrow, or save it as .csv or .npz") from None
    try:
        # The names alone first: pyarrow cannot read columns of one name.
        names = list(pyarrow.parquet.read_schema(path).names)
        check_names(names, path)
        columns = pyarrow.parquet.read_table(path)
    except pyarrow.ArrowException as error:
        raise ValueError(error) from None
    place = locate(label, names, path)
    features = [k for k in range(len(names)) if k != place]
    if not features or columns.num_rows == 0:
        raise DataError(f"{path} holds no rows or no columns besides the label")
    arrays = []
    for k in features:
        values = columns.column(k).to_numpy()
        if values.dtype.kind not in "buif":
            raise DataError(
                f"{path}, column {names[k]!r} must hold numbers, got {columns.schema.field(k).type}; "
                "convert it, remove it, or name it as the label if it is one"
            )
        arrays.append(values)
    X = as_real(np.column_stack(arrays), path)
    others = tuple(names[k] for k in features)
    check_finite(X, path, others)
    if place is None:
        return Table(X, None, others, named=True)
    labels = np.array(columns.column(place).to_pylist())
    return Table(X, _checked_labels(labels, path, names[place]), others, names[place], named=True)


def _checked_labels(labels: NDArray[Any], path: Path, name: str) -> NDArray[Any]:
    """Labels as whole numbers, real numbers or text, none missing."""
    if labels.dtype.kind == "U":
        missing = [row for row, label in enumerate(labels.reshape(len(labels), -1)) if any(map(is_missing, label))]
        if missing:
            raise DataError(
                f"{path}, row {missing[0] + 1}: the labels {name} must not be missing or infinite, got "
                f"{labels[missing[0]]}; fill it in or remove the row"
            )
        return labels
    if labels.dtype.kind not in "buif":
        raise DataError(f"{path}: the labels {name} must be numbers or text, none missing, got dtype {labels.dtype}")
    check_finite(labels.reshape(len(labels), -1), path, [name] * labels[0].size)
    return labels.astype(np.int64) if labels.dtype.kind in "bui" else whole_if_possible(labels)
