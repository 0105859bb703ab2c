"""Axes: where a value goes, and which values get a tick."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Values from `low` to `high`, linearly or by their logarithm, onto pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __post_init__(self) -> None:
        """A single value (the only pass of a run) stands at the start, with room after it."""
        if not self.low < self.high:
            object.__setattr__(self, "high", self.low * 10 if self.log else self.low + 1)

    @classmethod
    def around(cls, values: Iterable[float], start: float, end: float, *, log: bool = False) -> Scale:
        """A scale that holds all finite values, from zero where it is linear."""
        kept = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
        low, high = min(kept, default=0.1 if log else 0.0), max(kept, default=1.0)
        if not log:
            return cls(min(0.0, low), high * 1.04 or 1.0, start, end)
        room = max((high / low) ** 0.04, 1.1)
        return cls(low / room, high * room, start, end, log=True)

    def __call__(self, value: float) -> float:
        if self.log:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        return self._decades(most) if self.log else self._steps(most)

    def _steps(self, most: int) -> list[float]:
        rough = (self.high - self.low) / most
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def _decades(self, most: int) -> list[float]:
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for factors in ((1, 2, 5), (1, 3), (1,)):
            found = [10.0**k * factor for k in decades for factor in factors]
            found = [value for value in found if self.low <= value <= self.high]
            if len(found) <= most:
                return found
        return found[:: math.ceil(len(found) / most)]


def spread(wanted: list[float], gap: float, low: float, high: float) -> list[float]:
    """Positions near the wanted ones, in the same order, at least `gap` apart where there is room."""
    order = sorted(range(len(wanted)), key=lambda k: wanted[k])
    gap = min(gap, (high - low) / max(1, len(wanted) - 1)) if wanted else gap
    placed: dict[int, float] = {}
    edge = low - gap
    for k in order:
        placed[k] = edge = max(wanted[k], edge + gap)
    edge = high + gap
    for k in reversed(order):
        placed[k] = edge = min(placed[k], edge - gap)
    return [placed[k] for k in range(len(wanted))]


def short(value: float) -> str:
    """A number as people write it: three digits, a power of ten only where there must be one."""
    if not math.isfinite(value):
        return "n/a"
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        if abs(value) < 1:
            return f"{value:.3g}"
        text = f"{value:,.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    exponent = math.floor(math.log10(abs(value)))
    power = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    factor = f"{value / 10.0**exponent:.2g}"
    return f"10{power}" if factor == "1" else f"{factor}·10{power}"
