"""What looks on while a solver runs: the progress bar, the user's callbacks, Ctrl-C between two epochs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tikhonet.descent.result import History
from tikhonet.trainer.training import Epoch


class Watcher:
    """Called by the solver with its record after every epoch or iteration; True ends the run."""

    def __init__(self, callbacks: Any, show: Callable[[Any], None] | None = None) -> None:
        self.callbacks = [callbacks] if callable(callbacks) else list(callbacks or ())
        self.show = show
        self.asked = False
        """Whether a callback asked for the end, which then is no surprise to warn of."""

    def __call__(self, record: Epoch | History) -> bool:
        try:
            if self.show:
                self.show(record)
            answers = [callback(record) for callback in self.callbacks]
            self.asked = any(answers)
        except KeyboardInterrupt:
            return True
        return self.asked


@contextmanager
def watching(callbacks: Any, verbose: bool, total: int) -> Iterator[Watcher]:
    if not verbose:
        yield Watcher(callbacks)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("training", total=total)

        def show(record: Epoch | History) -> None:
            done, text = describe(record)
            progress.update(task, completed=done, description=text)

        yield Watcher(callbacks, show)


def describe(record: Epoch | History) -> tuple[int, str]:
    """How many epochs or iterations are done, and their figures."""
    if isinstance(record, History):
        return record.iterations, f"objective {record.objective[-1]:.4g}"
    text = f"loss {record.loss:.4g}"
    if not math.isnan(record.validation_error):
        text += f"  validation error {100 * record.validation_error:.2f}%"
    elif record.validation_loss != record.loss:
        text += f"  validation loss {record.validation_loss:.4g}"
    return record.number, text
