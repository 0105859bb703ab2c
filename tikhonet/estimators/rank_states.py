"""States of runs whose rows are spread over ranks: whole on the first one, which keeps files, and given back to all.

Most of a state is the same on all ranks. U of the full-batch solvers has a row for each sample: those of all ranks go
to the first, one after the other. The next start may have another number of ranks, where rows of an estimator come in
another order: then each row is found by its name, a number made of what it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tikhonet.descent.slots import State, with_rows
from tikhonet.model.reading import ModelFormatError
from tikhonet.problem.ranks import Ranks, by_first
from tikhonet.problem.samples import Reduce
from tikhonet.trainer.saving import from_parts, to_parts


def to_first(reduce: Reduce, rows: Tensor) -> Tensor:
    """The rows of all ranks on the first one, none elsewhere."""
    return reduce.to_first(rows) if isinstance(reduce, Ranks) else rows


def gathered(state: State, reduce: Reduce) -> State:
    """The state with the rows of all ranks, on the first one; elsewhere it has none."""
    known: dict[int, Tensor] = {}

    def whole(rows: Tensor) -> Tensor:
        if id(rows) not in known:  # two names of one tensor are kept once
            known[id(rows)] = to_first(reduce, rows)
        return known[id(rows)]

    return with_rows(state, whole)


def rows_in(state: Any) -> list[Tensor]:
    """The tensors of a state that have a row for each sample."""
    found: list[Tensor] = []

    def see(rows: Tensor) -> Tensor:
        found.append(rows)
        return rows

    with_rows(state, see)
    return found


def handed_out(
    find: Callable[[], tuple[State, Tensor | None, Any]],
    begin: State,
    names: Callable[[], Tensor] | None,
    reduce: Reduce,
) -> tuple[State, Any]:
    """The state that the first rank finds, with something beside it, for all: each has as many rows as at the begin.

    Where it finds names of the rows, they are put into the order of those that all ranks give here.
    """
    mine = rows_in(begin)
    count = len(mine[0]) if mine else 0
    here = to_first(reduce, names()) if names and mine else None
    total = sum(map(round, reduce.each(count))) if isinstance(reduce, Ranks) else count
    whole: list[Tensor] = []

    def read() -> tuple[Any, Any]:
        state, stored, beside = find()
        whole.extend(rows_in(state))
        if any(len(rows) != total for rows in whole):
            raise ModelFormatError(f"a state of {len(whole[0])} rows is not one of these {total}; it is left aside")
        if whole and stored is not None and here is not None:
            order = places(stored, here)
            whole[:] = [rows[order] for rows in whole]
        return to_parts(with_rows(state, lambda rows: rows[:0])), beside

    parts, beside = by_first(reduce, read)
    given = iter(whole)

    def own(none: Tensor) -> Tensor:
        rows = next(given, none)
        return reduce.from_first(rows, count) if isinstance(reduce, Ranks) else rows

    return with_rows(from_parts(*parts), own), beside


def places(stored: Tensor, here: Tensor) -> Tensor:
    """Where each of the names here is among those stored."""
    alike = stored.shape == here.shape and stored.dtype == here.dtype
    old, new = (names.argsort(stable=True) for names in (stored if alike else here, here))
    if not alike or not torch.equal(stored[old], here[new]):
        raise ModelFormatError("a state of other rows cannot be gone on from; it is left aside")
    found = torch.empty_like(new)
    found[new] = old
    return found
