"""The content of a data set's files: from the data home, else by the first route that delivers them.

Whatever its way, a content is used only if its SHA-256 is the known one.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tikhonet.data.binary_layouts import UNREADABLE, members, unpack
from tikhonet.data.dataset import DataError, DataWarning, reason
from tikhonet.data.routes import Route, RouteError
from tikhonet.model.storage import write_atomically
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

    def places(self, name: str, home: Path) -> list[Path]:
        """The files of a home that may hold `name`, those that are read fastest first."""
        packed = [name, f"{name}.gz", f"{name}.xz", *([self.archive] if self.archive else [])]
        candidates = (home / folder / file for file in packed for folder in self.folders)
        return [path for path in candidates if path.is_file()]

    def present(self, home: Path) -> dict[str, Path]:
        """The files that are on this machine, each where it is read from."""
        return {name: paths[0] for name in self.sha256 if (paths := self.places(name, home))}

    def is_authentic(self, name: str, content: bytes) -> bool:
        return hashlib.sha256(content).hexdigest() == self.sha256[name]


def find_home(data_home: StrPath | None = None) -> Path:
    """The folder of all data sets: the argument, else the variable TIKHONET_DATA, else the user's cache folder.

    A folder that was named must exist, so that a slip of the pen does not start a download; the cache folder is made
    when it is needed.

    Parameters
    ----------
    data_home : str or path, optional
        A folder.

    Returns
    -------
    Path
        The folder.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tikhonet.data import find_home
    >>> Path("sets").mkdir()
    >>> find_home("sets").name
    'sets'
    """
    origin, named = ("data_home", data_home) if data_home is not None else (VARIABLE, os.environ.get(VARIABLE))
    if named is None or named == "":
        return Path(require("pooch").os_cache("tikhonet"))
    folder = Path(named).expanduser()
    if not folder.is_dir():
        state = "is a file" if folder.exists() else "does not exist"
        raise DataError(
            f"{origin} must be a folder, got {folder}, which {state}; "
            "make it first, or leave it out to use the user's cache folder"
        )
    return folder


def obtain(collection: Collection, names: Sequence[str], data_home: StrPath | None = None) -> dict[str, bytes]:
    """The contents of the named files, fetched into the data home where that has none that is intact."""
    home = find_home(data_home)
    contents = read(collection, names, home)
    if missing := [name for name in names if name not in contents]:
        failures = fetch(collection, missing, home)
        contents |= read(collection, missing, home)
    if missing := [name for name in names if name not in contents]:
        raise DataError(
            f"{collection.name}: no intact {', '.join(missing)} in {home / collection.folders[0]}, and none could be "
            f"fetched ({'; '.join(failures)}); connect to the network or put the official files there"
        )
    return contents


def read(collection: Collection, names: Sequence[str], home: Path) -> dict[str, bytes]:
    """The intact ones of the named files; each damaged one is named in a `DataWarning`."""
    contents = {}
    for name in names:
        for path in collection.places(name, home):
            try:
                content = content_of(path, name)
                if collection.is_authentic(name, content):
                    contents[name] = content
                    break
                why = f"is damaged: the SHA-256 of {name} is not the official one"
            except UNREADABLE as error:
                why = f"cannot be read: {reason(error)}"
            warnings.warn(f"{path} is refused, it {why}", DataWarning, stacklevel=2)
    return contents


def content_of(path: Path, name: str) -> bytes:
    if name in (path.name, path.stem):
        return unpack(path.read_bytes())
    for member, content in members(path):
        if member == name:
            return content
    raise OSError(f"there is no {name} in it")


def fetch(collection: Collection, wanted: Sequence[str], home: Path) -> list[str]:
    """Save the wanted files, and any other of the collection that the home has not; why each route failed."""
    absent = [name for name in collection.sha256 if not collection.places(name, home)]
    missing = list(dict.fromkeys([*wanted, *absent]))
    folder = home / collection.folders[0]
    failures = []
    for route in collection.routes:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".tikhonet-", dir=folder) as workspace:
                for name, content in route.deliver(missing, Path(workspace)):
                    if not collection.is_authentic(name, content):
                        raise RouteError(f"{name} is damaged, its SHA-256 is not the official one")
                    write_atomically(folder / name, (content,))
                    LOG.info("%s: %s from %s", collection.name, name, route)
                    missing = [other for other in missing if other != name]
            if not missing:
                break
            raise RouteError(f"it does not hold {', '.join(missing)}")
        except RouteError as error:
            failures.append(f"{route}: {reason(error)}")
        except OSError as error:
            raise DataError(
                f"cannot save {', '.join(wanted)} into {folder}: {error.strerror or error}; make room there "
                f"or give another data_home (argument or {VARIABLE}); files that were finished are kept"
            ) from None
    return failures
