"""States of runs whose rows are spread over ranks: whole on the first one, which keeps files, and given back to all.

Most of a state is the same on all ranks. U of the full-batch solvers has a row for each sample: those of all ranks go
to the first, one after the other, so that the next start may have another number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from tikhonet.descent.slots import State, with_rows
from tikhonet.model.reading import ModelFormatError
from tikhonet.problem.ranks import Ranks, by_first
from tikhonet.problem.samples import Reduce
from tikhonet.trainer.saving import from_parts, to_parts


def gathered(state: State, reduce: Reduce) -> State:
    """The state with the rows of all ranks, on the first one; elsewhere it has none."""
    if not isinstance(reduce, Ranks):
        return state
    known: dict[int, Tensor] = {}

    def whole(rows: Tensor) -> Tensor:
        if id(rows) not in known:  # two names of one tensor are kept once
            known[id(rows)] = reduce.to_first(rows)
        return known[id(rows)]

    return with_rows(state, whole)


def handed_out(find: Callable[[], tuple[State, Any]], begin: State, reduce: Reduce) -> tuple[State, Any]:
    """The state that the first rank finds, with something beside it, for all: each has as many rows as at the begin."""
    if not isinstance(reduce, Ranks):
        return find()
    counts: list[int] = []
    with_rows(begin, lambda rows: counts.append(len(rows)) or rows)  # type: ignore[func-returns-value]
    count = counts[0] if counts else 0
    total, whole = sum(map(round, reduce.each(count))), list[Tensor]()

    def read() -> tuple[Any, Any]:
        state, beside = find()
        without = with_rows(state, lambda rows: whole.append(rows) or rows[:0])  # type: ignore[func-returns-value]
        if any(len(rows) != total for rows in whole):
            raise ModelFormatError(f"a state of {len(whole[0])} rows is not one of these {total}; it is left aside")
        return to_parts(without), beside

    parts, beside = by_first(reduce, read)
    given = iter(whole)
    return with_rows(from_parts(*parts), lambda none: reduce.from_first(next(given, none), count)), beside
