"""One line that tells how far some work is, on standard error where that is a terminal."""

from __future__ import annotations

from typing import Any

from tikhonet.network.extras import require


class Bar:
    """A bar of rich's that is gone afterwards; without a total it pulses.

    `columns` are names of rich's columns after the bar, by default one of time. The attribute `total` and the methods
    `update`, `reset` and `close` are those that pooch asks of a bar.
    """

    def __init__(self, text: str, total: float | None = None, *columns: str, console: Any = None) -> None:
        rich = require("rich.progress")
        console = console or require("rich.console").Console(stderr=True)
        after = columns or ("TimeElapsedColumn" if total is None else "TimeRemainingColumn",)
        self.progress = rich.Progress(
            rich.TextColumn("{task.description}", markup=False),
            rich.BarColumn(),
            *(getattr(rich, name)() for name in after),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.progress.add_task(text, total=total)
        self.total = total

    def __enter__(self) -> Bar:
        self.progress.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.progress.stop()

    def update(self, step: float) -> None:
        self.progress.update(self.task, total=self.total or None, advance=step)

    def move(self, done: float, text: str) -> None:
        self.progress.update(self.task, completed=done, description=text)

    def pulse(self, text: str) -> None:
        """From here on nobody knows how long it takes."""
        self.progress.tasks[0].total = None  # which `update` takes for no change
        self.progress.update(self.task, description=text)

    def reset(self) -> None:
        self.progress.update(self.task, completed=0)

    def close(self) -> None:
        self.progress.refresh()
