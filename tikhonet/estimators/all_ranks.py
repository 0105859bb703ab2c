"""What estimators learn from the rows of all ranks before training: classes, counts, one seed for all.

Outside of `with Ranks():` every function here knows the rows of this process alone. Labels and the different values
of columns do not add up: they travel pickled between the processes of a run, which trust each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.model.scaling import Floats
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.ranks import current_reduce, gather
from tikhonet.problem.samples import Reduce, keep, rank_of
from tikhonet.trainer.batches import add_numbers, largest_of

FEWEST = 20
"""Rows of a rank, at least: some are held out of them, in every class."""


def all_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """The labels that any rank has."""
    found: NDArray[Any] = np.unique(np.concatenate(gather(labels)))
    return found


def row_count(rows: int) -> int:
    """The rows of all ranks."""
    return round(add_numbers(current_reduce(), rows)[0])


def anywhere(said: bool) -> bool:
    """Whether it is so on any rank."""
    return add_numbers(current_reduce(), bool(said))[0] > 0


def class_totals(totals: NDArray[Any]) -> Floats:
    """Sums over the rows of all ranks, one for each class."""
    return np.array(add_numbers(current_reduce(), *totals))


def one_seed(seed: int, reduce: Reduce) -> int:
    """The seed of the first rank, for all."""
    return seed if reduce is keep else round(add_numbers(reduce, 0 if rank_of(reduce)[0] else seed)[0])


def check_alone(action: str) -> None:
    """Raise inside of `with Ranks():`."""
    if current_reduce() is not keep:
        raise ArgumentError("X", f"{action} works on the rows of one process; leave `with Ranks()`, or use fit in it")


def check_rows(rows: int, reduce: Reduce) -> None:
    """Raise, on all ranks, where one has too few rows."""
    if rank_of(reduce)[1] > 1 and (lacking := largest_of(reduce, max(0, FEWEST - rows))):
        raise ArgumentError(
            "X", f"X must have at least {FEWEST} different rows on every rank, got {round(FEWEST - lacking)} on one"
        )
