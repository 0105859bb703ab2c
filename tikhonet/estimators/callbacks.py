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
from tikhonet.trainer.training import Epoch, best_epoch

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
    if not math.isnan(record.metric):
        text += f"  validation metric {record.metric:.4g}"
    elif not math.isnan(record.validation_error):
        text += f"  validation error {100 * record.validation_error:.2f}%"
    elif record.validation_loss != record.loss:
        text += f"  validation loss {record.validation_loss:.4g}"
    return record.number, text


def plot_history(history: History | list[Epoch], ax: Axes | None = None, metric: str = "metric") -> Any:
    """Draw the loss by epoch, or the objective by iteration, and beside it the metric or the error on validation rows.

    On axes that are given there is room for the first alone, and they are returned; else all that were made, an array.
    """
    if not history:
        raise ValueError("history_ must hold an epoch to draw, got none: it had no epochs, or was stopped in the first")
    if isinstance(history, History):
        panels = {"objective": {"objective (Eq. 4)": history.objective}}
    else:
        panels = {"loss": {"training": [epoch.loss for epoch in history]} | validation_lines(history, "loss")}
        judged, wrong = validation_lines(history, "metric"), validation_lines(history, "error")
        panels |= {metric: judged} if judged else {"error": wrong} if wrong else {}
    if ax is not None:
        draw_panel(ax, history, *next(iter(panels.items())))
        return ax
    figure = require("matplotlib.pyplot").figure(layout="constrained", figsize=(5 * len(panels), 4))
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for one, (name, lines) in zip(axes, panels.items(), strict=True):
        draw_panel(one, history, name, lines)
    return axes


def validation_lines(history: list[Epoch], part: str) -> dict[str, list[float]]:
    """A part of the measures by epoch, a line for each set of validation rows; none where it was not measured."""
    sets = len(history[0].validation)
    names = [f"validation set {k}" if sets > 1 else "validation" for k in range(sets)]
    lines = {name: [getattr(epoch.validation[k], part) for epoch in history] for k, name in enumerate(names)}
    return {name: values for name, values in lines.items() if np.isfinite(values).any()}


def draw_panel(ax: Axes, history: History | list[Epoch], name: str, lines: dict[str, list[float]]) -> None:
    """Draw lines of one quantity, and which epoch was best."""
    by_epoch = isinstance(history, list)
    first = 0 if {"training", "objective (Eq. 4)"} & set(lines) else 1  # a set has one colour on all axes
    for k, (label, values) in enumerate(lines.items(), first):
        ax.plot(np.arange(len(values)) + by_epoch, values, f"C{k}", label=label)
    ax.set(xlabel="epoch" if by_epoch else "iteration", ylabel=name)
    if first == 0 and all(min(values) > 0 for values in lines.values()):
        ax.set_yscale("log")
    if isinstance(history, list) and history[0].validation:
        best = best_epoch(history).number
        ax.axvline(best, color="0.6", linestyle=":", label=f"best epoch, {best}")
    ax.legend()


def users_level() -> int:
    """The `stacklevel` for a warning by the caller to point at the user's line, outside of these libraries."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in LIBRARIES:
        frame, level = frame.f_back, level + 1
    return level
