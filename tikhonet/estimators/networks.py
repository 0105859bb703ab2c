"""The network that parameters ask for, and images as the rows that it takes."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np

from tikhonet.network.convolution import Conv2d
from tikhonet.network.edges import Edge
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Network
from tikhonet.network.image_edges import AvgPool2d
from tikhonet.network.shapes import Shape, square_images

PRESETS: dict[str, tuple[int | Edge, ...]] = {
    "small-conv": (Conv2d(16, 3, 1, 1), Conv2d(32, 3, 2, 1), Conv2d(32, 3, 2, 1), 256),
    "lenet": (Conv2d(6, 5, 1, 2), AvgPool2d(2), Conv2d(16, 5), AvgPool2d(2), 120, 84),
}
"""Networks for images of any shape, by name: the layers after the input."""


def network_for(parameters: Any, inputs: int) -> Network:
    """The network that these parameters make for so many inputs."""
    given, activation = parameters.network, parameters.activation
    shape = shape_for(parameters, inputs)
    if isinstance(given, str):
        if shape is None:
            raise ArgumentError(
                "input_shape",
                f"input_shape must be given for network={given!r} where images are not squares, grey or in three "
                f"colours, got rows of {inputs} numbers; pass (channels, height, width)",
            )
        try:
            return Network.sequential(shape, *PRESETS[given], activation=activation)
        except ArgumentError as error:
            raise ArgumentError("network", f"network={given!r} wants larger images than {shape}: {error}") from None
    if given is not None:
        return given  # type: ignore[no-any-return]
    sizes = parameters.hidden_layer_sizes
    sizes = parameters._default_sizes if isinstance(sizes, str) else np.atleast_1d(sizes)
    widths = [inputs, *(int(width) for width in sizes)]
    edges: dict[tuple[int, int], Any] = {(n, n - 1): "dense" for n in range(1, len(widths))}
    if parameters.skip:
        pairs = ((n, m) for n in range(2, len(widths)) for m in range(n - 1))
        edges |= {(n, m): "identity" for n, m in pairs if widths[n] == widths[m]}
    return Network(widths, edges, bias=True, activation=activation)


def shape_for(parameters: Any, inputs: int) -> Shape | None:
    """The shape of images of so many numbers, where the parameters say it; None for rows of a table."""
    given, network, shape = parameters.input_shape, parameters.network, None
    if isinstance(network, Network):
        if network.widths[0] != inputs:
            raise ArgumentError(
                "network",
                f"network must take as many inputs as X has features ({inputs}), got {network.widths[0]}; "
                "make a Network with that first width",
            )
        shape = network.shapes[0] if len(network.shapes[0]) > 1 else None
    if given is None:
        return square_images(inputs) if isinstance(network, str) else shape
    if math.prod(given) != inputs or shape not in (None, tuple(given)):
        wanted = f"rows of {inputs} numbers" if shape is None else f"the network's images of shape {shape}"
        raise ArgumentError("input_shape", f"input_shape must be that of {wanted}, got {tuple(given)}")
    return tuple(int(size) for size in given)


def check_input_shape(shape: Any) -> None:
    """Raise unless it is the channels, height and width of images, or None."""
    sizes = np.array((1, 1, 1) if shape is None else shape, dtype=object)
    if sizes.shape != (3,) or not all(isinstance(size, Integral) and int(size) >= 1 for size in sizes):
        raise ArgumentError(
            "input_shape", f"input_shape must be (channels, height, width), each at least 1, got {shape!r}"
        )


def flat_rows(parameters: Any, X: Any, what: str = "X") -> Any:
    """Images (n, channels, height, width), or (n, height, width) where they are grey, as rows; all else as it is."""
    form = tuple(getattr(X, "shape", ()))
    if len(form) not in (3, 4) or not form[0]:
        return X
    shape = shape_for(parameters, math.prod(form[1:]))
    if shape is None and len(form) == 3:
        raise ArgumentError(
            what,
            f"{what} must hold one row a sample, got an array with dim 3, of shape {form}; pass "
            f"{what}.reshape({len(X)}, -1), or input_shape where it holds images",
        )
    if shape is None:
        raise ArgumentError(
            "network",
            f'network must be one for images, such as "small-conv", where {what} holds images, got {what} of shape '
            f"{form} and network={parameters.network!r}; or pass input_shape to read them as rows",
        )
    if (1,) * (4 - len(form)) + form[1:] != shape:
        raise ArgumentError(
            what,
            f"{what} must hold images of shape {shape} (channels, height, width), or rows of {math.prod(shape)} "
            f"numbers, got shape {form}; say another shape by input_shape, and bring channels to the front",
        )
    return X.reshape(len(X), -1)
