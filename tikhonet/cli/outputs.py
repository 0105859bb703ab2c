"""Results of a command: text or JSON on stdout, and files that are checked before the work and written whole."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from tikhonet.cli.mistakes import Failure, OptionError, nearest, visible
from tikhonet.hashing.neighbours import UNITS
from tikhonet.model.storage import write_atomically
from tikhonet.network.extras import MissingExtraError, require
from tikhonet.trainer.training import best_epoch

Arrays = dict[str, NDArray[Any]]
Measures = dict[str, Any]
MANY = (".csv", ".npz", ".parquet")
"""Endings of files that hold several arrays."""
WIDTH = 160
"""Columns where there is no terminal to fit into."""
FORMULA = re.compile(r"[=@\t\r]|[+-](?!\d*\.?\d*(e[+-]?\d+)?$)", flags=re.IGNORECASE)
"""The beginning of text that spreadsheets run; signs alone and numbers are none."""


class Answer:
    """The result of a command: one document for machines, text and tables for people, and the exit code."""

    def __init__(self, document: Mapping[str, Any], *human: Any, exit_code: int = 0) -> None:
        self.document, self.human, self.exit_code = document, human, exit_code

    def show(self, as_json: bool) -> None:
        if as_json:
            text = json.dumps(self.document, default=lambda it: it.tolist() if hasattr(it, "tolist") else str(it))
            print(json.dumps(json.loads(text, parse_constant=lambda _: None)))  # no NaN, which JSON does not know
            return
        console = require("rich.console").Console(width=None if sys.stdout.isatty() else WIDTH, emoji=False)
        for part in self.human:
            if isinstance(part, str):  # as it is, whatever names of files it holds, but for what a terminal would obey
                print(visible(part) if sys.stdout.isatty() else part)
            else:
                console.print(part, markup=False, highlight=False)


def facts(**values: Any) -> str:
    """Lines of a name and a value; a name's underscores are spaces."""
    width = max(map(len, values))
    return "\n".join(f"{name.replace('_', ' '):<{width}}  {value}" for name, value in values.items())


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str | None = None) -> Any:
    """A table of rich; columns whose cells are all numbers stand to the right."""
    made = require("rich.table").Table(title=title, title_justify="left")
    for place, heading in enumerate(columns):
        numeric = all(str(row[place]).replace(".", "").isdigit() or row[place] == "." for row in rows)
        made.add_column(visible(heading), justify="right" if numeric else "left")
    for row in rows:
        made.add_row(*("" if cell is None else visible(str(cell)) for cell in row))
    return made


def errors(task: str, y: NDArray[Any], predicted: NDArray[Any]) -> Measures:
    """Wrong classes, or for numbers the size of the errors and R2.

    R2 is 1 where predictions are exact and 0 where they are no better than the mean of y.
    """
    if task == "classification":
        wrong = int(np.sum(predicted != y))
        return {"rows": len(y), "wrong": wrong, "error_percent": 100 * wrong / len(y)}
    residual = np.asarray(y, float) - predicted
    squares, spread = np.square(residual), np.square(y - np.mean(y, axis=0)).sum()
    return {
        "rows": len(y),
        "rmse": float(np.sqrt(squares.mean())),
        "mae": float(np.abs(residual).mean()),
        "r2": float(1 - squares.sum() / spread) if spread else math.nan,
    }


def held_out(task: str, estimator: Any) -> dict[str, float]:
    """How good the trained network, with its own linear map in place of the head, was on rows held out of training.

    These chose the epoch, so they are a little better than rows that nobody saw. Of a hasher, they chose the share of
    bits for neighbours.
    """
    if task == "hash":
        taken = estimator.mixture_.taken(estimator.n_bits)
        return taken.to_dict() if taken else {}
    history = estimator.history_
    if estimator.early_stopping is False or not isinstance(history, list) or not history:
        return {}
    best = best_epoch(history)
    if best.validation_loss == best.loss:  # nothing was held out
        return {}
    if task == "classification":
        return {"error_percent": 100 * best.validation_error}
    # The targets were standardised, so that the squared loss of an output is half of what it leaves of the variance.
    return {"r2": 1 - 2 * best.validation_loss / estimator.model_.outputs} if estimator.loss == "squared" else {}


