"""Line 1 of Alg. 1: where a run starts."""

from __future__ import annotations

from types import NoneType
from typing import Literal

import torch
from torch import Tensor

from tikhonet.network.arguments import SEED, check_callable, check_choice, check_type
from tikhonet.network.graph import Array, tensor
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.row_blocks import in_aligned_memory, of_each
from tikhonet.problem.samples import Reduce, Samples

SOME = 4096
"""Rows that are drawn at a time: other ranks' rows are drawn too, and forgotten."""


def checked_samples(
    problem: Problem,
    X: Array,
    targets: Array,
    weight: Array | None,
    start: Blocks | None,
    chunk_rows: int,
    reduce: Reduce,
    watch: object,
) -> Samples:
    """The samples of a full-batch run; raises where an argument of the run is none that it can take."""
    check_type("problem", problem, Problem)
    check_type("start", start, Blocks, NoneType)
    if watch is not None:
        check_callable("watch", watch)
    X = in_aligned_memory(tensor(problem.network.rows(X), "X"))
    targets = in_aligned_memory(tensor(targets, "targets"))
    samples = Samples(X, targets, None if weight is None else tensor(weight, "weight"), chunk_rows, reduce)
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
        parts = of_each(lambda rows: network.forward(X[rows], W), samples.place.blocks)
        return Blocks({n: torch.cat([part[n] for part in parts]) for n in parts[0]}, V, W)
    U, place = network.layers(X), samples.place
    mine = slice(place.start, place.start + len(X))
    for n in network.hidden:
        drawn = []
        for start in range(0, place.total, SOME):
            part = normal(min(SOME, place.total - start), network.widths[n])
            drawn.append(part[max(0, mine.start - start) : max(0, mine.stop - start)])
        U[n] = network.activation.value_(torch.cat(drawn).abs_())
    return Blocks(U, V, W)


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
        if not network.activation.violation(blocks.U[n]) <= 0:
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
