"""Files that a command writes: checked before the work begins, complete or not there at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import typer

from tikhonet.cli.errors import Failure


def check_output(path: Path, option: str = "--output") -> None:
    """Raise unless a file can be made there, so that no work is lost for it."""
    folder = path.parent
    if path.is_dir():
        raise typer.BadParameter(f"must be a file, got the folder {path}; add a file name", param_hint=option)
    if path.exists() and not path.is_file():
        raise typer.BadParameter(f"must be an ordinary file, got the device {path}", param_hint=option)
    if not folder.is_dir():
        raise typer.BadParameter(f"the folder {folder} does not exist; make it first", param_hint=option)
    if not os.access(folder, os.W_OK):
        raise typer.BadParameter(f"the folder {folder} cannot be written to; choose another", param_hint=option)


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
