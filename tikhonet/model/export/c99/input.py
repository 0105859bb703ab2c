"""The input scaling in float32:  u = clip((x - shift) * inverse),  where the bounds are in units of the spread.

Where a shift does not fit float32 well enough, such as a year's with a spread of months, the rest of it is subtracted
after: x - shift is then exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tikhonet.model.export.forward import Floats, Forward, single

Single = NDArray[np.float32]
EQUAL = 1e-6
"""Bounds that differ less than this are one; a shift may be off by this share of the spread."""


@dataclass(frozen=True, eq=False)
class Input:
    shift: Single
    inverse: Single
    low: Single
    high: Single
    """One number where all features have the same bound."""
    rest: Single | None

    @property
    def arrays(self) -> dict[str, Single]:
        named = {"shift": self.shift, "rest": self.rest, "inverse": self.inverse, "low": self.low, "high": self.high}
        return {name: array for name, array in named.items() if array is not None and len(array) == len(self.shift)}

    def expressions(self, prefix: str) -> dict[str, str]:
        """The difference and the bounds in C."""
        difference = f"x - {prefix}_shift[i]"
        found = {"difference": difference if self.rest is None else f"({difference}) - {prefix}_rest[i]"}
        for name, bound in (("low", self.low), ("high", self.high)):
            found[name] = f"{prefix}_{name}[i]" if name in self.arrays else f"{float(bound[0]):.8e}f"
        return found


def read_input(forward: Forward) -> Input:
    """A constant feature has an inverse of 0, so it needs no bounds of its own."""
    moving = forward.low < forward.high
    inverse = np.where(moving, 1 / forward.scale, 0.0)
    middle = np.where(moving, 0.0, (forward.low - forward.shift) / forward.scale)
    if middle.any():
        raise ValueError("low and high must equal shift where they are the same: a constant feature is zero")
    shift = single("shift", forward.shift)
    rest = single("shift", forward.shift - shift.astype(np.float64))
    exact = not (np.abs(rest) * inverse > EQUAL).any()
    low, high = (bound((limit - forward.shift) / forward.scale, moving) for limit in (forward.low, forward.high))
    return Input(shift, single("1 / scale", inverse), low, high, None if exact else rest)


def bound(values: Floats, moving: NDArray[np.bool_]) -> Single:
    """A single number where all agree."""
    used = values[moving] if moving.any() else np.zeros(1)
    if np.ptp(used) <= EQUAL * np.abs(used).max():
        return single("bounds", used[:1])
    return single("bounds", np.where(moving, values, 0.0))
