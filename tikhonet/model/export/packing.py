"""A weight matrix in as few bytes as possible, by columns, so that an input of zero costs nothing.

    dense    value[rows x columns]
    sparse   count[columns], then for each entry  step (rows below the entry before it)  and  value

A step is one byte where that is smaller, else two; a gap too wide for it is crossed by entries of value 0. With int8

    W_ij ~ unit * scale_j * value_ij,   scale_j = 1..255,  value_ij = -127..127

so a column's inputs are multiplied once and its entries are whole numbers. No column has a wider scale than its largest
entry needs, up to the 8 bits of the scale itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.model.model import single
from tikhonet.model.scaling import Floats

Array = NDArray[Any]
STEPS = (np.uint8, np.uint16)
LARGEST = 127


@dataclass(frozen=True, eq=False)
class Packed:
    """`count` and `step` are None for a dense matrix, `scale` for one in float32."""

    shape: tuple[int, int]
    value: Array
    count: Array | None = None
    step: Array | None = None
    scale: Array | None = None
    unit: float = 1.0

    @property
    def arrays(self) -> dict[str, Array]:
        named = {"count": self.count, "step": self.step, "scale": self.scale, "value": self.value}
        return {name: array for name, array in named.items() if array is not None}

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


def pack(name: str, matrix: Floats, int8: bool) -> Packed | None:
    """The smallest form; None for a matrix without nonzeros."""
    values: Array = single(name, matrix)
    if not values.any():
        return None
    scale, unit = None, 1.0
    if int8:
        values, scale, unit = quantise(values)
    dense = Packed(values.shape, values.T.ravel(), scale=scale, unit=unit)
    forms = [dense, *(sparse(values, kind, scale, unit) for kind in STEPS)]
    return min(forms, key=lambda form: form.nbytes)


def quantise(matrix: Floats) -> tuple[NDArray[np.int8], NDArray[np.uint8], float]:
    """The nearest  unit * scale_j * value_ij,  where no value of column j exceeds 127."""
    needed = np.abs(matrix.astype(np.float64)).max(0) / LARGEST
    # The unit is applied in float32, and a value of 127.4 must not become 128 by its rounding.
    unit = float(np.float32(needed.max() / 255 * (1 + 1e-6)))
    if unit < np.finfo(np.float32).tiny:
        raise ValueError(f"weights must not all be below 1e-33 for int8, got at most {np.abs(matrix).max():.3g}")
    scale = np.ceil(needed / unit)
    value = np.rint(matrix / np.where(scale > 0, unit * scale, 1.0))
    return value.astype(np.int8), scale.astype(np.uint8), unit


def sparse(matrix: Array, kind: Any, scale: Array | None, unit: float) -> Packed:
    """Nonzeros by columns, with steps of this type."""
    widest = int(np.iinfo(kind).max)
    column, row = np.nonzero(matrix.T)
    value = matrix.T[column, row]
    first = np.diff(column, prepend=-1) > 0
    gap = np.where(first, row, np.diff(row, prepend=0))
    fill = np.maximum(gap - 1, 0) // widest  # entries of value 0 before this one
    last = np.cumsum(fill + 1) - 1
    step, values = np.full(len(row) + fill.sum(), widest, kind), np.zeros(len(row) + fill.sum(), matrix.dtype)
    step[last], values[last] = gap - fill * widest, value
    count = np.bincount(column, weights=fill + 1, minlength=matrix.shape[1]).astype(np.uint32)
    return Packed(matrix.shape, values, narrow(count), step, scale, unit)


def narrow(count: NDArray[np.uint32]) -> Array:
    """In the narrowest unsigned type."""
    return count.astype(np.min_scalar_type(int(count.max(initial=0))))
