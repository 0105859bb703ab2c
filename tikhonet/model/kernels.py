"""Eq. 1 for a sparse network, and the choice of the fastest way to compute something."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array, vstack
from torch import Tensor

from tikhonet.model.scaling import Floats
from tikhonet.network.edges import Edge
from tikhonet.network.graph import Network, Pair, Weights
from tikhonet.network.operations import Constant, Product

Kernel = Callable[[Floats], Floats]

SIZES = (1, 16, 256)
"""Numbers of rows between which one measurement holds."""
ROUNDS = 3
UNITS = 256
"""Units of a layer whose values an operator is asked for at a time."""


@dataclass(frozen=True, eq=False)
class SparseLayers:
    """A network with matrices as compressed sparse rows; its other edges are vectors, or hand on their source."""

    network: Network
    weights: dict[Pair, csr_array]
    biases: dict[Pair, Floats]

    @classmethod
    def of(cls, network: Network, W: Weights, dtype: Any) -> SparseLayers:
        weights, biases = {}, {}
        for pair, edge in network.edges.items():
            if edge.window(W.get(pair)):
                weights[pair] = operator_rows(edge, W.get(pair), dtype)
                continue
            match edge.export(W.get(pair)):
                case Constant(values):
                    biases[pair] = values.detach().cpu().numpy().astype(dtype)
                case Product(matrix):
                    weights[pair] = csr_array(matrix.detach().cpu().numpy().astype(dtype))
        return cls(network, weights, biases)

    def features(self, scaled: Floats) -> Floats:
        """The last hidden layer for scaled inputs, samples x width."""
        # A column for each row; a single row is a vector, which SciPy multiplies faster.
        U = {0: np.ascontiguousarray((scaled[0] if len(scaled) == 1 else scaled).T)}
        activation = self.network.activation
        for n in self.network.hidden:
            terms = [self._term((n, m), U) for m in self.network.sources(n)]
            Z = terms[0] + terms[1] if len(terms) > 1 else terms[0]
            for term in terms[2:]:
                Z += term
            U[n] = np.maximum(Z, activation.lower)
            if activation.upper < np.inf:
                np.minimum(U[n], activation.upper, out=U[n])
        return U[self.network.depth].T.reshape(len(scaled), self.network.widths[-1])

    def _term(self, pair: Pair, U: Mapping[int, Floats]) -> Any:
        if pair in self.biases:
            return self.biases[pair] if U[0].ndim == 1 else self.biases[pair][:, None]
        return self.weights[pair] @ U[pair[1]] if pair in self.weights else U[pair[1]]


def operator_rows(edge: Edge, W: Tensor | None, dtype: Any) -> csr_array:
    """The matrix of any operator as sparse rows, found by its values at some units of the source at a time."""
    parts, like = [], torch.empty(0) if W is None else W.detach().cpu()
    for units in torch.arange(edge.inputs).split(UNITS):
        ones = like.new_zeros(len(units), edge.inputs)
        ones[torch.arange(len(units)), units] = 1
        parts.append(csr_array(edge.apply(ones, None if W is None else like).numpy().astype(dtype)))
    return csr_array(vstack(parts).T)


class Fastest:
    """The fastest of several kernels with equal values: that depends on the number of rows and on the machine.

    The first call with about so many rows times the kernels in turn on these rows; later calls use the winner. Kernels
    are made by the functions given, each when it is first needed.
    """

    def __init__(self, makers: Mapping[str, Callable[[], Kernel]]) -> None:
        self.seconds: dict[int, dict[str, float]] = {}
        """Measurements: for each entry of SIZES (the last for all above) the seconds of each kernel."""
        self._makers, self._kernels, self._chosen = makers, dict[str, Kernel](), dict[int, str]()

    def __call__(self, X: Floats) -> Floats:
        return self._get(self.choose(X))(X)

    def choose(self, rows: Floats) -> str:
        """The kernel for so many rows; the first time it is found by running all on (some of) these."""
        size = bisect_left(SIZES, len(rows))
        if size not in self._chosen:
            self._chosen[size] = self._measure(rows[: 4 * SIZES[-1]], size)
        return self._chosen[size]

    def _measure(self, rows: Floats, size: int) -> str:
        if len(self._makers) == 1:
            return next(iter(self._makers))
        seconds = dict.fromkeys(self._makers, float("inf"))
        for name in seconds:
            self._get(name)(rows)  # kernels are built, caches are warm
        for _ in range(ROUNDS):
            for name in seconds:
                start = time.perf_counter()
                self._get(name)(rows)
                seconds[name] = min(seconds[name], time.perf_counter() - start)
        self.seconds[size] = seconds
        return min(seconds, key=seconds.__getitem__)

    def _get(self, name: str) -> Kernel:
        if name not in self._kernels:
            self._kernels[name] = self._makers[name]()
        return self._kernels[name]
