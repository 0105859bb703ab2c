"""The records of a run: one line of `records.jsonl` for every finished trial, appended whole and flushed to the disk.

A line says what was run, on what, with which figures, and holds the small arrays that the page draws of that trial. It
ends with a digest of itself.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import os
import platform
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tikhonet import __version__
from tikhonet.model.reading import inflate, read_array, refusing

VERSION = 2
FILE = "records.jsonl"
LONGEST_NAME = 200
"""Letters of a trial's name that messages tell."""
REMEDY = "delete the line, and the trial is done again"
Pictures = dict[str, NDArray[Any]]


class RecordError(ValueError):
    """A record is damaged, or belongs to another run than the one that is asked for."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One trial of one method. An experiment adds the fields that it measures, and `score`: the one that says most."""

    experiment: str
    size: str
    method: str
    title: str
    family: str
    trial: int
    seed: int
    data: dict[str, Any]
    settings: dict[str, Any]
    samples: int = 0
    """Training images that the method saw."""
    passes: int = 0
    """Iterations or epochs done: each is one pass over those images."""
    seconds: float
    """Seconds of training alone."""
    wall: float
    """Seconds of the whole trial: training and all that is measured afterwards."""
    status: str = "FINISHED"
    message: str = ""
    checks: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, str]
    hardware: dict[str, Any]
    pictures: dict[str, str] = field(default_factory=dict)
    """Arrays by name, as `pack_pictures` writes them; empty unless the page shows this trial."""

    later: ClassVar[frozenset[str]] = frozenset()
    """Fields that records of earlier versions do not have."""

    @property
    def name(self) -> str:
        return f"{self.method}-{self.trial}"

    @property
    def label(self) -> str:
        """The method in words."""
        return self.title

    @property
    def group(self) -> str:
        """The row of the page that the trial belongs to."""
        return self.method

    def picture(self, name: str) -> NDArray[Any]:
        try:
            return unpack_picture(self.pictures[name])
        except (KeyError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise RecordError(
                f"the record {self.name} must hold the picture {name}, which cannot be read ({reason}); {REMEDY}"
            ) from None

    def to_json(self) -> str:
        return seal({"version": VERSION} | asdict(self))

    @classmethod
    def parse(cls, content: Mapping[str, Any], where: str) -> Self:
        """The record of this kind in a line of a file; `RecordError` naming the line where it has another form."""
        names = {field.name for field in fields(cls)}
        if differing := (set(content) ^ names) - (cls.later - set(content)):
            wrong = ", ".join(sorted(differing))
            raise RecordError(f"{where} must hold exactly the fields of a record, but differs in {wrong}; {REMEDY}")
        for known in (known for known in fields(cls) if known.name in content):
            value, kinds = content[known.name], KINDS[str(known.type)]
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                got = type(value).__name__
                raise RecordError(f"{where} must hold {known.name} as {known.type}, got {got}; {REMEDY}")
        return cls(**content)


@dataclass(frozen=True, kw_only=True)
class Scored(Record):
    """A trial of which a single figure is measured; None where training diverged."""

    score: float | None


KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "float": (float, int),
    "float | None": (float, int, type(None)),
    "dict[str, Any]": (dict,),
    "dict[str, float]": (dict,),
    "dict[str, str]": (dict,),
    "list[float | None]": (list,),
    "list[int]": (list,),
    "list[dict[str, Any]]": (list,),
}


def seal(content: Mapping[str, Any]) -> str:
    """A line of the file: the content, and last its digest, by which damage is found."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return f'{text[:-1]},"digest":"{digest(text.encode())}"}}\n'


def digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:32]


def read_lines(folder: str | os.PathLike[str]) -> list[tuple[str, dict[str, Any]]]:
    """Every line of a run's records, with words for where it stands.

    A last line without its end was cut off when the run was killed: it is left out, with a warning.
    """
    path = Path(folder, FILE)
    *lines, rest = path.read_bytes().split(b"\n") if path.is_file() else [b""]
    if rest:
        warnings.warn(f"{path}: the last line was cut off and does not count; its trial is done again", stacklevel=2)
    return [parse_line(path, number, line) for number, line in enumerate(lines, 1)]


def parse_line(path: Path, number: int, line: bytes) -> tuple[str, dict[str, Any]]:
    where = f"{path}, line {number}"
    text, _, ending = line.rpartition(b',"digest":')
    if ending != f'"{digest(text + b"}")}"}}'.encode():
        raise RecordError(f"{where} must end with the digest of its content, and does not: it is damaged; {REMEDY}")
    try:
        content = json.loads(text + b"}")
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{where} must be a record in JSON, but does not parse ({error}); {REMEDY}") from None
    if not isinstance(content, dict) or content.pop("version", None) != VERSION:
        raise RecordError(f"{where} must be a record of version {VERSION}, and is not; {REMEDY}")
    name = f"{content.get('method')}-{content.get('trial')}"
    return f"{where} ({name[:LONGEST_NAME]})", content


def append_record(folder: Path, record: Record) -> None:
    """Add one line. What a killed run left of its last line is cut off first."""
    path = folder / FILE
    with full_disk_named(path):
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file, locked(file):
            file.seek(0)
            content = file.read()
            if content and not content.endswith(b"\n"):
                file.truncate(content.rfind(b"\n") + 1)
            file.write(record.to_json().encode())
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def locked(file: IO[bytes]) -> Iterator[None]:
    """Processes that share a folder append in turn, where the system has such locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def write_whole(path: Path, content: bytes) -> None:
    """The file appears complete under its name, or not at all; its folder is made."""
    from tikhonet.model.storage import write_atomically

    with full_disk_named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, (content,))


@contextmanager
def full_disk_named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = f"{error.strerror}; make room or choose another folder, what was finished is kept"
        raise OSError(error.errno, reason, str(path)) from None


def pack_pictures(pictures: Mapping[str, NDArray[Any]]) -> dict[str, str]:
    """Arrays as text: NumPy's own format, compressed, in base 64."""
    packed = {}
    for name, array in pictures.items():
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        packed[name] = base64.b64encode(zlib.compress(buffer.getvalue(), 9)).decode()
    return packed


def unpack_picture(text: str) -> NDArray[Any]:
    with refusing("a picture cannot be read", "run its trial again"):
        content = inflate(base64.b64decode(text, validate=True))
        return read_array(io.BytesIO(content), len(content))


def finite(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None


def brief(value: Any) -> Any:
    """The same with six digits of every number in floating point: a record of many of them is half as long."""
    if isinstance(value, dict):
        return {name: brief(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [brief(part) for part in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def versions() -> dict[str, str]:
    """The versions of what runs; this library's from its own code, since what an installer wrote may be older."""
    packages = ("torch", "numpy", "scipy", "scikit-learn")
    own = {"python": platform.python_version(), "tikhonet": __version__}
    return own | {name: version(name) for name in packages}


def hardware() -> dict[str, Any]:
    """Everything that the seconds depend on; the load at the start says whether the machine was quiet."""
    import torch

    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "system": platform.system(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": load,
    }


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{platform.machine()}, {models[0]}" if models else platform.machine()
