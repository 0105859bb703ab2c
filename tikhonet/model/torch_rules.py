"""Modules of PyTorch and what they are here: an edge, an activation, or something to replace."""

from __future__ import annotations

from typing import Any

from torch import nn

from tikhonet.network.activation import Activation, ClippedReLU, ReLU
from tikhonet.network.convolution import Conv2d
from tikhonet.network.edges import Edge
from tikhonet.network.errors import ArgumentError
from tikhonet.network.image_edges import AvgPool2d, GlobalAverage
from tikhonet.network.shapes import Shape

REFUSED = {
    "MaxPool": "a maximum is no linear operator; use nn.AvgPool2d, or a stride in the convolution before it",
    "BatchNorm": "fold it into the layer before it (torch.nn.utils.fusion.fuse_conv_bn_eval, in eval mode), or leave "
    "it out: the steps are scaled by the Gram matrices of the inputs",
    "Norm": "leave it out: the steps are scaled by the Gram matrices of the inputs",
    "Softmax": "leave it out: scores are those of the last Linear, and the loss is chosen with the problem",
    "Sigmoid": "activations are projections onto intervals: use nn.ReLU or nn.Hardtanh(0, 1)",
    "anh": "activations are projections onto intervals: use nn.ReLU or nn.Hardtanh(0, c)",
    "LU": "activations are projections onto intervals: use nn.ReLU or nn.ReLU6",
    "Mish": "activations are projections onto intervals: use nn.ReLU or nn.ReLU6",
    "Threshold": "activations are projections onto intervals: use nn.ReLU",
    "max": "a maximum is no linear operator; use a mean, x.mean((2, 3)) or nn.AvgPool2d",
    "Transpose": "no layer here makes larger images; use nn.Linear, or leave it out",
    "Upsample": "no layer here makes larger images; bring the images to their size beforehand, or leave it out",
    "interpolate": "no layer here makes larger images; bring the images to their size beforehand, or leave it out",
    "cat": "add layers in place of joining them: one Linear or Conv2d of each, and their sum",
    "mul": "multiply the weights behind it in place of its values; a product of two layers is not linear",
    "div": "divide the weights behind it in place of its values; a quotient of two layers is not linear",
    "sub": "add the layers, and change the sign of the weights before the one that is taken away",
    "clamp": "use nn.ReLU or nn.Hardtanh(0, c)",
    "Pad": "give the convolution behind it its padding",
    "squeeze": "use nn.Flatten()",
    "Lazy": "call the module once, so that its layers know their sizes",
    "Parametrized": "torch.nn.utils.parametrize.remove_parametrizations leaves the weights as they are",
}
"""What to do in place of modules, or functions, whose name has this word in it."""


def remedy_for(name: str) -> str | None:
    """What to do in place of a module or a function of this name, where that is known."""
    plain = name.replace("_", "").lower()
    return next((text for word, text in REFUSED.items() if word.lower() in plain), None)


def activation_of(part: nn.Module) -> Activation | None:
    """The activation that a module is, if it is one."""
    match part:
        case nn.ReLU6():  # a Hardtanh too
            return ClippedReLU(6.0)
        case nn.Hardtanh(min_val=0, max_val=cap):
            return ClippedReLU(float(cap))
        case nn.ReLU():
            return ReLU()
    return None


def conv_edge(owner: str, part: nn.Conv2d) -> Conv2d:
    """The edge of a convolution."""
    if part.padding_mode != "zeros":
        raise ArgumentError("module", f"{owner!r} must pad with zeros, got padding_mode={part.padding_mode!r}")
    padding: Any = part.padding
    if padding == "valid":
        padding = 0
    elif padding == "same":
        reach = [d * (k - 1) for k, d in zip(part.kernel_size, part.dilation, strict=True)]
        if any(size % 2 for size in reach):
            raise ArgumentError("module", f"{owner!r} pads unevenly (padding='same'); use an odd kernel, or numbers")
        padding = tuple(size // 2 for size in reach)
    kernel, stride, dilation = part.kernel_size, part.stride, part.dilation
    return Conv2d(part.out_channels, _two(kernel), _two(stride), padding, _two(dilation), part.groups)


def mean_edge(part: nn.AvgPool2d | nn.AdaptiveAvgPool2d, shape: Shape) -> Edge:
    """The edge of a mean over pixels."""
    if isinstance(part, nn.AdaptiveAvgPool2d):
        return adaptive(part.output_size, shape)
    uncounted = part.padding not in (0, (0, 0)) and not part.count_include_pad
    if part.ceil_mode or uncounted or part.divisor_override:
        raise ArgumentError(
            "module", "AvgPool2d must not have ceil_mode, divisor_override or padding that is not counted"
        )
    stride: Any = part.stride or part.kernel_size
    return AvgPool2d(_two(part.kernel_size), _two(stride), _two(part.padding))


def adaptive(size: Any, shape: Shape) -> Edge:
    """The mean that gives images of this size: one of all pixels, or windows of one size that do not overlap."""
    if size in (1, (1, 1)):
        return GlobalAverage()
    if len(shape) == 3:
        wanted = [n if s is None else int(s) for s, n in zip(_two(size), shape[1:], strict=True)]
        if all(n % s == 0 for s, n in zip(wanted, shape[1:], strict=True)):
            return AvgPool2d((shape[1] // wanted[0], shape[2] // wanted[1]))
    raise ArgumentError("module", f"AdaptiveAvgPool2d({size}) has windows of several sizes for {shape}; use AvgPool2d")


def _two(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else tuple(size)
