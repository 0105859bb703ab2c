"""Sec. 2.2: how "u is the activation of z" becomes a penalty D(u, z) that is smooth and convex in each.

Every lift here has the form  D(u, z) = 1/2 |u|^2 - <u, z> + psi(z)  over the u of the activation's interval, with a
convex psi whose derivative has slope at most 1. Its gradient in u is u - z, so a lift is one choice of psi. With
p = psi'(z) it is computed without cancellation as

    D(u, z) = 1/2 |u - p|^2 + <u - p, p - z> + excess(z),    excess(z) = psi(z) - (<p, z> - 1/2 |p|^2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tikhonet.network.activation import Activation
from tikhonet.network.registry import Registry


class Lift(ABC):
    """A penalty D(u, z), given by the derivative of its psi and, where psi is not that of a projection, the excess."""

    name: ClassVar[str]
    kinds: ClassVar[Registry[type[Lift]]] = Registry("lift")
    quadratic: bool
    """Whether psi(z) = 1/2 |z|^2: then D is jointly convex and all hidden layers form one block."""
    tight: ClassVar[bool] = False
    """Whether D(u, z) = 0 wherever u = sigma(z): then f at the forward pass is the network's own loss."""

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            cls.kinds.add(cls.name, cls)

    @abstractmethod
    def slope(self, Z: Tensor, activation: Activation, out: Tensor | None = None) -> Tensor:
        """psi'(Z); `out` is memory that may be used for it, perhaps Z itself."""

    def excess(self, Z: Tensor, activation: Activation) -> Tensor | None:
        """psi(Z) - (<p, Z> - 1/2 |p|^2) with p = psi'(Z), for each sample (row); None where it is zero."""
        return None

    def value(self, U: Tensor, Z: Tensor, activation: Activation) -> Tensor:
        """D for each sample (row)."""
        P = self.slope(Z, activation)
        gap = U - P
        value = 0.5 * gap.square().sum(1)
        if P is not Z:
            value += gap.mul_(P - Z).sum(1)
        excess = self.excess(Z, activation)
        return value if excess is None else value + excess

    def grad_Z(self, U: Tensor, Z: Tensor, activation: Activation, out: Tensor | None = None) -> Tensor:
        """psi'(Z) - U; `out` may be Z itself."""
        P = self.slope(Z, activation, out=out)
        return torch.sub(P, U, out=P if out is None and P is not Z else out)


@dataclass(frozen=True)
class Tikhonov(Lift):
    """The paper's penalty:  D = 1/2 |u - z|^2,  zero only where u = z, which then is in the interval."""

    name = "tikhonov"
    quadratic = True

    def slope(self, Z: Tensor, activation: Activation, out: Tensor | None = None) -> Tensor:
        return Z


@dataclass(frozen=True)
class Fenchel(Lift):
    """The tight penalty:  D = 1/2 |u|^2 - <u, z> + psi(z)  with  psi' = sigma,  zero iff u = sigma(z).

    For ReLU psi(z) = 1/2 |max(0, z)|^2, and D is the paper's less 1/2 |max(0, -z)|^2, the charge for every negative
    pre-activation.
    """

    name = "fenchel"
    quadratic = False
    tight = True

    def slope(self, Z: Tensor, activation: Activation, out: Tensor | None = None) -> Tensor:
        return activation.value(Z) if out is None else activation.value_(Z if out is Z else out.copy_(Z))
