"""Where data files lie on this machine, and how they are written there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tikhonet.data.errors import DataError

VARIABLE = "TIKHONET_DATA"

StrPath = str | os.PathLike[str]


def find_home(data_home: StrPath | None = None) -> Path:
    """The folder of all data sets: the argument, else the variable TIKHONET_DATA, else the user's cache folder.

    A folder that was named must exist, so that a slip of the pen does not start a download; the cache folder is made
    when it is needed.
    """
    named = [("data_home", data_home), (VARIABLE, os.environ.get(VARIABLE) or None)]
    for origin, value in named:
        if value is not None:
            return _existing(origin, Path(value).expanduser())
    import pooch

    return Path(pooch.os_cache("tikhonet"))


def _existing(origin: str, folder: Path) -> Path:
    if folder.is_dir():
        return folder
    state = "is a file" if folder.exists() else "does not exist"
    raise DataError(
        f"{origin} must be a folder, got {folder}, which {state}; "
        "make it first, or leave it out to use the user's cache folder"
    )


@contextmanager
def workspace(folder: Path, purpose: str) -> Iterator[Path]:
    """A temporary folder inside `folder`, so that a finished file can be moved in one step; gone afterwards."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".tikhonet-", dir=folder) as temporary:
            yield Path(temporary)
    except OSError as error:
        raise DataError(
            f"cannot save {purpose} into {folder}: {error.strerror or error}; make room there "
            f"or give another data_home (argument or {VARIABLE}); files that were finished are kept"
        ) from None


def save(content: bytes, path: Path, temporary: Path) -> None:
    """Write the whole file under a temporary name, then rename it."""
    unfinished = temporary / path.name
    unfinished.write_bytes(content)
    os.replace(unfinished, path)
