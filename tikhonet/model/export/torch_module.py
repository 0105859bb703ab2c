"""Eq. 1 and the classifier on top as a plain `torch.nn.Module`, for use without this library's solvers.

    u_0 = (x - shift) / scale,   u_n = activation(sum over m in M_n of W_{n,m} u_m),   scores = V u_N + intercept

The module is made of `nn.Linear` and `nn.Identity`, one for each edge, so tools that look for these find them; a sparse
module has `SparseLinear` in place of `nn.Linear` for the matrices that are smaller so.
"""

from __future__ import annotations

import io
import math
import warnings

import numpy as np
import torch
from torch import Tensor, nn

from tikhonet.model.export.format import Export, Format, dense_ram
from tikhonet.model.model import Model, array, single
from tikhonet.model.scaling import Scaling
from tikhonet.network.edges import Constant, Product
from tikhonet.network.graph import Network, Weights


def to_torch(model: Model, *, sparse: bool = False) -> nn.Module:
    """A module with the model's scores, in float64; `module.float()` halves it.

    With `sparse`, matrices are kept as compressed sparse rows where that takes less memory; such a module predicts and
    is not trained further.
    """
    shift, scale, low, high = scaling_tensors(model.checked().scaling)
    V, intercept = (torch.from_numpy(values.astype(np.float64)) for values in vars(model.linear_head).values())
    module = TorchNetwork(model.network, model.W, V, shift, scale, intercept if model.head else None, sparse)
    return nn.Sequential(Clip(low, high), module)


def torch_program(model: Model) -> bytes:
    """The module in float32 as a file that torch runs without this library, for any number of rows.

    `torch.export.load(path).module()(x)` gives the scores. The scaling is done in float64: where a feature's mean is
    large against its spread, the difference has no digits left in float32.
    """
    W = {
        (n, m): torch.from_numpy(single(f"W[{n}, {m}]", array(matrix))) for (n, m), matrix in model.checked().W.items()
    }
    V, intercept = (torch.from_numpy(single(name, values)) for name, values in vars(model.linear_head).items())
    shift, scale, low, high = scaling_tensors(model.scaling)
    network = TorchNetwork(model.network, W, V, shift, scale, intercept if model.head else None)
    module = nn.Sequential(Clip(low, high), network).eval().requires_grad_(False)
    rows = torch.export.Dim("rows")
    program = torch.export.export(module, (torch.zeros(2, model.inputs),), dynamic_shapes=({0: rows},))
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


class Torch(Format):
    """A program that torch runs alone."""

    name = "torch"
    ending = ".pt2"

    def make(self, model: Model, name: str = "model", weights: str = "float32") -> Export:
        content = torch_program(model)
        return Export(content, len(content), dense_ram(model))


def scaling_tensors(scaling: Scaling) -> list[Tensor]:
    """Shift, scale, low and high, in float64."""
    return [torch.from_numpy(vector.astype(np.float64)) for vector in vars(scaling).values()]


class Clip(nn.Module):
    """Each input within its bounds, in their type."""

    low: Tensor
    high: Tensor

    def __init__(self, low: Tensor, high: Tensor) -> None:
        super().__init__()
        self.register_buffer("low", low.clone())
        self.register_buffer("high", high.clone())

    def forward(self, x: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(x.to(self.low), self.low), self.high)