def headline(measures: Measures) -> str:
    """The measures of classes, numbers or codes in one line."""
    if "n_bits" in measures:
        tied = measures["tied"]
        return (
            f"{measures['distinct']:,} distinct codes of {measures['n_bits']} bits "
            f"(entropy {measures['entropy']:.1f} bits)"
            + ("" if tied is None else f", the first five neighbours tied for {100 * tied:.1f}%")
            + f", bit balance {measures['balance']:.3f}, correlation between bits {measures['correlation']:.3f}"
            + (f", neighbours in units {UNITS[measures['mixture']['units']]}" if "mixture" in measures else "")
        )
    if "recall" in measures:
        return (
            f"label mAP {measures['mean_average_precision']:.4f}, neighbours found {measures['recall']:.4f}, with "
            f"{100 * measures['structure']:.0f}% of the bits for neighbours"
        )
    if "wrong" in measures:
        return f"error {measures['error_percent']:.2f}% ({measures['wrong']} of {measures['rows']:,} wrong)"
    if "rows" not in measures:
        return f"error {measures['error_percent']:.2f}%" if "error_percent" in measures else f"R2 {measures['r2']:.4f}"
    return f"R2 {measures['r2']:.4f}, rms error {measures['rmse']:.4g}, mean absolute error {measures['mae']:.4g}"


def output_option(text: str, *names: str) -> Any:
    """The option of the file to write."""
    names = names or ("--output", "-o")

    def check(path: Path | None) -> Path | None:
        return path and check_output(path, names[0])

    return typer.Option(*names, help=text, callback=check, metavar="FILE")


def check_output(path: Path, option: str = "--output") -> Path:
    """Raise unless a file can be made there, so that no work is lost for it."""
    if path.is_dir():
        raise OptionError(option, f"must be a file, got the folder {path}; add a file name")
    if path.exists() and not path.is_file():
        raise OptionError(option, f"must be an ordinary file, got the device {path}")
    if not path.parent.is_dir():
        raise OptionError(option, f"the folder {path.parent} does not exist; make it first")
    if not os.access(path.parent, os.W_OK):
        raise OptionError(option, f"the folder {path.parent} cannot be written to; choose another")
    return path


def check_ending(path: Path, allowed: tuple[str, ...], option: str = "--output") -> None:
    """Raise unless the file has one of these endings."""
    kind = path.suffix.lower()
    if kind == ".npy" and kind not in allowed:
        raise OptionError(option, "a .npy holds one array only; use .npz or .csv for more")
    if kind not in allowed:
        listed = (" or " if len(allowed) == 2 else ", ").join(allowed)
        raise OptionError(option, f"must end in {listed}, got {path}{nearest(kind, allowed)}")
    if kind == ".parquet":
        try:
            require("pyarrow")
        except MissingExtraError as error:
            raise OptionError("--output", f"{error}, or use .npz or .csv") from None


def save_or_rescue(save: Callable[[Path], None], path: Path) -> None:
    """Save; where that fails, keep the result of the work in the system's temporary folder instead."""
    try:
        save(path)
    except OSError as error:
        cause = (error.strerror or str(error)).partition(";")[0]
        reason = f"cannot write {path}: {cause}; make room or choose another --output"
        try:
            rescued = Path(tempfile.mkdtemp(prefix="tikhonet-"), path.name)
            save(rescued)
        except OSError:
            raise Failure(f"{reason}; it could not be kept elsewhere either") from None
        raise Failure(f"{reason}; until then it is kept as {rescued}") from None


def save_arrays(path: Path, arrays: Arrays, classes: list[str] | None = None) -> None:
    """Arrays of rows in a file of the kind that its ending says, whole or not at all."""
    content = encode(path.suffix.lower(), arrays, classes or [])
    save_or_rescue(lambda target: write_atomically(target, (content,)), path)


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
            table = require("pyarrow").table(columns(arrays, classes))
            require("pyarrow.parquet").write_table(table, buffer)
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


def csv_text(arrays: Arrays, classes: list[str] | None = None) -> str:
    found = columns(arrays, classes or [])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(found)
    writer.writerows(map(harmless, zip(*(values.tolist() for values in found.values()), strict=True)))
    return text.getvalue()


def harmless(cells: Iterable[object]) -> list[object]:
    """Cells of a CSV file; text that a spreadsheet would take for a formula begins with an apostrophe."""
    return [f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell for cell in cells]
