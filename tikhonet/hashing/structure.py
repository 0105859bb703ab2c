"""Bits that keep the order of neighbours: what labels leave open, learned beside them by the same network.

Codes that know the labels alone give all rows of a class one code, so that nothing orders them. The rest of the bits
come from the inputs themselves. Their leading principal coordinates Z, which hold most of the distances between rows,
are further targets of the network, beside the codes B that know the labels:

    f(U, V, W, B, G) = Eq. 4 with targets [B, Z] + alpha/2 (|Y - B G|^2 + ridge |G|^2).

V has rows of its own for each target, so one training serves every share of bits: the first n - m bits of B and m bits
of the network's Z, rotated so that signs lose least of them (iterative quantisation, Gong and Lazebnik, CVPR 2011),

    minimise over signs C and orthonormal R:  |C - Z R|^2,

where each of the two has a closed form given the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tikhonet.model.scaling import Floats
from tikhonet.problem.samples import Reduce, keep

POWERS, SPARE = 4, 10
"""Rounds of the search for axes, and axes that it carries along beside those asked for: both make it exact enough."""
TURNS = 50
"""Rounds of the rotation, after which its loss hardly falls."""


@dataclass(frozen=True, eq=False)
class Structure:
    """The coordinates of rows along principal axes, in one unit, and the bits that are made of them."""

    axes: Tensor
    """Columns, the one that tells rows apart most first, over the unit."""
    rotation: Tensor | None = None
    """Coordinates x bits."""

    @classmethod
    def fit(cls, X: Tensor, weight: Tensor, count: int, seed: int, reduce: Reduce = keep) -> Structure:
        """Up to `count` axes of centred rows, in a unit in which the mean square of all coordinates is 1."""
        axes = principal_axes(X, weight, count, seed, reduce)
        squares = (X @ axes).double().square().mean(1)
        square, total = reduce(torch.stack([weight.double() @ squares, weight.double().sum()]))
        return cls(axes / (square / total).sqrt().clamp_min(torch.finfo(X.dtype).tiny))

    def coordinates(self, X: Tensor) -> Tensor:
        return X @ self.axes

    def rotated(self, Z: Tensor, bits: int, seed: int, reduce: Reduce = keep) -> Structure:
        """With a rotation to so many bits, found on what the network makes of the coordinates."""
        return replace(self, rotation=rotation(Z, bits, seed, reduce))

    def bits(self, Z: Tensor) -> Tensor:
        """Columns whose signs are the bits, from those of the coordinates."""
        assert self.rotation is not None
        return Z[:, : len(self.rotation)] @ self.rotation.to(Z)


def principal_axes(X: Tensor, weight: Tensor, count: int, seed: int, reduce: Reduce = keep) -> Tensor:
    """Orthonormal axes of largest spread, by subspace iteration: sums over rows, features x axes, are all it needs."""
    count = min(count, X.shape[1])
    generator = torch.Generator().manual_seed(seed)
    found = torch.randn(X.shape[1], min(X.shape[1], count + SPARE), generator=generator, dtype=torch.float64).to(X)
    for _ in range(POWERS):
        found = torch.linalg.qr(found).Q
        found = reduce(X.T @ (weight[:, None] * (X @ found)))
    found, values, _ = torch.linalg.svd(found, full_matrices=False)
    # Where all rows are equal, one axis stands for none.
    axes: Tensor = found[:, :count][:, values[:count] > 1e-6 * values[0]] if values[0] > 0 else found[:, :1]
    return axes


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
