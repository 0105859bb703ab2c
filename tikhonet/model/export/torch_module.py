"""Eq. 1 and the classifier on top as a plain `torch.nn.Module`, for use without this library's solvers.

    u_0 = (e - shift) / scale,   u_n = activation(sum over m in M_n of W_{n,m} u_m),   scores = link(V u_N + intercept)

e is the encoded row x; a row of numbers alone is its own. The module is made of `nn.Linear`, `nn.Identity` and, for
images, `nn.Conv2d` and means, one for each edge, so tools that look for these find them; a sparse module has
`SparseLinear` in place of `nn.Linear` for the matrices that are smaller so.
"""

from __future__ import annotations

import io
import math
import warnings

import torch
from torch import Tensor, nn

from tikhonet.model.encoding import Encoding
from tikhonet.model.export.format import Export, Format, dense_ram
from tikhonet.model.model import Model
from tikhonet.model.scaling import Floats, Scaling
from tikhonet.network.operations import Constant, Product, Source, linear


def to_torch(model: Model, *, sparse: bool = False) -> nn.Module:
    """A module with the model's scores, in float64; `module.float()` halves it.

    With `sparse`, matrices are kept as compressed sparse rows where that takes less memory; such a module predicts and
    is not trained further.
    """
    return nn.Sequential(*front(model.checked()), TorchNetwork(model, torch.float64, sparse))


def torch_program(model: Model) -> bytes:
    """The module in float32 as a file that torch runs without this library, for any number of rows.

    `torch.export.load(path).module()(x)` gives the scores. The scaling is done in float64: where a feature's mean is
    large against its spread, the difference has no digits left in float32.
    """
    module = nn.Sequential(*front(model.checked()), TorchNetwork(model.astype("float32"), torch.float32))
    module.eval().requires_grad_(False)
    rows = torch.export.Dim("rows")
    program = torch.export.export(module, (torch.zeros(2, model.fields),), dynamic_shapes=({0: rows},))
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


def front(model: Model) -> list[nn.Module]:
    """What comes before the network."""
    encode = [] if model.encoding is None else [Encode(model.encoding, model.scaling)]
    return [*encode, Clip(model.scaling, len(model.network.shapes[0]) > 1)]


class Encode(nn.Module):
    """A row of fields as the numbers that the scaling takes, in float64; a missing one without a fill is the mean."""

    fill: Tensor
    numbers: Tensor
    missing: Tensor
    pieces: Tensor
    low: Tensor
    width: Tensor
    coded: Tensor
    code: Tensor
    mean: Tensor

    def __init__(self, encoding: Encoding, scaling: Scaling) -> None:
        super().__init__()
        for name in ("fill", "low", "width", "code"):
            self.register_buffer(name, _copy(getattr(encoding, name), torch.float64))
        for name in ("numbers", "missing", "pieces", "coded"):
            self.register_buffer(name, _copy(getattr(encoding, name), torch.int64))
        self.register_buffer("mean", _copy(scaling.shift, torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != len(self.fill):
            raise ValueError(f"x must have {len(self.fill)} columns, got shape {tuple(x.shape)}")
        x = x.to(self.fill)
        absent = x.isnan()
        filled = torch.where(absent, self.fill, x)
        pieces = ((filled[..., self.pieces] - self.low) / self.width).clamp(0.0, 1.0)
        codes = (filled[..., self.coded] == self.code).to(x)
        made = torch.cat((filled[..., self.numbers], absent[..., self.missing].to(x), pieces, codes), -1)
        return torch.where(made.isnan(), self.mean, made)


class Clip(nn.Module):
    """Each input within its bounds, in their type; images in their shape become rows."""

    low: Tensor
    high: Tensor

    def __init__(self, scaling: Scaling, images: bool) -> None:
        super().__init__()
        self.images = images
        self.register_buffer("low", _copy(scaling.low, torch.float64))
        self.register_buffer("high", _copy(scaling.high, torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1) if self.images and x.ndim == 4 else x
        return torch.minimum(torch.maximum(x.to(self.low), self.low), self.high)


class TorchNetwork(nn.Module):
    """Standardisation in float64, the network of Eq. 1 and linear scores in `dtype`, in memory of its own."""

    shift: Tensor
    scale: Tensor

    def __init__(self, model: Model, dtype: torch.dtype, sparse: bool = False) -> None:
        super().__init__()
        network, head = model.network, model.linear_head
        self.inputs, self.depth = network.widths[0], network.depth
        self.lower, self.upper = network.activation.lower, network.activation.upper
        self.sources: list[tuple[int, list[int]]] = [(n, []) for n in network.hidden]
        self.edges = nn.ModuleDict()
        self.biases = nn.ParameterDict()
        make = _smaller if sparse else linear
        for n, sources in self.sources:
            for m in network.sources(n):
                edge, W = network.edges[n, m], model.W.get((n, m))
                if edge.by_image:
                    shaped = nn.Unflatten(1, edge.source), edge.module(W).to("cpu", dtype), nn.Flatten()
                    sources.append(m)
                    self.edges[_key(n, m)] = nn.Sequential(*shaped)
                    continue
                match edge.export(W):
                    case Constant(values):
                        self.biases[str(n)] = nn.Parameter(_copy(values, dtype))
                        continue
                    case Product(matrix):
                        self.edges[_key(n, m)] = make(_copy(matrix, dtype))
                    case Source():
                        self.edges[_key(n, m)] = nn.Identity()
                sources.append(m)
        intercept = _copy(head.intercept, dtype) if model.head else None
        self.head: nn.Linear | SparseLinear = make(_copy(head.coef, dtype), intercept)
        self.link = model.link
        self.register_buffer("shift", _copy(model.scaling.shift, torch.float64))
        self.register_buffer("scale", _copy(model.scaling.scale, torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """The scores, one row for each row of x."""
        if x.shape[-1] != self.inputs:  # a single column would be broadcast by shift and scale
            raise ValueError(f"x must have {self.inputs} columns, got shape {tuple(x.shape)}")
        u = {0: ((x - self.shift) / self.scale).to(self.head.weight.dtype)}
        for n, sources in self.sources:
            terms = [self.edges[_key(n, m)](u[m]) for m in sources]
            if str(n) in self.biases:
                terms.append(self.biases[str(n)])
            z = terms[0]
            for term in terms[1:]:
                z = z + term
            # torch and its exporters know a ReLU as one operation.
            u[n] = z.relu() if (self.lower, self.upper) == (0.0, math.inf) else z.clamp(self.lower, self.upper)
        return self.link.of(self.head(u[self.depth]))


def _key(n: int, m: int) -> str:
    """`2_1` for the edge (2, 1); names of submodules cannot hold a dot."""
    return f"{n}_{m}"


def _copy(values: Tensor | Floats, dtype: torch.dtype) -> Tensor:
    return torch.as_tensor(values).detach().to("cpu", dtype, copy=True).contiguous()


def _smaller(weight: Tensor, bias: Tensor | None = None) -> nn.Linear | SparseLinear:
    """Sparse where that takes less memory: a value and a 32-bit column for each nonzero, a 32-bit end for each row."""
    entries = int(weight.count_nonzero())
    size = weight.element_size()
    if (size + 4) * entries + 4 * (len(weight) + 1) < size * weight.numel():
        return SparseLinear(weight, bias)
    return linear(weight, bias)


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
