"""Mini-batches for the stochastic trainer: from arrays, memory-mapped arrays, or the user's own iterable."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from tikhonet.descent.devices import check_device
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Array, tensor
from tikhonet.problem.samples import Reduce, keep, rank_of

Validation = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor]
Item = TypeVar("Item")


class Batch(NamedTuple):
    """Some samples: inputs, encoded targets, and weights where there are any."""

    X: Tensor
    targets: Tensor
    weight: Tensor | None = None

    @property
    def total(self) -> float:
        """The sum of the weights; the number of rows where there are none."""
        return float(len(self.X)) if self.weight is None else float(self.weight.sum())

    def weigh(self, matrix: Tensor) -> Tensor:
        """The rows of `matrix`, which may be images, multiplied by their weights."""
        return matrix if self.weight is None else matrix * self.weight.view(-1, *[1] * (matrix.ndim - 1))


def add_numbers(reduce: Reduce, *numbers: float) -> list[float]:
    """The sums of several numbers over all ranks."""
    if reduce is keep:  # one machine has nothing to add
        return [float(number) for number in numbers]
    sums: list[float] = reduce(torch.tensor(numbers, dtype=torch.float64)).tolist()
    return sums


def largest_of(reduce: Reduce, number: float) -> float:
    """The largest of the numbers that the ranks give, each one its own; all of them, where nobody knows the ranks."""
    rank, size = rank_of(reduce)
    return max(add_numbers(reduce, *(number if k == rank else 0.0 for k in range(size)))) if size > 1 else number


def mean(values: Tensor, weight: Tensor | None, reduce: Reduce) -> float:
    """The mean of one number per row, by weight, over the rows of all ranks."""
    if weight is None:
        sums = values.sum(), values.new_tensor(len(values))
    else:
        sums = values @ weight.to(values), weight.to(values).sum()
    total, count = reduce(torch.stack(sums))
    return float(total / count)


def check_weight(name: str, weight: Tensor, rows: int, zero: bool = False) -> None:
    """Raise unless there is one weight for each row, finite and not negative; all zero only where that is allowed."""
    if tuple(weight.shape) != (rows,):
        raise ValueError(f"{name} must hold one number per row ({rows},), got shape {tuple(weight.shape)}")
    if not bool(weight.isfinite().all()) or bool((weight < 0).any()) or not (zero or bool(weight.any())):
        found = f"numbers from {float(weight.min()):g} to {float(weight.max()):g}"
        raise ValueError(f"{name} must be finite, non-negative{'' if zero else ' and not all zero'}, got {found}")


class Batches(Protocol):
    """One pass over the data at a time, in an order that the generator decides."""

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]: ...

    def __len__(self) -> int:
        """The number of batches in an epoch."""


@dataclass(frozen=True)
class ArrayBatches:
    """Rows in a random order, read as they are needed: a memory-mapped array stays on disk."""

    X: Array
    targets: Array
    weight: Array | None = None
    size: int = 1000
    dtype: torch.dtype = torch.float32
    device: torch.device | str = "cpu"
    count: int | None = None
    """The batches of an epoch, where it is not this array alone that decides: all ranks need as many."""
    longest: int | None = None
    """The most rows that a rank has: an order of so many is drawn, so that all ranks' random numbers stay alike."""

    def __post_init__(self) -> None:
        rows = len(self.X)
        if rows == 0 or len(self.targets) != rows or (self.weight is not None and len(self.weight) != rows):
            lengths = rows, len(self.targets), None if self.weight is None else len(self.weight)
            raise ValueError(f"X, targets and weight must have the same number of rows, at least 1, got {lengths}")
        if self.size < 1:
            raise ValueError(f"the batch size must be at least 1, got {self.size}")
        if self.weight is not None:
            check_weight("weight", tensor(self.weight), rows)

    def __len__(self) -> int:
        # A last batch of less than half the size is joined to the one before: tiny batches are noise.
        return self.count or max(1, round(len(self.X) / self.size))

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        order = torch.randperm(self.longest or len(self.X), generator=generator)
        order = order[order < len(self.X)] if self.longest else order
        inner = range(self.size, self.size * len(self), self.size)
        for rows in order.tensor_split(len(self) if self.count else tuple(inner)):
            weight = None if self.weight is None else self._take(self.weight, rows)
            yield Batch(self._take(self.X, rows), self._take(self.targets, rows), weight)

    def _take(self, array: Array, rows: Tensor) -> Tensor:
        if isinstance(array, Tensor):
            return array[rows.to(array.device)].to(self.device, self.dtype)
        return torch.as_tensor(np.ascontiguousarray(array[rows.numpy()])).to(self.device, self.dtype)


