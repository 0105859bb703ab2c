"""The training samples, and every sum over them.

All passes over the data go chunk by chunk of rows, and every sum over samples ends in `reduce`:
the identity on one machine, a sum over ranks on many. Sums are accumulated in float64, in the order of `row_blocks`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import NoneType
from typing import TypeVar

import torch
from torch import Tensor

from tikhonet.network.arguments import COUNT, check_callable, check_numbers, check_type
from tikhonet.network.graph import Layers
from tikhonet.problem.row_blocks import Place, added_in_pairs, of_each, row_blocks
from tikhonet.problem.row_store import IN_MEMORY, RowStore

Reduce = Callable[[Tensor], Tensor]
"""Adds a tensor up over all ranks. One that also knows its `rank`, the `size` of the group and the `place` of its rows
among all, as `Ranks` does, makes runs the same for any number of processes."""
Key = TypeVar("Key", bound=Hashable)


def keep(total: Tensor) -> Tensor:
    """The `reduce` of a run on one machine."""
    return total


def place_of(reduce: Reduce, rows: int) -> Place:
    """Where so many rows of this rank are among those of all; all ranks ask for it together."""
    find: Callable[[int], Place] | None = getattr(reduce, "place", None)
    return find(rows) if find else Place(0, rows, row_blocks(rows))


def rank_of(reduce: Reduce) -> tuple[int, int]:
    """The number of this rank, and how many there are; (0, 1) where `reduce` does not say."""
    return getattr(reduce, "rank", 0), getattr(reduce, "size", 1)


def added_up(reduce: Reduce, parts: Mapping[Key, Tensor]) -> dict[Key, Tensor]:
    """The sums of several tensors of one type over all ranks, which travel together."""
    if reduce is keep:
        return dict(parts)
    flat = reduce(torch.cat([part.reshape(-1) for part in parts.values()]))
    sums = flat.split([part.numel() for part in parts.values()])
    return {key: total.view(parts[key].shape) for key, total in zip(parts, sums, strict=True)}


def rows_of(U: Layers, rows: slice, dtype: torch.dtype | None = None) -> Layers:
    """The layers of some of the samples."""
    return {m: layer[rows].to(dtype) if dtype else layer[rows] for m, layer in U.items()}


@dataclass(frozen=True)
class Samples:
    """The training samples, one row each, and every sum over them.

    A weight multiplies everything that belongs to its sample (loss, lift and proximal term), so that weight 2 is the
    same as having the row twice.

    Parameters
    ----------
    X : Tensor
        Inputs, samples x width.
    targets : Tensor
        Encoded targets, samples x outputs, of X's type.
    weight : Tensor, optional
        A number for each sample, not negative; 1 where it is None.
    chunk_rows : int, default=2048
        Rows that a pass over the data holds at a time.
    reduce : callable, default=keep
        Adds a tensor up over all ranks, as `Ranks` does; the identity in one process.
    store : RowStore, default=IN_MEMORY
        Where further matrices with a row for each sample are kept.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Samples
    >>> samples = Samples(torch.ones(3, 2), torch.zeros(3, 1), weight=torch.tensor([1.0, 2.0, 0.0]))
    >>> samples.weighted_sum(lambda rows: samples.X[rows, 0])
    3.0
    """

    X: Tensor
    targets: Tensor
    weight: Tensor | None = None
    chunk_rows: int = 2048
    reduce: Reduce = keep
    store: RowStore = IN_MEMORY
    _constants: dict[Hashable, Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_numbers(self, COUNT, ["chunk_rows"])
        for name in ("X", "targets"):
            check_type(name, getattr(self, name), Tensor, remedy="use torch.as_tensor")
        check_type("weight", self.weight, Tensor, NoneType, remedy="use torch.as_tensor")
        check_callable("reduce", self.reduce)
        check_type("store", self.store, RowStore)
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

    @cached_property
    def place(self) -> Place:
        """Where these rows are among those of all ranks, and their blocks."""
        return place_of(self.reduce, len(self.X))

    def chunks(self, block: slice | None = None) -> Iterator[slice]:
        """The rows of a block, or of all blocks, some at a time; those that are in files leave memory after it.

        Parameters
        ----------
        block : slice, optional
            A block of rows; all blocks where it is None.

        Yields
        ------
        slice
            Some rows.
        """
        for part in self.place.blocks if block is None else (block,):
            for start in range(part.start, part.stop, self.chunk_rows):
                yield slice(start, min(start + self.chunk_rows, part.stop))
                self.store.release()

    def matrices(self, widths: Mapping[Key, int], make: Callable[[slice], Mapping[Key, Tensor]]) -> dict[Key, Tensor]:
        """Matrices with a row for each sample, made some rows at a time.

        Parameters
        ----------
        widths : mapping
            The number of columns of each matrix, by its name.
        make : callable
            Gives some rows of each matrix, by its name.

        Returns
        -------
        dict
            The matrices by name.
        """
        made = {key: self.empty(width) for key, width in widths.items()}

        def fill(block: slice) -> None:
            for rows in self.chunks(block):
                for key, part in make(rows).items():
                    made[key][rows] = part

        for _ in of_each(fill, self.place.blocks):
            pass
        return made

    def empty(self, width: int) -> Tensor:
        """A matrix with a row for each sample, to be filled.

        Parameters
        ----------
        width : int
            Its columns.

        Returns
        -------
        Tensor
            In memory, or a map of a file.
        """
        return self.store.empty(len(self.X), width, self.X.dtype, self.X.device)

    def most(self, measure: Callable[[Tensor], float], matrix: Tensor) -> float:
        """The largest of the numbers that are measured of chunks of a matrix's rows.

        Parameters
        ----------
        measure : callable
            A number of some rows.
        matrix : Tensor
            A row for each sample.

        Returns
        -------
        float
            NaN if one of the numbers is.
        """
        numbers = [measure(matrix[rows]) for rows in self.chunks()]
        return math.nan if any(map(math.isnan, numbers)) else max(numbers)

    def sums(self, terms: Callable[[slice], Mapping[Key, Tensor]]) -> dict[Key, Tensor]:
        """The sums over all samples of several terms, in float64.

        The sums of all ranks are added up in one go. `terms` may be called by several threads at a time.

        Parameters
        ----------
        terms : callable
            Of a slice of rows, the sums over those rows by their names.

        Returns
        -------
        dict of Tensor
            The sums by their names.
        """

        def add(some: Mapping[Key, Tensor], more: Mapping[Key, Tensor]) -> Mapping[Key, Tensor]:
            return {key: total + more[key].double() for key, total in some.items()}

        def of_block(block: slice) -> Mapping[Key, Tensor]:
            total: Mapping[Key, Tensor] | None = None
            for rows in self.chunks(block):
                found = terms(rows)
                total = {key: part.double() for key, part in found.items()} if total is None else add(total, found)
            assert total is not None
            return total

        return added_up(self.reduce, added_in_pairs(of_each(of_block, self.place.blocks), add))

    def sum(self, term: Callable[[slice], Tensor]) -> Tensor:
        """The sum over all samples of `term(rows)`, as `sums` does it.

        Parameters
        ----------
        term : callable
            Of a slice of rows, the sum over those rows.

        Returns
        -------
        Tensor
            The sum over all.
        """
        return self.sums(lambda rows: {"sum": term(rows)})["sum"]

    def weighted_sum(self, values: Callable[[slice], Tensor]) -> float:
        """The weighted sum over samples of one number per sample.

        Parameters
        ----------
        values : callable
            Of a slice of rows, the number of each.

        Returns
        -------
        float
            The sum.
        """
        return self.weighted_sums(lambda rows: {"sum": values(rows)})["sum"]

    def weighted_sums(self, values: Callable[[slice], Mapping[Key, Tensor]]) -> dict[Key, float]:
        """The weighted sums over samples of some numbers per sample.

        Parameters
        ----------
        values : callable
            Of a slice of rows, the numbers of each by their names.

        Returns
        -------
        dict of float
            The sums by their names.
        """

        def terms(rows: slice) -> dict[Key, Tensor]:
            numbers = {key: part.double() for key, part in values(rows).items()}
            if self.weight is not None:
                numbers = {key: part * self.weight[rows] for key, part in numbers.items()}
            return {key: part.sum() for key, part in numbers.items()}

        return {key: float(total) for key, total in self.sums(terms).items()}

    def weights(self, rows: slice) -> Tensor | None:
        """The weights of some samples.

        Parameters
        ----------
        rows : slice
            The samples.

        Returns
        -------
        Tensor or None
            None where samples have no weights.
        """
        return None if self.weight is None else self.weight[rows]

    def weigh(self, matrix: Tensor, rows: slice) -> Tensor:
        """The rows of a matrix multiplied by their samples' weights.

        Parameters
        ----------
        matrix : Tensor
            A row for each of the samples.
        rows : slice
            The samples.

        Returns
        -------
        Tensor
            The matrix itself where samples have no weights.
        """
        return matrix if self.weight is None else matrix * self.weight[rows, None]

    def constant(self, key: Hashable, compute: Callable[[], Tensor]) -> Tensor:
        """A tensor that depends on X and the weights alone, computed once for these samples.

        Parameters
        ----------
        key : hashable
            Its name.
        compute : callable
            What computes it when it is first asked for.

        Returns
        -------
        Tensor
            The tensor.
        """
        if key not in self._constants:
            self._constants[key] = compute()
        return self._constants[key]

    def _check_values(self, name: str, values: Tensor) -> None:
        if (values.dtype, values.device) != (self.X.dtype, self.X.device):
            raise ValueError(
                f"{name} must have X's type and device ({self.X.dtype} on {self.X.device}), "
                f"got {values.dtype} on {values.device}; use {name}.to(X)"
            )
        for start in range(0, len(values), self.chunk_rows):
            rows = slice(start, start + self.chunk_rows)
            finite = values[rows].isfinite()
            if not bool(finite.all()):
                row = rows.start + int((~finite.reshape(len(finite), -1).all(1)).nonzero()[0])
                raise ValueError(
                    f"{name} must be finite, got NaN or infinity first in row {row}; impute or drop such rows"
                )
            self.store.release()
