"""Rows from a data set by name, or from a file or a folder of images of the user's own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from tikhonet.cli.errors import Failure
from tikhonet.cli.names import nearest
from tikhonet.cli.progress import bar
from tikhonet.data import COLLECTIONS, NAMES, Dataset, Table, find_home, load, planted, read_folder, read_table
from tikhonet.data.folder import Shape
from tikhonet.data.obtain import places
from tikhonet.data.table import default_names, whole_if_possible


@dataclass(frozen=True)
class Source:
    """What was said of the data on the command line."""

    data: str
    split: str | None = None
    label: str | None = None
    header: bool | None = None
    data_home: Path | None = None
    image_size: int | None = None

    @property
    def name(self) -> str | None:
        """That of the data set; None for a file."""
        known = self.data.lower().replace("_", "-")
        return known if known in NAMES else None

    def title(self, split: str) -> str:
        return f"{self.name}, {self.split or split}" if self.name else self.data

    def read(self, split: str, task: str | None = None, shape: Shape | None = None, text_labels: bool = False) -> Table:
        """The rows; of a data set those of its `split`, if no other was asked for; images in that shape.

        With `text_labels` those of a .csv stay as they are written.
        """
        path = Path(self.data).expanduser()
        folder = not self.name and path.is_dir()
        if self.image_size is not None and not folder:
            raise typer.BadParameter(f"is for folders of images, got {self.data}", param_hint="--image-size")
        if self.name:
            if self.label is not None:
                raise typer.BadParameter("is for files; a data set has its own labels", param_hint="--label")
            data = load_set(self.name, self.split or split, self.data_home, task)
            return Table(data.X, data.y, tuple(default_names(data.X.shape[1])))
        if self.split is not None:
            raise typer.BadParameter(f"is for data sets ({', '.join(NAMES)}), not for files", param_hint="--split")
        if not path.exists() and not path.suffix and os.sep not in self.data:
            raise typer.BadParameter(
                f"{self.data!r} is neither a data set ({', '.join(NAMES)}) nor a file{nearest(self.data, NAMES)}",
                param_hint="--data",
            )
        with bar(f"reading {path.name}"):
            if not folder:
                return read_table(path, column(self.label), self.header, text_labels)
            table = read_folder(path, self.image_size, shape=shape)
        if self.label is not None:
            raise typer.BadParameter("is for files; images have the names of their folders", param_hint="--label")
        return table


def load_set(name: str, split: str, data_home: Path | None, task: str | None = None) -> Dataset:
    """A data set by name, with a bar; a download has its own."""
    if name == "planted" and task == "regression":
        return planted(split, task)
    if not is_here(name, data_home):
        return load(name, split, data_home)
    with bar(f"reading {name}, {split}"):
        return load(name, split, data_home)


def is_here(name: str, data_home: Path | None) -> bool:
    """Whether all files of a data set are on this machine."""
    if name not in COLLECTIONS:
        return True
    collection, home = COLLECTIONS[name], find_home(data_home)
    return all(any(places(collection, file, home)) for file in collection.sha256)


def column(label: str | None) -> str | int | None:
    """A column's index if it is a whole number, else its name."""
    try:
        return int(label) if label is not None else None
    except ValueError:
        return label


def labels(table: Table, source: Source, each: int | None) -> NDArray[Any]:
    """Those of a table, `each` a row; None allows any number."""
    if table.y is None and table.row_names:
        raise Failure(f"{source.data} must hold its images in subfolders, whose names are their labels")
    if table.y is None:
        raise typer.BadParameter(
            f"must name the column of {source.data} that holds the labels (-1 is the last one)", param_hint="--label"
        )
    found = 1 if table.y.ndim == 1 else table.y.shape[1]
    if each not in (None, found):
        raise Failure(f"the labels of {source.data} must be {each} a row, got {found}; name others with --label")
    return table.y


def as_numbers(y: NDArray[Any], source: Source) -> NDArray[Any]:
    """Labels as numbers; text that is none is named with its row."""
    if y.dtype.kind != "U":
        return y
    for row, label in enumerate(y.reshape(len(y), -1), start=1):
        if wrong := [text for text in label if not is_number(text)]:
            raise Failure(
                f"the labels of {source.data} must be numbers, got {str(wrong[0])!r} in row {row}; "
                "correct it, remove the row, or name another --label"
            )
    return whole_if_possible(y.astype(float))


def is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def aligned(table: Table, names: list[str], width: int, source: Source) -> NDArray[Any]:
    """The columns that a model takes: by their names where both sides have some, else all of them in order."""
    if names and table.named:
        missing = [name for name in names if name not in table.feature_names]
        if missing:
            raise Failure(
                f"{source.data} has no column {missing[0]!r}, which the model was trained on"
                f"{nearest(missing[0], table.feature_names)}; add it, or rename one"
            )
        return table.X[:, [table.feature_names.index(name) for name in names]]
    if table.X.shape[1] != width:
        hint = "name the label's column with --label" if table.X.shape[1] == width + 1 else "use data of that width"
        raise Failure(f"{source.data} has {table.X.shape[1]} columns of numbers, and the model takes {width}; {hint}")
    return table.X
