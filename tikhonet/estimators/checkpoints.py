"""The parameter `checkpoint` of the estimators, its folder, and what tells one fit from another."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tikhonet import __version__
from tikhonet.estimators.rows import Rows, digest
from tikhonet.model import storage
from tikhonet.model.model import Model
from tikhonet.model.model_file import network_header, weight_tensors
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Network
from tikhonet.problem.samples import Reduce

FREE = ("verbose", "callbacks", "n_jobs", "checkpoint", "random_state")
"""Parameters that may be others when a fit goes on: they change nothing, or are in the checkpoint."""


@dataclass(frozen=True)
class Checkpoint:
    """Where a fit keeps its state, and how often: the parameter `checkpoint` of the estimators.

    Parameters
    ----------
    path : str or path
        A folder of its own for each fit that runs at a time; it is made where it is not there.
    every_seconds : float, optional
        Seconds between two states. By default at least 10, and so many that all of them take 2% of the time at most.
    every_epochs : int, optional
        Epochs (iterations of the full-batch solvers) after which a state is kept in any case.
    keep : int, default=2
        States that are kept of each run: where the newest is damaged, the one before is used.
    stop : callable, optional
        Asked after every step; where it returns True the state is kept and the fit ends with `Stopped`.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhonet import BCDClassifier, Checkpoint
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> model = BCDClassifier((8,), checkpoint=Checkpoint("states", every_epochs=5), random_state=0)
    >>> model = model.fit(X, X[:, 0] > 0)  # after a crash, the same call goes on where it was
    >>> bool(model.score(X, X[:, 0] > 0) > 0.8)
    True
    """

    path: str | os.PathLike[str]
    every_seconds: float | None = None
    every_epochs: int | None = None
    keep: int = 2
    stop: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        for name, least in (("every_seconds", 0), ("every_epochs", 1), ("keep", 1)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, (int, float)) and value >= least):
                raise ArgumentError(name, f"{name} must be a number of at least {least}, got {value!r}")


class Stopped(Exception):  # noqa: N818 (nothing went wrong)
    """A fit was asked to stop, and has kept its state; fit again with the same checkpoint to go on.

    Parameters
    ----------
    place : the folder of the checkpoint
    kept : whether the state could be written there; kept as the attribute ``kept``

    """

    def __init__(self, place: os.PathLike[str], kept: bool) -> None:
        outcome = "has kept" if kept else "could not keep"
        super().__init__(f"the fit was asked to stop, and {outcome} its state in {place}; fit again to go on")
        self.kept = kept


class CheckpointWarning(UserWarning):
    """A checkpoint could not be read, so an older one is used, or not be written, so the last one stays."""


def identify(parameters: Any, tables: list[Rows], last: Model | None, reduce: Reduce) -> dict[str, Any]:
    """What two fits must have in common for one to go on from the other's states."""
    given = {name: told(value) for name, value in parameters.get_params(deep=False).items() if name not in FREE}
    seed = parameters.random_state
    given["random_state"] = told(seed) if isinstance(seed, int) else "any"
    if parameters.warm_start and last:
        start = hashlib.sha256()
        for matrix in (*weight_tensors(last.W).values(), last.V):
            start.update(matrix.detach().cpu().contiguous().numpy().tobytes())
        given["warm_start"] = f"from {start.hexdigest()[:16]}"
    kind = type(parameters).__name__
    return {"tikhonet": __version__, "estimator": kind, **given, "rows": [digest(table, reduce) for table in tables]}


def told(value: Any) -> str:
    """A parameter as text, without the addresses of objects."""
    return str(network_header(value)) if isinstance(value, Network) else re.sub(r" at 0x\w+", "", repr(value))


@contextmanager
def locked(place: Path) -> Iterator[Path]:
    """The folder, made where it is not there, in which no other process keeps states at the same time."""
    if place.exists() and not place.is_dir():
        raise ArgumentError(
            "checkpoint", f"checkpoint must be a folder or not exist, got the file {place}; name another"
        )
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("ab") as file:
        if not storage.lock(file):
            raise ArgumentError(
                "checkpoint",
                f"checkpoint must be a folder of its own, got {place}, which another fit uses; name another",
            )
        yield place
