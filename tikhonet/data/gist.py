"""GIST-like descriptors of small images: how much of each scale and orientation there is in each part of the image.

    grey -> local contrast -> Gabor filters (4 scales x 8 orientations) -> mean magnitude in 4 x 4 blocks -> 512 numbers

after Oliva and Torralba (2001), with the filters and the prefilter of their public description, all by FFT. Frequencies
are in cycles per pixel, 1/2 being the highest. An image is continued by its mirror image on all sides, so that its
opposite borders do not touch.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad

SCALES, ORIENTATIONS, BLOCKS = 4, 8, 4
LENGTH = SCALES * ORIENTATIONS * BLOCKS**2
GREY = (0.299, 0.587, 0.114)
"""Shares of red, green and blue in what the eye calls brightness."""
PREFILTER = 4.0
"""Cycles per image where the low-pass filter of the prefilter has fallen to one half."""
FLOOR = 0.2
"""Added to the local contrast (of log brightness from 0 to log 256) before dividing by it: flat parts stay flat."""
HIGHEST, RATIO = 0.3, 1.85
"""The finest filters' centre frequency, and by how much each scale is coarser than the one before."""
RADIAL, ANGULAR = 3.5, 2 * math.pi
"""Widths of a filter around frequency c and angle 0: exp(-3.5 (f / c - 1)^2 - 2 pi angle^2)."""
BATCH = 128


def gist(images: Any, *, batch: int = BATCH, device: str | torch.device = "cpu") -> NDArray[np.float32]:
    """Descriptors, one row an image: `SCALES * ORIENTATIONS * BLOCKS**2` = 512 numbers.

    images  square, n x size x size or n x 3 x size x size (red, green, blue), size a multiple of 4: bytes, or
            floating-point numbers from 0 to 1. A row is ordered by scale (finest first), orientation, block.
    """
    values = images if isinstance(images, Tensor) else torch.from_numpy(np.require(images, requirements=["C", "W"]))
    size = check_images(values)
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    # Made once: results allocated among the temporaries of each batch would keep their memory from being used again.
    found = np.empty((len(values), LENGTH), np.float32)
    for start in range(0, len(values), batch):
        part = values[start : start + batch].to(device)
        found[start : start + batch] = describe(brightness(part), size).cpu().numpy()
    return found


def check_images(images: Tensor) -> int:
    """The side of the images; raise for what are no square images."""
    shape = tuple(images.shape)
    colours = images.ndim == 4 and shape[1] == 3
    if not (images.ndim == 3 or colours) or shape[-1] != shape[-2] or shape[-1] % BLOCKS or not math.prod(shape):
        raise ValueError(
            "images must be of shape n x size x size or n x 3 x size x size with a size that 4 divides, "
            f"got {shape}; reshape rows of pixels first"
        )
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise ValueError(f"images must be bytes or floating-point numbers from 0 to 1, got {images.dtype}")
    if images.is_floating_point() and not bool(((images >= 0) & (images <= 1)).all()):
        raise ValueError("images of floating-point numbers must lie in 0 to 1; divide bytes by 255")
    return int(shape[-1])


def brightness(images: Tensor) -> Tensor:
    """Grey values from 0 to 255."""
    values = images.float() if images.dtype == torch.uint8 else images.float() * 255
    if values.ndim == 4:
        values = torch.einsum("nchw,c->nhw", values, values.new_tensor(GREY))
    return values


def describe(grey: Tensor, size: int) -> Tensor:
    """All steps for one batch, n x size x size, on whatever device it is."""
    margin = size // 4
    spectrum = torch.fft.fft2(mirrored(local_contrast(grey), margin))
    bank = filters(size + 2 * margin).to(grey.device)
    parts = []
    for scale in bank.split(ORIENTATIONS):
        response = torch.fft.ifft2(spectrum[:, None] * scale).abs()
        inside = response[:, :, margin:-margin, margin:-margin]
        parts.append(avg_pool2d(inside, size // BLOCKS).flatten(1))
    return torch.cat(parts, 1)


def local_contrast(grey: Tensor) -> Tensor:
    """(log brightness - its local mean) / (0.2 + its local deviation); the local weights are a Gaussian."""
    size = grey.shape[-1]
    margin = size // 4
    logs = mirrored(torch.log1p(grey), margin)
    low = low_pass(size + 2 * margin, PREFILTER / size).to(grey.device)
    detail = logs - smoothed(logs, low)
    contrast = smoothed(detail.square(), low).clamp(min=0).sqrt()
    return (detail / (FLOOR + contrast))[:, margin:-margin, margin:-margin]


def smoothed(images: Tensor, low: Tensor) -> Tensor:
    low_part: Tensor = torch.fft.irfft2(torch.fft.rfft2(images) * low, s=images.shape[-2:])
    return low_part


def mirrored(images: Tensor, margin: int) -> Tensor:
    return pad(images[:, None], (margin,) * 4, mode="reflect")[:, 0]


@lru_cache(maxsize=8)
def low_pass(side: int, cut: float) -> Tensor:
    """exp(-f^2 log 2 / cut^2), for the half spectrum of rfft2."""
    down, across = torch.fft.fftfreq(side), torch.fft.rfftfreq(side)
    return torch.exp(-math.log(2) / cut**2 * (down[:, None].square() + across.square()))


@lru_cache(maxsize=8)
def filters(side: int) -> Tensor:
    """The Gabor filters in the frequency domain, (scales x orientations) x side x side.

    Filter j of a scale passes frequencies at the angle pi j / 8 to the horizontal axis, on one side of the origin: the
    magnitude of its response is the envelope of the grating, whatever its phase.
    """
    frequency = torch.fft.fftfreq(side, dtype=torch.float64)
    radius = torch.hypot(frequency[:, None], frequency[None])
    angle = torch.atan2(frequency[:, None].expand(side, side), frequency.expand(side, side))
    turns = torch.arange(ORIENTATIONS) * math.pi / ORIENTATIONS
    apart = torch.remainder(angle - turns[:, None, None] + math.pi, 2 * math.pi) - math.pi
    directions = -ANGULAR * apart.square()
    centres = HIGHEST / RATIO ** torch.arange(SCALES)
    scales = -RADIAL * (radius / centres[:, None, None] - 1).square()
    bank = torch.exp(scales[:, None] + directions[None]).flatten(0, 1)
    bank[:, 0, 0] = 0  # no constant part: brightness is not texture
    highest = frequency.abs() == 0.5  # has no sign, so no angle
    bank[:, highest] = 0
    bank[:, :, highest] = 0
    return bank.float()
