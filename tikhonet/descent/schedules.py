"""The sequences of Alg. 1: theta_t, the proximal weight rho_t, and what is left of them after t.

Its example 1/t^2 is summable and runs out; `Proximal` (theta = 1, a constant weight) cannot.
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
    """A sequence of steps theta_t and proximal weights rho_t (Alg. 1).

    Alg. 1 moves each block by theta_t of the way to its sub-problem's minimiser, with the proximal weight
    ``(1 - theta_t)^2``. Where the theta_t are summable the iterates converge wherever they happen to be: a schedule can
    run out before a stationary point is reached. A subclass gives `theta`.

    Attributes
    ----------
    full_steps : bool
        Whether theta_t = 1 for all t, so that every step goes to its sub-problem's minimiser.

    Examples
    --------
    >>> from tikhonet import Schedule
    >>> class Harmonic(Schedule):
    ...     def theta(self, t):
    ...         return 1 / t
    >>> Harmonic().rho(2)
    0.25
    """

    full_steps: ClassVar[bool] = False

    @abstractmethod
    def theta(self, t: int) -> float:
        """The step theta_t.

        Parameters
        ----------
        t : int
            The iteration, from 1.

        Returns
        -------
        float
            In [0, 1].
        """

    def rho(self, t: int) -> float:
        """The proximal weight of iteration t.

        Parameters
        ----------
        t : int
            The iteration, from 1.

        Returns
        -------
        float
            ``(1 - theta_t)^2``, where a subclass says nothing else.
        """
        return (1 - self.theta(t)) ** 2

    def tail(self, t: int) -> float:
        """The sum over k >= t of ``theta_k / (1 - theta_k)``, which Thm. 1 wants to vanish.

        Parameters
        ----------
        t : int
            The iteration, from 1.

        Returns
        -------
        float
            NaN if unknown.
        """
        return math.nan

    def reach(self, t: int) -> float:
        """The sum of theta_k over the next nine t iterations, in full block steps.

        Where it is far below 1, ten times the work would hardly move the iterates any more.

        Parameters
        ----------
        t : int
            The iterations that are done.

        Returns
        -------
        float
            The sum.
        """
        return math.fsum(self.theta(k) for k in range(t + 1, 10 * t + 1))

    def promised_decrease(self, t: int, distance: float) -> float:
        """The least decrease of f that a block step of this length brings.

        Paper (Lemma 2): ``(1 - theta)/theta |y - x|^2``, for a proximal term of weight 1 around the new point y. Here:
        ``rho/theta |y - x|^2``, which is what Alg. 1's own term, rho around x, gives.

        Parameters
        ----------
        t : int
            The iteration.
        distance : float
            How far the step went.

        Returns
        -------
        float
            The decrease.
        """
        theta = self.theta(t)
        return self.rho(t) / theta * distance**2 if theta > 0 else 0.0

    def exhausted(self, t: int) -> bool:
        """Whether the steps have run out: ten times the iterations would go less than 1% of a full block step.

        Parameters
        ----------
        t : int
            The iterations that are done.

        Returns
        -------
        bool
            The answer.
        """
        return self.reach(t) < 0.01

    def outlook(self, t: int) -> str:
        """The rest of the schedule after iteration t, in words: how far it reaches, and the theorem's tail.

        Parameters
        ----------
        t : int
            The iterations that are done.

        Returns
        -------
        str
            A sentence.
        """
        reach, tail = self.reach(t), self.tail(t + 1)
        return f"theta over the next {9 * t} iterations adds up to {reach:.3g}; tail of Thm. 1 {tail:.3g}"

    def check(self, iterations: int) -> None:
        """Raise unless theta lies in [0, 1] for all iterations.

        Parameters
        ----------
        iterations : int
            The iterations of a run.
        """
        for t in range(1, iterations + 1):
            theta = self.theta(t)
            if not 0 <= theta <= 1:
                raise ValueError(f"theta must lie in [0, 1] for every t, got {theta} at t = {t}")


@dataclass(frozen=True)
class Power(Schedule):
    """Steps that shrink as a power: ``theta_t = 1/t^p``; the paper's example has p = 2.

    Parameters
    ----------
    p : float, default=2.0
        The power. Above 1 the steps are summable, and run out.

    Examples
    --------
    >>> from tikhonet import Power
    >>> [Power(2).theta(t) for t in (1, 2, 10)]
    [1.0, 0.25, 0.01]
    >>> Power(2).exhausted(100)
    True
    """

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
    """One step for all iterations: Alg. 1 that never runs out of steps.

    Parameters
    ----------
    value : float, default=0.5
        theta, in (0, 1].

    Examples
    --------
    >>> from tikhonet import Constant
    >>> Constant(0.5).rho(7)
    0.25
    """

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
    """The user's own steps theta_t.

    Parameters
    ----------
    steps : callable or sequence of float
        A function of every t = 1, 2, .., or a list, after whose end theta is 0.

    Examples
    --------
    >>> from tikhonet import Custom
    >>> Custom([1.0, 0.5]).theta(3)
    0.0
    """

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
    """Full steps with a constant proximal weight: proximal block coordinate descent.

    f is semi-algebraic and every block step lowers it by at least ``weight/2 |step|^2``, so bounded iterates converge
    to a stationary point (Xu and Yin 2013, by the Kurdyka-Lojasiewicz inequality).

    Parameters
    ----------
    weight : float, default=1.0
        The proximal weight.

    Examples
    --------
    >>> from tikhonet import Proximal
    >>> schedule = Proximal(2.0)
    >>> schedule.theta(100), schedule.rho(100), schedule.exhausted(100)
    (1.0, 2.0, False)
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
