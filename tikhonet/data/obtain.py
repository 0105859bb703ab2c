"""The content of a collection's files: from the data home, else by the first route that delivers them.

Whatever its way, a content is used only if its SHA-256 is the known one.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from tikhonet.data.collection import Collection, RouteError
from tikhonet.data.errors import DataError, DataWarning
from tikhonet.data.formats import UNREADABLE, members, unpack
from tikhonet.data.home import StrPath, find_home, save, workspace

LOG = logging.getLogger(__name__)


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
