"""What a W-step sees: the linear map from the learned matrices of a layer, side by side in M, to its pre-activations.

Dense layers have a matrix A of inputs with a row for each sample, and Z = A M'. In a layer of images all positions
share M, so a sample has a row of inputs for each of them, its patches. These are many: they are made for some samples
at a time, and for the Gram matrix alone, since products with M and with residuals are convolutions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tikhonet.network.edges import Edge

PATCHES = 2**21
"""Numbers in the matrix of patches that is held at a time."""
FEW = 100
"""Samples whose patches are enough to know the Gram matrix of a batch by, at most."""
LARGE, PARTS = 512, 4
"""Symmetric products of so many rows and columns are made in so many parts: 30 ms in place of 42 for 2,048 x 784 in
float64. Below that the parts are too small for BLAS."""
LEAST, EACH = 16, 10
"""So many samples at least, and so many patches for each of their entries: a sample often has hundreds of patches."""
MOST = 2**24
"""Numbers in the patches of these samples; where they have more, every k-th patch of a sample is enough."""


class Design(ABC):
    """The map from M to Z at given layers."""

    @abstractmethod
    def scores(self, M: Tensor) -> Tensor:
        """Z, a row for each sample."""

    @abstractmethod
    def product(self, R: Tensor) -> Tensor:
        """The gradient in M of <R, scores(M)>."""

    @abstractmethod
    def gram(self, weight: Tensor | None = None) -> Tensor:
        """The Hessian in each row of M of 1/2 |scores(M)|^2, samples by weight; one for each group of rows, if any."""

    @abstractmethod
    def __getitem__(self, samples: slice) -> Design:
        """The map at some samples alone."""

    @abstractmethod
    def few(self, weight: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Rows of inputs that are enough to know their Gram matrix by, and their weights."""


@dataclass(frozen=True)
class Rows(Design):
    """A matrix with a row for each sample."""

    A: Tensor

    def scores(self, M: Tensor) -> Tensor:
        return self.A @ M.T

    def product(self, R: Tensor) -> Tensor:
        return R.flatten(1).T @ self.A

    def gram(self, weight: Tensor | None = None) -> Tensor:
        return symmetric_product(self.A if weight is None else self.A * weight[:, None], self.A)

    def __getitem__(self, samples: slice) -> Rows:
        return Rows(self.A[samples])

    def few(self, weight: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        return self.A, weight


def symmetric_product(A: Tensor, B: Tensor) -> Tensor:
    """A'B where it is symmetric; of a large one a half and the diagonal are made, by parts, and the rest is copied."""
    if min(A.shape) < LARGE:
        return A.T @ B
    product, width = A.new_empty(A.shape[1], A.shape[1]), -(-A.shape[1] // PARTS)
    for start in range(0, len(product), width):
        rows, below = slice(start, start + width), slice(start + width, None)
        torch.mm(A[:, rows].T, B[:, start:], out=product[rows, start:])
        product[below, rows] = product[rows, below].T
    return product


@dataclass(frozen=True)
class Patches(Design):
    """Edges that share M's rows among the positions of images, and their sources."""

    edges: Sequence[Edge]
    sources: Sequence[Tensor]

    @property
    def groups(self) -> int:
        return math.lcm(*(edge.groups for edge in self.edges))

    def scores(self, M: Tensor) -> Tensor:
        Z: Tensor | None = None
        parts = M.split([edge.shape[1] for edge in self.edges], dim=1)
        for edge, U, W in reversed(list(zip(self.edges, self.sources, parts, strict=True))):
            Z = edge.apply(U, W, out=Z)
        assert Z is not None
        return Z

    def product(self, R: Tensor) -> Tensor:
        return torch.cat([edge.product(R, U) for edge, U in zip(self.edges, self.sources, strict=True)], dim=1)

    def gram(self, weight: Tensor | None = None) -> Tensor:
        total: Tensor | None = None
        for some, part in self.pieces():
            A = part.inputs()
            left = A if weight is None else A * weight[some].repeat_interleave(self.edges[0].positions)[:, None]
            total = left.mT @ A if total is None else total + left.mT @ A
        assert total is not None
        return total

    def few(self, weight: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        entries = sum(edge.shape[1] for edge in self.edges)
        count = min(FEW, max(LEAST, math.ceil(EACH * entries / (self.edges[0].positions * self.groups))))
        positions, rows = self.edges[0].positions, count * self.edges[0].positions * self.groups
        every = max(1, min(math.ceil(rows * entries / MOST), rows // (EACH * entries)))
        if every == 1:
            A = self[:count].inputs()
        else:
            while math.gcd(every, self.edges[0].target[-1]) > 1:  # else always the same columns
                every += 1
            samples = range(min(count, len(self.sources[0])))
            A = torch.cat([self[slice(k, k + 1)].inputs()[..., ::every, :].clone() for k in samples], dim=-2)
        if weight is not None:
            weight = weight[:count].repeat_interleave(len(range(0, positions, every))).repeat(self.groups)
        return A.flatten(0, -2), weight

    def inputs(self) -> Tensor:
        """All patches, a row each; a matrix of them for each group, if there are several."""
        parts = []
        for edge, U in zip(self.edges, self.sources, strict=True):
            A = edge.gram_inputs(U)
            if self.groups > 1:
                A = A.expand(1, *A.shape) if A.ndim == 2 else A
                A = A.repeat_interleave(self.groups // len(A), 0)
            parts.append(A.mT)
        return torch.cat(parts, dim=-2).mT

    def __getitem__(self, samples: slice) -> Patches:
        return Patches(self.edges, [U[samples] for U in self.sources])

    def pieces(self) -> Iterator[tuple[slice, Patches]]:
        """The samples, so few at a time that their patches fit."""
        each = sum(edge.shape[1] for edge in self.edges) * self.edges[0].positions * self.groups
        count = max(1, PATCHES // each)
        for start in range(0, len(self.sources[0]), count):
            some = slice(start, start + count)
            yield some, self[some]


def stacked(edges: Sequence[Edge], sources: Sequence[Tensor]) -> Design:
    """The map of all learned edges into a layer, their matrices side by side."""
    if max(edge.positions for edge in edges) > 1 or max(edge.groups for edge in edges) > 1:
        return Patches(edges, sources)
    parts = [edge.gram_inputs(U) for edge, U in zip(edges, sources, strict=True)]
    return Rows(parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))
