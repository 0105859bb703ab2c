"""Where a run of a solver keeps its state on the way, and finds it again: all that solvers know of checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor

from tikhonet.descent.result import Status

State = TypeVar("State")


class Slot:
    """A place for the states of one run; this one keeps nothing. `estimators/sessions.py` has one of files."""

    ended: tuple[Status, str] | None = None
    """How the run ended, where the state that was found is its last one, and where it broke."""

    def resume(self, begin: State, check: Callable[[State], object]) -> State | None:
        """The state to go on from: one like that at the begin, in which `check` finds nothing to complain of."""
        return None

    def offer(self, state: Any, done: int | None = None) -> None:
        """A state between two steps, to be kept if it is time; `done` counts epochs or iterations where one ends."""

    def end(self, state: Any, status: Status, detail: str = "") -> None:
        """The last state of the run."""


NOWHERE = Slot()


def with_rows(state: State, change: Callable[[Tensor], Tensor]) -> State:
    """The state with those of its tensors changed that have a row for each sample; most states have none.

    All else in a state is the same on all ranks.
    """
    own: Callable[[Callable[[Tensor], Tensor]], State] | None = getattr(state, "with_rows", None)
    return own(change) if own else state
