"""Sums over the processes of a torch.distributed group: the `reduce` of runs whose rows are spread over many.

    total over ranks = ((rank 0 + rank 1) + (rank 2 + rank 3)) + ...

The order is that of `row_blocks`, so that 1, 2, 4 or 8 processes find the same bits. Each rank exchanges halves, then
quarters, ... with ranks 1, 2, 4, ... away and gathers the results on the way back: it sends 2 (P - 1) / P times the
size of the tensor, as little as any all-reduce can, in 2 log P messages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any, Self, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from tikhonet.network.errors import ArgumentError
from tikhonet.problem.meeting import meet
from tikhonet.problem.row_blocks import Place, row_blocks
from tikhonet.problem.samples import Reduce, keep, rank_of

SMALL = 4096
"""Numbers up to which a tensor is exchanged whole: half as many messages, each of which costs more than its bytes."""
Found = TypeVar("Found")
_current: ContextVar[Ranks | None] = ContextVar("ranks", default=None)


class RanksError(RuntimeError):
    """Another rank has ended, or did not answer in time."""


class Ranks:
    """The processes that share the rows of a run; `ranks(total)` adds a tensor up over all of them.

    Solvers take it as `reduce=ranks`. Estimators use it inside `with Ranks() as ranks:`, where every rank fits with
    rows of its own, such as `X[ranks.shard(len(X))]`, and all get the same model. Outside of the block an estimator
    fits the rows of its own process alone, whether or not there is a process group.

    In a process that torchrun started, or in any other with a process group, the group is that one; `with` makes it
    where there is none yet. In a process by itself there is one rank, and all is as without.

    Parameters
    ----------
    group : torch.distributed.ProcessGroup, optional
        The processes; all of them by default.
    timeout : float, default=1800.0
        Seconds that a rank may let the others wait, where `with` makes the group. A rank that dies is noticed at once.

    Attributes
    ----------
    rank : int
        The number of this process.
    size : int
        How many processes there are.
    calls : int
        The sums made so far.
    bytes : int
        The bytes that this rank has sent for them.

    Examples
    --------
    A process by itself is one rank; started by torchrun, each of the processes has a share of the rows:

    >>> from tikhonet import Ranks
    >>> with Ranks() as ranks:
    ...     print(ranks.size, ranks.shard(1000))
    1 slice(0, 1000, None)
    """

    def __init__(self, group: Any = None, timeout: float = 1800.0) -> None:
        self.group, self.timeout, self.calls, self.bytes = group, timeout, 0, 0
        self.rank, self.size, self._made = 0, 1, False
        self._buffer = torch.empty(0, dtype=torch.uint8)
        self._token: Token[Ranks | None] | None = None
        if dist.is_available() and dist.is_initialized():
            self._join()

    def _join(self) -> None:
        self.rank, self.size = dist.get_rank(self.group), dist.get_world_size(self.group)
        if self.rank < 0:
            raise ArgumentError("group", "group must be one that this process belongs to; make it with its rank too")

    def __enter__(self) -> Self:
        if self.size == 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
            meet(self.timeout)
            self._made = True
            self._join()
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        _current.reset(self._token)
        if self._made:
            dist.destroy_process_group()
            self._made = False

    def __call__(self, total: Tensor) -> Tensor:
        """The sum of the tensors that all ranks give, the same on all; the one given stays as it is."""
        if self.size == 1:
            return total
        self.calls += 1
        with self._together():
            if self.size & (self.size - 1) or total.device.type != "cpu":
                return self._in_any_order(total)
            flat = total.contiguous().view(-1)
            return (self._whole(flat) if len(flat) <= SMALL or self.size == 2 else self._by_halves(flat)).view(
                total.shape
            )

    @contextmanager
    def _together(self) -> Iterator[None]:
        """What all ranks do at once; where one of them is gone, the others say so in one line."""
        try:
            yield
        except RuntimeError as error:
            # gloo begins with the place in its source, and goes on with advice for its own users
            reason = re.sub(r"^\[\S+\] ", "", str(error)).partition("\n")[0].partition(". ")[0]
            raise RanksError(
                f"rank {self.rank} of {self.size} lost another rank, which ended or did not answer; "
                f"look for its error, and start all of them again ({reason})"
            ) from None

    def _in_any_order(self, total: Tensor) -> Tensor:
        total = total.clone()
        self.bytes += 2 * (self.size - 1) * total.numel() * total.element_size() // self.size
        dist.all_reduce(total, group=self.group)
        return total

    def _whole(self, flat: Tensor) -> Tensor:
        distance = 1
        while distance < self.size:
            flat = flat + self._exchange(flat, len(flat), distance)
            distance *= 2
        return flat

    def _by_halves(self, flat: Tensor) -> Tensor:
        spans, start, stop, distance = [], 0, len(flat), 1
        mine = flat
        while distance < self.size:
            middle = (start + stop) // 2
            upper = bool(self.rank & distance)
            kept, given = ((middle, stop), (start, middle)) if upper else ((start, middle), (middle, stop))
            there = self._exchange(mine[given[0] - start : given[1] - start], kept[1] - kept[0], distance)
            mine = mine[kept[0] - start : kept[1] - start] + there
            spans.append((distance, kept, given))
            (start, stop), distance = kept, 2 * distance
        whole = torch.empty_like(flat)
        whole[start:stop] = mine
        for distance, kept, given in reversed(spans):
            there = self._exchange(whole[slice(*kept)], given[1] - given[0], distance)
            whole[slice(*given)] = there
        return whole

    def _exchange(self, mine: Tensor, size: int, distance: int) -> Tensor:
        """What the rank at this distance gives for what it gets; overwritten by the next exchange."""
        wanted = size * mine.element_size()
        if len(self._buffer) < wanted:  # kept, since a new one would cost more than what travels
            self._buffer = torch.empty(wanted, dtype=torch.uint8)
        there, peer = self._buffer[:wanted].view(mine.dtype), self._named(self.rank ^ distance)
        for work in (dist.isend(mine, peer, self.group), dist.irecv(there, peer, self.group)):
            assert work is not None
            work.wait()
        self.bytes += mine.numel() * mine.element_size()
        return there

    def _named(self, rank: int) -> int:
        """The number by which torch knows a rank of the group."""
        return dist.get_global_rank(self.group, rank) if self.group else rank

    def each(self, number: float) -> list[float]:
        """The numbers that all ranks give, in their order.

        Parameters
        ----------
        number : float
            That of this rank.

        Returns
        -------
        list of float
            One of each rank.
        """
        numbers = torch.zeros(self.size, dtype=torch.float64)
        numbers[self.rank] = number
        return self(numbers).tolist()

    def gather(self, value: Any) -> list[Any]:
        """The values that all ranks give, in their order.

        Parameters
        ----------
        value : object
            That of this rank; anything that can be pickled.

        Returns
        -------
        list
            One of each rank.
        """
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        with self._together():
            dist.all_gather_object(values, value, self.group)
        return values

    def first(self, value: Found) -> Found:
        """The value (anything that can be pickled) that the first rank gives, on all."""
        if self.size == 1:
            return value
        values = [value]
        with self._together():
            dist.broadcast_object_list(values, self._named(0), self.group)
        return values[0]

    def to_first(self, rows: Tensor) -> Tensor:
        """On the first rank the rows of all, in the order of the ranks; none elsewhere."""
        counts, mine = [round(count) for count in self.each(len(rows))], rows.contiguous()
        if self.rank:
            with self._together():
                dist.send(mine.cpu(), self._named(0), self.group)
            self.bytes += mine.numel() * mine.element_size()
            return rows[:0]
        parts = [mine.cpu(), *(mine.new_empty((count, *mine.shape[1:]), device="cpu") for count in counts[1:])]
        with self._together():
            for rank in range(1, self.size):
                dist.recv(parts[rank], self._named(rank), self.group)
        return torch.cat(parts).to(rows.device) if self.size > 1 else rows

    def from_first(self, rows: Tensor, count: int) -> Tensor:
        """So many rows of this rank, of those that the first one has for all; the others give an empty tensor."""
        counts = [round(number) for number in self.each(count)]
        if self.rank:
            mine = rows.new_empty((count, *rows.shape[1:]), device="cpu")
            with self._together():
                dist.recv(mine, self._named(0), self.group)
            return mine.to(rows.device)
        first: Tensor
        first, *others = rows.split(counts)
        with self._together():
            for rank, part in enumerate(others, start=1):
                dist.send(part.cpu().contiguous(), self._named(rank), self.group)
                self.bytes += part.numel() * part.element_size()
        return first.clone() if others else first

    def shard(self, rows: int) -> slice:
        """The rows of this rank, where all have so many; with these, solvers of all rows find the bits of one process.

        That holds where the number of ranks is 1, 2, 4 or 8 and each gets at least 256 rows.

        Parameters
        ----------
        rows : int
            The rows of all ranks.

        Returns
        -------
        slice
            Those of this one.
        """
        return share(rows, self.rank, self.size)

    def place(self, rows: int) -> Place:
        """Where so many rows of this rank are among those of all: one after the other, in the order of the ranks.

        Parameters
        ----------
        rows : int
            The rows of this rank.

        Returns
        -------
        Place
            Their start, the rows of all, and the blocks that sums are made of.
        """
        counts = [round(count) for count in self.each(rows)]
        start, total = sum(counts[: self.rank]), sum(counts)
        blocks = row_blocks(total)
        shards = [share(total, rank, self.size) for rank in range(self.size)]
        if len(blocks) % self.size or counts != [shard.stop - shard.start for shard in shards]:
            return Place(start, total, row_blocks(rows))
        count = len(blocks) // self.size
        mine = blocks[count * self.rank : count * (self.rank + 1)]
        return Place(start, total, tuple(slice(block.start - start, block.stop - start) for block in mine))


def share(rows: int, rank: int, size: int) -> slice:
    """The rows of one of so many ranks: whole blocks where their number allows it."""
    blocks = row_blocks(rows)
    if len(blocks) % size:
        return slice(rows * rank // size, rows * (rank + 1) // size)
    count = len(blocks) // size
    return slice(blocks[count * rank].start, blocks[count * (rank + 1) - 1].stop)


def current_reduce() -> Reduce:
    """The `reduce` of the estimators: that of the `with Ranks()` they are in, or of one process."""
    ranks = _current.get()
    return keep if ranks is None or ranks.size == 1 else ranks


def gather(value: Any) -> list[Any]:
    """The values of all ranks of the `with Ranks()` that this is in, or this one alone."""
    ranks = _current.get()
    return [value] if ranks is None else ranks.gather(value)


def by_first(reduce: Reduce, work: Callable[[], Found]) -> Found:
    """What the work finds on the first rank, which alone does it; its error is raised on all ranks."""
    rank, size = rank_of(reduce)
    found: Any = None
    error: Exception | None = None
    if rank == 0:
        try:
            found = work()
        except Exception as caught:
            error = caught
    if size > 1:
        found, error = reduce.first((found, error))  # type: ignore[attr-defined]
    if error:
        raise error
    answer: Found = found
    return answer
