"""Sec. 2.1: the activation of a network's hidden layers, the projection onto the interval that their U live in.

So every activation has a tight lift (`problem/lifts.py`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from torch import Tensor

from tikhonet.network.arguments import POSITIVE, check_type
from tikhonet.network.registry import Named, Registry


class Activation(Named, ABC):
    """The activation of the hidden layers: the projection onto an interval.

    Every activation of the library is one, so that "u is the activation of z" is a convex sub-problem:

        ``sigma(z) = argmin over lower <= u <= upper of 1/2 |u - z|^2``

    A subclass says which interval it is and has a `name`, by which estimators and files know it.

    Attributes
    ----------
    lower, upper : float
        The ends of the interval.
    name : str
        The name in files and parameters.

    Examples
    --------
    >>> from tikhonet import Activation
    >>> Activation.named("relu")
    ReLU()
    >>> {'clipped_relu', 'relu'} <= set(Activation.kinds)
    True
    """

    kinds: ClassVar[Registry[type[Activation]]] = Registry("activation")

    @property
    @abstractmethod
    def lower(self) -> float:
        """The least value of U."""

    @property
    @abstractmethod
    def upper(self) -> float:
        """The largest value of U."""

    @abstractmethod
    def scaled(self, factor: float) -> Activation:
        """The activation in units in which all values are `factor` times as large.

        Parameters
        ----------
        factor : float
            What values are multiplied by.

        Returns
        -------
        Activation
            One with ``factor * sigma(z) = scaled(factor * z)``.
        """

    @abstractmethod
    def formula(self, text: str) -> str:
        """The activation of what `text` says, in words.

        Parameters
        ----------
        text : str
            A pre-activation in words, such as "W[1,0] u0".

        Returns
        -------
        str
            The formula, such as "relu(W[1,0] u0)".
        """

    def value(self, Z: Tensor) -> Tensor:
        """The activation of each number: sigma(Z).

        Parameters
        ----------
        Z : Tensor
            Pre-activations.

        Returns
        -------
        Tensor
            Of the shape of Z.
        """
        return Z.clamp(self.lower, self.upper)

    def value_(self, Z: Tensor) -> Tensor:
        """The activation of each number, written over Z.

        Parameters
        ----------
        Z : Tensor
            Pre-activations; overwritten.

        Returns
        -------
        Tensor
            Z itself.
        """
        return Z.clamp_(self.lower, self.upper)

    def violation(self, U: Tensor) -> float:
        """The distance of the worst entry of U from the interval.

        Parameters
        ----------
        U : Tensor
            Hidden variables.

        Returns
        -------
        float
            At most 0 inside, NaN where U is not finite.
        """
        if not bool(U.isfinite().all()):
            return math.nan
        # In float32 the largest number that clamping leaves may be above an end that only float64 can tell.
        lower, upper = (float(U.new_tensor(end)) for end in (self.lower, self.upper))
        return max(lower - float(U.min()), float(U.max()) - upper)

    def as_dict(self) -> dict[str, Any]:
        """Name and parameters, as files keep them.

        Returns
        -------
        dict
            With the key "name" and one for each parameter.
        """
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Activation:
        """The activation that `as_dict` described.

        Parameters
        ----------
        description : mapping
            Name and parameters.

        Returns
        -------
        Activation
            An equal one.
        """
        parameters = {key: value for key, value in description.items() if key != "name"}
        return cls.kinds[description["name"]](**parameters)

    @classmethod
    def named(cls, choice: str | Activation) -> Activation:
        """An activation as it is, or the one of this name with its default parameters.

        Parameters
        ----------
        choice : str or Activation
            A name, or an activation.

        Returns
        -------
        Activation
            The activation that was meant.
        """
        choice = cls.kinds[choice]() if isinstance(choice, str) else choice
        check_type("activation", choice, Activation, remedy=f"or a name: {', '.join(map(repr, cls.kinds))}")
        return choice


@dataclass(frozen=True)
class ReLU(Activation):
    """The paper's activation: max(0, z), the projection onto numbers that are not negative.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import ReLU
    >>> ReLU().value(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    name: ClassVar[str] = "relu"
    lower: ClassVar[float] = 0.0
    upper: ClassVar[float] = math.inf

    def value(self, Z: Tensor) -> Tensor:
        return Z.relu()

    def value_(self, Z: Tensor) -> Tensor:
        return Z.relu_()

    def scaled(self, factor: float) -> ReLU:
        return self

    def formula(self, text: str) -> str:
        return f"relu({text})"


@dataclass(frozen=True)
class ClippedReLU(Activation):
    """A ReLU whose values have a bound: min(cap, max(0, z)).

    Small devices can keep such values in few bits.

    Parameters
    ----------
    cap : float, default=6.0
        The largest value.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import ClippedReLU
    >>> ClippedReLU(6).value(torch.tensor([-1.0, 2.0, 9.0]))
    tensor([0., 2., 6.])
    """

    cap: float = 6.0

    name: ClassVar[str] = "clipped_relu"
    lower: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        POSITIVE.check("cap", self.cap)

    @property
    def upper(self) -> float:
        """The largest value of U: the cap."""
        return self.cap

    def scaled(self, factor: float) -> ClippedReLU:
        return ClippedReLU(self.cap * factor)

    def formula(self, text: str) -> str:
        return f"min({self.cap:g}, relu({text}))"
