"""Line 1 of Alg. 1: where a run starts."""

from __future__ import annotations

from types import NoneType
from typing import Literal

import torch
from torch import Tensor

from tikhonet.descent.room import DRAWN
from tikhonet.network.arguments import SEED, check_callable, check_choice, check_type
from tikhonet.network.graph import Array, Layers, Weights, tensor
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.row_store import IN_MEMORY, RowStore
from tikhonet.problem.samples import Reduce, Samples


def checked_samples(
    problem: Problem,
    X: Array,
    targets: Array,
    weight: Array | None,
    start: Blocks | None,
    chunk_rows: int,
    reduce: Reduce,
    watch: object,
    store: RowStore = IN_MEMORY,
) -> Samples:
    """The samples of a full-batch run; raises where an argument of the run is none that it can take."""
    check_type("problem", problem, Problem)
    check_type("start", start, Blocks, NoneType)
    if watch is not None:
        check_callable("watch", watch)
    X, targets = store.keep("X", problem.network.rows(X)), store.keep("targets", targets)
    samples = Samples(X, targets, None if weight is None else tensor(weight, "weight"), chunk_rows, reduce, store)
    problem.check(samples)
    return samples


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
