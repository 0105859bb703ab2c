"""One file per finished trial: what was run, on what, with which figures. Written whole or not at all.

`<method>-<trial>.json` is the record, `<method>-<trial>.npz` its pictures. The record is written last, so that a trial
counts as finished only when both are there.
"""

from __future__ import annotations

import io
import json
import math
import os
import platform
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray

from tikhonet.model.storage import write_atomically

VERSION = 1
REMEDY = "delete it, and the trial is done again"
Pictures = dict[str, NDArray[Any]]


class RecordError(ValueError):
    """A record is damaged, or belongs to another run than the one that is asked for."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What every experiment keeps of one trial of one method."""

    experiment: str
    size: str
    method: str
    title: str
    family: str
    trial: int
    seed: int
    data: dict[str, Any]
    settings: dict[str, Any]
    samples: int
    """Training images that the method saw."""
    passes: int
    """Iterations or epochs done: each is one pass over those images."""
    seconds: float
    """Of training alone."""
    wall: float
    """Of the whole trial: training and all that is measured afterwards."""
    status: str
    message: str
    checks: list[dict[str, Any]]
    versions: dict[str, str]
    hardware: dict[str, Any]

    SCORE: ClassVar[str]
    """The name of `score`."""

    @property
    def name(self) -> str:
        return f"{self.method}-{self.trial}"

    @property
    @abstractmethod
    def score(self) -> float | None:
        """The figure that says most; None where training diverged."""

    def to_json(self) -> str:
        return json.dumps({"version": VERSION} | asdict(self), indent=1, allow_nan=False) + "\n"


@dataclass(frozen=True, kw_only=True)
class Record(Trial):
    """A trial of Sec. 3.3.1: a network, with a linear SVM refitted on its features."""

    sparse: bool
    objective: list[float | None]
    """Mean over the images, at the start where it is known and after every pass."""
    first_pass: int
    """The pass that `objective` begins with: 0 for the start, 1 where the start is not measured."""
    error: float | None
    """Test error in percent of the linear SVM refitted on the features; None where training diverged."""
    error_V: float | None
    """The same of the classifier V that was trained with the network."""
    C: float | None
    nonzero: dict[str, float]
    """Percent of exactly nonzero weights by layer."""
    residual: float | None
    """Norm of the projected gradient of Eq. 4 at the point reached, in float64."""
    start_residual: float | None

    SCORE = "error_percent"

    @property
    def score(self) -> float | None:
        return self.error


@dataclass(frozen=True, kw_only=True)
class HashingRecord(Trial):
    """A trial of Sec. 3.3.2: codes of one length by one way of making them."""

    way: str
    bits: int
    loss: list[float | None]
    """Of every pass over the training images, where the method has one."""
    retrieval: dict[str, Any]
    """`Retrieval.to_dict()`; empty where training diverged."""
    codes: dict[str, Any]
    """`CodeReport.to_dict()` of the database."""

    SCORE = "mean_average_precision"

    @property
    def score(self) -> float | None:
        return self.retrieval["mean_average_precision"]["expected"] if self.retrieval else None


Kind = TypeVar("Kind", bound=Trial)


def parse_record(path: Path, kind: type[Kind]) -> Kind:
    """The record of this kind in a file; `RecordError` naming it where there is none."""
    content, remedy = parse_json(path), REMEDY
    names = {field.name for field in fields(kind)}
    if set(content) != names:
        wrong = ", ".join(sorted(set(content) ^ names))
        raise RecordError(f"{path} must hold exactly the fields of a record, but differs in {wrong}; {remedy}")
    for field in fields(kind):
        kinds = KINDS[str(field.type)]
        if not isinstance(content[field.name], kinds) or (isinstance(content[field.name], bool) and bool not in kinds):
            got = type(content[field.name]).__name__
            raise RecordError(f"{path} must hold {field.name} as {field.type}, got {got}; {remedy}")
    return kind(**content)


def parse_json(path: Path) -> dict[str, Any]:
    """What a file holds, if it says that it is a record."""
    try:
        content = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} must be a record in JSON, but does not parse ({error}); {REMEDY}") from None
    if not isinstance(content, dict) or content.pop("version", None) != VERSION:
        raise RecordError(f"{path} must be a record of version {VERSION}, and is not; {REMEDY}")
    return content


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
    "list[dict[str, Any]]": (list,),
}


@overload
def load_records(folder: str | os.PathLike[str]) -> list[Record]: ...
@overload
def load_records(folder: str | os.PathLike[str], kind: type[Kind]) -> list[Kind]: ...
def load_records(folder: str | os.PathLike[str], kind: type[Any] = Record) -> list[Any]:
    """All records of a folder, by name."""
    return [parse_record(path, kind) for path in record_files(folder)]


def experiment_of(folder: str | os.PathLike[str]) -> str:
    """The experiment that a folder's first record is of."""
    path = record_files(folder)[0]
    return str(parse_json(path).get("experiment"))


def check_records(folder: Path, asked: Mapping[str, Any]) -> None:
    """Raise unless all records of a folder are of this experiment, size and data; a page shows them together."""
    for path in sorted(folder.glob("*.json")):
        content = parse_json(path)
        for name, value in asked.items():
            if content.get(name) != value:
                held, wanted = _told_apart(content.get(name), value)
                raise RecordError(
                    f"{folder.parent} holds trials of {held}, and {wanted} is asked for; "
                    "choose another folder (--output)"
                )


def _told_apart(held: Any, asked: Any) -> tuple[str, str]:
    """Two experiments, sizes or descriptions of data as words; of descriptions what differs."""
    if not (isinstance(held, dict) and isinstance(asked, dict)):
        return str(held), str(asked)
    key = next(key for key in (*asked, *held) if asked.get(key) != held.get(key))
    start = "" if key == "name" else f"{asked.get('name')} with {key} "
    return f"{start}{held.get(key)}", f"{start}{asked.get(key)}"


def record_files(folder: str | os.PathLike[str]) -> list[Path]:
    paths = sorted(Path(folder).glob("*.json"))
    if not paths:
        raise RecordError(f"{folder} must be a folder of records (*.json), and holds none; run the experiment first")
    return paths


def load_pictures(folder: str | os.PathLike[str], record: Trial) -> Pictures:
    path = Path(folder, f"{record.name}.npz")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError) as error:
        raise RecordError(
            f"{path} must hold the pictures of that trial, and cannot be read ({error}); "
            f"delete {record.name}.json, and the trial is done again"
        ) from None


def save_record(folder: Path, record: Trial, pictures: Mapping[str, NDArray[Any]]) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **pictures)  # type: ignore[arg-type]  # the stub takes its own flag for an array
    write_whole(folder / f"{record.name}.npz", buffer.getvalue())
    write_whole(folder / f"{record.name}.json", record.to_json().encode())


def write_whole(path: Path, content: bytes) -> None:
    """The file appears complete under its name, or not at all; its folder is made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, (content,))
    except OSError as error:
        reason = f"{error.strerror}; make room or choose another folder, what was finished is kept"
        raise OSError(error.errno, reason, str(path)) from None


def finite(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None


def versions() -> dict[str, str]:
    packages = ("tikhonet", "torch", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def hardware() -> dict[str, Any]:
    """What the seconds depend on; the load at the start says whether the machine was quiet."""
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
