"""Inputs of a command: options that several have, rows from a data set, a file or a folder, a saved model."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from tikhonet import load as load_estimator
from tikhonet.cli.mistakes import Failure, OptionError, nearest, one_of
from tikhonet.data import NAMES, DataError, Dataset, Table, find_home, load, planted, read_folder, read_table
from tikhonet.data.bar import Bar
from tikhonet.data.dataset import SPLITS
from tikhonet.data.folder import Shape, shape_of
from tikhonet.data.large_tables import stream_table
from tikhonet.data.tables import Frame, TableFile, Wanted, default_names, is_number, whole_if_possible
from tikhonet.model import storage

FILES = ", ".join(format_.kind.partition(" ")[0] for format_ in TableFile.formats)
ROWS = f"A data set ({', '.join(NAMES)}), a file ({FILES}) or a folder of images."
MANY = 20
"""More different whole numbers than this may be numbers or classes; the user has to say which."""
TASKS = {"BCDClassifier": "classification", "BCDRegressor": "regression", "BCDFeatures": None, "BCDHasher": "hash"}


def check_home(folder: Path | None) -> Path | None:
    if folder is not None:
        try:
            find_home(folder)
        except DataError as error:
            raise typer.BadParameter(str(error)) from None
    return folder


Model = Annotated[Path, typer.Argument(help="A file that `tikhonet fit` wrote.", metavar="MODEL", show_default=False)]
DataHome = Annotated[
    Path | None,
    typer.Option(help="The folder of data sets, else TIKHONET_DATA or the cache.", callback=check_home, metavar="DIR"),
]
Seed = Annotated[int, typer.Option("--seed", help="Fixes everything random.", min=0, max=2**32 - 1, metavar="N")]
Threads = Annotated[
    int | None,
    typer.Option("--threads", help="Threads of torch.", min=1, metavar="N", show_default="its own number"),
]


def choice(known: Iterable[str], text: str, default: str | bool = False) -> Any:
    """The option of one of these words; `default` is what the help says of it."""
    return typer.Option(help=text, callback=one_of(known), metavar="|".join(known), show_default=default)


def numbers(option: str, text: str, kind: type[int] | type[float]) -> list[int] | list[float]:
    """`200,200` as numbers."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise OptionError(option, f"must be {what} with commas between, got {text!r}") from None


