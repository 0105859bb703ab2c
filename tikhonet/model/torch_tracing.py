"""How a module's calls, as `torch.fx` traces them, become the layers of a network.

What stands between two activations becomes the edges into a layer: `Linear`, `Conv2d`, means and additions. The last
`Linear` is the classifier V. A mean of a layer's values is a layer of its own, since it lies in the activation's
interval as they do. Everything else is refused by name.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F  # noqa: N812 (its usual name)

from tikhonet.model.torch_rules import activation_of, adaptive, conv_edge, mean_edge, remedy_for
from tikhonet.model.torch_values import HEAD, KNOWN, Found, Layer, Sum, Term, Value, refuse
from tikhonet.network.activation import Activation, ClippedReLU, ReLU
from tikhonet.network.edges import Dense, Edge, Identity
from tikhonet.network.graph import BIAS, Network, Pair
from tikhonet.network.image_edges import AvgPool2d, GlobalAverage
from tikhonet.network.shapes import Shape


class Reader:
    """One pass over the calls of a module, each of which makes a sum of edges or a layer."""

    def __init__(self, module: nn.Module, shape: Shape) -> None:
        self.module, self.shapes = module, [shape]
        self.edges: dict[Pair, Edge] = {}
        self.owners: dict[Pair, tuple[str, ...]] = {}
        self.activation: Activation | None = None
        self.used: set[str] = set()
        self.means: dict[Sum, Layer] = {}
        """The layers that sums have become without an activation, since they may be read more than once."""
        self.added: str = ""
        """A sum of layers that no activation follows, which must not leave its interval."""

    def read(self, graph: fx.Graph) -> Found:
        """All that the graph says."""
        values: dict[fx.Node, Any] = {}
        result: Any = None
        for node in graph.nodes:
            if node.op == "placeholder":
                if len(values) > 0:
                    raise refuse("module must have one input, got several")
                values[node] = Layer(0, self.shapes[0])
            elif node.op == "output":
                result = values.get(node.args[0]) if isinstance(node.args[0], fx.Node) else None
            else:
                args = fx.map_arg(node.args, values.get)
                kwargs = fx.map_arg(node.kwargs, values.get)
                values[node] = self.step(node, args, kwargs)
        return self.finish(result)

    def finish(self, result: Any) -> Found:
        match result:
            case Sum((Term(m, edge, owner),), _) if type(edge) is Dense and m == len(self.shapes) - 1 > 0:
                head: Any = self.module.get_submodule(owner)
            case _:
                raise refuse("module must end with a Linear layer of the last hidden layer, the classifier V")
        activation = self.activation or ReLU()
        if self.added and activation.upper < float("inf"):
            raise refuse(f"{self.added} may leave the interval of {activation}; put the activation behind the addition")
        learned = {pair: edge for pair, edge in self.edges.items() if pair[1] != BIAS}
        bias = [n for n, m in self.edges if m == BIAS]
        network = Network(self.shapes, learned, bias, activation)
        W = {pair: self.weights(pair, network.shape(pair)) for pair in network.learned}
        owners = {pair: self.owners[pair] for pair in network.learned} | {HEAD: (owner,)}
        V = head.weight.detach().clone()
        intercept = V.new_zeros(len(V)) if head.bias is None else head.bias.detach().clone()
        return Found(network, W, V, intercept, owners)

    def weights(self, pair: Pair, shape: tuple[int, int]) -> Tensor:
        name = "bias" if pair[1] == BIAS else "weight"
        parts = [getattr(self.module.get_submodule(owner), name).detach().reshape(shape) for owner in self.owners[pair]]
        return torch.stack(parts).sum(0)

    def step(self, node: fx.Node, args: Any, kwargs: Any) -> Any:
        if "input" in kwargs:
            args, kwargs = (kwargs["input"], *args), {name: part for name, part in kwargs.items() if name != "input"}
        if node.op == "call_module":
            owner = str(node.target)
            if len(args) != 1 or kwargs:
                raise refuse(f"module calls {owner!r} with {len(args) + len(kwargs)} inputs; give it one")
            return self.call_module(owner, self.module.get_submodule(owner), args[0])
        name = getattr(node.target, "__name__", str(node.target))
        if node.op == "get_attr":
            owner = name.rpartition(".")[0]
            kind = type(self.module.get_submodule(owner)).__name__
            raise refuse(
                f"module uses the parameter {name!r} of {owner or 'its own'}, a {kind}, by hand; "
                "let nn.Linear or nn.Conv2d themselves, of no other class, have the weights, and call them"
            )
        known = {"call_function": FUNCTIONS, "call_method": METHODS}.get(node.op, {}).get(node.target)
        if known:
            try:
                return known(self, *args, **kwargs)
            except TypeError as error:
                raise refuse(f"module calls {name!r} in a way that is not supported ({error}): {KNOWN}") from None
        raise refuse(f"module has {name!r} ({node.op}), which is not supported: {remedy_for(name) or KNOWN}")

    def call_module(self, owner: str, part: nn.Module, value: Value) -> Value:
        match part:
            case nn.Linear() | nn.Conv2d() if type(part) in (nn.Linear, nn.Conv2d):
                if owner in self.used:
                    raise refuse(f"module uses {owner!r} twice; weights that are shared have no block of their own")
                self.used.add(owner)
                return self.linear(owner, part, self.settled(value, f"{owner!r}"))
            case nn.AvgPool2d() | nn.AdaptiveAvgPool2d():
                return self.mean(value, mean_edge(part, value.shape), True)
            case nn.Flatten():
                return self.flatten(value, part.start_dim, part.end_dim)
            case nn.Dropout() | nn.Dropout2d() | nn.AlphaDropout() | nn.Identity():
                return value
        activation = activation_of(part)
        if activation is not None:
            return self.activate(value, activation)
        kind = type(part).__name__
        raise refuse(f"module has {owner!r}, a {kind}, which is not supported: {remedy_for(kind) or KNOWN}")

    def linear(self, owner: str, part: nn.Linear | nn.Conv2d, source: Layer) -> Sum:
        if isinstance(part, nn.Conv2d):
            if source.shape != self.shapes[source.n]:
                raise refuse(f"module flattens what {owner!r} reads; a convolution needs images")
            if len(source.shape) == 1:
                raise refuse(f"{owner!r} takes images, got rows of {source.shape[0]} numbers; check input_shape")
            edge: Edge = conv_edge(owner, part)
            target = edge.leads_to(source.shape)
            if part.in_channels != source.shape[0]:
                raise refuse(f"{owner!r} takes {part.in_channels} channels, got {source.shape[0]}; check input_shape")
            return Sum((Term(source.n, edge, owner),), target)
        if len(source.shape) > 1:
            raise refuse(f"module must flatten images of shape {source.shape} before {owner!r}; use nn.Flatten()")
        if part.in_features != source.shape[0]:
            raise refuse(f"{owner!r} takes {part.in_features} inputs, got {source.shape[0]}; check input_shape")
        return Sum((Term(source.n, Dense(), owner),), (part.out_features,))

    def mean(self, value: Value, edge: Edge, keepdim: bool) -> Sum:
        """Means of a layer; those of whole images are images of one pixel where dimensions are kept."""
        source = self.settled(value, "a mean")
        if source.shape != self.shapes[source.n]:
            raise refuse("module flattens images before it takes their means; take the means first")
        shape = edge.leads_to(source.shape)
        return Sum((Term(source.n, edge),), (*shape, 1, 1) if keepdim and len(shape) == 1 else shape)

    def settled(self, value: Value, reader: str) -> Layer:
        """A layer as it is; sums of layers become one, if they need no activation to lie in its interval."""
        if isinstance(value, Layer):
            return value
        if any(term.edge.learned or term.m == 0 for term in value.terms):
            raise refuse(
                f"module has no activation before {reader}; every layer but the last has one, so put it there "
                "(a mean goes behind the activation, or is taken of the inputs beforehand)"
            )
        if len(value.terms) > 1:
            self.added = f"an addition before {reader}"
        if value not in self.means:
            self.means[value] = self.layer(value)
        return self.means[value]

    def layer(self, value: Sum) -> Layer:
        n = len(self.shapes)
        self.shapes.append(value.shape)
        for term in value.terms:
            if (n, term.m) in self.edges:
                raise refuse(
                    f"module adds two operators of layer {term.m} in layer {n}, but one edge joins two layers; "
                    "put a layer with an activation into one of the branches"
                )
            self.edges[n, term.m] = term.edge
            if isinstance(term.edge, GlobalAverage) and len(value.shape) == 3:
                _, height, width = self.shapes[term.m]
                self.edges[n, term.m] = AvgPool2d((height, width))
            if term.owner:
                self.owners[n, term.m] = (term.owner,)
                if self.module.get_submodule(term.owner).bias is not None:
                    self.edges[n, BIAS] = term.edge
                    self.owners[n, BIAS] = (*self.owners.get((n, BIAS), ()), term.owner)
        return Layer(n, value.shape)

    def activate(self, value: Value, activation: Activation) -> Layer:
        if self.activation not in (None, activation):
            raise refuse(f"module must have one activation for all layers, got {self.activation} and {activation}")
        self.activation = activation
        if isinstance(value, Layer) and value.n > 0:
            return value
        return self.layer(self.summed(value))

    def summed(self, value: Value) -> Sum:
        if isinstance(value, Sum):
            return value
        if value.shape != self.shapes[value.n]:
            raise refuse("module adds images that were flattened; add them in their shape")
        return Sum((Term(value.n, Identity()),), value.shape)

    def add(self, one: Any, two: Any, alpha: float = 1) -> Sum:
        if not isinstance(one, Value) or not isinstance(two, Value) or alpha != 1:
            raise refuse("module adds something else than layers, which is not supported; use a bias for constants")
        one, two = self.summed(one), self.summed(two)
        if one.shape != two.shape:
            raise refuse(f"module adds layers of shapes {one.shape} and {two.shape}; they must be equal")
        return Sum(one.terms + two.terms, one.shape)

    def flatten(self, value: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
        if start_dim != 1 or end_dim not in (-1, len(value.shape)):
            found = f"dimensions {start_dim} to {end_dim}"
            raise refuse(f"module flattens {found}; only all but the first can be: nn.Flatten()")
        flat = len(value.shape) == 1 or all(isinstance(t.edge, GlobalAverage) for t in getattr(value, "terms", ()))
        layer = value if flat or isinstance(value, Layer) else self.settled(value, "flatten")
        return replace(layer, shape=(math.prod(layer.shape),))

    def view(self, value: Value, *sizes: Any) -> Value:
        rows, *line = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple) else sizes
        width = math.prod(value.shape)
        if (rows, line) not in ((None, [-1]), (None, [width]), (-1, [width])):
            raise refuse(
                f"module reshapes its values; only x.view(x.size(0), -1), or x.view(-1, {width}) for images of shape "
                f"{value.shape}, can be read: use nn.Flatten()"
            )
        return self.flatten(value, 1)


def _same(reader: Reader, value: Value, *args: Any, **kwargs: Any) -> Value:
    return value


def _relu(reader: Reader, value: Value, inplace: bool = False) -> Value:
    return reader.activate(value, ReLU())


def _clipped(reader: Reader, value: Value, low: float = 0, cap: float = 6.0, inplace: bool = False) -> Value:
    if low != 0:
        raise refuse(f"module clips at {low}; only intervals that begin at 0 are known, such as F.hardtanh(x, 0, 1)")
    return reader.activate(value, ClippedReLU(float(cap)))


def _mean(reader: Reader, value: Value, dim: Any = None, keepdim: bool = False) -> Value:
    if isinstance(dim, int) or dim is None or sorted(size % 4 for size in dim) != [2, 3]:
        raise refuse(f"module takes means over dimensions {dim}; only those of pixels can be: x.mean((2, 3))")
    return reader.mean(value, GlobalAverage(), keepdim)


def _size(reader: Reader, value: Value, *args: Any) -> Any:
    return None  # a number of rows, which `view` alone may see


def _item(reader: Reader, value: Any, place: Any) -> Any:
    if isinstance(value, Value):
        raise refuse("module takes a part of a layer, which is not supported; a convolution or Linear reads all of it")
    return None


def _attribute(reader: Reader, value: Value, name: str) -> Any:
    if name != "shape":
        raise refuse(f"module uses {name!r} of a layer, which is not supported: {KNOWN}")
    return None


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    F.relu: _relu,
    torch.relu: _relu,
    torch.relu_: _relu,
    F.relu6: lambda reader, value, inplace=False: _clipped(reader, value),
    F.hardtanh: lambda reader, value, min_val=-1.0, max_val=1.0, inplace=False: _clipped(
        reader, value, min_val, max_val
    ),
    torch.mean: _mean,
    F.dropout: _same,
    F.dropout2d: _same,
    torch.flatten: Reader.flatten,
    torch.add: Reader.add,
    operator.add: Reader.add,
    operator.iadd: Reader.add,
    operator.getitem: _item,
    getattr: _attribute,
    F.avg_pool2d: lambda reader, value, *args, **kwargs: reader.mean(
        value, mean_edge(nn.AvgPool2d(*args, **kwargs), value.shape), True
    ),
    F.adaptive_avg_pool2d: lambda reader, value, output_size: reader.mean(
        value, adaptive(output_size, value.shape), True
    ),
}
METHODS: dict[str, Callable[..., Any]] = {
    "relu": _relu,
    "relu_": _relu,
    "flatten": Reader.flatten,
    "add": Reader.add,
    "add_": Reader.add,
    "contiguous": _same,
    "mean": _mean,
    "size": _size,
    "view": Reader.view,
    "reshape": Reader.view,
}
