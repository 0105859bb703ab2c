"""Sec. 2.1: the shapes of a network's layers: (100,) is flat, (32, 14, 14) an image with channels, height and width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral

import numpy as np
import torch
from torch import Tensor

from tikhonet.network.arguments import check_type
from tikhonet.network.errors import ArgumentError

Shape = tuple[int, ...]


def checked_shapes(layers: Sequence[int | Shape]) -> tuple[Shape, ...]:
    """The shapes of the input and of at least one hidden layer, as integers."""
    check_type("widths", layers, Sequence, np.ndarray, Tensor, remedy="such as [784, 100]")
    if len(layers) < 2:
        raise ValueError(f"widths must hold the input's width and at least one hidden layer's, got {list(layers)}")
    return tuple(checked_shape(layer, given) for layer, given in enumerate(layers))


def checked_shape(layer: int, given: int | Shape) -> Shape:
    """The shape of a layer that is given by its width, or by the channels, height and width of its images."""
    if isinstance(given, (tuple, list)):
        if len(given) in (1, 3) and all(_is_size(size) for size in given):
            return tuple(int(size) for size in given)
        raise ArgumentError(
            "widths",
            f"widths: the shape of layer {layer} must be a width or (channels, height, width), each an integer of at "
            f"least 1, got {given!r}",
        )
    if not _is_size(given):
        raise ValueError(f"widths: the width of layer {layer} must be an integer of at least 1, got {given!r}")
    return (int(given),)


def square_images(width: int) -> Shape | None:
    """The shape of square images of so many numbers, in grey or in three colours; no number is that of both."""
    for channels in (1, 3):
        side = math.isqrt(width // channels)
        if channels * side**2 == width:
            return channels, side, side
    return None


def as_images(values: Tensor, shape: Shape) -> Tensor:
    """The values of a layer of images in this shape, pixel by pixel in memory: convolutions take half as long so."""
    channels, height, width = shape
    images = values.reshape(len(values), *shape).contiguous(memory_format=torch.channels_last)
    # Images of one channel or one pixel have several strides; torch knows the order by these alone.
    return images.as_strided(images.shape, (height * width * channels, 1, width * channels, channels))


def like_layer(values: Tensor, layer: Tensor) -> Tensor:
    """A layer's values in the form of others of it: as images, or in one line."""
    return values.flatten(1) if layer.ndim == 2 else as_images(values, layer.shape[1:])


def added(values: Tensor, out: Tensor | None, alpha: float = 1.0) -> Tensor:
    """Values of a layer, multiplied, in their own form; or `out` in its form, after they were added to it in place."""
    if out is None:
        return values if alpha == 1 else values * alpha
    return out.add_(like_layer(values, out), alpha=alpha)


def channels_of(units: Tensor, shape: Shape) -> Tensor:
    """The channels whose units these are, in order; those of a flat layer are its units."""
    pixels = math.prod(shape[1:])
    channels = units[::pixels] // pixels
    whole = channels[:, None] * pixels + torch.arange(pixels, device=units.device)
    if not torch.equal(whole.flatten(), units):
        raise ArgumentError("network", "units of images can be left out by whole channels alone; keep all of a channel")
    return channels


def shown_shape(shape: Shape) -> str:
    """`100`, or `32x14x14`."""
    return "x".join(map(str, shape))


def _is_size(size: object) -> bool:
    return isinstance(size, Integral) and not isinstance(size, bool) and int(size) >= 1
