"""The loop around trials: what is finished is skipped, what is not is done in turn and saved as it ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from tikhonet.paper.experiments.images import Images
from tikhonet.paper.experiments.measures import Tensors, nonzero, pictures, refit
from tikhonet.paper.experiments.progress import Forecast, Progress, Report
from tikhonet.paper.experiments.records import (
    Pictures,
    Record,
    RecordError,
    Trial,
    check_records,
    finite,
    hardware,
    parse_record,
    save_record,
    versions,
)
from tikhonet.paper.experiments.trials import Method, Watch, train

Identity = tuple[str, str]
"""The names of an experiment and of its size."""


class Trainable(Protocol):
    """What the loop knows of a method."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def steps(self) -> int: ...
    def settings(self) -> dict[str, Any]: ...


Kind = TypeVar("Kind", bound=Trial)
Way = TypeVar("Way", bound=Trainable)


def run_chosen(
    identity: Identity,
    known: Mapping[str, Method],
    data: Images,
    output: str | os.PathLike[str],
    *,
    solvers: Sequence[str] | None,
    trials: Sequence[int],
    threads: int | None,
    progress: Report | None,
) -> list[Record]:
    """The trials of the known methods with these names, all of them if None; records are kept in `output/records`."""
    unknown = sorted(set(solvers or ()) - set(known))
    if unknown:
        raise ValueError(f"solvers must be among {', '.join(known)}, got {', '.join(unknown)}")
    chosen = [known[name] for name in solvers or known]
    with torch_threads(threads):
        return run_trials(identity, chosen, data, Path(output, "records"), trials, progress)


def check_epochs(epochs: int | None) -> None:
    if epochs is not None and epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")


def run_trials(
    identity: Identity,
    methods: Sequence[Method],
    data: Images,
    folder: Path,
    trials: Sequence[int],
    progress: Report | None = None,
) -> list[Record]:
    """The trials of methods whose networks are measured by a refitted SVM."""
    description, tensors = data.describe(), Tensors.of(data)

    def do(method: Method, trial: int, watch: Watch) -> tuple[Record, Pictures]:
        return do_trial(identity, method, tensors, data, description, trial, watch)

    return run_queue(identity, methods, description, folder, trials, do, Record, progress)


def run_queue(
    identity: Identity,
    methods: Sequence[Way],
    description: dict[str, Any],
    folder: Path,
    trials: Sequence[int],
    do: Callable[[Way, int, Watch], tuple[Kind, Pictures]],
    kind: type[Kind],
    progress: Report | None = None,
) -> list[Kind]:
    """Methods take turns, trial by trial, so that a machine that becomes slower does so for all of them.

    Processes may share a folder: each looks again before every trial whether it has been done.
    """
    check_records(folder, {"experiment": identity[0], "size": identity[1], "data": description})
    queue = [(trial, method) for trial in trials for method in methods]
    found = [finished(folder, method, trial, identity, description, kind) for trial, method in queue]
    done = {record.name: record for record in found if record}
    waiting = [job for job, record in zip(queue, found, strict=True) if record is None]
    forecast = Forecast([method.name for _, method in waiting], done.values())
    for trial, method in waiting:
        finished_trials = len(done)

        def watch(step: int, trial: int = trial, method: Way = method, finished: int = finished_trials) -> None:
            if progress:
                left = forecast.seconds_left(step / method.steps)
                progress(Progress(method.title, trial, step, method.steps, finished, len(queue), left))

        forecast.begin()
        watch(0)
        record = finished(folder, method, trial, identity, description, kind)  # by another process meanwhile?
        if record is None:
            record, drawn = do(method, trial, watch)
            save_record(folder, record, drawn)
        done[record.name] = record
        forecast.end(record)
    return [done[f"{method.name}-{trial}"] for trial, method in queue]


def finished(
    folder: Path, method: Trainable, trial: int, identity: Identity, description: dict[str, Any], kind: type[Kind]
) -> Kind | None:
    """The record of this very trial, if it has been done; an error if another one stands in its place."""
    path = folder / f"{method.name}-{trial}.json"
    if not path.exists():
        return None
    record = parse_record(path, kind)
    asked = {"experiment": identity[0], "size": identity[1], "data": description, **method.settings()}
    held = {"experiment": record.experiment, "size": record.size, "data": record.data, **record.settings}
    different = sorted(key for key in asked.keys() | held.keys() if asked.get(key) != held.get(key))
    if different:
        key = different[0]
        raise RecordError(
            f"{path} must be a trial of this run, but was done with {key} = {held.get(key)} where "
            f"{asked.get(key)} is asked for; choose another output folder, or delete the file"
        )
    return record


def do_trial(
    identity: Identity,
    method: Method,
    tensors: Tensors,
    data: Images,
    description: dict[str, Any],
    trial: int,
    watch: Watch,
) -> tuple[Record, Pictures]:
    clock, machine = time.perf_counter(), hardware()
    targets = method.problem.loss.encode(tensors.y, tensors.classes)
    outcome = train(method, tensors.X, targets, trial, watch)
    scores = refit(method.problem.network, outcome, tensors, trial)
    record = Record(
        experiment=identity[0],
        size=identity[1],
        method=method.name,
        title=method.title,
        family=method.family,
        sparse=method.sparse,
        trial=trial,
        seed=trial,
        data=description,
        settings=method.settings(),
        samples=len(tensors.X[: method.rows]),
        passes=max(0, len(outcome.objective) - 1 + outcome.first_pass),
        objective=[finite(value) for value in outcome.objective],
        first_pass=outcome.first_pass,
        seconds=outcome.seconds,
        wall=time.perf_counter() - clock,
        error=scores.error,
        error_V=scores.error_V,
        C=scores.C,
        nonzero=nonzero(outcome),
        status=outcome.status,
        message=outcome.message,
        residual=finite(outcome.residual),
        start_residual=finite(outcome.start_residual),
        checks=[{"claim": check.claim, "holds": check.holds, "figure": check.figure} for check in outcome.checks],
        versions=versions(),
        hardware=machine,
    )
    return record, pictures(outcome, scores, data)


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """A number of torch threads (None: as it is), and the former one afterwards."""
    former = torch.get_num_threads()
    torch.set_num_threads(count or former)
    try:
        yield
    finally:
        torch.set_num_threads(former)