@dataclass(frozen=True)
class Source:
    """The rows that were asked for on the command line; its fields are options of the commands that take rows."""

    data: Annotated[str, typer.Option("--data", help=ROWS, metavar="NAME|FILE")]
    split: Annotated[str | None, choice(SPLITS, "The part of a data set.")] = None
    label: Annotated[
        str | None,
        typer.Option(help="The label's column in a file, by name or index; in .npz its array.", metavar="COLUMN"),
    ] = None
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether a .csv begins with names.", show_default="by what is in it"),
    ] = None
    data_home: DataHome = None
    columns: Annotated[
        str | None, typer.Option(help="The columns of a file to use, besides the label.", metavar="NAME,NAME,...")
    ] = None
    drop: Annotated[str | None, typer.Option(help="Columns of a file to leave out.", metavar="NAME,NAME,...")] = None

    @property
    def name(self) -> str | None:
        """The name of a data set; None for a file."""
        known = self.data.lower().replace("_", "-")
        return known if known in NAMES else None

    @property
    def label_column(self) -> str | int | None:
        """The label's column by its name, or by its index where it looks like one."""
        return int(self.label) if self.label and re.fullmatch(r"[+-]?\d+", self.label) else self.label

    def title(self, split: str) -> str:
        return f"{self.name}, {self.split or split}" if self.name else self.data

    def read(
        self,
        split: str,
        task: str | None = None,
        shape: Shape | None = None,
        text_labels: bool = False,
        size: int | None = None,
        categories: tuple[str, ...] = (),
        label_needed: bool = True,
    ) -> Table:
        """The rows; of a data set those of its `split`, if no other was asked for; images in that shape or size.

        With `text_labels` the labels of a .csv stay as they are written, and so do its columns of `categories`.
        """
        path = Path(self.data).expanduser()
        folder = not self.name and path.is_dir()
        if size is not None and not folder:
            raise OptionError("--image-size", f"is for folders of images, got {self.data}")
        for option, given in (("--columns", self.columns), ("--drop", self.drop)):
            if given is not None and (self.name or folder):
                raise OptionError(option, f"is for files with columns, got {self.data}")
        if self.name:
            if self.label is not None:
                raise OptionError("--label", "is for files; a data set has its own labels")
            data = load_set(self.name, self.split or split, self.data_home, task)
            return Table(data.X, data.y, tuple(default_names(data.X.shape[1])))
        if self.split is not None:
            raise OptionError("--split", f"is for data sets ({', '.join(NAMES)}), not for files")
        if not path.exists() and not path.suffix and os.sep not in self.data:
            raise OptionError(
                "--data",
                f"{self.data!r} is neither a data set ({', '.join(NAMES)}) nor a file{nearest(self.data, NAMES)}",
            )
        with Bar(f"reading {path.name}"):
            if not folder:
                wanted = Wanted(names(self.columns), names(self.drop), categories, label_needed)
                table = read_table(path, self.label_column, self.header, text_labels, wanted)
                if table.label_name in wanted.drop:
                    raise OptionError("--drop", f"names the label's column {table.label_name!r}; name another --label")
                return table
            table = read_folder(path, size, shape=shape)
        if self.label is not None:
            raise OptionError("--label", "is for files; images have the names of their folders")
        return table

    def by_pieces(self) -> Table:
        """The rows of a file that are read by pieces, its labels at once."""
        given = {"--columns": self.columns, "--drop": self.drop, "--split": self.split, "--header": self.header}
        for option, value in given.items():
            if value is not None:
                raise OptionError(option, "cannot go with --memory; leave out one of them")
        if self.name:
            raise OptionError("--memory", f"is for files (.npy, .parquet), got the data set {self.data}; leave it out")
        return stream_table(Path(self.data).expanduser(), self.label_column)

    def labels(self, table: Table, each: int | None) -> NDArray[Any]:
        """The labels of a table, `each` a row; None allows any number."""
        if table.y is None and table.row_names:
            raise Failure(f"{self.data} must hold its images in subfolders, whose names are their labels")
        if table.y is None:
            raise OptionError(
                "--label", f"must name the column of {self.data} that holds the labels (-1 is the last one)"
            )
        found = 1 if table.y.ndim == 1 else table.y.shape[1]
        if each not in (None, found):
            raise Failure(f"the labels of {self.data} must be {each} a row, got {found}; name others with --label")
        return table.y

    def infer_task(self, y: NDArray[Any]) -> str:
        """Text and whole numbers are classes, real numbers are targets; many different whole numbers may be either."""
        if y.dtype.kind == "f":
            return "regression"
        unclear, kinds = "", len(np.unique(y))
        words = y if y.dtype.kind == "U" and y.ndim == 1 else ()
        others = [row for row, text in enumerate(words) if not is_number(text)]
        if y.ndim > 1:
            unclear = f"{self.data} has {y.shape[1]} labels a row; use --task hash or --task regression"
        elif 0 < len(others) < len(y) / 2:
            unclear = (
                f"the labels of {self.data} are numbers but for {len(others)} of {len(y)} rows, such as "
                f"{str(y[others[0]])!r} in row {others[0] + 1}; correct these, or use --task classification"
            )
        elif y.dtype.kind in "iu" and kinds > MANY and not self.name:
            unclear = (
                f"the labels of {self.data} are {kinds} different whole numbers in {len(y)} rows; "
                "use --task regression or --task classification"
            )
        if unclear:
            raise OptionError("--task", f"must be given: {unclear}")
        return "classification"

    def numbers(self, y: NDArray[Any]) -> NDArray[Any]:
        """Labels as numbers; text that is none is named with its row."""
        if y.dtype.kind != "U":
            return y
        for row, label in enumerate(y.reshape(len(y), -1), start=1):
            if wrong := [text for text in label if not is_number(text)]:
                raise Failure(
                    f"the labels of {self.data} must be numbers, got {str(wrong[0])!r} in row {row}; "
                    "correct it, remove the row, or name another --label"
                )
        return whole_if_possible(y.astype(float))


