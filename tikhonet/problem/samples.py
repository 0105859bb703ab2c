"""The training samples, and every sum over them.

All passes over the data go chunk by chunk of rows, and every sum over samples ends in `reduce`:
the identity on one machine, a sum over ranks on many. Sums are accumulated in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from types import NoneType

import torch
from torch import Tensor

from tikhonet.network.arguments import COUNT, check_callable, check_numbers, check_type
from tikhonet.network.graph import Layers

Reduce = Callable[[Tensor], Tensor]


def keep(total: Tensor) -> Tensor:
    """The `reduce` of a run on one machine."""
    return total


def rows_of(U: Layers, rows: slice, dtype: torch.dtype | None = None) -> Layers:
    """The layers of some of the samples."""
    return {m: layer[rows].to(dtype) if dtype else layer[rows] for m, layer in U.items()}


@dataclass(frozen=True)
class Samples:
    """Inputs X, encoded targets, and optional weights, one row per sample.

    A weight multiplies everything that belongs to its sample (loss, lift and proximal term), so
    that weight 2 is the same as having the row twice.
    """

    X: Tensor
    targets: Tensor
    weight: Tensor | None = None
    chunk_rows: int = 2048
    reduce: Reduce = keep
    _constants: dict[Hashable, Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_numbers(self, COUNT, ["chunk_rows"])
        for name in ("X", "targets"):
            check_type(name, getattr(self, name), Tensor, remedy="use torch.as_tensor")
        check_type("weight", self.weight, Tensor, NoneType, remedy="use torch.as_tensor")
        check_callable("reduce", self.reduce)
        if self.X.ndim != 2 or 0 in self.X.shape:
            raise ValueError(f"X must have shape (samples, inputs), neither 0, got {tuple(self.X.shape)}")
        if not self.X.is_floating_point():
            raise ValueError(f"X must be of a floating-point type, got {self.X.dtype}; use X.float()")
        if self.targets.shape[:1] != self.X.shape[:1]:
            got = len(self.targets) if self.targets.ndim else "a single number"
            raise ValueError(f"targets must have one row per sample ({len(self.X)}), got {got}")
        if self.weight is not None and self.weight.shape != (len(self.X),):
            raise ValueError(f"weight must hold one number per sample ({len(self.X)},), got {tuple(self.weight.shape)}")
        for name, values in (("X", self.X), ("targets", self.targets), ("weight", self.weight)):
            if values is not None:
                self._check_values(name, values)
        if self.weight is not None and (bool((self.weight < 0).any()) or not bool((self.weight > 0).any())):
            raise ValueError("weight must be non-negative and not all zero")

    def __len__(self) -> int:
        return len(self.X)

    def chunks(self) -> Iterator[slice]:
        for start in range(0, len(self.X), self.chunk_rows):
            yield slice(start, min(start + self.chunk_rows, len(self.X)))

    def sum(self, term: Callable[[slice], Tensor]) -> Tensor:
        """The sum over all samples of `term(rows)`, itself a sum over those rows, in float64."""
        total: Tensor | None = None
        for rows in self.chunks():
            part = term(rows).double()
            total = part if total is None else total + part
        assert total is not None
        return self.reduce(total)

    def weighted_sum(self, values: Callable[[slice], Tensor]) -> float:
        """The weighted sum over samples of one number per sample."""

        def term(rows: slice) -> Tensor:
            numbers = values(rows).double()
            return (numbers if self.weight is None else numbers * self.weight[rows]).sum()

        return float(self.sum(term))

    def weights(self, rows: slice) -> Tensor | None:
        """The weights of some samples, if they have any."""
        return None if self.weight is None else self.weight[rows]

    def weigh(self, matrix: Tensor, rows: slice) -> Tensor:
        """The rows of `matrix` multiplied by their samples' weights."""
        return matrix if self.weight is None else matrix * self.weight[rows, None]

    def constant(self, key: Hashable, compute: Callable[[], Tensor]) -> Tensor:
        """A tensor that depends on X and the weights alone, computed once for these samples."""
        if key not in self._constants:
            self._constants[key] = compute()
        return self._constants[key]

    def _check_values(self, name: str, values: Tensor) -> None:
        if (values.dtype, values.device) != (self.X.dtype, self.X.device):
            raise ValueError(
                f"{name} must have X's type and device ({self.X.dtype} on {self.X.device}), "
                f"got {values.dtype} on {values.device}; use {name}.to(X)"
            )
        for rows in self.chunks():
            finite = values[rows].isfinite()
            if not bool(finite.all()):
                row = rows.start + int((~finite.reshape(len(finite), -1).all(1)).nonzero()[0])
                raise ValueError(
                    f"{name} must be finite, got NaN or infinity first in row {row}; impute or drop such rows"
                )
