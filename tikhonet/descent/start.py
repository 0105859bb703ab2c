"""How a full-batch run is asked for, and line 1 of Alg. 1: where it starts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from types import NoneType
from typing import Generic, Literal, TypeVar

import torch
from torch import Tensor

from tikhonet.descent.result import History, Result
from tikhonet.descent.room import DRAWN, Room
from tikhonet.descent.slots import NOWHERE, Slot
from tikhonet.network.arguments import SEED, check_callable, check_choice, check_type
from tikhonet.network.graph import Array, Layers, Weights, tensor
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.row_blocks import one_thread_a_block
from tikhonet.problem.row_store import IN_MEMORY, MappedStore
from tikhonet.problem.samples import Reduce, Samples, keep

Found = TypeVar("Found", bound=Result)
Watch = Callable[[History], "bool | None"]
"""Hears of every iteration, and ends a run by returning True."""


class FullBatchSolver(ABC, Generic[Found]):
    """A solver over all samples at once: what its runs are asked with; a subclass holds settings and does the run."""

    chunk_rows: int
    same_bits: bool
    initial_features: Literal["random", "forward"] = "forward"

    @torch.no_grad()
    def run(
        self,
        problem: Problem,
        X: Array,
        targets: Array,
        *,
        weight: Array | None = None,
        seed: int = 0,
        start: Blocks | None = None,
        reduce: Reduce = keep,
        watch: Watch | None = None,
        slot: Slot = NOWHERE,
    ) -> Found:
        """Minimise the solver's objective on these samples, from `start` or from random blocks.

        Parameters
        ----------
        problem : Problem
            What is minimised: by `BlockDescent` Eq. 4, by `NetworkDescent` Eq. 2, of which lift and gamma are no part.
        X : Tensor or array
            Inputs, samples x width.
        targets : Tensor or array
            Encoded targets, samples x outputs; `problem.loss.encode(y)` makes them of labels.
        weight : Tensor or array, optional
            A number for each sample.
        seed : int, default=0
            Fixes the random start.
        start : Blocks, optional
            A point to begin at.
        reduce : callable, default=keep
            Adds up over the ranks of a run on many machines (`Ranks`).
        watch : callable, optional
            Called with the history after every iteration; it ends the run by returning True.
        slot : Slot, default=NOWHERE
            Keeps the state between iterations; a state that it has is gone on from, in place of `start`.

        Returns
        -------
        Result
            The point that was reached, and the way there.
        """
        check_type("slot", slot, Slot)
        check_type("problem", problem, Problem)
        check_type("start", start, Blocks, NoneType)
        if watch is not None:
            check_callable("watch", watch)
        room = self._room(problem, X, targets)
        chunk_rows, store = (self.chunk_rows, IN_MEMORY) if room is None else (room.chunk_rows, MappedStore())
        X, targets = store.keep("X", problem.network.rows(X)), store.keep("targets", targets)
        weight = None if weight is None else tensor(weight, "weight")
        samples = Samples(X, targets, weight, chunk_rows, reduce, store)
        problem.check(samples)
        self._check(problem)
        with one_thread_a_block(self.same_bits):
            blocks = start or initial_blocks(problem, samples, seed, self.initial_features)
            return replace(self._run(problem, samples, blocks, watch, slot), room=room)

    def _room(self, problem: Problem, X: Array, targets: Array) -> Room | None:
        """What a run with a budget of memory needs of it; None without one."""
        return None

    @abstractmethod
    def _check(self, problem: Problem) -> None:
        """Raise where the solver cannot minimise this problem."""

    @abstractmethod
    def _run(self, problem: Problem, samples: Samples, blocks: Blocks, watch: Watch | None, slot: Slot) -> Found:
        """A run from these blocks."""


def initial_blocks(
    problem: Problem, samples: Samples, seed: int = 0, features: Literal["random", "forward"] = "random"
) -> Blocks:
    """Where a run starts: random V and W in their sets, and U random (line 1 of Alg. 1) or the forward pass of W.

    Random rows of U are those that one process with the rows of all ranks would draw.

    Parameters
    ----------
    problem : Problem
        What is minimised.
    samples : Samples
        The training samples.
    seed : int, default=0
        Fixes all that is random.
    features : {"random", "forward"}, default="random"
        Where U starts.

    Returns
    -------
    Blocks
        A point whose blocks are in their sets.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Network, Problem, Samples, initial_blocks
    >>> problem = Problem(Network.chain([3, 4]))
    >>> samples = Samples(torch.ones(5, 3), torch.zeros(5, 2))
    >>> blocks = initial_blocks(problem, samples, seed=1)
    >>> blocks.V.shape, blocks.U[1].shape
    (torch.Size([2, 4]), torch.Size([5, 4]))
    """
    check_type("problem", problem, Problem)
    check_type("samples", samples, Samples)
    SEED.check("seed", seed)
    check_choice("features", features, "random", "forward")
    network, X = problem.network, samples.X
    generator = torch.Generator().manual_seed(seed)

    def normal(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=generator, dtype=torch.float64).to(X)

    W = network.random_weights(generator, dtype=X.dtype, device=X.device)
    W = {edge: problem.edge_set(edge).project(matrix) for edge, matrix in W.items()}
    last = network.widths[-1]
    V = problem.V_set.project(normal(samples.targets.shape[1], last) / last**0.5)
    if features == "forward":
        return forward_blocks(problem, samples, V, W)
    U, place = network.layers(X), samples.place
    for n in network.hidden:
        U[n], first = samples.empty(network.widths[n]), place.start
        for start in range(0, place.total, DRAWN):
            part = normal(min(DRAWN, place.total - start), network.widths[n])
            mine = slice(max(0, first - start), max(0, min(len(part), first + len(X) - start)))
            place_of_part = slice(start + mine.start - first, start + mine.stop - first)
            if mine.stop > mine.start:
                U[n][place_of_part] = network.activation.value_(part[mine].abs_())
                samples.store.release()
    return Blocks(U, V, W)


def forward_blocks(problem: Problem, samples: Samples, V: Tensor, W: Weights) -> Blocks:
    """The blocks of which U is the network's own forward pass."""
    network = problem.network
    widths = {n: network.widths[n] for n in network.hidden}

    def layers(rows: slice) -> Layers:
        U = network.forward(samples.X[rows], W)
        return {n: U[n] for n in widths}

    return Blocks(network.layers(samples.X) | samples.matrices(widths, layers), V, W)


