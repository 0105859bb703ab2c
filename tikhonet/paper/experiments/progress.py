"""How far an experiment is, and how long the rest will take by the trials that are done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tikhonet.paper.experiments.records import Trial


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

    def __init__(self, queue: Sequence[str], done: Iterable[Trial]) -> None:
        self.queue = list(queue)
        self.known = {record.method: record.wall for record in done}
        self.clock = time.perf_counter()

    def begin(self) -> None:
        self.clock = time.perf_counter()

    def end(self, record: Trial) -> None:
        self.known[record.method] = record.wall
        self.queue.pop(0)

    def seconds_left(self, share: float) -> float | None:
        """With this share of the first trial in the queue done."""
        spent = time.perf_counter() - self.clock
        known = dict(self.known)
        if self.queue and share > 0.2:
            known[self.queue[0]] = spent / share
        if not known:
            return None
        usual = sum(known.values()) / len(known)
        expected = [known.get(method, usual) for method in self.queue]
        return max(0.0, sum(expected) - spent)
