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
from tikhonet.network.registry import Named, Registry


class Lift(Named, ABC):
    """How "u is the activation of z" becomes a penalty D(u, z) that is smooth and convex in each.

        ``D(u, z) = 1/2 |u|^2 - <u, z> + psi(z)``

    over the u of the activation's interval, with a convex psi whose derivative has slope at most 1. A subclass gives
    the derivative of psi by `slope` and, where psi is not that of a projection, the `excess`.

    Attributes
    ----------
    name : str
        By which problems and estimators know it.
    quadratic : bool
        Whether ``psi(z) = 1/2 |z|^2``: then D is jointly convex and all hidden layers form one block.
    tight : bool
        Whether D(u, z) = 0 wherever u = sigma(z): then f at the forward pass is the network's own loss.

    Examples
    --------
    >>> from tikhonet import Lift
    >>> sorted(Lift.kinds)
    ['fenchel', 'tikhonov']
    """

    kinds: ClassVar[Registry[type[Lift]]] = Registry("lift")
    quadratic: bool
    tight: ClassVar[bool] = False

    @abstractmethod
    def slope(self, Z: Tensor, activation: Activation, out: Tensor | None = None) -> Tensor:
        """The derivative psi'(Z).

        Parameters
        ----------
        Z : Tensor
            Pre-activations.
        activation : Activation
            That of the network.
        out : Tensor, optional
            Memory that may be used for it, perhaps Z itself.

        Returns
        -------
        Tensor
            Of the shape of Z.
        """

    def excess(self, Z: Tensor, activation: Activation) -> Tensor | None:
        """The excess ``psi(Z) - (<p, Z> - 1/2 |p|^2)`` with p = psi'(Z), for each sample.

        Parameters
        ----------
        Z : Tensor
            Pre-activations, a row for each sample.
        activation : Activation
            That of the network.

        Returns
        -------
        Tensor or None
            A number for each sample; None where all are zero.
        """
        return None

    def value(self, U: Tensor, Z: Tensor, activation: Activation) -> Tensor:
        """The penalty D for each sample.

        Parameters
        ----------
        U : Tensor
            Hidden variables, a row for each sample.
        Z : Tensor
            Pre-activations.
        activation : Activation
            That of the network.

        Returns
        -------
        Tensor
            A number for each sample.
        """
        P = self.slope(Z, activation)
        gap = U - P
        value = 0.5 * gap.square().sum(1)
        if P is not Z:
            value += gap.mul_(P - Z).sum(1)
        excess = self.excess(Z, activation)
        return value if excess is None else value + excess

    def grad_Z(self, U: Tensor, Z: Tensor, activation: Activation, out: Tensor | None = None) -> Tensor:
        """The gradient of D in Z: psi'(Z) - U.

        Parameters
        ----------
        U : Tensor
            Hidden variables.
        Z : Tensor
            Pre-activations.
        activation : Activation
            That of the network.
        out : Tensor, optional
            Memory for the answer; it may be Z itself.

        Returns
        -------
        Tensor
            Of the shape of Z.
        """
        P = self.slope(Z, activation, out=out)
        return torch.sub(P, U, out=P if out is None and P is not Z else out)


@dataclass(frozen=True)
class Tikhonov(Lift):
    """The paper's penalty: ``D = 1/2 |u - z|^2``, zero only where u = z, which then is in the interval.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import ReLU, Tikhonov
    >>> U, Z = torch.tensor([[0.0]]), torch.tensor([[-2.0]])
    >>> Tikhonov().value(U, Z, ReLU())
    tensor([2.])
    """

    name = "tikhonov"
    quadratic = True

    def slope(self, Z: Tensor, activation: Activation, out: Tensor | None = None) -> Tensor:
        return Z


@dataclass(frozen=True)
class Fenchel(Lift):
    """The tight penalty: ``D = 1/2 |u|^2 - <u, z> + psi(z)`` with psi' = sigma, zero exactly where u = sigma(z).

    For ReLU ``psi(z) = 1/2 |max(0, z)|^2``, and D is the paper's less ``1/2 |max(0, -z)|^2``, the charge for every
    negative pre-activation.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Fenchel, ReLU
    >>> U, Z = torch.tensor([[0.0]]), torch.tensor([[-2.0]])
    >>> Fenchel().value(U, Z, ReLU())
    tensor([0.])
    """

    name = "fenchel"
    quadratic = False
    tight = True

    def slope(self, Z: Tensor, activation: Activation, out: Tensor | None = None) -> Tensor:
        return activation.value(Z) if out is None else activation.value_(Z if out is Z else out.copy_(Z))
