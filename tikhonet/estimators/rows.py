"""The training rows in a form of their own: no zero weights, equal rows merged, an order that the rows decide.

So a row of weight 2 is the same as the row twice, and permuting the rows changes nothing, to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tikhonet.model.head_data import HeadData
from tikhonet.model.scaling import Scaling
from tikhonet.problem.samples import Reduce, keep
from tikhonet.trainer.batches import add_numbers
from tikhonet.trainer.state import TrainingState

Floats = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]
CHUNK = 4096
DIGEST_FACTORS = (
    (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB),
    (0xD6E8FEB86659FD93, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB),
)
"""Odd numbers without a pattern, for two sums of 64 bits."""
WEIGHT_BITS = 32
"""Bits that weights in a fingerprint have: those of all rows add up to so many and one more, at most."""
MEMORY = 10_000
"""Rows that are remembered, to refit the head on: a uniform sample of all that were seen."""


@dataclass(frozen=True)
class Rows:
    """Inputs, targets (both matrices) and positive weights."""

    X: Floats
    Y: Floats
    weight: Floats

    def __len__(self) -> int:
        return len(self.X)

    def take(self, index: NDArray[np.intp]) -> Self:
        return replace(self, X=self.X[index], Y=self.Y[index], weight=self.weight[index])

    def tensors(self, encode: Callable[[Floats], Tensor], device: torch.device | str) -> tuple[Any, Any, Tensor]:
        """X, its targets by this encoding, and the weights, as a solver takes them."""
        X = torch.from_numpy(self.X).to(device)
        return X, encode(self.Y).to(X), torch.from_numpy(self.weight).to(X)

    on_disk: ClassVar[bool] = False
    """Whether X stays on disk."""

    @property
    def most_held_out(self) -> float:
        """How many rows memory has room for, to judge epochs by."""
        return math.inf

    def inputs(self, places: NDArray[np.int64]) -> Self:
        """The rows with these of their inputs only."""
        return replace(self, X=self.X.take(places, 1))

    def loaded(self, index: NDArray[np.intp]) -> Rows:
        """Some of the rows, in memory."""
        return self.take(index)

    def at_hand(self) -> Self:
        """All rows; where memory has no room for what is made of them, a fair sample."""
        return self

    def scaled(
        self, shape: tuple[int, ...], dtype: str, known: Scaling | None = None, reduce: Reduce = keep
    ) -> tuple[Scaling, Self]:
        """The scaling of these rows, or the one that is known, and the rows scaled and in order."""
        scaling = known or Scaling.fit(self.X, self.weight, shape, reduce=reduce)
        return scaling, in_order(replace(self, X=scaling(self.X, dtype)))

    def map(self, function: Callable[[Floats], NDArray[Any]]) -> NDArray[Any]:
        """The function of X."""
        return function(self.X)

    def head_data(self, function: Callable[[Floats], Floats], reduce: Reduce = keep) -> HeadData:
        """The rows as a head takes them, with this function of X as their features."""
        return HeadData(lambda: self.map(function), self.Y, self.weight, reduce)

    def keys(self) -> NDArray[np.uint64]:
        """64 bits of the inputs of each row."""
        return fingerprint(self.X)

    def mean_weight(self, reduce: Reduce = keep) -> float:
        """The unit of weights: in it their mean is 1, so that only their ratios matter."""
        total, count = add_numbers(reduce, self.weight.sum(), len(self))
        return total / count

    def weighed_in(self, unit: float) -> Rows:
        """The rows with their weights in this unit."""
        return replace(self, weight=self.weight / unit)


AnyRows = TypeVar("AnyRows", bound=Rows)


@dataclass(frozen=True)
class Memory:
    """The solver's state, and rows to refit the head on: all that `partial_fit` goes on with."""

    state: TrainingState | None = None
    rows: Rows | None = None
    """A uniform sample of the rows that were seen, scaled."""
    whole: bool = False
    """Whether it is one of all rows that the head has learned from; a model file has none of them."""
    strength: float | None = None
    """The head's, as `fit` chose it on rows held out."""
    of_fit: bool = False
    """Whether these are the rows of a plain `fit`: nobody expects them in a pickle, so pickles leave them out."""
    unit: float | None = None
    """The mean weight of the rows that fixed scaling and encoding; weights are in units of it."""
    seen: float = 0.0
    """The weight of all rows that were seen; 0 where nobody knows, after a model file."""
    first: Rows | None = None
    """The rows of a stream as they came, as long as they are too few to fix scaling and encoding by."""
    calls: int = 0
    """Calls of `partial_fit` that these came in."""

    @classmethod
    def after_fit(cls, state: TrainingState | None, rows: Rows, strength: float, unit: float = 1.0) -> Memory:
        return cls(state, sample(rows), True, strength, of_fit=True, unit=unit, seen=float(rows.weight.sum()))

    def with_rows(self, rows: Rows) -> Rows:
        """The sample with these rows added."""
        if self.rows is None:
            return sample(rows)
        both = joined(self.rows, rows)
        return sample(in_order(canonical(both.X, both.Y, both.weight)))

    def rescaled(self, old: Scaling, new: Scaling) -> Memory:
        """The memory after features that had been constant got a new scaling."""
        if self.rows is None or new is old:
            return self
        X, woken = self.rows.X.copy(), new.varies & ~old.varies
        X[:, woken] = ((old.shift - new.shift) / new.scale)[woken]
        return replace(self, rows=replace(self.rows, X=X))

    def state_for(self, dtype: str, device: str) -> TrainingState | None:
        """The state, where it can go on with this type on this device; if not, its statistics begin anew."""
        if self.state is None:
            return None
        V = self.state.classifier.V
        suits = V.dtype == getattr(torch, dtype) and V.device.type == torch.device(device).type
        return self.state if suits else None

    def __getstate__(self) -> dict[str, Any]:
        kept = replace(self, rows=None, whole=False, of_fit=False) if self.of_fit else self
        return {field.name: getattr(kept, field.name) for field in fields(self)}


