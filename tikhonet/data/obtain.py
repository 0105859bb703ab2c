"""The content of a data set's files: from the data home, else by the first route that delivers them.

Whatever its way, a content is used only if its SHA-256 is the known one.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tikhonet.data.binary_layouts import UNREADABLE, members, unpack
from tikhonet.data.dataset import DataError, DataWarning
from tikhonet.data.routes import Route, RouteError
from tikhonet.network.extras import require

LOG = logging.getLogger(__name__)
VARIABLE = "TIKHONET_DATA"

StrPath = str | os.PathLike[str]


@dataclass(frozen=True)
class Collection:
    """The files of a data set.

    sha256   name of each file -> SHA-256 of its content, whatever it is packed in
    folders  where they may lie in a data home, the first being where fetched files are saved
    archive  the tar archive that may hold them instead
    """

    name: str
    sha256: Mapping[str, str]
    folders: tuple[str, ...]
    routes: tuple[Route, ...]
    classes: tuple[str, ...]
    archive: str | None = None

    def present(self, home: Path) -> dict[str, Path]:
        """The files that are on this machine, each where it is read from."""
        found = {name: next(places(self, name, home), None) for name in self.sha256}
        return {name: path for name, path in found.items() if path}

    def is_authentic(self, name: str, content: bytes) -> bool:
        return hashlib.sha256(content).hexdigest() == self.sha256[name]


def find_home(data_home: StrPath | None = None) -> Path:
    """The folder of all data sets: the argument, else the variable TIKHONET_DATA, else the user's cache folder.

    A folder that was named must exist, so that a slip of the pen does not start a download; the cache folder is made
    when it is needed.
    """
    named = [("data_home", data_home), (VARIABLE, os.environ.get(VARIABLE) or None)]
    for origin, value in named:
        if value is not None:
            return _existing(origin, Path(value).expanduser())
    return Path(require("pooch").os_cache("tikhonet"))


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


def obtain(collection: Collection, names: Sequence[str], data_home: StrPath | None = None) -> dict[str, bytes]:
    """The contents of the named files, fetched into the data home where that has none that is intact."""
    home = find_home(data_home)
    contents = read(collection, names, home)
    missing = [name for name in names if name not in contents]
    if missing:
        failures = fetch(collection, missing, home)
        contents |= read(collection, missing, home)
        missing = [name for name in names if name not in contents]
    if missing:
        raise DataError(
            f"{collection.name}: no intact {', '.join(missing)} in {home / collection.folders[0]}, and none could be "
            f"fetched ({'; '.join(failures)}); connect to the network or put the official files there"
        )
    return contents


def read(collection: Collection, names: Sequence[str], home: Path) -> dict[str, bytes]:
    """The intact ones of the named files; each damaged one is named in a `DataWarning`."""
    contents = {}
    for name in names:
        for path in places(collection, name, home):
            try:
                content = content_of(path, name)
            except UNREADABLE as error:
                warnings.warn(f"{path} is refused, it cannot be read: {_line(error)}", DataWarning, stacklevel=2)
                continue
            if collection.is_authentic(name, content):
                contents[name] = content
                break
            warnings.warn(
                f"{path} is refused, it is damaged: the SHA-256 of {name} is not the official one",
                DataWarning,
                stacklevel=2,
            )
    return contents


def places(collection: Collection, name: str, home: Path) -> Iterator[Path]:
    """The files that may hold `name`, those that are read fastest first."""
    packed = [name, f"{name}.gz", f"{name}.xz", *([collection.archive] if collection.archive else [])]
    candidates = (home / folder / file for file in packed for folder in collection.folders)
    return (path for path in candidates if path.is_file())


def content_of(path: Path, name: str) -> bytes:
    if path.name.removesuffix(path.suffix) == name or path.name == name:
        return unpack(path.read_bytes())
    for member, content in members(path):
        if member == name:
            return content
    raise OSError(f"there is no {name} in it")


def fetch(collection: Collection, wanted: Sequence[str], home: Path) -> list[str]:
    """Save the wanted files, and any other of the collection that the home has not; why each route failed."""
    others = [name for name in collection.sha256 if name not in wanted and not any(places(collection, name, home))]
    missing = [*wanted, *others]
    folder = home / collection.folders[0]
    failures = []
    with workspace(folder, ", ".join(wanted)) as temporary:
        for route in collection.routes:
            try:
                with tempfile.TemporaryDirectory(dir=temporary) as own:
                    for name, content in route.deliver(missing, Path(own)):
                        if not collection.is_authentic(name, content):
                            raise RouteError(f"{name} is damaged, its SHA-256 is not the official one")
                        save(content, folder / name, temporary)
                        LOG.info("%s: %s from %s", collection.name, name, route)
                        missing = [other for other in missing if other != name]
                if missing:
                    raise RouteError(f"it does not hold {', '.join(missing)}")
            except RouteError as error:
                failures.append(f"{route}: {_line(error)}")
            if not missing:
                break
    return failures


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
