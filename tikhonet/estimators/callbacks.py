"""Onlookers of a run: the progress bar, the user's callbacks, Ctrl-C; the drawing of its history; its warnings."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tikhonet.descent.result import History
from tikhonet.network.extras import require
from tikhonet.trainer.training import Epoch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LIBRARIES = ("tikhonet", "sklearn", "joblib")


class Watcher:
    """Called by the solver with its record after every epoch or iteration; True ends the run."""

    def __init__(
        self, callbacks: Any, show: Callable[[Any], None] | None = None, agree: Callable[[bool], bool] = bool
    ) -> None:
        self.agree = agree
        self.callbacks = [callbacks] if callable(callbacks) else list(callbacks or ())
        self.show = show
        self.asked = False
        """Whether a callback asked for the end, which then is no surprise to warn of."""

    def __call__(self, record: Epoch | History) -> bool:
        try:
            if self.show:
                self.show(record)
            answers = [callback(record) for callback in self.callbacks]
        except KeyboardInterrupt:
            return self.agree(True)
        self.asked = self.agree(any(answers))
        return self.asked


@contextmanager
def watching(callbacks: Any, verbose: bool, total: int, agree: Callable[[bool], bool] = bool) -> Iterator[Watcher]:
    """A watcher with these callbacks, and a progress bar of so many epochs where it is asked for.

    `agree` makes one answer of those of all ranks.
    """
    if not verbose:
        yield Watcher(callbacks, agree=agree)
        return
    rich = require("rich.progress")
    bar = (rich.BarColumn(), rich.MofNCompleteColumn(), rich.TimeRemainingColumn())
    with rich.Progress(rich.TextColumn("{task.description}"), *bar) as progress:
        task = progress.add_task("training", total=total)

        def show(record: Epoch | History) -> None:
            done, text = describe(record)
            progress.update(task, completed=done, description=text)

        yield Watcher(callbacks, show, agree)


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


def plot_history(history: History | list[Epoch], ax: Axes | None = None) -> Axes:
    """Draw the objective by iteration, or the loss by epoch with the held-out loss and error where there are any."""
    if ax is None:
        plt = require("matplotlib.pyplot")
        ax = plt.subplots()[1]
    if isinstance(history, History):
        ax.plot(history.objective, label="objective (Eq. 4)")
        ax.set(xlabel="iteration", ylabel="objective", yscale="log")
    else:
        names = ("number", "loss", "validation_loss", "validation_error")
        epochs, loss, held_out, error = (np.array([getattr(epoch, name) for epoch in history]) for name in names)
        ax.plot(epochs, loss, label="training loss")
        if (held_out != loss).any():
            ax.plot(epochs, held_out, label="validation loss")
        if np.isfinite(error).any():
            ax.plot(epochs, error, "--", label="validation error")
        ax.set(xlabel="epoch", ylabel="loss", yscale="log")
    ax.legend()
    return ax


def users_level() -> int:
    """The `stacklevel` for a warning by the caller to point at the user's line, outside of these libraries."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in LIBRARIES:
        frame, level = frame.f_back, level + 1
    return level
