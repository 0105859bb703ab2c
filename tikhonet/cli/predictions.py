"""Predictions as files: .csv, .npy, .npz, .parquet."""

from __future__ import annotations

import csv
import importlib.util
import io
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from tikhonet.cli.names import nearest
from tikhonet.cli.outputs import check_output, save_or_rescue
from tikhonet.paper.records import write_whole

Arrays = dict[str, NDArray[Any]]
KINDS = (".csv", ".npy", ".npz", ".parquet")


def check_kind(path: Path, arrays: int) -> None:
    """Raise unless so many arrays can be written there."""
    check_output(path)
    kind = path.suffix.lower()
    if kind not in KINDS:
        allowed = [known for known in KINDS if arrays == 1 or known != ".npy"]
        raise typer.BadParameter(
            f"must end in {', '.join(allowed)}, got {path}{nearest(kind, allowed)}", param_hint="--output"
        )
    if kind == ".npy" and arrays > 1:
        raise typer.BadParameter("a .npy holds one array only; use .npz or .csv for more", param_hint="--output")
    if kind == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise typer.BadParameter(
            ".parquet needs pyarrow; pip install pyarrow, or use .npz or .csv", param_hint="--output"
        )


def save(path: Path, arrays: Arrays, classes: list[str]) -> None:
    content = encode(path.suffix.lower(), arrays, classes)
    save_or_rescue(lambda target: write_whole(target, content), path)


def encode(kind: str, arrays: Arrays, classes: list[str]) -> bytes:
    arrays = {name: np.array(values.tolist()) if values.dtype == object else values for name, values in arrays.items()}
    buffer = io.BytesIO()
    match kind:
        case ".csv":
            return csv_text(arrays, classes).encode(errors="surrogateescape")
        case ".npy":
            np.save(buffer, next(iter(arrays.values())), allow_pickle=False)
        case ".npz":
            np.savez(buffer, **arrays, **({"classes": np.array(classes)} if classes else {}))  # type: ignore[arg-type]
        case ".parquet":
            import pyarrow
            import pyarrow.parquet

            pyarrow.parquet.write_table(pyarrow.table(columns(arrays, classes)), buffer)
    return buffer.getvalue()


def columns(arrays: Arrays, classes: list[str]) -> Arrays:
    """One array for each column: `prediction`, `probability of 7`, `feature 12`."""
    found: Arrays = {}
    for name, values in arrays.items():
        if values.ndim == 1:
            found[name] = values
            continue
        ends = [f"of {label}" for label in classes] if name == "probability" else map(str, range(values.shape[1]))
        found |= {f"{name} {end}": values[:, k] for k, end in enumerate(ends)}
    return found


def csv_text(arrays: Arrays, classes: list[str]) -> str:
    found = columns(arrays, classes)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(found)
    writer.writerows(zip(*(values.tolist() for values in found.values()), strict=True))
    return text.getvalue()
