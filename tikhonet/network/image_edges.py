"""Edges from layers of images: what they share, and the averages, which have no weights.

A layer of shape (channels, height, width) has its values in one line, channel by channel. Sizes are one number, or two
for height and width; words and numbers are those of `torch.nn`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (its usual name)

from tikhonet.network.arguments import COUNT, Numbers
from tikhonet.network.edges import Edge, Fixed, picking
from tikhonet.network.errors import ArgumentError
from tikhonet.network.operations import Window
from tikhonet.network.shapes import Shape, added, as_images, channels_of, shown_shape

Two = tuple[int, int]
Size = int | Two
PADDING = Numbers("be at least 0", 0, low_allowed=True, integer=True)


def pair_of(name: str, value: Size, allowed: Numbers = COUNT) -> Two:
    """A number for height and width, or one for each."""
    two = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(two) != 2:
        raise ArgumentError(name, f"{name} must be one number or two, for height and width, got {value!r}")
    for number in two:
        allowed.check(name, number)
    return int(two[0]), int(two[1])


@dataclass(frozen=True)
class ImageEdge(Edge):
    """An edge from a layer of images to another shape that its parameters say."""

    by_image: ClassVar[bool] = True

    def check(self) -> None:
        found = self.leads_to(self.source)
        if found != self.target:
            raise ArgumentError(
                "edges",
                f"{self.name} makes a layer of shape {shown_shape(found)} of a source of {shown_shape(self.source)}, "
                f"got a target of {shown_shape(self.target)}; give that layer this shape",
            )

    def leads_to(self, source: Shape) -> Shape:
        if len(source) != 3:
            raise ArgumentError(
                "edges",
                f"{self.name} must come from a layer of images (channels, height, width), got {shown_shape(source)}; "
                "give its source such a shape",
            )
        return self.made_of(*source)

    @abstractmethod
    def made_of(self, channels: int, height: int, width: int) -> Shape:
        """The shape that the edge makes of such images; raises where there is none.

        Parameters
        ----------
        channels : int
            The channels of the source.
        height : int
            The height of its images.
        width : int
            Their width.

        Returns
        -------
        tuple of int
            The shape of the target.
        """

    def images(self, U: Tensor) -> Tensor:
        """Rows of the source as images.

        Parameters
        ----------
        U : Tensor
            Samples x units.

        Returns
        -------
        Tensor
            Samples x channels x height x width.
        """
        return U if U.ndim > 2 else U.unflatten(1, self.source)

    def given_back(self, Z: Tensor, U: Tensor, out: Tensor | None) -> Tensor:
        """Values of the target in the form that those of the source have.

        Parameters
        ----------
        Z : Tensor
            The values.
        U : Tensor
            Those of the source: rows, or images.
        out : Tensor or None
            What they are added to, in place.

        Returns
        -------
        Tensor
            Rows or images; `out`, where it is given, in its own form.
        """
        return added(as_images(Z, self.target) if U.ndim > 2 and len(self.target) > 1 else Z.flatten(1), out)

    def ends(self, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        """The channels of the target and of the source whose units these are.

        Parameters
        ----------
        rows : Tensor
            Units of the target.
        columns : Tensor
            Units of the source.

        Returns
        -------
        tuple of Tensor
            The channels of each.
        """
        return channels_of(rows, self.target), channels_of(columns, self.source)

    def between(self, rows: int, columns: int) -> Self:
        """This edge between other numbers of channels.

        Parameters
        ----------
        rows : int
            Channels of the target.
        columns : int
            Channels of the source.

        Returns
        -------
        Edge
            The edge between them.
        """
        return self.join((columns, *self.source[1:]), (rows, *self.target[1:]))


def fits(name: str, size: Two, kernel: Two, stride: Two, padding: Two, dilation: Two = (1, 1)) -> Two:
    """How many times a kernel fits into padded images of this height and width, each way."""
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    room = [n + 2 * p for n, p in zip(size, padding, strict=True)]
    if reach[0] > room[0] or reach[1] > room[1]:
        raise ArgumentError(
            "edges",
            f"{name}: the kernel covers {reach[0]}x{reach[1]}, more than the padded input of {room[0]}x{room[1]}; "
            "use a smaller kernel or more padding",
        )
    return (room[0] - reach[0]) // stride[0] + 1, (room[1] - reach[1]) // stride[1] + 1


def window_sizes(kernel: Two, stride: Two, padding: Two) -> dict[str, Any]:
    """The sizes of a moving window by ONNX's names."""
    return {"kernel_shape": kernel, "strides": stride, "pads": (*padding, *padding)}


