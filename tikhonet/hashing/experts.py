"""Coordinates of each class by itself, opened by what the network takes a row for: bits that order a class.

What tells the rows of one class apart is not what tells those of another apart, so every class c has its own mean,
principal axes and directions D_c. A class opens by s_c, which a regression reads from the network's bits of labels:

    bits = signs of  sum_c  relu(D_c' (x - mean_c) + g_c) - relu(g_c),     g_c = sharpness (s_c - opening):

D_c' (x - mean_c) where the class is open, since g_c is larger, and 0 where it is shut. It is one more layer, whose
inputs are the network's last layer and, by a skip (Sec. 2.1), the rows themselves; so nothing of it has to be learned
by the layers below, and files and exports know it as they know any network.

Such bits differ at random between rows of different classes, which blurs the order of the classes for a query that may
be of several. So they may also lean towards what the network has learned for them as bits of labels: `lean` times that
output is added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from tikhonet.estimators.solvers import Trained
from tikhonet.hashing.code_training import RIDGE, update_regression
from tikhonet.hashing.directions import INSIDE, neighbourly, rotation, unit
from tikhonet.hashing.structure import principal_axes
from tikhonet.network.graph import BIAS, Network
from tikhonet.problem.samples import Reduce, keep

MOST_CLASSES = 40
"""With more, the layer would be larger than the network below it."""
OTHERS, WORTH = 1000, 50.0
"""Rows of other classes that the axes of a class see, less the means of theirs, and how many of its own they weigh."""
EVEN = 0.25
"""Coordinates are divided by this power of their spread: bits that are less alike tell classes apart better."""
SHARPNESS = 30.0
OPENING = 1 / 3
"""Of what the surest class of a row has on average."""


@dataclass(frozen=True, eq=False)
class Experts:
    """Means and axes of all classes, and the directions that the bits are made of."""

    leans: ClassVar[tuple[float, ...]] = (0.0, 0.4, 0.75)
    """The leans that are tried for every share of the bits."""

    means: Tensor
    """Classes x features."""
    axes: Tensor
    """Classes x features x axes, the one that tells rows apart most first."""
    directions: Tensor | None = None
    """Classes x features x bits."""
    reading: Tensor | None = None
    """Outputs for labels x classes: how sure of each class they are."""
    opening: float = 0.0
    lean: float = 0.0
    """How much the output for a label, which the bit would be without neighbours, is added."""

    @classmethod
    def fit(cls, X: Tensor, Y: Tensor, weight: Tensor, count: int, seed: int, reduce: Reduce = keep) -> Experts:
        """Up to `count` axes of every class; Y has a column for each, positive where a row is of it."""
        own = (Y > 0).to(X) * weight.to(X)[:, None]
        totals = reduce(own.sum(0)).clamp_min(torch.finfo(X.dtype).tiny)
        means = reduce(own.T @ X) / totals[:, None]
        classes = Y.argmax(1)
        axes = X.new_zeros(Y.shape[1], X.shape[1], min(count, X.shape[1]))
        for c in range(Y.shape[1]):
            mine = classes == c
            others = torch.nonzero(~mine).flatten()[:OTHERS]
            rows = torch.cat([torch.nonzero(mine).flatten(), others])
            centred = X[rows] - means[classes[rows]]
            share = weight[rows].to(X)
            seen = reduce(share[int(mine.sum()) :].sum()).clamp_min(1.0)
            share[int(mine.sum()) :] *= WORTH / seen
            found = principal_axes(centred, share, axes.shape[2], seed, reduce)
            squares = reduce((share[:, None] * (centred @ found).square()).sum(0)) / reduce(share.sum())
            axes[c, :, : found.shape[1]] = found / unit(squares) ** EVEN
        return cls(means, axes)

    def beside(self, X: Tensor) -> None:
        """The further targets that the network would have to learn: none."""

    def turned(
        self, P: Tensor, X: Tensor, Y: Tensor, weight: Tensor, bits: int, *, seed: int, reduce: Reduce, last: bool
    ) -> Self:
        """With directions for so many bits and gates for these outputs P; the `last` time also by neighbours."""
        Y, classes = (Y > 0).double(), Y.argmax(1)
        ridge = RIDGE * float(reduce(weight.double().sum()))
        reading = update_regression(P.double(), Y, weight.double(), ridge, reduce).to(P)
        sure, rows = reduce(torch.stack([(P @ reading).amax(1).sum(), P.new_tensor(len(P))])).tolist()
        found = self if self.directions is not None else self.aligned(X, classes, bits, seed, reduce, last)
        return replace(found, reading=reading, opening=OPENING * sure / max(rows, 1))

    def aligned(self, X: Tensor, classes: Tensor, bits: int, seed: int, reduce: Reduce, last: bool) -> Self:
        """With directions for so many bits."""
        directions = X.new_zeros(len(self.means), X.shape[1], bits)
        for c, (mean, axes) in enumerate(zip(self.means, self.axes, strict=True)):
            Z = (X[classes == c] - mean) @ axes
            R = rotation(Z, bits, seed, reduce)
            if last:
                R = neighbourly(Z, R, seed, reduce, wide=INSIDE)
            R = R.to(Z)
            squares, rows = (Z[:, : len(R)] @ R).square().sum(0), Z.new_tensor([float(len(Z))])
            total = reduce(torch.cat([squares, rows]))
            directions[c] = axes[:, : len(R)] @ (R / unit(total[:-1] / total[-1].clamp_min(1.0)))
        return replace(self, directions=directions)

    def bits(self, P: Tensor, X: Tensor) -> Tensor:
        """Columns whose signs are the bits, from the outputs for labels and the rows."""
        assert self.directions is not None
        assert self.reading is not None
        gates = SHARPNESS * (P @ self.reading - self.opening)
        found = X.new_zeros(len(X), self.directions.shape[2])
        for mean, D, gate in zip(self.means, self.directions, gates.T[:, :, None], strict=True):
            found += ((X - mean) @ D + gate).relu_() - gate.relu()
        return found + self.lean * P[:, P.shape[1] - found.shape[1] :] if self.lean else found

    def attached(self, trained: Trained, network: Network, labels: int, unit: Tensor) -> Trained:
        """The network with the layer on it, whose V gives so many bits of labels and those of neighbours.

        The layer sees rows as the network does, which `unit` turns into what the axes were found for.
        """
        assert self.directions is not None
        assert self.reading is not None
        classes, features, bits = self.directions.shape
        V, last, new = trained.V, network.depth, network.depth + 1
        if not bits:
            return replace(trained, V=V[:labels])
        passed, gates = V[: labels + bits if self.lean else labels], SHARPNESS * self.reading.T @ V
        count = 2 * len(passed)
        width = count + classes * bits + classes
        D = self.directions.transpose(1, 2).reshape(-1, features) * unit
        rows = V.new_zeros(width, features)
        rows[count:-classes] = D
        below = torch.cat([passed, -passed, gates.repeat_interleave(bits, 0), gates])
        shift = V.new_full((width, 1), -SHARPNESS * self.opening)
        shift[:count] = 0.0
        shift[count:-classes, 0] -= torch.einsum("cf,cfb->cb", self.means, self.directions).flatten()
        eye = torch.eye(labels + bits, len(passed)).to(V)
        eye[labels:] *= self.lean
        top = V.new_zeros(labels + bits, width)
        top[:, :count] = torch.cat([eye, -eye], 1)
        top[labels:, count:-classes], top[labels:, -classes:] = torch.eye(bits).to(V).repeat(1, classes), -1.0
        edges = network.edges | dict.fromkeys([(new, last), (new, 0)], "dense") | {(new, BIAS): "bias"}
        whole = Network((*network.shapes, width), edges, activation=network.activation)
        W = trained.W | {(new, last): below, (new, 0): rows, (new, BIAS): shift}
        return replace(trained, network=whole, W=W, V=top)
