"""Scaled rows in their own order on disk, made of a stream in two passes: what `canonical` and `in_order` do in memory.

The first pass adds up what the scaling needs and keeps 64 bits of each row, by which equal rows are found. The second
scales the rows and puts them into files by the leading bits of their keys; each of these is then sorted in memory. So
of a row only its label, its weight and some keys are in memory at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tikhonet.estimators.checks import check_weights
from tikhonet.estimators.rows import Floats, Rows, fingerprint
from tikhonet.estimators.streams import Stream
from tikhonet.model.scaling import Scaling
from tikhonet.problem.disk_rows import DiskRows

Keys = NDArray[np.uint64]
MOST_FILES = 256
PIECE = 1000
"""Rows that are read at a time."""


@dataclass(frozen=True)
class LargeRows(Rows):
    """Rows whose X is on disk: `take` leaves it there, `loaded` does not."""

    X: Any

    def take(self, index: NDArray[np.intp]) -> LargeRows:
        return LargeRows(self.X.take(index), self.Y[index], self.weight[index])

    def tensors(self, encode: Callable[[Floats], Tensor], device: torch.device | str) -> tuple[Any, Any, Tensor]:
        """X on disk, targets that are encoded when a batch asks for them, and the weights."""
        X = replace(self.X, device=torch.device(device))
        return X, Encoded(self.Y, encode), torch.from_numpy(self.weight).to(X.dtype).to(device)

    def loaded(self, index: NDArray[np.intp]) -> Rows:
        """Some of the rows, in memory."""
        return Rows(self.X.read(index), self.Y[index], self.weight[index])

    def map(self, function: Callable[[Floats], NDArray[Any]]) -> NDArray[Any]:
        parts = (slice(start, start + PIECE) for start in range(0, len(self), PIECE))
        return np.concatenate([function(self.X.read(rows)) for rows in parts])

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

    def scaling(self, shape: tuple[int, ...] = ()) -> Scaling:
        variance = self.squares / self.weight
        constant = variance <= (10 * np.finfo(float).eps) ** 2 * (np.square(self.mean) * (1 + self.rows))
        deviation = np.where(constant, 0.0, np.sqrt(variance))
        return Scaling.of_moments(self.mean, deviation, self.nonzero / self.weight, shape)


@dataclass(frozen=True, eq=False)
class Survey:
    """What the first pass over a stream found: labels, weights, which rows to keep, and the moments of the columns."""

    y: NDArray[Any]
    weight: Floats
    keys: Keys
    moments: Moments

    @classmethod
    def of(cls, stream: Stream, size: int) -> Survey:
        keys, labels, weights = [], [], []
        moments = None
        for X, y, weight in stream.checked(size):
            weight = np.ones(len(X)) if weight is None else weight
            moments = moments or Moments.none(X.shape[1])
            moments.add(X, weight)
            keys.append(fingerprint(X))
            labels.append(y)
            weights.append(weight)
        assert moments is not None
        found = np.concatenate(labels)
        return cls(found, check_weights(np.concatenate(weights), found), np.concatenate(keys), moments)

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


def on_disk(
    stream: Stream, survey: Survey, Y: Floats, scaling: Scaling, dtype: str, folder: Path, size: int, room: float
) -> LargeRows:
    """The rows of positive weight, scaled and in order, as a file; `room` is the memory for sorting."""
    kind, width = np.dtype(dtype), len(scaling.shift)
    kept = survey.weight > 0
    bytes_of_all = int(kept.sum()) * width * kind.itemsize
    bits = min(MOST_FILES, max(1, int(3 * bytes_of_all / room) + 1)).bit_length()
    paths = [folder / f"part-{k}" for k in range(2**bits)]
    files = [path.open("wb") for path in paths]
    start, all_keys, sums = 0, [], []
    for piece in stream.checked(size):
        X = scaling(piece.X[kept[start : start + len(piece.X)]], kind)
        start += len(piece.X)
        keys = fingerprint(np.rint(X * 1024).astype(np.float32))
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
    return LargeRows(DiskRows(folder / "rows", len(chosen), width, kind), Y[chosen], survey.weight[chosen])
