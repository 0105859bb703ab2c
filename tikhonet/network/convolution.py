"""A convolution as an edge.

Its matrix has a row for each channel of the target, which all positions share: for sets, ridges and the W-step a row is
a channel, and each patch of the source under the kernel is a row of inputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (its usual name)
from torch.nn.grad import conv2d_weight

from tikhonet.network.arguments import COUNT
from tikhonet.network.edges import Dense, Edge
from tikhonet.network.errors import ArgumentError
from tikhonet.network.image_edges import PADDING, ImageEdge, Size, Two, fits, pair_of, window_sizes
from tikhonet.network.operations import Operation, Window, placed
from tikhonet.network.shapes import Shape, added


@dataclass(frozen=True)
class Conv2d(ImageEdge, Dense):
    """A convolution: ``z[c, p] = <W[c], patch of u at p>``, with a row of W for each channel of z.

    Sizes are one number, or two for height and width. A kernel that covers the whole image is a dense matrix, and
    computed as one.

    Parameters
    ----------
    channels : int
        The channels of z.
    kernel : int or (int, int)
        The size of a patch.
    stride : int or (int, int), default=1
        By how many pixels patches are apart.
    padding : int or (int, int), default=0
        Pixels of zero around the image.
    dilation : int or (int, int), default=1
        By how many pixels the entries of a patch are apart.
    groups : int, default=1
        Into how many equal parts the channels of both layers fall, each of z's reading one of u's.
    source : tuple of int, default=()
        The shape of the source layer; filled in by `join`.
    target : tuple of int, default=()
        The shape of the target layer; filled in by `join`.

    Examples
    --------
    >>> from tikhonet import Conv2d, Network
    >>> Network.sequential((1, 8, 8), Conv2d(4, 3, padding=1), 10)
    Network(1x8x8 -> 4x8x8 -> 10)
      u1 = relu(W[1,0] * u0 + b1)
      u2 = relu(W[2,1] u1 + b2)
      2,610 weights in 4 learned edges
    """

    channels: int
    kernel: Size
    stride: Size = 1
    padding: Size = 0
    dilation: Size = 1
    groups: int = 1

    name: ClassVar[str] = "conv2d"
    takes_images: ClassVar[bool] = True

    def __post_init__(self) -> None:
        COUNT.check("channels", self.channels)
        COUNT.check("groups", self.groups)
        for name in ("kernel", "stride", "dilation"):
            object.__setattr__(self, name, pair_of(name, getattr(self, name)))
        object.__setattr__(self, "padding", pair_of("padding", self.padding, PADDING))

    @property
    def geometry(self) -> tuple[Two, Two, Two, Two]:
        """Kernel, stride, padding and dilation."""
        return cast(tuple[Two, Two, Two, Two], (self.kernel, self.stride, self.padding, self.dilation))

    def made_of(self, channels: int, height: int, width: int) -> Shape:
        for name, count in (("source", channels), ("convolution", self.channels)):
            if count % self.groups:
                raise ArgumentError(
                    "groups",
                    f"groups must divide the channels of source and convolution, got {self.groups} groups for "
                    f"{count} channels of the {name}; use a divisor of both",
                )
        return self.channels, *fits(self.name, (height, width), *self.geometry)

    @property
    def filters(self) -> tuple[int, int, int, int]:
        """The shape of W as torch has it."""
        return self.channels, self.source[0] // self.groups, *self.geometry[0]

    @property
    def shape(self) -> tuple[int, int]:
        return self.channels, math.prod(self.filters[1:])

    @property
    def positions(self) -> int:
        return math.prod(self.target[1:])

    @property
    def covers(self) -> bool:
        """Whether the kernel is as large as the image."""
        kernel, _, padding, _ = self.geometry
        return kernel == self.source[1:] and padding == (0, 0) and self.groups == 1

    def apply(self, U: Tensor, W: Tensor | None, out: Tensor | None = None) -> Tensor:
        if self.covers:
            return self.given_back(super().apply(U, W), U, out)
        assert W is not None
        _, stride, padding, dilation = self.geometry
        filters = W.unflatten(1, self.filters[1:])
        Z = F.conv2d(self.images(U), filters, None, stride, padding, dilation, self.groups)
        return self.given_back(Z, U, out)

    def adjoint(self, R: Tensor, W: Tensor | None, out: Tensor | None = None, alpha: float = 1.0) -> Tensor:
        if self.covers:
            return super().adjoint(R, W, out, alpha)
        assert W is not None
        kernel, stride, padding, dilation = self.geometry
        ways = zip(self.source[1:], self.target[1:], kernel, stride, padding, dilation, strict=True)
        left = [n - ((m - 1) * s - 2 * p + d * (k - 1) + 1) for n, m, k, s, p, d in ways]
        images, filters = R.reshape(len(R), *self.target), W.unflatten(1, self.filters[1:])
        U = F.conv_transpose2d(images, filters, None, stride, padding, left, self.groups, dilation)
        return added(U if R.ndim > 2 else U.flatten(1), out, alpha)

    def product(self, R: Tensor, U: Tensor) -> Tensor:
        if self.covers:
            return super().product(R, U)
        _, stride, padding, dilation = self.geometry
        images, residual = self.images(U), R.reshape(len(R), *self.target)
        gradient: Tensor = conv2d_weight(images, self.filters, residual, stride, padding, dilation, self.groups)
        return gradient.flatten(1)

    def gram_inputs(self, U: Tensor) -> Tensor:
        if self.covers:
            return U.flatten(1)
        kernel, stride, padding, dilation = self.geometry
        images = F.pad(self.images(U), (padding[1], padding[1], padding[0], padding[0])).contiguous()
        row, channel, down, right = images.stride()
        views = images.as_strided(
            (self.source[0], *kernel, len(U), *self.target[1:]),
            (channel, down * dilation[0], right * dilation[1], row, down * stride[0], right * stride[1]),
        )
        # Copied with a row for each entry of a patch, since runs of positions are longer than those of a kernel.
        patches = views.reshape(self.groups, self.shape[1], -1).mT
        return patches if self.groups > 1 else patches[0]

    def feeds(self, W: Tensor | None) -> Tensor:
        return super().feeds(W).repeat_interleave(self.positions)

    def onward(self, W: Tensor | None) -> Tensor:
        assert W is not None
        return self.adjoint(W.new_ones(1, self.outputs), W.square())[0]

    def select(self, W: Tensor | None, rows: Tensor, columns: Tensor) -> tuple[Edge, Tensor | None]:
        assert W is not None
        targets, sources = self.ends(rows, columns)
        each, group = (self.channels // self.groups, self.source[0] // self.groups), torch.arange(self.groups)
        whole = W.new_zeros(self.groups, each[0], self.groups, each[1], math.prod(self.geometry[0]))
        whole[group, :, group] = W.view(self.groups, *each, -1)
        kept = whole.flatten(2, 3).flatten(0, 1)[targets][:, sources]
        left = [
            torch.bincount(end.cpu() // size, minlength=self.groups)
            for end, size in zip((targets, sources), each, strict=True)
        ]
        alike = [count[count > 0].unique().tolist() for count in left]
        if self.groups > 1 and torch.equal(left[0] > 0, left[1] > 0) and len(alike[0]) == len(alike[1]) == 1:
            groups = int((left[0] > 0).sum())
            parts = kept.view(groups, alike[0][0], groups, alike[1][0], -1)
            W = torch.cat([parts[k, :, k] for k in range(groups)]).flatten(1)
        else:
            groups, W = 1, kept.flatten(1)
        return replace(self, channels=len(targets), groups=groups).between(len(targets), len(sources)), W

    def multiplied(self, power: Tensor) -> Tensor:
        if self.covers:
            return power
        by_channel: Tensor = power.unflatten(0, self.source).mean((1, 2)).view(self.groups, -1)
        columns = by_channel.repeat_interleave(math.prod(self.geometry[0]), 1)
        return columns.repeat_interleave(self.channels // self.groups, 0)

    def export(self, W: Tensor | None) -> Operation:
        return Dense.export(self, W) if self.covers else Edge.export(self, W)

    def window(self, W: Tensor | None) -> Window | None:
        assert W is not None
        if self.covers:
            return None
        kernel, stride, padding, dilation = self.geometry
        sizes = {"dilations": dilation, "group": self.groups}
        return Window("Conv", window_sizes(kernel, stride, padding) | sizes, W.unflatten(1, self.filters[1:]))

    def module(self, W: Tensor | None, bias: Tensor | None = None) -> nn.Module:
        assert W is not None
        sizes, groups, biased = self.geometry, self.groups, bias is not None
        layer = nn.Conv2d(self.source[0], self.channels, *sizes, groups=groups, bias=biased, device="meta")
        return placed(layer, W.unflatten(1, self.filters[1:]), bias)

    def term(self, n: int, m: int) -> str:
        return f"W[{n},{m}] * u{m}"