class TorchNetwork(nn.Module):
    """Standardisation, the network of Eq. 1, linear scores; in the dtype and on the device of V.

    It shares no memory with its arguments. `shift` and `scale` hold one number per input, `intercept` one per row of V.
    """

    shift: Tensor | None
    scale: Tensor | None

    def __init__(
        self,
        network: Network,
        W: Weights,
        V: Tensor,
        shift: Tensor | None = None,
        scale: Tensor | None = None,
        intercept: Tensor | None = None,
        sparse: bool = False,
    ) -> None:
        super().__init__()
        network.check_weights(W)
        _check_head(network, V)
        _check_vector("shift", shift, network.widths[0])
        _check_vector("scale", scale, network.widths[0])
        _check_vector("intercept", intercept, len(V))
        if scale is not None and not bool((scale.isfinite() & (scale != 0)).all()):
            raise ValueError("scale must hold finite numbers other than 0; use 1 for a constant feature")
        self.inputs, self.depth = network.widths[0], network.depth
        self.lower, self.upper = network.activation.lower, network.activation.upper
        self.sources: list[tuple[int, list[int]]] = [(n, []) for n in network.hidden]
        self.edges = nn.ModuleDict()
        self.biases = nn.ParameterDict()
        make = _smaller if sparse else _linear
        for n, sources in self.sources:
            for m in network.sources(n):
                term = network.edges[n, m].export(W.get((n, m)))
                if isinstance(term, Constant):
                    self.biases[str(n)] = nn.Parameter(_copy(term.values, V))
                    continue
                sources.append(m)
                self.edges[_key(n, m)] = make(_copy(term.matrix, V)) if isinstance(term, Product) else nn.Identity()
        self.head: nn.Linear | SparseLinear = make(_copy(V, V), None if intercept is None else _copy(intercept, V))
        for name, vector in (("shift", shift), ("scale", scale)):
            # Where they are more exact than V, inputs are scaled in their type.
            wide = vector if vector is None else _copy(vector, V.to(torch.promote_types(vector.dtype, V.dtype)))
            self.register_buffer(name, wide)

    def forward(self, x: Tensor) -> Tensor:
        """The scores, one row for each row of x."""
        if x.shape[-1] != self.inputs:  # a single column would be broadcast by shift and scale
            raise ValueError(f"x must have {self.inputs} columns, got shape {tuple(x.shape)}")
        if self.shift is not None:
            x = x - self.shift
        if self.scale is not None:
            x = x / self.scale
        u = {0: x.to(self.head.weight.dtype)}
        for n, sources in self.sources:
            terms = [self.edges[_key(n, m)](u[m]) for m in sources]
            if str(n) in self.biases:
                terms.append(self.biases[str(n)])
            z = terms[0]
            for term in terms[1:]:
                z = z + term
            # torch and its exporters know a ReLU as one operation.
            u[n] = z.relu() if (self.lower, self.upper) == (0.0, math.inf) else z.clamp(self.lower, self.upper)
        scores: Tensor = self.head(u[self.depth])
        return scores


def _key(n: int, m: int) -> str:
    """`2_1` for the edge (2, 1); names of submodules cannot hold a dot."""
    return f"{n}_{m}"


def _copy(values: Tensor, like: Tensor) -> Tensor:
    return values.detach().to(like.device, like.dtype, copy=True).contiguous()


def _linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    # On the meta device the layer draws no initial weights: neither time nor torch's random state is spent.
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight)
    if bias is not None:
        layer.bias = nn.Parameter(bias)
    return layer


def _smaller(weight: Tensor, bias: Tensor | None = None) -> nn.Linear | SparseLinear:
    """Sparse where that takes less memory: a value and a 32-bit column for each nonzero, a 32-bit end for each row."""
    entries = int(weight.count_nonzero())
    size = weight.element_size()
    if (size + 4) * entries + 4 * (len(weight) + 1) < size * weight.numel():
        return SparseLinear(weight, bias)
    return _linear(weight, bias)


class SparseLinear(nn.Module):
    """`x W' + b` with W as compressed sparse rows; W is a buffer, so it is moved and saved but not trained."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch says once that its CSR tensors may change
            rows = weight.to_sparse_csr()
            ends, columns = rows.crow_indices().int(), rows.col_indices().int()  # 32 bits are what MKL takes
            rows = torch.sparse_csr_tensor(ends, columns, rows.values(), weight.shape, check_invariants=True)
        self.register_buffer("weight", rows)
        self.register_buffer("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        product = (self.weight @ x.reshape(-1, x.shape[-1]).T).T.reshape(*x.shape[:-1], -1)
        return product if self.bias is None else product + self.bias


def _check_head(network: Network, V: Tensor) -> None:
    if V.ndim != 2 or V.shape[1] != network.widths[-1] or not V.is_floating_point():
        raise ValueError(
            f"V must be a floating-point matrix with {network.widths[-1]} columns, the width of the last layer, "
            f"got {V.dtype} of shape {tuple(V.shape)}"
        )


def _check_vector(name: str, values: Tensor | None, length: int) -> None:
    if values is not None and tuple(values.shape) != (length,):
        raise ValueError(f"{name} must have shape ({length},), got {tuple(values.shape)}")
