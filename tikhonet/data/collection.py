"""A data set as files with known digests, and the routes by which they come."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class RouteError(Exception):
    """A route did not deliver; the message is half a sentence that says why."""


class Route(Protocol):
    """A place that files come from."""

    def deliver(self, names: Sequence[str], workspace: Path) -> Iterator[tuple[str, bytes]]:
        """The wanted files, unpacked, one by one as they arrive; `workspace` is an empty folder for its own use.

        Raises `RouteError` where it cannot go on. What it yields is checked by who asked.
        """


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

    def is_authentic(self, name: str, content: bytes) -> bool:
        return hashlib.sha256(content).hexdigest() == self.sha256[name]