def names(text: str | None) -> tuple[str, ...]:
    """`age,city` as names."""
    return tuple(part.strip() for part in text.split(",")) if text else ()


def load_set(name: str, split: str, data_home: Path | None, task: str | None = None) -> Dataset:
    """A data set by name, with a bar."""
    with Bar(f"reading {name}, {split}"):
        return planted(split, task) if name == "planted" and task == "regression" else load(name, split, data_home)


@dataclass(frozen=True)
class SavedModel:
    """A model of whichever kind its file says it is; `names` are those of the columns it was trained on, if any."""

    path: Path
    header: dict[str, Any]
    estimator: Any
    names: list[str]

    @property
    def kind(self) -> str:
        return type(self.estimator).__name__

    @property
    def task(self) -> str | None:
        return TASKS[self.kind]

    @property
    def text_classes(self) -> bool:
        return self.task == "classification" and all(isinstance(label, str) for label in self.estimator.classes_)

    def labels(self, table: Table, source: Source) -> Any:
        """The labels of `rows`, one class a row, or as many numbers as the model learned."""
        y = source.labels(table, 1 if self.task == "classification" else self.estimator.model_.outputs)
        return y.astype(str) if self.text_classes else source.numbers(y)

    def rows(self, source: Source, split: str, labelled: bool = True) -> Table:
        """The rows with the columns that it takes: by their names where both sides have some, else all in order.

        The label's column is the one that is asked for, else that of the training file, where there is such a one.
        Labels are text where the classes are; images have the shape that the number or names of the columns tell.
        """
        width, known = self.estimator.n_features_in_, source.label is not None
        file = not source.name and not Path(source.data).expanduser().is_dir()
        if labelled and not known and file and self.header.get("label"):
            source = replace(source, label=str(self.header["label"]))
        shape = shape_of(self.names, width)
        table = source.read(split, self.task, shape, self.text_classes, label_needed=known)
        given = table.X.shape[1]
        if self.names and table.named:
            if missing := [name for name in self.names if name not in table.feature_names]:
                raise Failure(
                    f"{source.data} has no column {missing[0]!r}, which the model was trained on"
                    f"{nearest(missing[0], table.feature_names)}; add it, or rename one"
                )
            if isinstance(table.X, Frame):
                return replace(table, X=Frame({name: table.X[name] for name in self.names}))
            return replace(table, X=table.X[:, [table.feature_names.index(name) for name in self.names]])
        if given != width:
            hint = "name the label's column with --label" if given == width + 1 else "use data of that width"
            raise Failure(f"{source.data} has {given} columns, and the model takes {width}; {hint}")
        return table

    def need_task(self, command: str) -> str:
        if self.task is None:
            raise Failure(f"{self.path} holds features without a head, so it cannot {command}; use predict --features")
        if self.task == "hash":
            raise Failure(f"{self.path} makes binary codes, so it cannot {command}; use tikhonet hash, then search")
        return self.task


def open_model(path: Path) -> SavedModel:
    if not path.exists():
        raise Failure(f"{path} does not exist; name a file that `tikhonet fit` wrote")
    estimator = load_estimator(path)
    if type(estimator).__name__ not in TASKS:
        raise Failure(
            f"{path} holds a module of torch, without scaling and labels; go on in Python: "
            f"tikhonet.load({str(path)!r}).to_model()"
        )
    # The columns are put in order here; scikit-learn would warn of every array without names.
    names = [str(name) for name in vars(estimator).pop("feature_names_in_", ())]
    return SavedModel(path, storage.load(path)[0], estimator, names)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
