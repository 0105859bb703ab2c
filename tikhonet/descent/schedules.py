"""The sequences of Alg. 1: theta_t, the proximal weight rho_t, and what is left of them after t.

Alg. 1 moves each block by theta_t of the way to its sub-problem's minimiser, with the proximal weight
(1 - theta_t)^2. Its example 1/t^2 is summable, so the iterates converge wherever they happen to be:
a schedule can run out before a stationary point is reached. `Proximal` (theta = 1, a constant weight)
cannot.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

from scipy.special import zeta

from tikhonet.network.arguments import COUNT, POSITIVE, SHARE_OR_ALL, check_type


class Schedule(ABC):
    """A sequence of steps theta_t and proximal weights rho_t."""

    full_steps: ClassVar[bool] = False
    """Whether theta_t = 1 for all t, so that every step goes to its sub-problem's minimiser."""

    @abstractmethod
    def theta(self, t: int) -> float:
        """The step theta_t in [0, 1], for t = 1, 2, .."""

    def rho(self, t: int) -> float:
        """The proximal weight of iteration t."""
        return (1 - self.theta(t)) ** 2

    def tail(self, t: int) -> float:
        """The sum over k >= t of theta_k / (1 - theta_k), which Thm. 1 wants to vanish; NaN if unknown."""
        return math.nan

    def reach(self, t: int) -> float:
        """The sum of theta_k over the next nine t iterations, in full block steps.

        Where it is far below 1, ten times the work would hardly move the iterates any more.
        """
        return math.fsum(self.theta(k) for k in range(t + 1, 10 * t + 1))

    def promised_decrease(self, t: int, distance: float) -> float:
        """The least decrease of f that a block step of this length brings.

        Paper (Lemma 2): (1 - theta)/theta |y - x|^2, for a proximal term of weight 1 around the new
        point y. Here: rho/theta |y - x|^2, which is what Alg. 1's own term, rho around x, gives.
        """
        theta = self.theta(t)
        return self.rho(t) / theta * distance**2 if theta > 0 else 0.0

    def exhausted(self, t: int) -> bool:
        """Whether the steps have run out: ten times the iterations would go less than 1% of a full block step."""
        return self.reach(t) < 0.01

    def outlook(self, t: int) -> str:
        """The rest of the schedule after iteration t, in words: how far it reaches, and the theorem's tail."""
        reach, tail = self.reach(t), self.tail(t + 1)
        return f"theta over the next {9 * t} iterations adds up to {reach:.3g}; tail of Thm. 1 {tail:.3g}"

    def check(self, iterations: int) -> None:
        """Raise unless theta lies in [0, 1] for all t up to `iterations`."""
        for t in range(1, iterations + 1):
            theta = self.theta(t)
            if not 0 <= theta <= 1:
                raise ValueError(f"theta must lie in [0, 1] for every t, got {theta} at t = {t}")


@dataclass(frozen=True)
class Power(Schedule):
    """theta_t = 1/t^p; the paper's example has p = 2."""

    p: float = 2.0

    def __post_init__(self) -> None:
        POSITIVE.check("p", self.p)

    def theta(self, t: int) -> float:
        return math.pow(t, -self.p)

    def tail(self, t: int) -> float:
        # theta/(1 - theta) = theta + theta^2 + .., each power summed by Hurwitz' zeta function.
        if t <= 1 or self.p <= 1:
            return math.inf
        total, j = 0.0, 1
        while (part := float(zeta(self.p * j, t))) > 1e-17 * total:
            total, j = total + part, j + 1
        return total


@dataclass(frozen=True)
class LinearWeight(Power):
    """theta_t = 1/t^p with the proximal weight 1 - theta_t: with it Lemma 2's (1 - theta)/theta |y - x|^2 is true."""

    def rho(self, t: int) -> float:
        return 1 - self.theta(t)


@dataclass(frozen=True)
class Constant(Schedule):
    """theta_t = theta for all t: Alg. 1 that never runs out of steps."""

    value: float = 0.5

    def __post_init__(self) -> None:
        SHARE_OR_ALL.check("value", self.value)

    def theta(self, t: int) -> float:
        return self.value

    def tail(self, t: int) -> float:
        return math.inf

    def reach(self, t: int) -> float:
        return 9 * t * self.value


@dataclass(frozen=True)
class Custom(Schedule):
    """The user's own theta_t: a function of every t = 1, 2, .., or a list, after whose end theta is 0."""

    steps: Callable[[int], float] | Sequence[float]

    def __post_init__(self) -> None:
        check_type("steps", self.steps, Callable, Sequence, remedy="a function of t, or a list of numbers")
        if not callable(self.steps):
            for theta in self.steps:
                check_type("steps", theta, Real, remedy="a list of numbers from 0 to 1")

    def theta(self, t: int) -> float:
        if callable(self.steps):
            return float(self.steps(t))
        return float(self.steps[t - 1]) if t <= len(self.steps) else 0.0


@dataclass(frozen=True)
class Moved(Schedule):
    """Another schedule in other places: iteration t of this one is iteration `place(t)` of that one."""

    schedule: Schedule

    @abstractmethod
    def place(self, t: int) -> int: ...

    def theta(self, t: int) -> float:
        return self.schedule.theta(self.place(t))

    def rho(self, t: int) -> float:
        return self.schedule.rho(self.place(t))

    def promised_decrease(self, t: int, distance: float) -> float:
        return self.schedule.promised_decrease(self.place(t), distance)


@dataclass(frozen=True)
class Restarted(Moved):
    """A schedule that begins again after every so many iterations, so that its steps never run out."""

    every: int = 10

    def __post_init__(self) -> None:
        COUNT.check("every", self.every)

    def place(self, t: int) -> int:
        return (t - 1) % self.every + 1

    def tail(self, t: int) -> float:
        return math.inf


@dataclass(frozen=True)
class After(Moved):
    """The rest of a schedule after its first iterations: a run that goes on from another one's blocks."""

    done: int = 0

    def place(self, t: int) -> int:
        return t + self.done

    def tail(self, t: int) -> float:
        return self.schedule.tail(self.place(t))

    def reach(self, t: int) -> float:
        return self.schedule.reach(self.place(t))


@dataclass(frozen=True)
class Proximal(Schedule):
    """theta = 1 with a constant proximal weight: proximal block coordinate descent, which converges.

    f is semi-algebraic and every block step lowers it by at least weight/2 |step|^2, so bounded
    iterates converge to a stationary point (Xu and Yin 2013, by the Kurdyka-Lojasiewicz inequality).
    """

    weight: float = 1.0

    full_steps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        POSITIVE.check("weight", self.weight)

    def theta(self, t: int) -> float:
        return 1.0

    def rho(self, t: int) -> float:
        return self.weight

    def tail(self, t: int) -> float:
        return math.inf

    def reach(self, t: int) -> float:
        return 9.0 * t

    def promised_decrease(self, t: int, distance: float) -> float:
        return 0.5 * self.weight * distance**2

    def outlook(self, t: int) -> str:
        return f"theta = 1 throughout, weight {self.weight:g}"
