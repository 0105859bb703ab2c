"""Options and arguments that several subcommands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tikhonet.cli.names import one_of
from tikhonet.data import NAMES, DataError, find_home
from tikhonet.data.dataset import SPLITS

KINDS = "a file (.npy, .npz, .csv, .parquet, IDX) or a folder of images"


def check_home(folder: Path | None) -> Path | None:
    if folder is not None:
        try:
            find_home(folder)
        except DataError as error:
            raise typer.BadParameter(str(error)) from None
    return folder


Model = Annotated[Path, typer.Argument(help="A file that `tikhonet fit` wrote.", metavar="MODEL", show_default=False)]
Data = Annotated[
    str,
    typer.Option("--data", help=f"A data set ({', '.join(NAMES)}), {KINDS}.", metavar="NAME|FILE"),
]
OptionalData = Annotated[
    str | None,
    typer.Option("--data", help=f"A data set ({', '.join(NAMES)}), {KINDS}.", metavar="NAME|FILE"),
]
Split = Annotated[
    str | None,
    typer.Option(
        help="The part of a data set: train or test.",
        callback=one_of(*SPLITS),
        metavar="train|test",
        show_default=False,
    ),
]
Label = Annotated[
    str | None,
    typer.Option(help="The label's column in a file, by name or index; in .npz its array.", metavar="COLUMN"),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether a .csv begins with names.", show_default="by what is in it"),
]
DataHome = Annotated[
    Path | None,
    typer.Option(help="The folder of data sets, else TIKHONET_DATA or the cache.", callback=check_home, metavar="DIR"),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
Seed = Annotated[int, typer.Option(help="Fixes everything random.", min=0, max=2**32 - 1, metavar="N")]
Threads = Annotated[
    int | None, typer.Option(help="Threads of torch.", min=1, metavar="N", show_default="its own number")
]
