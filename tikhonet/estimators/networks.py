"""The network that parameters ask for, and images as the rows that it takes."""

from __future__ import annotations

import math
from copy import copy
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
COLOURS = 1, 3, 4
"""Channels that images have as a rule."""


def network_for(parameters: Any, inputs: int) -> Network:
    """The network that these parameters make for so many inputs."""
    given, activation = parameters.network, parameters.activation
    if given is not None:
        check_inputs(parameters, inputs)
    if isinstance(given, str):
        shape = said_shape(parameters) or square_images(inputs)
        if shape is None:
            raise shape_wanted(parameters, f"rows of {inputs} numbers")
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


def check_inputs(parameters: Any, inputs: int) -> None:
    """Raise unless the network that is given, and `input_shape` beside it, take so many inputs."""
    given, network, shape = said_shape(parameters), parameters.network, shape_of(parameters.network)
    if isinstance(network, Network) and network.widths[0] != inputs:
        raise ArgumentError(
            "network",
            f"network must take as many inputs as X has features ({inputs}), got {network.widths[0]}; make a Network "
            "with that first width (a column with gaps, categories or pieces counts as several)",
        )
    if given is not None and (math.prod(given) != inputs or shape not in (None, given)):
        wanted = f"rows of {inputs} numbers" if shape is None else f"the network's images of shape {shape}"
        raise ArgumentError("input_shape", f"input_shape must be that of {wanted}, got {given}")


def said_shape(parameters: Any) -> Shape | None:
    """`input_shape` as integers, where it is given."""
    return None if parameters.input_shape is None else tuple(int(size) for size in parameters.input_shape)


def shape_of(network: Any) -> Shape | None:
    """The shape of the images that a network takes; None for rows, and for a network by name."""
    return network.shapes[0] if isinstance(network, Network) and len(network.shapes[0]) > 1 else None


def takes_images(network: Any) -> bool:
    return isinstance(network, str) or shape_of(network) is not None


def shape_wanted(parameters: Any, got: str) -> ArgumentError:
    """The error of images whose shape nobody says."""
    return ArgumentError(
        "input_shape",
        f"input_shape must be given for network={parameters.network!r} where X is not an array of images and its rows "
        f"are not squares, grey or in three colours, got {got}; pass (channels, height, width)",
    )


def check_input_shape(shape: Any) -> None:
    """Raise unless it is the channels, height and width of images, or None."""
    sizes = np.array((1, 1, 1) if shape is None else shape, dtype=object)
    if sizes.shape != (3,) or not all(isinstance(size, Integral) and int(size) >= 1 for size in sizes):
        raise ArgumentError(
            "input_shape", f"input_shape must be (channels, height, width), each at least 1, got {shape!r}"
        )


def with_shape(parameters: Any, X: Any) -> Any:
    """The parameters with the shape of these images, where a network by name leaves `input_shape` open.

    An array of images has its own shape; rows are taken for squares, where they can be.
    """
    form = tuple(getattr(X, "shape", ()))
    if not isinstance(parameters.network, str) or parameters.input_shape is not None or len(form) not in (2, 3, 4):
        return parameters
    if len(form) == 4 and form[3] in COLOURS and min(form[1:3]) > max(COLOURS):
        raise ArgumentError(
            "X",
            f"X must hold images (channels, height, width), got shape {form}, whose channels seem to come last; bring "
            f"them to the front (X.transpose(0, 3, 1, 2)), or say input_shape={form[1:]}",
        )
    shaped = copy(parameters)
    shaped.input_shape = square_images(form[1]) if len(form) == 2 else in_full(form)
    return shaped


def in_full(form: tuple[int, ...]) -> Shape:
    """Channels, height and width of an array of images, which are grey where it says no channels."""
    return (1,) * (4 - len(form)) + form[1:]


def flat_rows(parameters: Any, X: Any, what: str = "X") -> Any:
    """Images (n, channels, height, width), or (n, height, width) where they are grey, as rows; all else as it is."""
    form = tuple(getattr(X, "shape", ()))
    if len(form) not in (3, 4):
        return X
    shape = said_shape(parameters) or shape_of(parameters.network)
    if shape is None and isinstance(parameters.network, str):
        raise shape_wanted(parameters, f"{what} of shape {form}")
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
            f"{form} and network={parameters.network!r}; or pass input_shape={in_full(form)} to read them as rows",
        )
    if in_full(form) != shape:
        raise ArgumentError(
            what,
            f"{what} must hold images of shape {shape} (channels, height, width), or rows of "
            f"{math.prod(shape)} numbers, got shape {form}; say another shape by input_shape, and bring channels to "
            "the front",
        )
    return X.reshape(len(X), math.prod(form[1:]))
