"""Sec. 2.2: how "u is the ReLU of z" becomes a penalty D(u, z) that is smooth and convex in each.

Every lift here has the form  D(u, z) = 1/2 |u|^2 - <u, z> + psi(z)  with a convex psi whose
derivative has slope at most 1, so its gradient in u is u - z, and a lift is one choice of psi.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor


class Lift(ABC):
    quadratic: bool
    """Whether psi(z) = 1/2 |z|^2: then D is jointly convex and all hidden layers form one block."""

    @abstractmethod
    def value(self, U: Tensor, Z: Tensor) -> Tensor:
        """D for each sample (row)."""

    def grad_U(self, U: Tensor, Z: Tensor) -> Tensor:
        return U - Z

    @abstractmethod
    def grad_Z(self, U: Tensor, Z: Tensor, out: Tensor | None = None) -> Tensor:
        """psi'(Z) - U; `out` may be Z itself."""


@dataclass(frozen=True)
class Tikhonov(Lift):
    """The paper's penalty:  D = 1/2 |u - z|^2,  zero only where u = z >= 0."""

    quadratic = True

    def value(self, U: Tensor, Z: Tensor) -> Tensor:
        return 0.5 * (U - Z).square().sum(1)

    def grad_Z(self, U: Tensor, Z: Tensor, out: Tensor | None = None) -> Tensor:
        return torch.sub(Z, U, out=out)


@dataclass(frozen=True)
class Fenchel(Lift):
    """The tight penalty:  D = 1/2 |u|^2 - <u, z> + 1/2 |max(0, z)|^2,  zero iff u = max(0, z).

    It is the paper's less 1/2 |max(0, -z)|^2, the charge for every negative pre-activation.
    """

    quadratic = False

    def value(self, U: Tensor, Z: Tensor) -> Tensor:
        # Written without cancellation: u z- = -u min(0, z) >= 0 for feasible u.
        return 0.5 * (U - Z.relu()).square().sum(1) - (U * Z.clamp(max=0)).sum(1)

    def grad_Z(self, U: Tensor, Z: Tensor, out: Tensor | None = None) -> Tensor:
        return torch.sub(torch.clamp(Z, min=0, out=out), U, out=out)
