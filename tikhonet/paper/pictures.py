"""Small images inside the page: ink on nothing, so that they look right on light and on dark paper."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.network.extras import require
from tikhonet.paper.records import Record

POSITIVE, NEGATIVE = (200, 80, 30), (31, 111, 178)
"""The colours of weights above and below zero."""


@dataclass(frozen=True)
class Picture:
    uri: str
    width: int
    height: int
    caption: str = ""
    grey: bool = True
    """Whether it is ink on nothing, which the dark page inverts."""


def encode(rgba: NDArray[Any], caption: str = "") -> Picture:
    buffer = io.BytesIO()
    require("matplotlib.image").imsave(buffer, np.ascontiguousarray(rgba.astype(np.uint8)), format="png")
    uri = "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
    return Picture(uri, rgba.shape[1], rgba.shape[0], caption)


def unit_weights(record: Record, shape: tuple[int, ...], caption: str) -> Picture:
    """A sheet of first-layer units, each scaled by its own largest weight: its sign is the hue, its size the ink."""
    weights = record.picture("weights").astype(np.float64).reshape(-1, *shape)
    if weights.ndim == 4:
        weights = weights.mean(1)
    rgba = np.zeros((*weights.shape, 4))
    rgba[..., :3] = np.where(weights[..., None] > 0, POSITIVE, NEGATIVE)
    rgba[..., 3] = 255 * np.abs(weights)
    return encode(sheet(rgba, columns=4), caption)


def sheet(tiles: NDArray[Any], columns: int) -> NDArray[Any]:
    """Tiles side by side with an empty line between them."""
    count, height, width, depth = tiles.shape
    rows = -(-count // columns)
    padded = np.pad(tiles, ((0, rows * columns - count), (0, 1), (0, 1), (0, 0)))
    page = padded.reshape(rows, columns, height + 1, width + 1, depth).swapaxes(1, 2)
    return page.reshape(rows * (height + 1), columns * (width + 1), depth)[:-1, :-1]


def pattern(record: Record, layer: str, caption: str) -> Picture:
    """A matrix's nonzeros as ink."""
    return encode(ink(record.picture(f"pattern_{layer}")), caption)


def mistakes(record: Record) -> list[Picture]:
    """Test images with their true label and the one that they were given."""
    images, true, predicted = map(record.picture, ("mistakes", "mistakes_true", "mistakes_predicted"))
    labels = record.data["labels"]
    return [
        photograph(image, f"{labels[a]} → {labels[b]}") for image, a, b in zip(images, true, predicted, strict=True)
    ]


def photograph(image: NDArray[Any], caption: str) -> Picture:
    """An image of bytes: grey ones (height x width) as ink, colours (channels x height x width) as they are."""
    grey = image.ndim == 2
    picture = encode(ink(image) if grey else np.dstack([*image, np.full(image.shape[1:], 255)]), caption)
    return replace(picture, grey=grey)


def ink(shares: NDArray[Any]) -> NDArray[Any]:
    rgba = np.zeros((*shares.shape, 4))
    rgba[..., 3] = shares
    return rgba
