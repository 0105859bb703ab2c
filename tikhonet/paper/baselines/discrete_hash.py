"""Supervised discrete hashing (Shen, Shen, Liu and Shen, CVPR 2015): our own implementation.

    minimise over B in {-1, +1}, W, P:  |Y - B W|^2 + lambda |W|^2 + nu |B - Phi P|^2

Y are the labels as indicators, Phi the Gaussian kernel to random training rows (anchors) and a constant. By turns:
W by ridge regression, P by least squares, and B bit by bit, each bit of all samples at once with the others held fixed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tikhonet.paper.baselines.classical_hashes import CHUNK, Hash, as_indicator

SWEEPS = 10
"""Passes over the bits in one B-step at most; it ends before where no bit changes."""
JITTER = 1e-6
"""Part of the mean diagonal that is added to Phi'Phi, which is singular where anchors coincide."""


class DiscreteHash(Hash):
    """The method's own settings: 1000 anchors, lambda 1, nu 1e-5, 5 iterations.

    width  2 sigma^2 of the kernel exp(-|x - a|^2 / (2 sigma^2)), as a multiple of the mean squared distance to anchors
    """

    def __init__(
        self,
        n_bits: int,
        *,
        anchors: int = 1000,
        ridge: float = 1.0,
        nu: float = 1e-5,
        iterations: int = 5,
        width: float = 1.0,
    ) -> None:
        super().__init__(n_bits)
        for name, value in (("anchors", anchors), ("ridge", ridge), ("nu", nu), ("width", width)):
            if not 0 < value < float("inf"):
                raise ValueError(f"{name} must be positive and finite, got {value}")
        if iterations < 1:
            raise ValueError(f"iterations must be at least 1, got {iterations}")
        self.n_anchors, self.ridge, self.nu, self.iterations, self.width = anchors, ridge, nu, iterations, width

    def learn(self, X: Tensor, y: Any, generator: torch.Generator) -> None:
        Y = as_indicator(y, len(X)).to(X)
        order = torch.randperm(len(X), generator=generator)[: self.n_anchors]
        self.anchors = X[order.to(X.device)]
        self.scale = self.width * float(torch.cat([self.squares(part).mean(1) for part in X.split(CHUNK)]).mean())
        self.scale = self.scale or 1.0  # all rows equal
        Phi = torch.cat([self.kernel(part) for part in X.split(CHUNK)])
        factor = cholesky(Phi)
        B = torch.where(torch.rand(len(X), self.n_bits, generator=generator) < 0.5, -1.0, 1.0).to(X)
        self.losses_: list[float] = []
        P = self.regress(Phi, B, factor)
        for _ in range(self.iterations):
            W = self.classify(B, Y)
            B = improve_bits(B, W @ W.T, Y @ W.T + self.nu * (Phi @ P))
            P = self.regress(Phi, B, factor)
            self.losses_.append(self.objective(Y, B, W, Phi @ P))
        self.P = P

    def scores(self, X: Tensor) -> Tensor:
        return self.kernel(X) @ self.P

    def squares(self, X: Tensor) -> Tensor:
        return torch.cdist(X, self.anchors).square()

    def kernel(self, X: Tensor) -> Tensor:
        """Phi: exp(-|x - a|^2 / scale) for every anchor a, and 1."""
        return torch.cat([self.squares(X).div_(-self.scale).exp_(), X.new_ones(len(X), 1)], 1)

    def classify(self, B: Tensor, Y: Tensor) -> Tensor:
        """W = (B'B + lambda I)^-1 B'Y."""
        gram = B.T @ B + self.ridge * torch.eye(self.n_bits).to(B)
        W: Tensor = torch.linalg.solve(gram.double(), (B.T @ Y).double())
        return W.to(B)

    def regress(self, Phi: Tensor, B: Tensor, factor: Tensor) -> Tensor:
        """P = (Phi'Phi)^-1 Phi'B."""
        return torch.cholesky_solve((Phi.T @ B).double(), factor).to(Phi)

    def objective(self, Y: Tensor, B: Tensor, W: Tensor, F: Tensor) -> float:
        fit, bits = (Y - B @ W).square().sum(), (B - F).square().sum()
        return float(fit + self.ridge * W.square().sum() + self.nu * bits)


def improve_bits(B: Tensor, G: Tensor, Q: Tensor) -> Tensor:
    """Lower  tr(B G B') - 2 tr(B Q')  over signs, one bit of all samples at a time; a bit of no consequence stays.

    Bit l is best where it has the sign of  q_l - sum_{j != l} b_j G_jl.
    """
    B = B.clone()
    for _ in range(SWEEPS):
        before = B.clone()
        for bit in range(B.shape[1]):
            pull = Q[:, bit] - B @ G[:, bit] + B[:, bit] * G[bit, bit]
            B[:, bit] = torch.where(pull == 0, B[:, bit], torch.where(pull > 0, 1.0, -1.0))
        if torch.equal(B, before):
            break
    return B


def cholesky(Phi: Tensor) -> Tensor:
    """The factor of Phi'Phi in float64, with a little added to its diagonal."""
    gram = torch.zeros(Phi.shape[1], Phi.shape[1], dtype=torch.float64, device=Phi.device)
    for part in Phi.split(CHUNK):
        gram += part.double().T @ part.double()
    gram.diagonal().add_(JITTER * float(gram.diagonal().mean()))
    factor: Tensor = torch.linalg.cholesky(gram)
    return factor
