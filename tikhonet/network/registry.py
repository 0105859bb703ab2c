"""Names of things that come in kinds: activations, edges, heads, formats, experiments.

A kind becomes known by being defined: its base class, which is `Named`, adds it. Nobody keeps a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from tikhonet.network.errors import ArgumentError

Kind = TypeVar("Kind")


class Registry(Mapping[str, Kind], Generic[Kind]):
    """The kinds of something by name; `what` is the argument that chooses among them."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._kinds: dict[str, Kind] = {}

    def add(self, name: str, kind: Kind) -> None:
        self._kinds[name] = kind

    def __getitem__(self, name: str) -> Kind:
        try:
            return self._kinds[name]
        except (KeyError, TypeError):
            allowed = ", ".join(map(repr, self._kinds))
            raise ArgumentError(self.what, f"{self.what} must be one of {allowed}, got {name!r}") from None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._kinds

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


class Named:
    """The base of things that come in kinds: a subclass is known by the `name` that it gives itself, if it does."""

    name: ClassVar[str]
    kinds: ClassVar[Registry[Any]]

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            cls.kinds.add(cls.name, cls)
