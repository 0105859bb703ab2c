"""Checks of arguments: each names the argument, what is allowed, what arrived, and the remedy where there is one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from tikhonet.network.errors import ArgumentError


@dataclass(frozen=True)
class Numbers:
    """Which numbers an argument may have: an interval in words and in figures."""

    words: str
    low: float
    high: float = math.inf
    low_allowed: bool = False
    high_allowed: bool = False
    integer: bool = False

    def __contains__(self, value: Any) -> bool:
        low = value >= self.low if self.low_allowed else value > self.low
        return bool(low and (value <= self.high if self.high_allowed else value < self.high))

    def check(self, name: str, value: Any) -> None:
        """Raise unless the value is such a number; a truth value is none."""
        if isinstance(value, bool) or not isinstance(value, Integral if self.integer else Real):
            kind = "an integer" if self.integer else "a number"
            raise ArgumentError(name, f"{name} must be {kind} and {self.words}, got {shown(value)}")
        if value not in self:
            raise ArgumentError(name, f"{name} must {self.words}, got {value}")


POSITIVE = Numbers("be positive and finite", 0)
NON_NEGATIVE = Numbers("be non-negative and finite", 0, low_allowed=True)
COUNT = Numbers("be at least 1", 1, low_allowed=True, integer=True)
SEED = Numbers("lie in 0 to 2**63 - 1", 0, 2**63, low_allowed=True, integer=True)
SHARE = Numbers("lie strictly between 0 and 1", 0, 1)
SHARE_OR_ALL = Numbers("lie in (0, 1]", 0, 1, high_allowed=True)
SHARE_OR_NONE = Numbers("lie in [0, 1)", 0, 1, low_allowed=True)


def check_numbers(owner: object, allowed: Numbers, names: Iterable[str], *, optional: bool = False) -> None:
    """Raise unless these attributes are such numbers, or None where they are optional."""
    for name in names:
        value = getattr(owner, name)
        if not (optional and value is None):
            allowed.check(name, value)


def check_type(name: str, value: Any, *kinds: Any, remedy: str = "") -> None:
    """Raise unless the value is an instance of one of the classes."""
    if isinstance(value, kinds):
        return
    if isinstance(value, type) and issubclass(value, kinds):
        remedy = f"pass an instance, {value.__name__}(..)"
    allowed = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
    end = f"; {remedy}" if remedy else ""
    raise ArgumentError(name, f"{name} must be of type {allowed}, got {shown(value)}{end}")


def check_callable(name: str, value: Any) -> None:
    """Raise unless the value is a function; a class is none here."""
    if not callable(value) or isinstance(value, type):
        raise ArgumentError(name, f"{name} must be a function, got {shown(value)}")


def check_choice(name: str, value: Any, *allowed: str) -> None:
    """Raise unless the value is one of these words."""
    if not isinstance(value, str) or value not in allowed:
        words = " or ".join(map(repr, allowed))
        raise ArgumentError(name, f"{name} must be {words}, got {shown(value)}")


def shown(value: object) -> str:
    """A value as an error message tells it, cut where it is long."""
    text = f"the class {value.__name__}" if isinstance(value, type) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}... of type {type(value).__name__}"