@dataclass(frozen=True)
class Average(ImageEdge, Fixed):
    """An operator without weights that takes means of pixels, each channel by itself."""

    takes_images: ClassVar[bool] = True

    @abstractmethod
    def spread(self, R: Tensor) -> Tensor:
        """The values of the transposed operator.

        Parameters
        ----------
        R : Tensor
            Samples x outputs.

        Returns
        -------
        Tensor
            Samples x inputs.
        """

    @property
    def moving(self) -> dict[str, Any]:
        """Kernel, stride and padding of the window, where it moves."""
        return {}

    @property
    @abstractmethod
    def pixels(self) -> int:
        """How many pixels a mean is taken of."""

    def adjoint(self, R: Tensor, W: Tensor | None, out: Tensor | None = None, alpha: float = 1.0) -> Tensor:
        return added(self.spread(R), out, alpha)

    def onward(self, W: Tensor | None) -> Tensor:
        return self.spread(torch.ones(1, self.outputs))[0] / self.pixels

    def select(self, W: Tensor | None, rows: Tensor, columns: Tensor) -> tuple[Edge, Tensor | None]:
        targets, sources = self.ends(rows, columns)
        if torch.equal(targets, sources):
            return self.between(len(targets), len(sources)), None
        return picking(self, rows, columns, **self.moving)

    def term(self, n: int, m: int) -> str:
        return f"mean u{m}"


@dataclass(frozen=True)
class AvgPool2d(Average):
    """The mean of the pixels under a kernel, each channel by itself.

    Padding counts as pixels of zero, as torch has it by default.

    Parameters
    ----------
    kernel : int or (int, int)
        The size of the window.
    stride : int or (int, int), optional
        By how many pixels the window moves on; its own size where it is None.
    padding : int or (int, int), default=0
        Pixels of zero around the image, at most half of the kernel.
    source : tuple of int, default=()
        The shape of the source layer; filled in by `join`.
    target : tuple of int, default=()
        The shape of the target layer; filled in by `join`.

    Examples
    --------
    >>> from tikhonet import AvgPool2d
    >>> AvgPool2d(2).leads_to((4, 8, 8))
    (4, 4, 4)
    """

    kernel: Size
    stride: Size | None = None
    padding: Size = 0

    name: ClassVar[str] = "avg_pool2d"

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", pair_of("kernel", self.kernel))
        object.__setattr__(self, "stride", pair_of("stride", self.kernel if self.stride is None else self.stride))
        object.__setattr__(self, "padding", pair_of("padding", self.padding, PADDING))
        kernel, _, padding = self.geometry
        if 2 * padding[0] > kernel[0] or 2 * padding[1] > kernel[1]:
            raise ArgumentError("padding", f"padding must be at most half of the kernel {kernel}, got {padding}")

    @property
    def geometry(self) -> tuple[Two, Two, Two]:
        """Kernel, stride and padding."""
        return cast(tuple[Two, Two, Two], (self.kernel, self.stride, self.padding))

    @property
    def moving(self) -> dict[str, Any]:
        return dict(zip(("kernel", "stride", "padding"), self.geometry, strict=True))

    @property
    def pixels(self) -> int:
        return math.prod(self.geometry[0])

    def made_of(self, channels: int, height: int, width: int) -> Shape:
        return channels, *fits(self.name, (height, width), *self.geometry)

    def apply(self, U: Tensor, W: Tensor | None, out: Tensor | None = None) -> Tensor:
        return self.given_back(F.avg_pool2d(self.images(U), *self.geometry), U, out)

    def spread(self, R: Tensor) -> Tensor:
        order = torch.channels_last if R.ndim > 2 else torch.contiguous_format
        like = torch.empty(len(R), *self.source, dtype=R.dtype, device=R.device, memory_format=order)
        images = R.reshape(len(R), *self.target).contiguous(memory_format=order)
        back: Tensor = torch.ops.aten.avg_pool2d_backward(images, like, *self.geometry, False, True, None)
        return back if R.ndim > 2 else back.flatten(1)

    def module(self, W: Tensor | None, bias: Tensor | None = None) -> nn.Module:
        return nn.AvgPool2d(*self.geometry)

    def window(self, W: Tensor | None) -> Window:
        return Window("AveragePool", window_sizes(*self.geometry) | {"count_include_pad": 1})


@dataclass(frozen=True)
class GlobalAverage(Average):
    """The mean of each channel: an image becomes a flat layer with as many units as it has channels.

    Parameters
    ----------
    source : tuple of int, default=()
        The shape of the source layer; filled in by `join`.
    target : tuple of int, default=()
        The shape of the target layer; filled in by `join`.

    Examples
    --------
    >>> from tikhonet import GlobalAverage
    >>> GlobalAverage().leads_to((4, 8, 8))
    (4,)
    """

    name: ClassVar[str] = "global_average"

    @property
    def pixels(self) -> int:
        return math.prod(self.source[1:])

    def made_of(self, channels: int, height: int, width: int) -> Shape:
        return (channels,)

    def apply(self, U: Tensor, W: Tensor | None, out: Tensor | None = None) -> Tensor:
        return self.given_back(self.images(U).mean((2, 3)), U, out)

    def spread(self, R: Tensor) -> Tensor:
        return (R / self.pixels).repeat_interleave(self.pixels, 1)

    def module(self, W: Tensor | None, bias: Tensor | None = None) -> nn.Module:
        return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def window(self, W: Tensor | None) -> Window:
        return Window("GlobalAveragePool", {})
