"""Work that takes its time: a bar on standard error when that is a terminal, and Ctrl-C during training."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.network.extras import require

CHUNK = 4096
NOTE = b"\ntikhonet: stopping after this epoch, the model will be saved; Ctrl-C again to drop the epoch\n"


class Bar:
    """One line: what is being done, how much of it, and how long the rest takes."""

    def __init__(self, progress: Any, text: str, total: float | None) -> None:
        self.progress = progress
        self.task = progress.add_task(text, total=total, left="-:--:--")

    def update(self, done: float, text: str | None = None, seconds_left: float | None = None) -> None:
        left = "-:--:--" if seconds_left is None else str(timedelta(seconds=round(seconds_left)))
        self.progress.update(self.task, completed=done, description=text, left=left)

    def advance(self, step: float = 1) -> None:
        self.progress.advance(self.task, step)

    def pulse(self, text: str) -> None:
        """From here on nobody knows how long it takes."""
        self.progress.update(self.task, total=None, description=text)


@contextmanager
def bar(text: str, total: float | None = None, *, forecast: bool = False) -> Iterator[Bar]:
    """A bar that is gone afterwards; without a total it pulses and shows the time that has passed.

    With `forecast` the time left is that of the one who reports the progress.
    """
    rich = require("rich.progress")
    console = require("rich.console").Console(stderr=True)
    time = rich.TimeElapsedColumn() if total is None else rich.TimeRemainingColumn()
    if forecast:
        time = rich.TextColumn("{task.fields[left]}", style="progress.remaining")
    columns = (rich.TextColumn("{task.description}", markup=False), rich.BarColumn(), time)
    with rich.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Bar(progress, text, total)


def by_chunks(function: Callable[[NDArray[Any]], NDArray[Any]], X: NDArray[Any], text: str) -> NDArray[Any]:
    """The function of all rows, some thousands at a time."""
    parts = []
    with bar(text, len(X)) as shown:
        for start in range(0, len(X), CHUNK):
            parts.append(function(X[start : start + CHUNK]))
            shown.advance(CHUNK)
    return np.concatenate(parts)


class Training:
    """A callback of the estimators that moves a bar: epochs or iterations, then the head on the features."""

    def __init__(self, shown: Bar, total: int) -> None:
        self.shown, self.total, self.done = shown, total, 0

    def __call__(self, record: Any) -> None:
        from tikhonet.estimators.callbacks import describe

        self.done, text = describe(record)
        if self.done < self.total:
            self.shown.update(self.done, text)
        else:
            self.shown.pulse(f"{text}  fitting the head")


@contextmanager
def training_bar(estimator: Any, rows: int) -> Iterator[Training]:
    from tikhonet.estimators.fitting import most_iterations

    estimator._validate_params()
    total = most_iterations(estimator, rows)
    with bar("training", total) as shown:
        yield Training(shown, total)


class Stop:
    """A callback of the estimators: true once Ctrl-C asked for the end. The second Ctrl-C does not wait."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, record: Any = None) -> bool:
        return self.asked

    def hear(self, *_: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        os.write(2, NOTE)  # unlike print, this may come in the middle of another print


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Within it the first Ctrl-C lets the epoch that is running end."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    former = signal.signal(signal.SIGINT, stop.hear)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, former)
