"""A prediction as a list of steps on one block of memory, for targets that know neither graphs nor heaps.

A place is an offset into the block, or `OUTPUT`. Steps write to `to` and read from `source`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tikhonet.export.buffers import Buffers, assign
from tikhonet.export.forward import Floats, Forward
from tikhonet.network import BIAS

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
    """to += matrix source."""

    to: int
    source: int
    name: str
    matrix: Floats


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
    bias = forward.matrix((n, BIAS))[:, 0] if (n, BIAS) in forward.W else None
    if bias is not None and not bias.any():
        bias = None
    sources = [m for m in network.sources(n) if m != BIAS]
    identities = [m for m in sources if network.edges[n, m] == "identity"]
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
        if network.edges[n, m] == "learned" and (matrix := forward.matrix((n, m))).any():
            yield Product(to, buffers.offset[m], f"w_{n}_{m}", matrix)
    yield Relu(to, width)
