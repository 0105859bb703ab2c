"""The loop around trials: finished ones are skipped, the others are done in turn and saved as they end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import torch

from tikhonet.paper.experiment import Data, Experiment, Method, read_records
from tikhonet.paper.records import (
    FILE,
    Record,
    RecordError,
    append_record,
    hardware,
    pack_pictures,
    versions,
)

UNFINISHED = "unfinished"
"""The folder of the states of trials that were stopped, each of which goes on from its own."""


@dataclass(frozen=True)
class Progress:
    """One report: trial `trial` of a method has done `step` of its `steps`."""

    title: str
    trial: int
    step: int
    steps: int
    finished: int
    """Trials that are done, out of `trials`."""
    trials: int
    seconds_left: float | None
    """None until a trial has been timed."""

    @property
    def share(self) -> float:
        return (self.finished + self.step / max(1, self.steps)) / max(1, self.trials)


Report = Callable[[Progress], None]


class Forecast:
    """Each method takes as long as its last trial did; one that has not been run yet, as long as the mean."""

    def __init__(self, queue: Sequence[str], done: Iterable[Record]) -> None:
        self.queue = list(queue)
        self.known = {record.method: record.wall for record in done}
        self.clock = time.perf_counter()

    def end(self, record: Record) -> None:
        self.known[record.method] = record.wall
        self.queue.pop(0)
        self.clock = time.perf_counter()

    def seconds_left(self, share: float) -> float | None:
        """The seconds to the end, with this share of the first trial in the queue done."""
        spent, known = time.perf_counter() - self.clock, dict(self.known)
        if share > 0.2:
            known[self.queue[0]] = spent / share
        if not known:
            return None
        usual = sum(known.values()) / len(known)
        return max(0.0, sum(known.get(method, usual) for method in self.queue) - spent)


def run(
    experiment: Experiment,
    data: Data,
    size: Any = None,
    output: str | os.PathLike[str] | None = None,
    *,
    solvers: Sequence[str] | None = None,
    trials: Sequence[int] | None = None,
    epochs: int | None = None,
    progress: Report | None = None,
) -> list[Any]:
    """Do the trials that are not yet in the folder `output`, and return all that were asked for of the last stage.

    `trials` are seeds, those of the data if None. `solvers` are names of methods or of the page's rows, all of them if
    None; `epochs` sets the passes of every one. Methods take turns, trial by trial, so that a machine that becomes
    slower does so for all of them. Processes may share a folder: each looks again before every trial whether it has
    been done.
    """
    if epochs is not None and epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")
    size = size or experiment.sizes[0]
    folder = Path(output or experiment.name)
    identity = {"experiment": experiment.name, "size": size.name, "data": data.describe()}

    def so_far() -> list[Any]:
        return [record for _, record in read_records(folder)]

    done: list[Any] = []
    with torch_threads(size.threads):
        seeds_asked = data.trials if trials is None else trials
        for methods, seeds in experiment.stages(size, data, epochs, seeds_asked, so_far):
            wanted = experiment.choose(methods, solvers)
            queue = [(seed, method) for seed in seeds for method in wanted]
            done = run_stage(experiment, queue, data, identity, folder, progress)
    return done


def run_stage(
    experiment: Experiment,
    queue: Sequence[tuple[int, Any]],
    data: Data,
    identity: Mapping[str, Any],
    folder: Path,
    progress: Report | None,
) -> list[Any]:
    """The records of a queue of trials, of which those that are not in the folder are done."""
    found = finished(folder, queue, identity)
    waiting = [job for job in queue if name_of(job) not in found]
    forecast = Forecast([method.name for _, method in waiting], found.values())
    asked = {name_of(job) for job in queue}
    for trial, method in waiting:
        done = len(asked & found.keys())

        def watch(step: int, trial: int = trial, method: Method = method, done: int = done) -> None:
            if progress:
                left = forecast.seconds_left(step / method.steps)
                progress(Progress(method.title, trial, step, method.steps, done, len(queue), left))

        watch(0)
        found |= finished(folder, queue, identity)  # by another process meanwhile
        if (name := name_of((trial, method))) not in found:
            place = folder / UNFINISHED / name
            record = do_trial(experiment, method.kept_in(place), data, identity, trial, watch)
            if any(other.method == method.name and other.pictures for other in found.values()):
                record = replace(record, pictures={})  # a page shows one trial of a method
            append_record(folder, record)
            rmtree(place, ignore_errors=True)
            with suppress(OSError):  # others are there still, or nothing was kept
                place.parent.rmdir()
            found[name] = record
        forecast.end(found[name])
    return [found[name_of(job)] for job in queue]


def name_of(job: tuple[int, Method]) -> str:
    return f"{job[1].name}-{job[0]}"


def do_trial(
    experiment: Experiment,
    method: Method,
    data: Data,
    identity: Mapping[str, Any],
    trial: int,
    watch: Callable[[int], None],
) -> Record:
    clock, machine = time.perf_counter(), hardware()
    measured = experiment.trial(method, data, trial, watch)
    measured["pictures"] = pack_pictures(measured.get("pictures", {}))
    return experiment.record(
        **identity,
        method=method.name,
        title=method.title,
        family=method.family,
        trial=trial,
        seed=trial,
        settings=method.settings(),
        **measured,
        wall=time.perf_counter() - clock,
        versions=versions(),
        hardware=machine,
    )


def finished(folder: Path, queue: Sequence[tuple[int, Method]], identity: Mapping[str, Any]) -> dict[str, Record]:
    """All records of the folder by name; an error if one is of another run, or of this trial with other settings."""
    methods, found = {name_of(job): job[1] for job in queue}, {}
    for where, record in read_records(folder):
        for name, value in identity.items():
            if getattr(record, name) != value:
                held, wanted = told_apart(getattr(record, name), value)
                raise RecordError(
                    f"{folder} holds trials of {held}, and {wanted} is asked for; choose another folder (--output)"
                )
        asked = methods[record.name].settings() if record.name in methods else record.settings
        keys = sorted(asked.keys() | record.settings.keys())
        if different := [key for key in keys if asked.get(key) != record.settings.get(key)]:
            key = different[0]
            raise RecordError(
                f"{where} must be a trial of this run, but was done with {key} = {record.settings.get(key)} where "
                f"{asked.get(key)} is asked for; choose another output folder, or delete the line"
            )
        found[record.name] = record
    return found


def told_apart(held: Any, asked: Any) -> tuple[str, str]:
    """Two experiments, sizes or descriptions of data as words; of descriptions the part that differs."""
    if not (isinstance(held, dict) and isinstance(asked, dict)):
        return str(held), str(asked)
    key = next(key for key in (*asked, *held) if asked.get(key) != held.get(key))
    start = "" if key == "name" else f"{asked.get('name')} with {key} "
    return f"{start}{held.get(key)}", f"{start}{asked.get(key)}"


def count_finished(folder: Path) -> int:
    """How many trials a folder holds."""
    path = folder / FILE
    return path.read_bytes().count(b"\n") if path.is_file() else 0


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """A number of torch threads (None: as it is), and the former one afterwards."""
    former = torch.get_num_threads()
    torch.set_num_threads(count or former)
    try:
        yield
    finally:
        torch.set_num_threads(former)
