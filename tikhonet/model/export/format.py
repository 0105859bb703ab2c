"""Export formats. Each is one subclass of `Format`, known to Python and the command line from then on.

On a device, flash holds the file or the constant arrays (the code comes on top) and RAM what one prediction needs. C
reads its weights from flash; torch, ONNX and SciPy hold them in RAM beside all layers, and need their own on top.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import ClassVar

from tikhonet.model.model import Model
from tikhonet.model.storage import write_atomically
from tikhonet.network.registry import Named, Registry


@dataclass(frozen=True, eq=False)
class Export:
    """A model in some format, made in memory."""

    content: bytes
    flash: int
    ram: int
    complete: bool = False
    """Whether RAM is all that is needed; otherwise the runtime's own comes on top."""
    beside: Mapping[str, bytes] = field(default_factory=dict)
    """The contents of further files, by what they are."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Facts for the user, such as the name of a function."""


@dataclass(frozen=True)
class Size:
    """The bytes that a model takes in one format."""

    format: str
    flash: int
    ram: int
    complete: bool


class Format(Named, ABC):
    """A way to write a model: `make` is all that a subclass must define, beside name and ending."""

    ending: ClassVar[str]
    weights: ClassVar[tuple[str, ...]] = ("float32",)
    """The types that weights can have in it."""
    beside: ClassVar[Mapping[str, str]] = {}
    """The endings of further files that go with the first, by what they are."""
    package: ClassVar[str | None] = None
    """The optional package that it needs."""
    kinds: ClassVar[Registry[type[Format]]] = Registry("format")

    @abstractmethod
    def make(self, model: Model, name: str = "model", weights: str = "float32") -> Export:
        """The model in this format, under a name of its own where the format has names."""

    def check_path(self, path: Path) -> None:
        """Raise unless a file of this format can have this path."""
        if path.suffix != self.ending:
            raise ValueError(f"path must end in {self.ending} for the format {self.name}, got {path}")

    def paths(self, path: Path) -> dict[str, Path]:
        """The further files that go with this path, by what they are."""
        return {what: path.with_suffix(ending) for what, ending in self.beside.items()}

    def write(self, model: Model, path: str | os.PathLike[str], weights: str = "float32") -> Export:
        """Write the file and those that go with it, each whole or not at all."""
        path = Path(path)
        self.check_path(path)
        made = self.make(model, path.stem, weights)
        for what, other in self.paths(path).items():
            write_atomically(other, (made.beside[what],))
        write_atomically(path, (made.content,))
        return made

    def sizes(self, model: Model) -> Iterator[Size]:
        """The bytes with each type of weights, by making it; none where a package is missing."""
        if self.package and find_spec(self.package) is None:
            return
        for weights in self.weights:
            made = self.make(model, weights=weights)
            label = f"{self.name}, {weights}" if len(self.weights) > 1 else self.name
            yield Size(label, made.flash, made.ram, made.complete)


def formats() -> dict[str, Format]:
    """All formats by name: those of this package, and every other subclass of `Format` that was defined."""
    for module in iter_modules([os.path.dirname(__file__)]):
        import_module(f"{__name__.rpartition('.')[0]}.{module.name}")
    return {name: kind() for name, kind in Format.kinds.items()}


def sizes(model: Model) -> list[Size]:
    """The bytes that a model takes in each format."""
    return [size for format_ in formats().values() for size in format_.sizes(model)]


def dense_ram(model: Model) -> int:
    """The bytes of a runtime that keeps full matrices and all layers, with the scaling in float64."""
    layers = sum(model.network.widths) + model.outputs
    head = 0 if model.head is None else model.head.coef.size + model.outputs
    weights = sum(matrix.numel() for matrix in model.W.values())
    return 4 * (layers + head + weights) + 8 * 4 * model.inputs
