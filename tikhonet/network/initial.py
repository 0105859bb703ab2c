"""Where training begins: random weights for a network, by name.

"gaussian" draws every matrix at random, `Network.random_weights`. In a deep plain network it loses the signal: the
directions of all samples grow alike from layer to layer. "looks-linear" starts such a network as a linear map that
keeps angles: units come in pairs with opposite weights, one of which passes a positive value and the other a negative
one, so that the next layer can undo the ReLU,

    W[1] = [A; -A],    W[n] = [[O, -O], [-O, O]],    max(0, x) - max(0, -x) = x,

with A Gaussian and O random with orthonormal rows or columns. "auto" takes "looks-linear" for networks deeper than
`DEEP` layers without identity edges, and "gaussian" for all others.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Network, Weights

Initial = Literal["auto", "gaussian", "looks-linear"]

DEEP = 3
"""Hidden layers up to which Gaussian weights train as well or better."""


def initial_weights(
    network: Network,
    kind: Initial = "auto",
    seed: int = 0,
    scale: float = 1.0,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Weights:
    """Random weights of this kind; biases start at zero.

    `scale` is that of `random_weights`; for "looks-linear" it scales A, the other matrices keep norms as they are.
    """
    check_initial(kind)
    if kind == "gaussian" or (kind == "auto" and not deep_and_plain(network)):
        return network.random_weights(seed, scale, dtype=dtype, device=device)
    if network.has_images:
        raise ArgumentError("initial", "initial must be 'gaussian' or 'auto' for layers of images, got 'looks-linear'")
    generator = torch.Generator().manual_seed(seed)
    W = {(n, m): looks_linear(network, n, m, scale, generator) for n, m in network.learned}
    return {edge: matrix.to(device, dtype) for edge, matrix in W.items()}


def check_initial(kind: str) -> None:
    if kind not in get_args(Initial):
        raise ValueError(f"initial must be one of {', '.join(map(repr, get_args(Initial)))}, got {kind!r}")


def deep_and_plain(network: Network) -> bool:
    """More than `DEEP` flat hidden layers, and no fixed edge that brings a layer's signal past the ones in between."""
    return network.depth > DEEP and len(network.learned) == len(network.edges) and not network.has_images


def looks_linear(network: Network, n: int, m: int, scale: float, generator: torch.Generator) -> Tensor:
    """The matrix of one edge, in float64, divided by the root of the number of matrices that are added up.

    The middle unit of an odd width has no partner: it starts with a row like the others and is read by none, so the
    network still looks linear.
    """
    rows, columns = network.shape((n, m))
    if network.edges[n, m].constant:
        return torch.zeros(rows, columns, dtype=torch.float64)
    sources = [source for source in network.learned_sources(n) if not network.edges[n, source].constant]
    half = -(-rows // 2)
    if m == 0 or columns == 1:
        block = torch.randn(half, columns, generator=generator, dtype=torch.float64) * (scale * (2 / columns) ** 0.5)
    else:
        pairs = columns // 2
        core = orthogonal(half, pairs, generator)
        block = torch.cat([core, core.new_zeros(half, columns % 2), -core], 1)
    matrix: Tensor = torch.cat([block, -block[: rows // 2]]) / len(sources) ** 0.5
    return matrix


def orthogonal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """A random matrix with orthonormal columns, or with orthogonal rows that keep a random vector's norm."""
    draw = torch.randn(max(rows, columns), min(rows, columns), generator=generator, dtype=torch.float64)
    Q, R = torch.linalg.qr(draw)
    Q = Q * R.diagonal().sign()  # without it Q is not uniformly distributed
    matrix: Tensor = Q if rows >= columns else Q.T * (columns / rows) ** 0.5
    return matrix
