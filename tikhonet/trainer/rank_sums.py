"""Sums over a mini-batch that several ranks have rows of; one machine adds nothing to its own."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from tikhonet.problem.samples import Reduce, added_up, keep
from tikhonet.trainer.batches import Batch
from tikhonet.trainer.saving import changed
from tikhonet.trainer.statistics import LayerState


def folded(M: Tensor) -> Tensor:
    """One half of a symmetric matrix, as a vector: its last quarter lies in the empty half of its first."""
    n = len(M)
    h = n // 2
    square = M.new_zeros(h + 1, n - h)
    square[: n - h] += M[h:, h:].triu()
    square[1:, :h] += M[:h, :h].tril()
    return torch.cat([square.view(-1), M[:h, h:].reshape(-1)])


def unfolded(half: Tensor, n: int) -> Tensor:
    """The symmetric matrix of this width that was folded."""
    h = n // 2
    square, corner = half[: (h + 1) * (n - h)].view(h + 1, n - h), half[(h + 1) * (n - h) :].view(h, n - h)
    upper, lower, M = square[: n - h].triu(), square[1:, :h].tril(), half.new_empty(n, n)
    M[h:, h:], M[:h, :h] = upper + upper.triu(1).T, lower + lower.tril(-1).T
    M[:h, h:], M[h:, :h] = corner, corner.T
    return M


def added_symmetric(reduce: Reduce, rows: Mapping[int, Batch]) -> dict[int, Tensor]:
    """The products X' X (by weight) of several layers over all ranks, of which one half travels."""
    sums = added_up(reduce, {n: folded(part.weigh(part.X).T @ part.X) for n, part in rows.items()})
    return {n: unfolded(sums[n], part.X.shape[1]) for n, part in rows.items()}


def with_inputs(
    layers: Mapping[int, LayerState], inputs: Mapping[int, tuple[Batch, float]], beta: float, reduce: Reduce
) -> dict[int, LayerState]:
    """The layers whose Gram matrices have forgotten by beta and seen these rows, of this total weight on all ranks."""
    whole = {} if reduce is keep else added_symmetric(reduce, {n: rows for n, (rows, _) in inputs.items()})
    grams = {n: layer.gram.update(*inputs[n], beta=beta, whole=whole.get(n)) for n, layer in layers.items()}
    return {n: changed(layer, gram=grams[n]) for n, layer in layers.items()}


def mean_squares(reduce: Reduce, rows: float, *matrices: Tensor) -> list[float]:
    """The mean squares of several matrices that have so many rows over all ranks."""
    if reduce is keep:
        return torch.stack([M.square().mean() for M in matrices]).tolist()
    squares = reduce(torch.stack([M.square().sum() for M in matrices])).tolist()
    return [square / (rows * math.prod(M.shape[1:])) for square, M in zip(squares, matrices, strict=True)]
