"""A prediction as a list of steps on one block of memory, for targets that know neither graphs nor heaps.

A place is an offset into the block, or `OUTPUT`. Steps write to `to` and read from `source`.

Inputs are often zero (a pixel without ink, a word that does not occur), but not any more when they are scaled. So a
product with the input layer is taken of the difference to `origin`, the scaled inputs of x = 0, and the constant
W origin is added to the bias: inputs of zero can be passed over, as those outputs of a ReLU that are zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tikhonet.model.export.buffers import Buffers, assign
from tikhonet.model.export.forward import Floats, Forward
from tikhonet.network.graph import BIAS

OUTPUT = -1


@dataclass(frozen=True)
class Load:
    """u_0 from x: clipped, shifted, scaled."""

    to: int
    length: int


@dataclass(frozen=True, eq=False)
class Start:
    """to = values, or zeros."""

    to: int
    length: int
    name: str
    values: Floats | None


@dataclass(frozen=True, eq=False)
class AddVector:
    """to += values."""

    to: int
    length: int
    name: str
    values: Floats


@dataclass(frozen=True)
class Copy:
    """to = source."""

    to: int
    length: int
    source: int


@dataclass(frozen=True)
class Add:
    """to += source."""

    to: int
    length: int
    source: int


@dataclass(frozen=True, eq=False)
class Product:
    """to += matrix source, or matrix (source - origin) for the input layer."""

    to: int
    source: int
    name: str
    matrix: Floats
    of_input: bool = False


@dataclass(frozen=True)
class Relu:
    """to = max(0, to)."""

    to: int
    length: int


Step = Load | Start | AddVector | Copy | Add | Product | Relu


@dataclass(frozen=True)
class Program:
    steps: tuple[Step, ...]
    length: int
    """Numbers in the block."""


def compile_forward(forward: Forward) -> Program:
    """The steps in order; matrices and vectors that are zero throughout are left out."""
    buffers = assign(forward.network)
    steps: list[Step] = [Load(buffers.offset[0], forward.inputs)]
    for n in forward.network.hidden:
        steps += layer(forward, buffers, n)
    last, width = buffers.offset[forward.network.depth], forward.network.widths[-1]
    if forward.coef is None or forward.intercept is None:
        steps.append(Copy(OUTPUT, width, last))
    else:
        intercept = forward.intercept if forward.intercept.any() else None
        steps.append(Start(OUTPUT, forward.outputs, "intercept", intercept))
        if forward.coef.any():
            steps.append(Product(OUTPUT, last, "head", forward.coef))
    return Program(tuple(steps), buffers.length)


def layer(forward: Forward, buffers: Buffers, n: int) -> Iterator[Step]:
    """max(0, bias + identities + products), begun with whatever is at hand."""
    network, to, width = forward.network, buffers.offset[n], forward.network.widths[n]
    bias = constant(forward, n)
    sources = [m for m in network.sources(n) if m != BIAS]
    identities = [m for m in sources if not network.edges[n, m].learned]
    others = [m for m in identities if buffers.offset[m] != to]
    if len(others) < len(identities):
        if bias is not None:
            yield AddVector(to, width, f"bias_{n}", bias)
    elif bias is not None or not others:
        yield Start(to, width, f"bias_{n}", bias)
    else:
        yield Copy(to, width, buffers.offset[others.pop(0)])
    for m in others:
        yield Add(to, width, buffers.offset[m])
    for m in sources:
        if network.edges[n, m].learned and (matrix := forward.matrix((n, m))).any():
            yield Product(to, buffers.offset[m], f"w_{n}_{m}", matrix, of_input=m == 0)
    yield Relu(to, width)


def constant(forward: Forward, n: int) -> Floats | None:
    """b_n + W_{n,0} origin; None where that is zero."""
    total = np.zeros(forward.network.widths[n])
    if (n, BIAS) in forward.W:
        total += forward.matrix((n, BIAS))[:, 0]
    if (n, 0) in forward.W:
        total += forward.matrix((n, 0)).astype(np.float64) @ forward.origin
    return total if total.any() else None
