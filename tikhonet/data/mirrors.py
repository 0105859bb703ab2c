"""Files from public mirrors, downloaded by pooch and held against the digests that were published for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tikhonet.data.collection import RouteError
from tikhonet.data.formats import UNREADABLE, members, unpack
from tikhonet.data.progress import DownloadBar

TIMEOUT = (10.0, 30.0)
"""Seconds to wait for a connection, and for the next bytes of a running download."""
CHUNK = 2**16


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
    import pooch
    import requests

    path = folder / url.rpartition("/")[2]
    with DownloadBar(path.name) as bar:
        fetch = pooch.HTTPDownloader(bar, CHUNK, timeout=timeout, headers={"Accept-Encoding": "identity"})
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
