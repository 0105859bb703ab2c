"""Directions whose signs keep the order of neighbours: iterative quantisation, then steps by neighbours themselves.

A rotation towards the corners of the cube (Gong and Lazebnik, CVPR 2011) loses least of the coordinates Z by signs,

    minimise over signs C and orthonormal R:  |C - Z R|^2,

where each of the two has a closed form given the other. But small distances matter most to a search. From there on,
the columns of R, free now, make a row's true neighbour more alike to it than other rows are, with tanh for the sign:

    minimise over R:  - mean over rows i, neighbours j of  log softmax over rows k of  <h_i, h_k> / 2 at j,
    h = tanh(sharpness Z R).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tikhonet.model.scaling import Floats
from tikhonet.problem.samples import Reduce, keep, rank_of

TURNS = 50
"""Rounds of the rotation, after which its loss hardly falls."""
SAMPLE, NEAREST = 2000, 16
"""Rows that directions learn from, and how many of them are neighbours of each."""
FEWEST = 64
"""With fewer rows the rotation stays as it is."""
STEPS, BATCH, RATE, HEAT = 200, 256, 0.02, 2.0
SHARPEST = 4.0
"""The sharpness of tanh grows from 1 to this."""


def rotation(Z: Tensor, bits: int, seed: int, reduce: Reduce = keep) -> Tensor:
    """Coordinates x bits: of the leading coordinates, one for each bit, where there are as many.

    Where there are fewer, further bits cut them in random directions that are orthonormal among themselves.
    """
    width = max(1, min(bits, Z.shape[1]))
    Z = Z[:, :width].double()
    directions = torch.from_numpy(rotations(width, max(bits, width), np.random.default_rng(seed))).to(Z)
    R = directions[:, :width]
    for _ in range(TURNS):
        left, _, right = torch.linalg.svd(reduce((Z @ R).sign().T @ Z))
        R = (left @ right).T
    return torch.cat([R, directions[:, width:]], dim=1)[:, :bits]


def rotations(width: int, n_bits: int, rng: np.random.Generator) -> Floats:
    """Directions in a space of this width, one column for each bit: orthonormal within every `width` of them."""
    blocks = [np.linalg.qr(rng.normal(size=(width, width)))[0] for _ in range(-(-n_bits // width))]
    directions: Floats = np.concatenate(blocks, axis=1)[:, :n_bits]
    return directions


def neighbourly(Z: Tensor, R: Tensor, seed: int, reduce: Reduce = keep) -> Tensor:
    """Directions R of coordinates Z, in units of their spread, turned by what is near what among some of the rows.

    All ranks take the same steps, by the same rows of all of them.
    """
    Z = sample(Z[:, : len(R)].float(), reduce)
    R = R.float()
    R = R / unit((Z @ R).square().mean(0))
    if len(Z) < FEWEST or not R.shape[1]:
        return R
    near = nearest(Z)
    generator = torch.Generator().manual_seed(seed)
    R = R.clone().requires_grad_()
    adam = torch.optim.Adam([R], lr=RATE)
    batch, numbers = min(BATCH, len(Z)), torch.arange(min(BATCH, len(Z)), device=Z.device)
    for step in range(STEPS):
        adam.param_groups[0]["lr"] = RATE * (1 - 0.95 * step / STEPS)
        sharpness = 1 + (SHARPEST - 1) * step / STEPS
        rows = torch.randint(len(Z), (batch,), generator=generator)
        others = near[rows, torch.randint(near.shape[1], (batch,), generator=generator)]
        here, there = (torch.tanh(sharpness * Z[part] @ R) for part in (rows, others))
        loss = torch.nn.functional.cross_entropy(here @ there.T / HEAT, numbers)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return R.detach()


def unit(squares: Tensor) -> Tensor:
    """Roots of mean squares to divide by; 1 where there is nothing to divide."""
    return torch.where(squares > 1e-12 * squares.max(), squares.sqrt(), 1.0) if len(squares) else squares


def nearest(Z: Tensor) -> Tensor:
    """The numbers of the rows that are nearest to each row."""
    distances = Z.square().sum(1) - 2 * Z @ Z.T
    distances.fill_diagonal_(torch.inf)
    return distances.topk(min(NEAREST, len(Z) - 1), dim=1, largest=False).indices


def sample(Z: Tensor, reduce: Reduce, most: int = SAMPLE) -> Tensor:
    """The first rows of every rank, up to so many in all, in one order on all of them."""
    rank, ranks = rank_of(reduce)
    if ranks == 1:
        return Z[:most]
    each = most // ranks
    places = Z.new_zeros(ranks, each, Z.shape[1] + 1)
    mine = Z[:each]
    places[rank, : len(mine), :-1], places[rank, : len(mine), -1] = mine, 1.0
    rows = reduce(places).flatten(0, 1)
    return rows[rows[:, -1] > 0, :-1]
