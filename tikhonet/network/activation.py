"""Sec. 2.1: the activation of a network's hidden layers, and the interval that their variables U live in.

Every activation here is the projection onto an interval, so "u is the activation of z" is a convex sub-problem,

    sigma(z) = argmin over lower <= u <= upper of  1/2 |u - z|^2,

and has a tight lift (`problem/lifts.py`). A new activation is a subclass that says which interval it is.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from torch import Tensor

from tikhonet.network.arguments import POSITIVE, check_type
from tikhonet.network.registry import Registry


class Activation(ABC):
    """The projection onto the interval from `lower` to `upper`; `name` says which in files."""

    name: ClassVar[str]
    kinds: ClassVar[Registry[type[Activation]]] = Registry("activation")

    def __init_subclass__(cls) -> None:
        cls.kinds.add(cls.name, cls)

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
        """The activation in units in which all values are `factor` times as large."""

    @abstractmethod
    def formula(self, text: str) -> str:
        """The activation of what `text` says, in words."""

    def value(self, Z: Tensor) -> Tensor:
        """sigma(Z)."""
        return Z.clamp(self.lower, self.upper)

    def value_(self, Z: Tensor) -> Tensor:
        """sigma(Z), written over Z."""
        return Z.clamp_(self.lower, self.upper)

    def violation(self, U: Tensor) -> float:
        """The distance of U's worst entry from the interval; at most 0 inside, NaN where U is not finite."""
        if not bool(U.isfinite().all()):
            return math.nan
        return max(self.lower - float(U.min()), float(U.max()) - self.upper)

    def as_dict(self) -> dict[str, Any]:
        """Name and parameters, as files keep them."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Activation:
        parameters = {key: value for key, value in description.items() if key != "name"}
        return cls.kinds[description["name"]](**parameters)

    @classmethod
    def named(cls, choice: str | Activation) -> Activation:
        """An activation as it is, or the one of this name with its default parameters."""
        choice = cls.kinds[choice]() if isinstance(choice, str) else choice
        check_type("activation", choice, Activation, remedy=f"or a name: {', '.join(map(repr, cls.kinds))}")
        return choice


@dataclass(frozen=True)
class ReLU(Activation):
    """max(0, z), the paper's."""

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
    """min(cap, max(0, z)): a ReLU whose values have a bound, which small devices can keep in few bits."""

    cap: float = 6.0

    name: ClassVar[str] = "clipped_relu"
    lower: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        POSITIVE.check("cap", self.cap)

    @property
    def upper(self) -> float:
        return self.cap

    def scaled(self, factor: float) -> ClippedReLU:
        return ClippedReLU(self.cap * factor)

    def formula(self, text: str) -> str:
        return f"min({self.cap:g}, relu({text}))"
