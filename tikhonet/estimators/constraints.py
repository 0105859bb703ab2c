"""What a parameter may be, as scikit-learn declares it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any

from sklearn.utils._param_validation import Interval, StrOptions

COUNT = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
SHARE = Interval(Real, 0, 1, closed="neither")


class NameIn(StrOptions):
    """A constraint: any name that is known when a parameter is checked, so that kinds may be defined later."""

    def __init__(self, known: Callable[[], Iterable[str]]) -> None:
        self.known, self.type, self.hidden = known, str, False
        self.deprecated: set[str] = set()

    @property
    def options(self) -> set[str]:
        return set(self.known())


def auto_or(*kinds: Any) -> list[Any]:
    return [StrOptions({"auto"}), *kinds]
