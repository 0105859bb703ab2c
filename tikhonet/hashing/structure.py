"""Bits that keep the order of neighbours: what labels leave open, learned beside them by the same network.

Codes that know the labels alone give all rows of a class one code, so that nothing orders them. The rest of the bits
come from the inputs themselves. Their leading principal coordinates Z, which hold most of the distances between rows,
are further targets of the network, beside the codes B that know the labels:

    f(U, V, W, B, G) = Eq. 4 with targets [B, Z] + alpha/2 (|Y - B G|^2 + ridge |G|^2).

V has rows of its own for each target, so one training serves every share of bits: the first n - m bits of B and m bits
of the network's Z in directions whose signs keep the order of neighbours (`directions.py`). Where rows have a class
each, its own coordinates are better (`experts.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from tikhonet.estimators.solvers import Trained
from tikhonet.hashing.directions import FEW, neighbourly, rotation
from tikhonet.network.graph import Network
from tikhonet.problem.samples import Reduce, keep

CUTS = 8
"""Bits for each axis from which on they have thresholds of their own."""
POWERS, SPARE = 4, 10
"""Rounds of the search for axes, and axes that it carries along beside those asked for: both make it exact enough."""


@dataclass(frozen=True, eq=False)
class Structure:
    """The coordinates of rows along principal axes, in one unit, and the bits that are made of them."""

    leans: ClassVar[tuple[float, ...]] = (0.0,)
    """These bits do not lean towards labels."""

    axes: Tensor
    """Columns, the one that tells rows apart most first, over the unit."""
    before: int = 0
    """Outputs of the network before those of the coordinates: for labels."""
    directions: Tensor | None = None
    """Coordinates x bits."""
    lean: float = 0.0
    constant: bool = False
    """Whether a coordinate that is 1 follows: many bits on few axes must not all pass through the mean."""

    @classmethod
    def fit(
        cls, X: Tensor, weight: Tensor, count: int, seed: int, reduce: Reduce = keep, *, before: int = 0
    ) -> Structure:
        """Up to `count` axes of centred rows, in a unit in which the mean square of all coordinates is 1."""
        axes = principal_axes(X, weight, count, seed, reduce)
        squares = (X @ axes).double().square().mean(1)
        square, total = reduce(torch.stack([weight.double() @ squares, weight.double().sum()]))
        axes = axes / (square / total).sqrt().clamp_min(torch.finfo(X.dtype).tiny)
        return cls(axes, before, constant=count >= CUTS * axes.shape[1])

    def beside(self, X: Tensor) -> Tensor:
        """The further targets of the network: the coordinates."""
        Z = X @ self.axes
        return torch.cat([Z, torch.ones_like(Z[:, :1])], 1) if self.constant else Z

    def turned(
        self, P: Tensor, X: Tensor, Y: Tensor, weight: Tensor, bits: int, *, seed: int, reduce: Reduce, last: bool
    ) -> Self:
        """With directions for so many bits, found on what the network makes of the coordinates; see `Experts`."""
        if self.directions is not None:
            return self
        Z = P[:, self.before :]
        R = self.spread(Z, bits, seed, reduce) if self.constant else rotation(Z, bits, seed, reduce)
        wide = FEW if self.constant else 1.0
        return replace(self, directions=neighbourly(Z, R, seed, reduce, wide=wide) if last else R)

    def spread(self, Z: Tensor, bits: int, seed: int, reduce: Reduce) -> Tensor:
        """Directions, each set of orthonormal ones at a further threshold: where a normal variable has even parts."""
        width = self.axes.shape[1]
        R = rotation(Z[:, :width], bits, seed, reduce)
        sets = -(-bits // width)
        levels = (torch.arange(bits, device=Z.device) // width + 0.5) / sets
        along = Z[:, :width].double() @ R
        sums, rows = reduce(torch.stack([along.sum(0), along.square().sum(0)])), reduce(Z.new_tensor(len(Z)).double())
        mean, square = sums / rows
        threshold = mean + (square - mean.square()).clamp_min(0).sqrt() * torch.special.ndtri(levels.double())
        return torch.cat([R, -threshold[None]])

    def bits(self, P: Tensor, X: Tensor) -> Tensor:
        """Columns whose signs are the bits, from the outputs of the network."""
        assert self.directions is not None
        return P[:, self.before : self.before + len(self.directions)] @ self.directions.to(P)

    def attached(self, trained: Trained, network: Network, labels: int, unit: Tensor) -> Trained:
        """The network whose V gives so many bits of labels and those of neighbours, whatever their unit."""
        V = trained.V.T
        return replace(trained, V=torch.cat([V[:, :labels], self.bits(V, V)], dim=1).T.contiguous())


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
