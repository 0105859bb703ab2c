"""A prediction as a list of steps on one block of memory, for targets that know neither graphs nor heaps.

A place is an offset into the block, or `OUTPUT`. Steps write to `to` and read from `source`.

Inputs are often zero (a pixel without ink, a word that does not occur), but not any more when they are scaled. So a
product with the input layer is taken of the difference to `origin`, the scaled inputs of x = 0, and the constant
W origin is added to the bias: inputs of zero can be passed over, as those outputs of a ReLU that are zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from tikhonet.model.model import Model, array
from tikhonet.model.scaling import Floats
from tikhonet.network.edges import Edge
from tikhonet.network.operations import Constant, Product, Source, Window

OUTPUT = -1


@dataclass(frozen=True)
class Load:
    """u_0 from x: clipped, shifted, scaled."""

    to: int
    length: int


@dataclass(frozen=True, eq=False)
class Vector:
    """A constant, under a name of its own; in a layer of images each value stands at all positions of a channel."""

    name: str
    values: Floats
    each: int = 1


@dataclass(frozen=True)
class Put:
    """to = source, a vector or what stands in another place; zeros where it is None."""

    to: int
    length: int
    source: Vector | int | None


@dataclass(frozen=True)
class Add:
    """to += source."""

    to: int
    length: int
    source: Vector | int


@dataclass(frozen=True, eq=False)
class Multiply:
    """to += matrix source, or matrix (source - origin) for the input layer."""

    to: int
    source: int
    name: str
    matrix: Floats
    of_input: bool = False

    @property
    def nonzero(self) -> bool:
        return bool(self.matrix.any())


@dataclass(frozen=True, eq=False)
class Slide:
    """to += windows over the images in source: a convolution, or means where the window has no filters."""

    to: int
    source: int
    name: str
    edge: Edge
    window: Window
    of_input: ClassVar[bool] = False
    """Padding is zero in scaled inputs, so they are taken as they are."""

    @property
    def nonzero(self) -> bool:
        return self.window.filters is None or bool(self.window.filters.any())

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.window.sizes(self.edge.source, self.edge.target)

    @property
    def weights(self) -> Tensor | None:
        """A row for each channel of the target; None for means."""
        return None if self.window.filters is None else self.window.filters.flatten(1)


@dataclass(frozen=True)
class Clip:
    """to = min(upper, max(lower, to)), the activation."""

    to: int
    length: int
    lower: float
    upper: float


Step = Load | Put | Add | Multiply | Slide | Clip


@dataclass(frozen=True)
class Program:
    steps: tuple[Step, ...]
    length: int
    """Numbers in the block."""


def compile_model(model: Model) -> Program:
    """The steps in order; matrices and vectors that are zero throughout are left out."""
    offset, length = assign(model)
    steps: list[Step] = [Load(offset[0], model.inputs)]
    for n in model.network.hidden:
        steps += layer(model, offset, n)
    last, head = offset[model.network.depth], model.head
    if head is None:
        steps.append(Put(OUTPUT, model.outputs, last))
    else:
        steps.append(Put(OUTPUT, model.outputs, vector("intercept", head.intercept)))
        if head.coef.any():
            steps.append(Multiply(OUTPUT, last, "head", head.coef))
    return Program(tuple(steps), length)


def layer(model: Model, offset: dict[int, int], n: int) -> Iterator[Step]:
    """activation(constants + sources + products), begun with whatever is at hand."""
    to, width, activation = offset[n], model.network.widths[n], model.network.activation
    total, places, products = np.zeros(width), [], list[Multiply | Slide]()
    for m, term in model.terms(n):
        match term:
            case Constant(values):
                total += array(values)
            case Source():
                places.append(offset[m])
            case Product(matrix):
                if m == 0:
                    total += array(matrix).astype(np.float64) @ origin(model)
                products.append(Multiply(to, offset[m], f"w_{n}_{m}", array(matrix), of_input=m == 0))
            case Window():
                products.append(Slide(to, offset[m], f"w_{n}_{m}", model.network.edges[n, m], term))
    constant = vector(f"bias_{n}", total, math.prod(model.network.shapes[n][1:]))
    others = [place for place in places if place != to]
    if len(others) < len(places):
        if constant:
            yield Add(to, width, constant)
    elif constant or not others:
        yield Put(to, width, constant)
    else:
        yield Put(to, width, others.pop(0))
    for place in others:
        yield Add(to, width, place)
    yield from (step for step in products if step.nonzero)
    yield Clip(to, width, activation.lower, activation.upper)


def vector(name: str, values: Floats, positions: int = 1) -> Vector | None:
    """A constant of a layer with so many positions a channel; None where it is zero throughout."""
    by_channel = values.reshape(-1, positions)
    if positions > 1 and (by_channel == by_channel[:, :1]).all():
        return Vector(name, by_channel[:, 0], positions) if values.any() else None
    return Vector(name, values) if values.any() else None


def origin(model: Model) -> Floats:
    """u_0 of x = 0."""
    found: Floats = model.scaling(np.zeros((1, model.inputs)))[0]
    return found


def assign(model: Model) -> tuple[dict[int, int], int]:
    """The first number of each layer in one block of memory, and the block's length.

    A layer stands where one that is no longer needed stood, or grows a place, whichever takes the least memory. A sum
    that has an identity edge from a layer that is needed nowhere else is made in that layer's own place.
    """
    network = model.network
    order = (0, *network.hidden)
    rank = {n: place for place, n in enumerate(order)}
    last = {m: max((n for n in network.targets(m)), key=rank.__getitem__, default=m) for m in order}
    last[network.depth] = -1  # the head reads it
    sizes: list[int] = []
    place: dict[int, int] = {}
    for n in order:
        width = network.widths[n]
        inside = [m for m, term in model.terms(n) if isinstance(term, Source) and last[m] == n]
        busy = {place[m] for m in place if last[m] == -1 or rank[last[m]] >= rank[n]}
        free = [slot for slot in range(len(sizes)) if slot not in busy]
        if inside:
            place[n] = place[inside[0]]
        elif free:
            place[n] = min(free, key=lambda slot: (max(width - sizes[slot], 0), sizes[slot]))
            sizes[place[n]] = max(width, sizes[place[n]])
        else:
            place[n] = len(sizes)
            sizes.append(width)
    starts = [sum(sizes[:slot]) for slot in range(len(sizes))]
    return {n: starts[slot] for n, slot in place.items()}, sum(sizes)
