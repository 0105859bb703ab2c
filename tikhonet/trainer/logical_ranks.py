"""The trainer with the same bits on any number of processes: logical ranks, of which each process has as many.

A run of P processes is one of L logical ranks, L/P of them in each process, as threads. Each has its own rows, one
thread of torch's, and does what a rank of a process by itself would do: so no product's shape depends on P. Sums are
added in pairs, pairs of pairs and so on, first between the threads of a process, then between processes.

What ranks do alike (factorisations, averages) is done by all L of them: that is the price.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from threading import Barrier, BrokenBarrierError, Semaphore, Thread
from typing import Any

import torch
from torch import Tensor

from tikhonet.descent.result import Status
from tikhonet.descent.slots import NOWHERE, Slot, State
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.objective import Problem
from tikhonet.problem.ranks import share
from tikhonet.problem.row_blocks import added_in_pairs, in_aligned_memory
from tikhonet.problem.samples import Reduce, keep, rank_of
from tikhonet.trainer.batches import add_numbers, largest_of
from tikhonet.trainer.run import Stochastic, Watch
from tikhonet.trainer.training import Training


@dataclass(frozen=True)
class SameBits:
    """The trainer with the same bits on 1, 2, 4 or 8 processes and any number of threads, on one kind of CPU.

    `SameBits(Stochastic(...)).run(problem, X, targets, reduce=ranks)` takes what `Stochastic.run` takes. Each process
    has the rows that `ranks.shard` gives it.

    Parameters
    ----------
    solver : Stochastic
        The trainer; its `batch_size` counts the rows of all processes together.
    ranks : int, default=8
        Logical ranks, a power of 2: the number of processes must divide it. The fewer, the cheaper.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Network, Problem, SameBits, Stochastic
    >>> X = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
    >>> problem = Problem(Network.chain([5, 8]))
    >>> targets = problem.loss.encode((X[:, 0] > 0).long(), 2).float()
    >>> training = SameBits(Stochastic(epochs=2, batch_size=100), ranks=2).run(problem, X, targets)
    >>> len(training.epochs)
    2
    """

    solver: Stochastic
    ranks: int = 8

    def __post_init__(self) -> None:
        if self.ranks < 1 or self.ranks & (self.ranks - 1):
            raise ArgumentError("ranks", f"ranks must be a power of 2, got {self.ranks}")

    def run(
        self,
        problem: Problem,
        X: Tensor,
        targets: Tensor,
        *,
        weight: Tensor | None = None,
        validation: tuple[Tensor, ...] | None = None,
        watch: Watch | None = None,
        reduce: Reduce = keep,
        slot: Slot = NOWHERE,
        **options: Any,
    ) -> Training:
        """Train on arrays, as `Stochastic.run` does.

        Parameters
        ----------
        problem : Problem
            Network, loss, lift and sets.
        X : Tensor
            Inputs of the rows that `ranks.shard` gives this process.
        targets : Tensor
            Encoded targets of these rows.
        weight : Tensor, optional
            A number for each of them.
        validation : tuple of Tensor, optional
            (X, targets) or (X, targets, weight) to judge epochs by, also the shard of this process.
        watch : callable, optional
            Called with every epoch; True ends the run.
        reduce : callable, default=keep
            The `Ranks` of the processes.
        slot : Slot, default=NOWHERE
            Where states are kept; a run on another number of processes goes on from them to the same bits.
        **options : object
            What else `Stochastic.run` takes.

        Returns
        -------
        Training
            The network, the same on all processes.
        """
        rank, processes = rank_of(reduce)
        if self.ranks % processes:
            raise ArgumentError("reduce", f"reduce must be one of a divisor of {self.ranks} ranks, got {processes}")
        mine = range(self.ranks // processes * rank, self.ranks // processes * (rank + 1))
        rows = [part for part in (X, targets, weight) if part is not None]
        parts = self._cut("X", rows, mine, rank, processes, reduce)
        judged = self._cut("validation", validation, mine, rank, processes, reduce) if validation else None
        solver = replace(self.solver, batch_size=max(1, self.solver.batch_size // self.ranks))
        here = Together(len(mine), reduce)

        def one(k: int) -> Training:
            given = options | {"weight": parts[k][2] if weight is not None else None}
            given |= {"validation": judged and judged[k], "watch": here.told(k, watch)}
            given |= {"slot": slot if slot is NOWHERE else OneSlot(slot, here, k)}
            return solver.run(problem, *parts[k][:2], reduce=Logical(mine[k], self.ranks, k, here), **given)

        return here.run(one)

    def _cut(
        self, name: str, arrays: Any, mine: range, rank: int, processes: int, reduce: Reduce
    ) -> list[tuple[Tensor, ...]]:
        """The rows of each logical rank here, in memory of their own."""
        count = len(arrays[0])
        total = round(add_numbers(reduce, count)[0])
        whole = share(total, rank, processes)
        shards = [share(total, k, self.ranks) for k in mine]
        wrong = count != whole.stop - whole.start or shards[0].start != whole.start or shards[-1].stop != whole.stop
        if largest_of(reduce, wrong or any(shard.start == shard.stop for shard in shards)):
            raise ArgumentError(
                name, f"{name} must hold the rows that ranks.shard gives, one for each of {self.ranks} ranks or more"
            )
        slices = [slice(shard.start - whole.start, shard.stop - whole.start) for shard in shards]
        return [tuple(in_aligned_memory(torch.as_tensor(array)[part]) for array in arrays) for part in slices]


@dataclass
class Together:
    """The logical ranks of one process: threads that add up what they have, and then with other processes."""

    count: int
    reduce: Reduce
    parts: list[Any] = field(default_factory=list)
    total: Any = None

    def __post_init__(self) -> None:
        self.parts, self.barrier = [None] * self.count, Barrier(self.count)
        self.turns = Semaphore(torch.get_num_threads())

    def meet(self, k: int, part: Any, join: Callable[[list[Any]], Any]) -> Any:
        """What the first thread makes of the parts that all give."""
        self.parts[k] = part
        self.turns.release()
        try:
            self.barrier.wait()
            if k == 0:
                self.total = join(self.parts)
            self.barrier.wait()
        finally:
            self.turns.acquire()
        return self.total

    def told(self, k: int, watch: Watch | None) -> Watch | None:
        """A `watch` for each thread, of which the first one asks."""
        if watch is None:
            return None
        return lambda epoch: bool(self.meet(k, epoch, lambda epochs: watch(epochs[0])))

    def run(self, work: Callable[[int], Training]) -> Training:
        """What the first thread finds; an error of any is raised."""
        found: list[Any] = [None] * self.count
        threads = torch.get_num_threads()

        def go(k: int) -> None:
            self.turns.acquire()
            try:
                found[k] = work(k)
                self.meet(k, "ended", check_ended)
            except BaseException as error:
                found[k] = error
                self.barrier.abort()
            finally:
                self.turns.release()

        others = [Thread(target=go, args=(k,), daemon=True) for k in range(1, self.count)]
        torch.set_num_threads(1)
        try:
            for thread in others:
                thread.start()
            go(0)
            for thread in others:
                thread.join()
        finally:
            torch.set_num_threads(threads)
        errors = [error for error in found if isinstance(error, BaseException)]
        for error in sorted(errors, key=lambda error: isinstance(error, BrokenBarrierError)):
            raise error
        training: Training = found[0]
        return training


@dataclass
class OneSlot(Slot):
    """The slot of a run for each of its threads, whose states are all alike: the first one reads and writes them."""

    slot: Slot
    here: Together
    thread: int

    def resume(self, begin: State, check: Callable[[State], object]) -> State | None:
        """The state of the run, a copy for each thread; a step is tried by all of them together, so not before."""
        found: State | None = self.here.meet(
            self.thread, begin, lambda states: self.slot.resume(states[0], lambda state: None)
        )
        self.ended = self.slot.ended
        if found is not None:
            found = deepcopy(found)
            check(deepcopy(found))
        return found

    def offer(self, state: Any, done: int | None = None) -> None:
        self.here.meet(self.thread, state, lambda states: self.slot.offer(states[0], done))

    def end(self, state: Any, status: Status, detail: str = "") -> None:
        self.here.meet(self.thread, state, lambda states: self.slot.end(states[0], status, detail))


def check_ended(parts: list[Any]) -> None:
    """Raise unless all threads have come to their end."""
    if any(not isinstance(part, str) for part in parts):
        raise RuntimeError("the logical ranks of a process have come apart; run it again")


@dataclass(frozen=True)
class Logical:
    """The `reduce` of one logical rank."""

    rank: int
    size: int
    thread: int
    here: Together

    def __call__(self, total: Tensor) -> Tensor:
        summed: Tensor = self.here.meet(
            self.thread, total, lambda parts: self.here.reduce(added_in_pairs(parts, torch.add))
        )
        return summed.clone()  # a step may write over it