def check_blocks(problem: Problem, blocks: Blocks, samples: Samples) -> None:
    """Raise unless the blocks fit the problem and the samples and are feasible."""
    network, X = problem.network, samples.X
    network.check_weights(blocks.W)
    for matrix in (blocks.V, *blocks.W.values(), *(blocks.U[n] for n in network.hidden if n in blocks.U)):
        if (matrix.dtype, matrix.device) != (X.dtype, X.device):
            given, wanted = (f"{part.dtype} on {part.device}" for part in (matrix, X))
            raise ValueError(f"start must have X's type and device ({wanted}), got {given}; use .to(X) on its tensors")
    for n in network.hidden:
        shape = (len(samples), network.widths[n])
        if n not in blocks.U or tuple(blocks.U[n].shape) != shape:
            raise ValueError(f"start.U[{n}] must have shape {shape}, got {blocks.U.get(n, torch.empty(0)).shape}")
        if not samples.most(network.activation.violation, blocks.U[n]) <= 0:
            interval = f"from {network.activation.lower:g} to {network.activation.upper:g}"
            raise ValueError(f"start.U[{n}] must be finite and lie in the activation's interval, {interval}")
    shape = (samples.targets.shape[1], network.widths[-1])
    if tuple(blocks.V.shape) != shape:
        raise ValueError(f"start.V must have shape {shape}, got {tuple(blocks.V.shape)}")
    if not problem.V_set.contains(blocks.V):
        raise ValueError(f"start.V must be finite and in its set {problem.V_set}; project it first")
    for edge, matrix in blocks.W.items():
        if not problem.edge_set(edge).contains(matrix):
            name = f"start.W[{edge[0]}, {edge[1]}]"
            raise ValueError(f"{name} must be finite and in its set {problem.edge_set(edge)}; project it first")
