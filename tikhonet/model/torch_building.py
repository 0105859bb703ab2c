"""Networks as modules of PyTorch, made of the layers that one would write by hand."""

from __future__ import annotations

import operator
from collections import OrderedDict

from torch import Tensor, fx, nn

from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import BIAS, Network, Weights
from tikhonet.network.operations import linear


def build_module(network: Network, W: Weights, V: Tensor, intercept: Tensor) -> nn.Module:
    """The scores  V u_N + intercept  of rows, or of images in their shape."""
    network.check_weights(W)
    builder = _Builder(network, W)
    for n in network.hidden:
        builder.add_layer(n)
    builder.graph.output(builder.call("head", linear(V, intercept), builder.flat(network.depth)))
    if all([m for m in network.sources(n) if m != BIAS] == [n - 1] for n in network.hidden):
        return nn.Sequential(builder.modules)
    return fx.GraphModule(nn.ModuleDict(builder.modules), builder.graph)


class _Builder:
    """The modules in order, and the graph of their calls."""

    def __init__(self, network: Network, W: Weights) -> None:
        self.network, self.W, self.graph = network, W, fx.Graph()
        self.modules: OrderedDict[str, nn.Module] = OrderedDict()
        self.values = {0: self.graph.placeholder("x")}
        self.flattened: dict[int, fx.Node] = {}

    def call(self, name: str, module: nn.Module, value: fx.Node) -> fx.Node:
        self.modules[name] = module
        return self.graph.call_module(name, (value,))

    def flat(self, m: int) -> fx.Node:
        """The values of layer m in one line."""
        if len(self.network.shapes[m]) == 1:
            return self.values[m]
        if m not in self.flattened:
            self.flattened[m] = self.call(f"flatten{m}", nn.Flatten(), self.values[m])
        return self.flattened[m]

    def add_layer(self, n: int) -> None:
        network, sources = self.network, [m for m in self.network.sources(n) if m != BIAS]
        bias, total = self.W.get((n, BIAS)), None
        for m in sources:
            edge = network.edges[n, m]
            own = bias[:, 0] if bias is not None and edge.learned else None
            bias = None if edge.learned else bias
            value = self.values[m] if edge.by_image or not edge.learned else self.flat(m)
            name = f"{edge.name}{n}" if len(sources) == 1 else f"{edge.name}{n}_{m}"
            term = self.call(name, edge.module(self.W.get((n, m)), own), value)
            total = term if total is None else self.graph.call_function(operator.add, (total, term))
        if bias is not None:
            raise ArgumentError("network", f"layer {n} must learn an edge for its bias to be written as a module's")
        assert total is not None
        lower, upper = network.activation.lower, network.activation.upper
        activation = nn.ReLU() if upper == float("inf") else nn.Hardtanh(lower, upper)
        stays = len(sources) == 1 and sources[0] > 0 and not network.edges[n, sources[0]].learned
        # A mean of values in the activation's interval lies in it.
        self.values[n] = total if stays else self.call(f"relu{n}", activation, total)