def sample(rows: Rows) -> Rows:
    """The first of rows in order: fingerprints are as good as random numbers, so that these are a uniform sample."""
    return rows.loaded(np.arange(int(min(MEMORY, rows.most_held_out, len(rows)))))


def fingerprint(matrix: Floats) -> NDArray[np.uint64]:
    """A 64-bit number for each row, from its bits alone: integer sums are exact wherever the row stands."""
    whole = np.uint64 if matrix.dtype == np.float64 else np.uint32
    factors = np.random.default_rng(0).integers(2**64 - 1, size=matrix.shape[1], dtype=np.uint64) | np.uint64(1)
    keys = np.empty(len(matrix), np.uint64)
    for start in range(0, len(matrix), CHUNK):
        rows = slice(start, start + CHUNK)
        # Adding zero makes -0.0 and 0.0 the same; the shift brings the leading bits down, where products keep them.
        bits = np.ascontiguousarray(matrix[rows] + matrix.dtype.type(0)).view(whole).astype(np.uint64)
        keys[rows] = ((bits ^ (bits >> np.uint64(29))) * factors).sum(1, dtype=np.uint64)
    return keys


def digest(rows: Rows, reduce: Reduce = keep) -> str:
    """128 bits that tell these rows from others, in whatever order and on however many machines they are."""
    columns, sums = np.stack([rows.keys(), fingerprint(rows.Y)]), []
    # Equal rows on two machines are as one row of both weights, so weights are whole numbers of a small unit.
    size = math.floor(math.log2(add_numbers(reduce, rows.weight.sum())[0]))
    weight = np.rint(rows.weight / 2.0 ** (size - WEIGHT_BITS)).astype(np.uint64)
    for factors in DIGEST_FACTORS:
        mixed = (columns * np.array(factors[1:], np.uint64)[:, None]).sum(0, dtype=np.uint64)
        for shift in (31, 29, 32):  # a sum of what is not linear in the rows: exchanged numbers change it
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factors[0])
        # Sums of 16 bits by weight are exact in float64, which is what machines exchange.
        pieces = ((mixed >> np.uint64(16 * part)) & np.uint64(0xFFFF) for part in range(4))
        sums += [float((piece * weight).sum(dtype=np.uint64)) for piece in pieces]
    totals = [int(total) for total in add_numbers(reduce, *sums)]
    whole = [sum(total << 16 * place for place, total in enumerate(half)) for half in (totals[:4], totals[4:])]
    return "".join(f"{half % 2**64:016x}" for half in whole) + f"/{size}"


def canonical(X: Floats, Y: Floats, weight: Floats) -> Rows:
    """Rows of positive weight, equal ones (X and Y) merged by adding their weights, sorted by fingerprint."""
    rows = Rows(X, Y, weight)
    if not weight.all():
        rows = rows.take(np.flatnonzero(weight))
    # The weights are keys too, so that those of equal rows are added in one order.
    rows = rows.take(np.lexsort((rows.weight, fingerprint(rows.Y), fingerprint(rows.X))))
    first = np.ones(len(rows), bool)
    for start in range(1, len(rows), CHUNK):
        here, before = slice(start, start + CHUNK), slice(start - 1, min(start + CHUNK, len(rows)) - 1)
        first[here] = differ(rows.X[here], rows.X[before]) | differ(rows.Y[here], rows.Y[before])
    if first.all():
        return rows
    index = np.flatnonzero(first)
    return Rows(rows.X[index], rows.Y[index], np.add.reduceat(rows.weight, index))


def differ(some: Floats, others: Floats) -> Mask:
    """Which rows differ from the others; a missing number (NaN) is like another one."""
    unlike: Mask = ((some != others) & ((some == some) | (others == others))).any(1)
    return unlike


def dense(X: Any) -> Floats:
    """X as an array, also where it is sparse."""
    dense: Floats = X.toarray() if hasattr(X, "toarray") else X
    return dense


def three_digits(X: Floats) -> NDArray[np.uint64]:
    """64 bits of each scaled row to three digits, which do not feel the last bits of its scaling."""
    parts = (X[start : start + CHUNK] for start in range(0, max(1, len(X)), CHUNK))
    return np.concatenate([fingerprint(np.rint(part * 1024).astype(np.float32)) for part in parts])


def names(rows: Rows) -> Tensor:
    """64 bits of each scaled row and its target, by which another number of ranks finds it again."""
    keys = rows.map(three_digits) ^ (fingerprint(rows.Y) * np.uint64(DIGEST_FACTORS[0][0]))
    return torch.from_numpy(keys.view(np.int64))


def in_order(rows: AnyRows) -> AnyRows:
    """Scaled rows sorted by what they are to three digits: the same order in whatever units they came.

    Sorted by all their bits, one float32 that rounds to its neighbour would move its row, and change split and batches.
    """
    # Rows that are equal so far go by their sums, which differ by more than rounding as a rule.
    return rows.take(np.lexsort((rows.map(lambda X: X.sum(1)), rows.map(three_digits))))


def joined(first: Rows, second: Rows) -> Rows:
    """The rows of both, one after the other."""
    return Rows(
        np.concatenate([first.X, second.X]),
        np.concatenate([first.Y, second.Y]),
        np.concatenate([first.weight, second.weight]),
    )


def weigh(rows: Rows, factors: Floats) -> Rows:
    """The rows with their weights multiplied by those of their classes."""
    return replace(rows, weight=rows.weight * factors[rows.Y[:, 0].astype(np.intp)])
