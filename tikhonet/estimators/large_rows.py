"""Scaled rows in their own order on disk, made of tables in two passes: what `canonical` and `in_order` do in memory.

The first pass adds up what the scaling needs and keeps 64 bits of each row, by which equal rows are found. The last
scales the rows and puts them into files by the leading bits of their keys; each of these is then sorted in memory. So
of a row only its label, its weight and some keys are in memory at any time.
"""

from __future__ import annotations

import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tikhonet.estimators.checks import check_weights
from tikhonet.estimators.rows import Floats, Rows, fingerprint, in_order, three_digits
from tikhonet.estimators.tabular import Table
from tikhonet.model.column import Values
from tikhonet.model.head_data import HeadData
from tikhonet.model.scaling import Scaling, added
from tikhonet.problem.disk_rows import DiskRows
from tikhonet.problem.samples import Reduce, keep
from tikhonet.trainer.batches import add_numbers

Keys = NDArray[np.uint64]
MOST_FILES = 256
PIECE = 1000
"""Rows that are read at a time."""


@dataclass(frozen=True)
class LargeRows(Rows):
    """Rows whose X is on disk, scaled and in order: `take` leaves it there, `loaded` does not."""

    X: Any
    scaling: Scaling
    held: int
    """Rows that memory has room for, to judge epochs by."""
    most: int
    """Rows that memory has room for, with all that a head makes of them that is not fitted by parts."""

    on_disk: ClassVar[bool] = True

    @property
    def most_held_out(self) -> float:
        return self.held

    def take(self, index: NDArray[np.intp]) -> Self:
        return replace(self, X=self.X.take(index), Y=self.Y[index], weight=self.weight[index])

    def inputs(self, places: NDArray[np.int64]) -> Self:
        scaling = Scaling(*(values[places] for values in vars(self.scaling).values()))
        some = replace(self, X=replace(self.X, columns=places), scaling=scaling)
        return some if len(places) == self.X.shape[1] else in_order(some)

    def scaled(
        self, shape: tuple[int, ...], dtype: str, known: Scaling | None = None, reduce: Reduce = keep
    ) -> tuple[Scaling, Self]:
        return self.scaling, self

    def tensors(self, encode: Callable[[Floats], Tensor], device: torch.device | str) -> tuple[Any, Any, Tensor]:
        """X on disk, targets that are encoded when a batch asks for them, and the weights."""
        X = replace(self.X, device=torch.device(device))
        return X, Encoded(self.Y, encode), torch.from_numpy(self.weight).to(X.dtype).to(device)

    def loaded(self, index: NDArray[np.intp]) -> Rows:
        return Rows(self.X.read(index), self.Y[index], self.weight[index])

    def at_hand(self) -> Self:
        """As many rows as there is room for: their order is as good as random, so the first are a fair sample."""
        return self.take(np.arange(min(self.most, len(self))))

    def map(self, function: Callable[[Floats], NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([found for _, found in self.parts(function)])

    def parts(self, function: Callable[[Floats], NDArray[Any]]) -> Iterator[tuple[slice, NDArray[Any]]]:
        """The function of X, of some rows after the other."""
        for start in range(0, len(self), PIECE):
            rows = slice(start, min(len(self), start + PIECE))
            yield rows, function(self.X.read(rows))

    def head_data(self, function: Callable[[Floats], Floats], reduce: Reduce = keep) -> HeadData:
        """The rows with their features in a file beside X, in the type of X: each step of a fit reads it once."""
        handle, name = tempfile.mkstemp(dir=self.X.path.parent)
        width = 0
        with open(handle, "wb") as file:
            for _, features in self.parts(function):
                file.write(features.astype(self.X.kind).tobytes())
                width = features.shape[1]
        disk = DiskRows(Path(name), len(self), width, self.X.kind)

        def pieces() -> Iterator[tuple[slice, Floats]]:
            for start in range(0, len(disk), PIECE):
                rows = slice(start, start + PIECE)
                yield rows, disk.read(rows).astype(np.float64)

        def whole() -> Floats:
            found = np.empty(disk.shape)
            for rows, features in pieces():
                found[rows] = features
            return found

        data = HeadData(whole, self.Y, self.weight, reduce, pieces)
        weakref.finalize(data, disk.path.unlink, missing_ok=True)
        return data

    def keys(self) -> Keys:
        return self.map(fingerprint)


@dataclass(frozen=True)
class Encoded:
    """The targets of some rows at a time."""

    Y: Floats
    encode: Callable[[Floats], Tensor]

    def __len__(self) -> int:
        return len(self.Y)

    def __getitem__(self, rows: Any) -> Tensor:
        return self.encode(self.Y[rows])


@dataclass
class Moments:
    """Running mean, sum of squared deviations, and weight of values that are not zero, of each column."""

    weight: float
    mean: Floats
    squares: Floats
    nonzero: Floats
    rows: int = 0

    @classmethod
    def none(cls, width: int) -> Moments:
        """Those of no rows."""
        return cls(0.0, np.zeros(width), np.zeros(width), np.zeros(width))

    def add(self, X: Floats, weight: Floats) -> None:
        """Join those of more rows, whose own mean comes first: what is subtracted is never far away."""
        total = float(weight.sum())
        if not total:
            return
        mean = weight @ X / total
        deviation, share = mean - self.mean, total / (self.weight + total)
        self.squares = self.squares + weight @ np.square(X - mean) + self.weight * share * np.square(deviation)
        self.mean = self.mean + share * deviation
        self.nonzero = self.nonzero + weight @ (X != 0)
        self.weight, self.rows = self.weight + total, self.rows + len(X)

    def over(self, reduce: Reduce) -> Moments:
        """Those of the rows of all ranks."""
        total, rows = add_numbers(reduce, self.weight, self.rows)
        mean = added(self.weight / total * self.mean, reduce)
        squares = added(self.squares + self.weight * np.square(self.mean - mean), reduce)
        return Moments(total, mean, squares, added(self.nonzero, reduce), round(rows))

    def scaling(self, shape: tuple[int, ...] = ()) -> Scaling:
        variance = self.squares / self.weight
        constant = variance <= (10 * np.finfo(float).eps) ** 2 * (np.square(self.mean) * (1 + self.rows))
        deviation = np.where(constant, 0.0, np.sqrt(variance))
        return Scaling.of_moments(self.mean, deviation, self.nonzero / self.weight, shape)


@dataclass(frozen=True, eq=False)
class Survey:
    """What the first pass over tables found: labels, weights, keys of rows, and the moments of columns of numbers."""

    y: NDArray[Any]
    weight: Floats
    keys: Keys
    moments: Moments | None
    """None where a column holds anything but numbers, or some are missing."""

    @classmethod
    def of(cls, tables: Iterable[tuple[Table, NDArray[Any], Floats]]) -> Survey:
        keys, labels, weights, plain = [], [], [], True
        moments: Moments | None = None
        for table, y, weight in tables:
            plain = plain and isinstance(table, np.ndarray) and not np.isnan(table).any()
            if plain:
                assert isinstance(table, np.ndarray)
                moments = moments or Moments.none(table.shape[1])
                moments.add(table, weight)
            keys.append(fingerprint(table if isinstance(table, np.ndarray) else marks(table)))
            labels.append(y)
            weights.append(weight)
        found = np.concatenate(labels)
        weight = check_weights(np.concatenate(weights), found)
        return cls(found, weight, np.concatenate(keys), moments if plain else None)

    def merged(self, Y: Floats) -> Survey:
        """The survey in which of rows that are equal (by 128 bits of X and Y) the first has the weight of all."""
        ordered = np.sort(self.keys)
        if not (ordered[1:] == ordered[:-1]).any():
            return self
        del ordered
        also = fingerprint(Y)
        order = np.lexsort((self.weight, also, self.keys))
        X_keys, Y_keys = self.keys[order], also[order]
        first = np.r_[True, (X_keys[1:] != X_keys[:-1]) | (Y_keys[1:] != Y_keys[:-1])]
        weight = np.zeros_like(self.weight)
        weight[order[first]] = np.add.reduceat(self.weight[order], np.flatnonzero(first))
        return replace(self, weight=weight)


def marks(table: Sequence[Values]) -> Floats:
    """Numbers by which rows of columns are told apart, before categories have codes."""
    found = []
    for values in table:
        if values.array.dtype == object:
            words = {word: float(zlib.crc32(str(word).encode(errors="surrogatepass"))) for word in set(values.array)}
            found.append(np.array([words[word] for word in values.array]))
        else:
            found.append(values.array.astype(np.int64 if values.array.dtype.kind == "M" else float).astype(float))
    return np.column_stack(found)


def on_disk(
    pieces: Iterable[Floats], survey: Survey, scaling: Scaling, dtype: str, folder: Path, size: int, room: float
) -> tuple[DiskRows, NDArray[np.intp]]:
    """The rows of positive weight, scaled and in order, as a file, and which they are; `room` is that for sorting."""
    kind, width = np.dtype(dtype), len(scaling.shift)
    kept = survey.weight > 0
    bytes_of_all = int(kept.sum()) * width * kind.itemsize
    bits = min(MOST_FILES, max(1, int(3 * bytes_of_all / room) + 1)).bit_length()
    paths = [folder / f"part-{k}" for k in range(2**bits)]
    files = [path.open("wb") for path in paths]
    start, all_keys, sums = 0, [], []
    for piece in pieces:
        X = scaling(piece[kept[start : start + len(piece)]], kind)
        start += len(piece)
        keys = three_digits(X)
        places = (keys >> np.uint64(64 - bits)).astype(np.intp)
        for place in np.unique(places):
            files[place].write(X[places == place].tobytes())
        all_keys.append(keys)
        sums.append(X.sum(1))
    for file in files:
        file.close()
    keys, total = np.concatenate(all_keys), np.concatenate(sums)
    places, order = (keys >> np.uint64(64 - bits)).astype(np.uint16), []
    with (folder / "rows").open("wb") as out:
        for place, path in enumerate(paths):
            index = np.flatnonzero(places == place)
            sorted_ = np.lexsort((total[index], keys[index]))
            rows = np.fromfile(path, kind).reshape(-1, width)
            for part in np.array_split(sorted_, max(1, len(sorted_) // size)):
                out.write(rows[part].tobytes())
            order.append(index[sorted_])
            path.unlink()
    chosen = np.flatnonzero(kept)[np.concatenate(order)]
    return DiskRows(folder / "rows", len(chosen), width, kind), chosen
