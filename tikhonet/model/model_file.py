"""Networks and models as what a file keeps: a description in plain JSON, and named tensors.

    {"widths": [4, 3], "edges": [[1, -1, "bias"], [1, 0, "dense"]], "activation": {"name": "relu"}}

An edge or activation with parameters of its own has them beside its name, and layers of images have three numbers for
a width: `[1, 28, 28]`. Files of version 0.1 say "learned" for dense
edges and biases, and have no activation: ReLU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from tikhonet.model.columns import Columns
from tikhonet.model.heads import Head
from tikhonet.model.model import Model
from tikhonet.model.reading import ModelFormatError, complaint
from tikhonet.model.scaling import Scaling
from tikhonet.network.activation import Activation
from tikhonet.network.edges import Edge
from tikhonet.network.graph import BIAS, Network, Pair, Weights

MAX_EDGES = 4096
"""Checking a network takes layers x edges steps, so a file must not choose their number freely."""
MAX_WIDTH = 2**31
VECTORS = ("shift", "scale", "low", "high")


def network_header(network: Network) -> dict[str, Any]:
    """The network as plain JSON."""
    if len(network.edges) > MAX_EDGES:
        raise ModelFormatError(f"network must have at most {MAX_EDGES} edges to be saved, got {len(network.edges)}")
    edges = [[n, m, edge.name, *edge_parameters(edge)] for (n, m), edge in network.edges.items()]
    widths = [shape[0] if len(shape) == 1 else list(shape) for shape in network.shapes]
    return {"widths": widths, "edges": edges, "activation": network.activation.as_dict()}


def edge_parameters(edge: Edge) -> list[dict[str, Any]]:
    """The parameters of an edge that has any, beside the shapes of its layers."""
    own = {entry.name: getattr(edge, entry.name) for entry in fields(edge) if entry.name not in ("source", "target")}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in own.items()}
    return [plain] if plain else []


def network_from_header(header: object) -> Network:
    """The network of `network_header`, checked like any other."""
    match header:
        case {"widths": list(widths), "edges": list(edges), "activation": dict(activation), **rest} if not rest:
            pass
        case {"widths": list(widths), "edges": list(edges), **rest} if not rest:
            activation = {"name": "relu"}
        case _:
            raise ModelFormatError(
                "the network must hold two lists, 'widths' and 'edges', an 'activation', and nothing else"
            )
    if len(edges) > MAX_EDGES or len(widths) > MAX_EDGES + 1:
        raise ModelFormatError(
            f"the network must have at most {MAX_EDGES} edges and layers, got {len(edges)} and {len(widths)}"
        )
    if not all(is_width(width) for width in widths):
        raise ModelFormatError(
            f"the network's widths must be integers below {MAX_WIDTH}, or three with such a product for images"
        )
    kinds: dict[Pair, str | Edge] = {}
    try:
        for edge in edges:
            match edge:
                case [int(n), int(m), str(kind), *more] if type(n) is type(m) is int and (n, m) not in kinds:
                    kinds[n, m] = Edge.kinds[kind](**more[0]) if more else kind
                case _:
                    raise ModelFormatError("the network's edges must be lists [target, source, kind], each edge once")
        return Network(widths, kinds, activation=Activation.from_dict(activation))
    except ModelFormatError:
        raise
    except (ValueError, TypeError, KeyError) as error:
        raise ModelFormatError(f"the network is not valid: {complaint(error)}") from None


def is_width(width: object) -> bool:
    """Whether a file may say this of a layer: a width, or the channels, height and width of images."""
    sizes = width if isinstance(width, list) and len(width) == 3 else [width]
    return all(type(size) is int and size < MAX_WIDTH for size in sizes) and math.prod(sizes) < MAX_WIDTH


def weight_name(pair: Pair) -> str:
    """`W.2.1` for the edge (2, 1), `W.2.bias` for the bias of layer 2."""
    n, m = pair
    return f"W.{n}.{'bias' if m == BIAS else m}"


def weight_tensors(W: Weights) -> dict[str, Tensor]:
    return {weight_name(pair): matrix for pair, matrix in W.items()}


def weights_from_tensors(network: Network, tensors: Mapping[str, Tensor]) -> Weights:
    """The weights among the tensors, exactly those that the network learns; other names are left alone."""
    names = [weight_name(pair) for pair in network.learned]
    found = {name for name in tensors if name.startswith("W.")}
    if found != set(names):
        raise ModelFormatError(f"the weights must hold the learned edges {names}, got {sorted(found)}")
    W = {pair: tensors[weight_name(pair)] for pair in network.learned}
    try:
        network.check_weights(W)
    except ValueError as error:
        raise ModelFormatError(f"the weights do not fit the network: {error}") from None
    if len({matrix.dtype for matrix in W.values()}) > 1 or not all(matrix.is_floating_point() for matrix in W.values()):
        raise ModelFormatError("the weights must all be of one floating-point dtype")
    return W


def model_tensors(model: Model) -> dict[str, Tensor]:
    """Weights, V, scaling and head by name; classes and sharpness belong into a header."""
    tensors = weight_tensors(model.W) | ({"V": model.V} if model.V.numel() else {})
    vectors = vars(model.scaling) | ({} if model.head is None else vars(model.head))
    return tensors | {name: torch.from_numpy(values) for name, values in vectors.items()}


def columns_from_header(kept: object, network: Network) -> Columns | None:
    """The columns that a header describes, for this network; None where there are none, as in older files."""
    if kept is None:
        return None
    columns = Columns.from_list(kept)
    made = columns.encoding.outputs
    if made != network.widths[0]:  # before anything of that size is made
        raise ModelFormatError(f"the columns must make the {network.widths[0]} inputs of the network, got {made}")
    return columns


def model_from_tensors(network: Network, tensors: Mapping[str, Tensor], columns: Columns | None = None) -> Model:
    """The model that `model_tensors` took apart."""
    W = weights_from_tensors(network, tensors)
    missing = [name for name in VECTORS if name not in tensors]
    if missing or ("coef" in tensors) != ("intercept" in tensors):
        raise ModelFormatError(
            f"the tensors must hold {', '.join(VECTORS)}, and coef with intercept, got {list(tensors)}"
        )
    arrays = {name: tensors[name].double().numpy() for name in (*VECTORS, "coef", "intercept") if name in tensors}
    width = network.widths[-1]
    V = tensors.get("V", torch.empty(0, width))
    if V.ndim != 2 or V.shape[1] != width:
        raise ModelFormatError(f"V must have {width} columns, as many as the last layer is wide, got {tuple(V.shape)}")
    try:
        head = Head(arrays.pop("coef"), arrays.pop("intercept")) if "coef" in arrays else None
        return Model(Scaling(**arrays), network, W, V, head, columns=columns)
    except (ValueError, TypeError) as error:
        raise ModelFormatError(f"the model's tensors do not fit each other: {error}") from None
