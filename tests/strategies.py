"""Random small networks, problems and data for Hypothesis, all in float64."""

from __future__ import annotations

from collections.abc import Callable

import torch
from hypothesis import strategies as st
from torch import Tensor

from tikhonet import (
    AvgPool2d,
    Blocks,
    Box,
    Constant,
    Conv2d,
    ConvexSet,
    Dense,
    Edge,
    Everything,
    Fenchel,
    FrobeniusBall,
    GlobalAverage,
    Huber,
    Identity,
    Lift,
    Logistic,
    Loss,
    Network,
    NonNegative,
    Poisson,
    Power,
    Problem,
    Proximal,
    Quantile,
    RowL1Ball,
    RowL2Ball,
    Samples,
    Schedule,
    Softmax,
    Squared,
    SquaredHinge,
    Tikhonov,
    initial_blocks,
)
from tikhonet.network.activation import Activation, ClippedReLU, ReLU

ACTIVATIONS: list[Activation] = [ReLU(), ClippedReLU(0.8)]
LIFTS: list[Lift] = [Tikhonov(), Fenchel()]
LOSSES: list[Loss] = [Squared(), Softmax(), SquaredHinge(), Huber(0.7), Quantile(0.7, 0.5)]
ALL_LOSSES: list[Loss] = [*LOSSES, Poisson(3.0), Logistic()]
"""With those that the tests of single losses alone go through: cvxpy cannot state one of them."""
SETS: list[ConvexSet] = [
    Everything(),
    NonNegative(),
    FrobeniusBall(1.5),
    RowL2Ball(0.8),
    RowL1Ball(1.0),
    RowL1Ball(0.3),
    Box(-0.4, 0.5),
]
SCHEDULES: list[Schedule] = [Power(2.0), Power(1.5), Constant(0.5), Proximal(1.0), Proximal(0.1)]
CLASSES = 3


@st.composite
def networks(
    draw: st.DrawFn, max_depth: int = 3, max_width: int = 4, activations: list[Activation] = ACTIVATIONS
) -> Network:
    """Any acyclic network: skips, identities where widths agree, biases, several learned sources, any activation."""
    depth = draw(st.integers(1, max_depth))
    widths = [draw(st.integers(1, max_width)) for _ in range(depth + 1)]
    edges = {}
    for n in range(1, depth + 1):
        edges[n, n - 1] = draw(st.sampled_from(["learned", "identity"])) if widths[n] == widths[n - 1] else "learned"
        for m in range(n - 1):
            kinds = ["none", "learned", *(["identity"] if widths[n] == widths[m] else [])]
            kind = draw(st.sampled_from(kinds))
            if kind != "none":
                edges[n, m] = kind
    if all(kind == "identity" for kind in edges.values()):
        edges[1, 0] = "learned"
    bias = [n for n in range(1, depth + 1) if draw(st.booleans())]
    return Network(widths, edges, bias, draw(st.sampled_from(activations)))


@st.composite
def convolutions(draw: st.DrawFn, channels: int, height: int, width: int) -> Conv2d:
    """Any convolution that fits such images, of few channels."""
    groups = draw(st.sampled_from([1, channels]))
    padding = draw(st.sampled_from([0, 1, (1, 0)]))
    dilation = draw(st.sampled_from([1, 2, (1, 2)]))
    stride = draw(st.sampled_from([1, 2, (2, 1)]))
    room = [size + 2 * (padding if isinstance(padding, int) else padding[k]) for k, size in enumerate((height, width))]
    step = [dilation if isinstance(dilation, int) else dilation[k] for k in range(2)]
    kernel = tuple(draw(st.integers(1, min(3, 1 + (room[k] - 1) // step[k]))) for k in range(2))
    return Conv2d(groups * draw(st.integers(1, 2)), kernel, stride, padding, dilation, groups)


@st.composite
def image_networks(draw: st.DrawFn) -> Network:
    """A small network of images: a convolution, perhaps another or a mean, a skip where shapes agree, a dense layer."""
    shapes = [(draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 4)))]
    edges: dict[tuple[int, int], Edge] = {(1, 0): draw(convolutions(*shapes[0]))}
    shapes.append(edges[1, 0].leads_to(shapes[0]))
    channels, height, width = shapes[1]
    pools = [AvgPool2d((draw(st.integers(1, height)), draw(st.integers(1, width))), 1), GlobalAverage()]
    kinds = [convolutions(*shapes[1]), st.sampled_from(pools), st.just(Conv2d(channels, 1))]
    edges[2, 1] = draw(st.one_of(kinds))
    shapes.append(edges[2, 1].leads_to(shapes[1]))
    bias = [1]
    if edges[2, 1].learned and draw(st.booleans()):
        bias.append(2)
    if edges[2, 1].learned and shapes[2] == shapes[0]:
        edges[2, 0] = Identity()
    if draw(st.booleans()):
        shapes.append((draw(st.integers(1, 3)),))
        edges[3, 2] = Dense()
    return Network(shapes, edges, bias, draw(st.sampled_from(ACTIVATIONS)))


@st.composite
def problems(
    draw: st.DrawFn,
    lifts: list[Lift] = LIFTS,
    losses: list[Loss] = LOSSES,
    sets: list[ConvexSet] = SETS,
    activations: list[Activation] = ACTIVATIONS,
    images: bool = False,
) -> Problem:
    network = draw(image_networks() if images else networks(activations=activations))
    gamma = tuple(draw(st.sampled_from([0.1, 0.5, 1.0, 2.0])) for _ in range(network.depth))
    return Problem(
        network,
        loss=draw(st.sampled_from(losses)),
        lift=draw(st.sampled_from(lifts)),
        gamma=gamma,
        V_set=draw(st.sampled_from(sets)),
        W_set=draw(st.sampled_from(sets)),
        ridge_V=draw(st.sampled_from([0.0, 0.1])),
        ridge_W=draw(st.sampled_from([0.0, 0.1])),
    )


seeds = st.integers(0, 2**16)


def make_samples(problem: Problem, seed: int, rows: int = 7, weighted: bool = False, chunk_rows: int = 3) -> Samples:
    """Normal inputs and random targets that fit the problem's loss."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(rows, problem.network.widths[0], generator=generator, dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (rows,), generator=generator)
    targets = problem.loss.encode(labels, CLASSES).double()
    weight = torch.rand(rows, generator=generator, dtype=torch.float64) + 0.5 if weighted else None
    return Samples(X, targets, weight, chunk_rows)


def make_blocks(problem: Problem, samples: Samples, seed: int) -> Blocks:
    """Random feasible blocks."""
    return initial_blocks(problem, samples, seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def finite_difference(function: Callable[[Tensor], float | Tensor], point: Tensor, step: float = 1e-6) -> Tensor:
    """The gradient of a number in `point`, by central differences, entry by entry."""
    gradient = torch.zeros_like(point)
    for index in range(point.numel()):
        shift = torch.zeros_like(point)
        shift.view(-1)[index] = step
        gradient.view(-1)[index] = float(function(point + shift) - function(point - shift)) / (2 * step)
    return gradient