@dataclass(frozen=True)
class GivenBatches:
    """The user's own batches, (X, targets) or (X, targets, weight), in the order given at every pass.

    Anything that can be iterated anew and has a length: a list, a torch DataLoader; images may have their shape. What a
    pass draws by torch's own random numbers, such as the order of a DataLoader, the run's seed decides.
    """

    source: Iterable[tuple[Tensor, ...]]
    dtype: torch.dtype = torch.float32
    device: torch.device | str = "cpu"

    def __len__(self) -> int:
        try:
            return len(self.source)  # type: ignore[arg-type]
        except TypeError:
            raise ValueError(
                "an iterable of batches must have a length and restart at every pass; "
                "wrap a generator in a list or a class with __iter__ and __len__"
            ) from None

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        for batch in seeded(self.source, int(torch.randint(2**62, (), generator=generator))):
            X, *rest = (torch.as_tensor(part).to(self.device, self.dtype) for part in parts_of(batch))
            yield Batch(X.flatten(1) if X.ndim > 2 else X, *rest)


def parts_of(batch: Any) -> tuple[Any, ...]:
    """The parts of a batch of the user's: inputs, targets or labels, and perhaps weights."""
    if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
        found = f"{len(batch)} parts" if isinstance(batch, (tuple, list)) else type(batch).__name__
        raise ArgumentError("X", f"X must give batches (X, y) or (X, y, weight), got {found}; see its `Dataset`")
    return tuple(batch)


def seeded(source: Iterable[Item], seed: int) -> Iterator[Item]:
    """One pass over a source whose use of torch's own random numbers begins with this seed; nobody else sees it."""
    state, items = torch.Generator().manual_seed(seed).get_state(), None
    while True:
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(state)
            try:
                items = iter(source) if items is None else items
                item = next(items)
            except StopIteration:
                return
            state = torch.get_rng_state()
        yield item


def as_batches(
    X: Array | Iterable[tuple[Tensor, ...]],
    targets: Array | None,
    weight: Array | None,
    size: int,
    dtype: torch.dtype,
    device: torch.device | str,
    whole: bool,
    reduce: Reduce = keep,
) -> Batches:
    """Batches of arrays X and targets, or of an iterable X alone; `whole` says that the arrays are needed as such."""
    check_device(str(device))
    if targets is not None:
        arrays = ArrayBatches(X, targets, weight, size, dtype, device)  # type: ignore[arg-type]
        return arrays if rank_of(reduce)[1] == 1 else for_ranks(arrays, reduce)
    if weight is not None or whole or isinstance(X, Array):
        raise ValueError(
            "targets must be given with an array X, with weight and with polish; "
            "an iterable of batches holds its targets and weights itself, and cannot be polished"
        )
    given = GivenBatches(X, dtype, device)
    ranks = rank_of(reduce)[1]
    if ranks > 1 and add_numbers(reduce, len(given))[0] != ranks * largest_of(reduce, len(given)):
        raise ArgumentError("X", f"X must hold as many batches on every rank, got {len(given)} on this one; cut it so")
    return given


def for_ranks(arrays: ArrayBatches, reduce: Reduce) -> ArrayBatches:
    """The rows of this rank in as many batches as all others have, which may have more rows or fewer."""
    rows, ranks = len(arrays.X), rank_of(reduce)[1]
    count = max(1, round(add_numbers(reduce, rows)[0] / (ranks * arrays.size)))
    longest = int(largest_of(reduce, rows))
    fewest = longest - int(largest_of(reduce, longest - rows))
    if fewest < count:
        raise ArgumentError("X", f"X must have a row for each of {count} batches on every rank, got {fewest} on one")
    return replace(arrays, count=None if fewest == longest else count, longest=longest)


def checked(batches: Iterable[Batch], like: Batch, epoch: int, reduce: Reduce = keep) -> Iterator[tuple[int, Batch]]:
    """The batches of an epoch with their numbers, each checked; those whose rows all have weight zero are left out.

    On many machines a batch that is bad on one ends the epoch on all.
    """
    for index, batch in enumerate(batches):
        where = f"batch {index} of epoch {epoch}"
        bad = []
        for name, values, first in (("X", batch.X, like.X), ("targets", batch.targets, like.targets)):
            if values.shape != (len(batch.X), first.shape[1]) or not len(values):
                shape = (max(1, len(batch.X)), first.shape[1])
                raise ValueError(f"{name} of {where} must have shape {shape}, got {tuple(values.shape)}")
            # A sum that is a number says at once that all are; one that is not may have overflowed.
            bad.append(not (math.isfinite(float(values.sum())) or bool(values.isfinite().all())))
        if batch.weight is not None and not any(bad):
            check_weight(f"weight of {where}", batch.weight, len(batch.X), zero=True)
        counts = batch.weight is None or bool(batch.weight.any())
        bad_X, bad_targets, counted = add_numbers(reduce, *bad, counts)
        if bad_X or bad_targets:
            raise FloatingPointError(f"{where} holds NaN or infinity in {'X' if bad_X else 'targets'}")
        if counted:
            yield index, batch
