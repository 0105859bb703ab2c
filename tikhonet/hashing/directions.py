"""Directions whose signs keep the order of neighbours: iterative quantisation, then steps by neighbours themselves.

A rotation towards the corners of the cube (Gong and Lazebnik, CVPR 2011) loses least of the coordinates Z by signs,

    minimise over signs C and orthonormal R:  |C - Z R|^2,

where each of the two has a closed form given the other. But small distances matter most to a search. From there on,
the columns of R, free now, make rows as alike as they are near:

    minimise over R:  - sum over rows i, k of  p_ik log softmax over rows k of  <h_i, h_k> / heat,
    p_ik = softmax over rows k of  -|z_i - z_k|^2 / (width |z_i - its last neighbour|^2),
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
SAMPLE, NEAREST = 5000, 16
"""Rows that directions learn from, and how many of them are neighbours of each."""
FEWEST = 64
"""With fewer rows the rotation stays as it is."""
STEPS, BATCH, RATE = 600, 128, 0.02
WIDTH, COOL = 0.15, 12
"""How fast p falls with the squared distance, in units of that to the last neighbour; bits for each unit of heat, since
longer codes differ in more bits."""
INSIDE, FEW = 2.0, 0.5
"""How much wider and hotter it is for rows of one class, where a neighbour is less rare, and where many bits cut few
axes."""
SHARPEST = 4.0
"""The sharpness of tanh grows from 1 to this."""
PART, FAR = 1000, -1e9
"""Rows whose distances are computed at a time; the likeness of a row to itself, which does not count."""


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


def neighbourly(Z: Tensor, R: Tensor, seed: int, reduce: Reduce = keep, *, wide: float = 1.0) -> Tensor:
    """Directions R of coordinates Z, in units of their spread, turned by what is near what among some of the rows.

    All ranks take the same steps, by the same rows of all of them.
    """
    Z = sample(Z[:, : len(R)].float(), reduce)
    R = R.float()
    R = R / unit((Z @ R).square().mean(0))
    if len(Z) < FEWEST or not R.shape[1]:
        return R
    near, last = nearest(Z)
    last = (wide * WIDTH * last).clamp_min(1e-6 * Z.square().sum(1).mean())
    generator = torch.Generator().manual_seed(seed)
    R = R.clone().requires_grad_()
    adam, heat = torch.optim.Adam([R], lr=RATE), wide * R.shape[1] / COOL
    for step in range(STEPS):
        adam.param_groups[0]["lr"] = RATE * (1 - 0.95 * step / STEPS)
        sharpness = 1 + (SHARPEST - 1) * step / STEPS
        rows, drawn = torch.randint(len(Z), (2, BATCH), generator=generator).to(Z.device)
        places = torch.randint(near.shape[1], (BATCH,), generator=generator).to(Z.device)
        others = torch.cat([near[rows, places], drawn])
        itself = rows[:, None] == others
        p = (-torch.cdist(Z[rows], Z[others]).square() / last[rows, None]).masked_fill(itself, -torch.inf).softmax(1)
        here, there = (torch.tanh(sharpness * Z[part] @ R) for part in (rows, others))
        loss = torch.nn.functional.cross_entropy((here @ there.T / heat).masked_fill(itself, FAR), p)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return R.detach()


def unit(squares: Tensor) -> Tensor:
    """Roots of mean squares to divide by; 1 where there is nothing to divide."""
    return torch.where(squares > 1e-12 * squares.max(), squares.sqrt(), 1.0) if len(squares) else squares


def nearest(Z: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers of the other rows that are nearest to each row, and the squared distance of the last of them."""
    found = []
    for start in range(0, len(Z), PART):
        squares = torch.cdist(Z[start : start + PART], Z).square_()
        squares.diagonal(start).fill_(torch.inf)
        found.append(squares.topk(min(NEAREST, len(Z) - 1), dim=1, largest=False))
    return torch.cat([part.indices for part in found]), torch.cat([part.values[:, -1] for part in found])


def sample(Z: Tensor, reduce: Reduce, most: int = SAMPLE) -> Tensor:
    """Rows of every rank, up to so many in all, in one order on all of them; of more, evenly spread ones."""
    rank, ranks = rank_of(reduce)
    each = most // ranks
    mine = Z[torch.arange(each, device=Z.device) * len(Z) // each] if len(Z) > each else Z
    if ranks == 1:
        return mine
    places = Z.new_zeros(ranks, each, Z.shape[1] + 1)
    places[rank, : len(mine), :-1], places[rank, : len(mine), -1] = mine, 1.0
    rows = reduce(places).flatten(0, 1)
    return rows[rows[:, -1] > 0, :-1]
