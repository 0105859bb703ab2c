"""Sums over a mini-batch that several ranks have rows of; one machine adds nothing to its own."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from tikhonet.problem.samples import Reduce, added_up, keep
from tikhonet.trainer.batches import Batch, add_numbers


def added_symmetric(reduce: Reduce, rows: Mapping[int, Batch]) -> dict[int, Tensor]:
    """The products X' X (by weight) of several layers over all ranks, of which one half travels."""
    halves = {n: torch.triu_indices(part.X.shape[1], part.X.shape[1]) for n, part in rows.items()}
    sums = added_up(reduce, {n: (part.weigh(part.X).T @ part.X)[tuple(halves[n])] for n, part in rows.items()})
    whole = {n: part.X.new_empty(part.X.shape[1], part.X.shape[1]) for n, part in rows.items()}
    for n, (i, j) in halves.items():
        whole[n][i, j] = sums[n]
        whole[n][j, i] = sums[n]
    return whole


def mean_squares(reduce: Reduce, rows: float, *matrices: Tensor) -> list[float]:
    """The mean squares of several matrices that have so many rows over all ranks."""
    if reduce is keep:
        return torch.stack([M.square().mean() for M in matrices]).tolist()
    squares = reduce(torch.stack([M.square().sum() for M in matrices])).tolist()
    return [square / (rows * M.shape[1]) for square, M in zip(squares, matrices, strict=True)]


def input_scale(X: Tensor, reduce: Reduce) -> float:
    """The rms of the inputs; 1 where they are all zero."""
    rows = add_numbers(reduce, len(X))[0]
    return math.sqrt(mean_squares(reduce, rows, X.double())[0]) or 1.0
