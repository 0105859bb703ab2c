"""Sums over a mini-batch that several ranks have rows of; one machine adds nothing to its own."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tikhonet.problem.samples import Reduce, added_up, keep
from tikhonet.trainer.batches import Batch
from tikhonet.trainer.saving import changed
from tikhonet.trainer.statistics import LayerState


def added_symmetric(reduce: Reduce, rows: Mapping[int, Batch]) -> dict[int, Tensor]:
    """The products X' X (by weight) of several layers over all ranks, of which one half travels."""
    halves = {n: torch.triu_indices(part.X.shape[1], part.X.shape[1]) for n, part in rows.items()}
    sums = added_up(reduce, {n: (part.weigh(part.X).T @ part.X)[tuple(halves[n])] for n, part in rows.items()})
    whole = {n: part.X.new_empty(part.X.shape[1], part.X.shape[1]) for n, part in rows.items()}
    for n, (i, j) in halves.items():
        whole[n][i, j] = sums[n]
        whole[n][j, i] = sums[n]
    return whole


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
    return [square / (rows * M.shape[1]) for square, M in zip(squares, matrices, strict=True)]
