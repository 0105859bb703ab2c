"""Progress on standard error, with the time that is left, when that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

CHUNK = 4096
Item = TypeVar("Item")


class Bar:
    """One line: what is being done, how much of it, and how long the rest takes."""

    def __init__(self, progress: Progress, text: str, total: float | None) -> None:
        self.progress = progress
        self.task = progress.add_task(text, total=total)

    def update(self, done: float, text: str | None = None, seconds_left: float | None = None) -> None:
        self.progress.update(self.task, completed=done, description=text, seconds_left=seconds_left)

    def advance(self, step: float = 1) -> None:
        self.progress.advance(self.task, step)

    def pulse(self, text: str) -> None:
        """From here on nobody knows how long it takes."""
        self.progress.update(self.task, total=None, description=text)


class ForecastColumn(ProgressColumn):
    """The time left as the one who reports the progress sees it."""

    def render(self, task: Task) -> Text:
        seconds = task.fields.get("seconds_left")
        return Text(
            "-:--:--" if seconds is None else str(timedelta(seconds=round(seconds))), style="progress.remaining"
        )


@contextmanager
def bar(text: str, total: float | None = None, *, forecast: bool = False) -> Iterator[Bar]:
    """A bar that is gone afterwards; without a total it pulses and shows the time that has passed."""
    console = Console(stderr=True)
    time: ProgressColumn = TimeElapsedColumn() if total is None else TimeRemainingColumn()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), ForecastColumn() if forecast else time)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Bar(progress, text, total)


def tracked(items: Iterable[Item], text: str, total: int) -> Iterator[Item]:
    with bar(text, total) as shown:
        for item in items:
            yield item
            shown.advance()


def by_chunks(function: Callable[[NDArray[Any]], NDArray[Any]], X: NDArray[Any], text: str) -> NDArray[Any]:
    """The function of all rows, some thousands at a time."""
    starts = range(0, len(X), CHUNK)
    parts = [function(X[start : start + CHUNK]) for start in tracked(starts, text, len(starts))]
    return np.concatenate(parts)
