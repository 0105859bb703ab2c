"""Unsupervised hashing by the signs of linear maps of the centred rows: random ones, principal components, ITQ."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from tikhonet.paper.baselines.hash_base import CHUNK, Hash


class LinearHash(Hash):
    """bit_k(x) = sign of p_k . (x - mean)."""

    mean: Tensor
    P: Tensor
    """Directions, features x n_bits."""

    def scores(self, X: Tensor) -> Tensor:
        return (X - self.mean) @ self.P

    def learn(self, X: Tensor, y: Any, generator: torch.Generator) -> None:
        self.mean = X.mean(0)
        self.P = self.directions(X, generator).to(X)

    @abstractmethod
    def directions(self, X: Tensor, generator: torch.Generator) -> Tensor:
        """P of these rows, whose mean is known."""


class RandomProjections(LinearHash):
    """Locality-sensitive hashing for angles: normal directions, which the data do not influence."""

    def directions(self, X: Tensor, generator: torch.Generator) -> Tensor:
        return torch.randn(X.shape[1], self.n_bits, generator=generator)


class PrincipalComponents(LinearHash):
    """The n_bits directions of largest variance."""

    def directions(self, X: Tensor, generator: torch.Generator) -> Tensor:
        if self.n_bits > X.shape[1]:
            raise ValueError(
                f"n_bits must be at most the number of features ({X.shape[1]}) for principal components, "
                f"got {self.n_bits}; use fewer bits or RandomProjections"
            )
        covariance = torch.zeros(X.shape[1], X.shape[1], dtype=torch.float64, device=X.device)
        for part in X.split(CHUNK):
            centred = (part - self.mean).double()
            covariance += centred.T @ centred
        vectors: Tensor = torch.linalg.eigh(covariance).eigenvectors
        return vectors[:, -self.n_bits :].flip(1)


class ITQ(PrincipalComponents):
    """Iterative quantisation: principal components turned so that they lie near the corners of the cube.

        minimise over signs B and rotations R:  |B - Z R|^2,   Z the projected rows

    by turns: B = sign(Z R); R = S T' from the singular value decomposition Z'B = S D T' (Gong and Lazebnik, CVPR 2011).
    """

    def __init__(self, n_bits: int, iterations: int = 50) -> None:
        super().__init__(n_bits)
        if iterations < 1:
            raise ValueError(f"iterations must be at least 1, got {iterations}")
        self.iterations = iterations

    def directions(self, X: Tensor, generator: torch.Generator) -> Tensor:
        components = super().directions(X, generator)
        Z = (X - self.mean) @ components.to(X)
        start = torch.randn(self.n_bits, self.n_bits, generator=generator, dtype=torch.float64)
        R: Tensor = torch.linalg.qr(start.to(Z.device)).Q
        self.losses_: list[float] = []
        for _ in range(self.iterations):
            turned = Z @ R.to(Z)
            B = torch.where(turned > 0, 1.0, -1.0)
            self.losses_.append(float((B - turned).square().mean()))
            S, _, T = torch.linalg.svd((Z.T @ B).double())
            R = S @ T
        return components @ R
