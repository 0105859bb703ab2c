"""The progress of an estimator's training: epochs or iterations, then the head on the features."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tikhonet.cli.progress import Bar, bar


class Training:
    """A callback of the estimators."""

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
    total = iterations(estimator, rows)
    with bar("training", total) as shown:
        yield Training(shown, total)


def iterations(estimator: Any, rows: int) -> int:
    """How many epochs or iterations it may do on so many rows."""
    from tikhonet.estimators.fitting import most_iterations

    estimator._validate_params()
    return most_iterations(estimator, rows)
