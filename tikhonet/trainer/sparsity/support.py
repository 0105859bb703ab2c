"""Least squares on a support: every row of W has its own few columns, all rows are solved at once.

    minimise over x with x = 0 off S_k:  1/2 x' H x - b_k' x,   H[S_k, S_k] x[S_k] = b_k[S_k]   for every row k

Rows are sorted by the size of their support and padded in groups, so that one long row does not pad them all.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tikhonet.trainer.saving import saved
from tikhonet.trainer.statistics import Gram, factorise

CELLS = 4_000_000
"""Entries of the padded matrices of one group, at most (unless one row has more)."""
PADDING = 1.3, 8
"""A row joins a group of rows up to 1.3 times as long as the first and 8 more: padding that costs less than a group."""


@saved
@dataclass(frozen=True)
class Group:
    """Rows with supports of similar size: their columns, and which of these are padding."""

    rows: Tensor
    columns: Tensor
    padding: Tensor

    def gather(self, M: Tensor) -> Tensor:
        """The entries of M on the supports, zero in the padding."""
        return M[self.rows[:, None], self.columns].masked_fill(self.padding, 0.0)


def group_rows(support: Tensor) -> list[Group]:
    """The rows that have a support, in groups of rising size."""
    sizes = support.sum(1)
    order = sizes.argsort(stable=True)
    order = order[sizes[order] > 0]
    groups, start = [], 0
    counts = sizes[order].tolist()
    while start < len(order):
        # A group ends where the next row would pad it too much, or fill it.
        stop, longest = start + 1, PADDING[0] * counts[start] + PADDING[1]
        while stop < len(order) and counts[stop] <= longest and (stop - start + 1) * counts[stop] ** 2 <= CELLS:
            stop += 1
        rows = order[start:stop]
        # Columns of the support first, in order: booleans sort stably.
        columns = (~support[rows]).byte().argsort(dim=1, stable=True)[:, : counts[stop - 1]]
        groups.append(Group(rows, columns, ~support[rows[:, None], columns]))
        start = stop
    return groups


def padded(H: Tensor, group: Group) -> Tensor:
    """H[S_k, S_k] for every row of the group, with the identity in the padding."""
    blocks = H[group.columns[:, :, None], group.columns[:, None, :]]
    outside = group.padding[:, :, None] | group.padding[:, None, :]
    blocks = blocks.masked_fill(outside, 0.0)
    blocks.diagonal(dim1=1, dim2=2)[group.padding] = 1.0
    return blocks


@saved
@dataclass(frozen=True)
class Mask:
    """A support that a layer's steps are cut to."""

    support: Tensor

    def direction(self, gram: Gram, R: Tensor) -> Tensor:
        return gram.precondition(R).mul_(self.support)


@saved
@dataclass(frozen=True)
class SupportSolver:
    """The inverses of all H[S_k, S_k], to be applied many times: the least-squares step of a support."""

    groups: list[Group]
    inverses: list[Tensor]

    @classmethod
    def of(cls, H: Tensor, support: Tensor) -> SupportSolver:
        groups = group_rows(support)
        factors = [factorise(padded(H, group)) for group in groups]
        return cls(groups, [torch.cholesky_inverse(factor) for factor in factors])

    def direction(self, gram: Gram, R: Tensor) -> Tensor:
        """The minimiser of every row; zero off the support, whose padding holds zeros too."""
        X = torch.zeros_like(R)
        for group, inverse in zip(self.groups, self.inverses, strict=True):
            X[group.rows[:, None], group.columns] = (inverse @ group.gather(R)[:, :, None]).squeeze(2)
        return X


def solve_on_support(H: Tensor, B: Tensor, support: Tensor) -> Tensor:
    """The minimiser of every row, once and in the accuracy of H: Cholesky, and one step of refinement."""
    X = torch.zeros_like(B)
    for group in group_rows(support):
        blocks = padded(H, group)
        factor = factorise(blocks)
        right = group.gather(B)[:, :, None]
        solved = torch.cholesky_solve(right, factor)
        solved += torch.cholesky_solve(right - blocks @ solved, factor)
        X[group.rows[:, None], group.columns] = solved.squeeze(2)
    return X
