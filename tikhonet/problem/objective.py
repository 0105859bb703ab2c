"""Eq. 4: the lifted objective f(U, V, W), term by term, and how far a point is from stationary.

    f = sum_i loss(y_i, V u_{i,N}) + sum_n gamma_n sum_i D(u_{i,n}, z_{i,n}) + ridges on V and W

over U in the activation's interval (ReLU: U >= 0), V and W in their sets, with z_n the sum over m in M_n of
W_{n,m} u_m.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Layers, Network, Pair, Weights
from tikhonet.problem.lifts import Lift, Tikhonov
from tikhonet.problem.losses import Loss, Squared
from tikhonet.problem.samples import Samples, rows_of
from tikhonet.problem.sets import Columns, ConvexSet, Everything


@dataclass(frozen=True)
class Blocks:
    """The three blocks of variables; `U` holds the given layers too, `U[0]` being X."""

    U: Layers
    V: Tensor
    W: Weights


@dataclass(frozen=True)
class Terms:
    """The value of Eq. 4 by term: the loss, each layer's lift (with its gamma), the ridges."""

    loss: float
    lift: dict[int, float]
    ridge_V: float = 0.0
    ridge_W: float = 0.0

    @property
    def total(self) -> float:
        return math.fsum([self.loss, *self.lift.values(), self.ridge_V, self.ridge_W])


@dataclass(frozen=True)
class Stationarity:
    """|B - Proj(B - grad_B f)| for each block B, in float64: zero exactly at stationary points."""

    residual: dict[str, float]

    @property
    def total(self) -> float:
        return math.hypot(*self.residual.values())

    def tolerance(self, tol: float) -> dict[str, float]:
        """The residual that a run from here allows each block: inputs in large units must not excuse more than W."""
        return {block: tol * max(1.0, value) for block, value in self.residual.items()}

    def within(self, tolerance: Mapping[str, float]) -> bool:
        return all(value <= tolerance[block] for block, value in self.residual.items())


@dataclass(frozen=True)
class Problem:
    """network x lift x loss x sets x gamma: all that defines Eq. 4 but the samples.

    `gamma` is one positive number or one per hidden layer; `W_set` one set for every learned edge
    or one per edge (biases are free); the ridges are `ridge / 2 |.|^2`, biases exempt.
    """

    network: Network
    loss: Loss = Squared()
    lift: Lift = Tikhonov()
    gamma: float | tuple[float, ...] = 0.1
    V_set: ConvexSet = Everything()
    W_set: ConvexSet | Mapping[Pair, ConvexSet] = Everything()
    ridge_V: float = 0.0
    ridge_W: float = 0.0

    def __post_init__(self) -> None:
        depth = self.network.depth
        gamma = [self.gamma] * depth if isinstance(self.gamma, (int, float, Real)) else list(self.gamma)
        if isinstance(self.gamma, Mapping):
            raise ValueError("gamma must be a number or a sequence, one per hidden layer in order, got a mapping")
        if len(gamma) != depth:
            raise ArgumentError(
                "gamma",
                f"gamma must hold one positive number per hidden layer ({depth}), got {len(gamma)}; "
                "pass a scalar to share it",
            )
        for layer, value in enumerate(gamma, 1):
            if not 0 < value < math.inf:
                raise ValueError(f"gamma must be positive and finite, got {value} for layer {layer}")
        for name in ("ridge_V", "ridge_W"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be non-negative and finite, got {getattr(self, name)}")
        if isinstance(self.W_set, Mapping):
            unknown = set(self.W_set) - set(self.network.learned)
            if unknown:
                raise ValueError(
                    f"W_set names edges that are not learned: {sorted(unknown)}; "
                    f"learned are {list(self.network.learned)}"
                )
        for edge in self.network.learned:
            self.edge_set(edge).check(self.network.shape(edge), f"W[{edge[0]}, {edge[1]}]")

    def gamma_of(self, n: int) -> float:
        return float(self.gamma if isinstance(self.gamma, (int, float, Real)) else self.gamma[n - 1])

    def edge_set(self, edge: Pair) -> ConvexSet:
        if isinstance(self.W_set, Mapping):
            return self.W_set.get(edge, Everything())
        return self.W_set if self.network.edges[edge].penalised else Everything()

    def layer_set(self, n: int) -> ConvexSet:
        """The set of all learned matrices of layer n side by side."""
        sets = tuple(self.edge_set((n, m)) for m in self.network.learned_sources(n))
        if all(set_.everything for set_ in sets):
            return Everything()
        return Columns(sets, tuple(self.network.stacked_widths(n)))

    def edge_ridge(self, edge: Pair) -> float:
        return self.ridge_W if self.network.edges[edge].penalised else 0.0

    def feature_groups(self) -> tuple[tuple[int, ...], ...]:
        """The convex blocks of U: all hidden layers at once, or one by one from the last."""
        hidden = self.network.hidden
        return (hidden,) if self.lift.quadratic else tuple((n,) for n in reversed(hidden))

    def check(self, samples: Samples) -> None:
        """Raise unless the samples fit the network, the loss and the set of V."""
        inputs = self.network.widths[0]
        if samples.X.shape[1] != inputs:
            raise ValueError(
                f"X must have {inputs} columns, the width of the network's input, got {samples.X.shape[1]}"
            )
        self.loss.check(samples.targets)
        self.V_set.check((samples.targets.shape[1], self.network.widths[-1]), "V")

    def objective(self, blocks: Blocks, samples: Samples) -> Terms:
        """Eq. 4 at these blocks; elementwise in their type, summed in float64."""
        return self.update_terms(Terms(0.0, {}), blocks, samples, "U", self.network.hidden)

    def update_terms(
        self, terms: Terms, blocks: Blocks, samples: Samples, block: str, layers: tuple[int, ...]
    ) -> Terms:
        """Eq. 4 where only these layers of one block ("U", "V" or "W") differ from where `terms` was taken."""

        def loss(rows: slice) -> Tensor:
            scores = blocks.U[self.network.depth][rows] @ blocks.V.T
            return self.loss.rows(samples.targets[rows], scores)

        def lift(n: int) -> float:
            def value(rows: slice) -> Tensor:
                U = rows_of(blocks.U, rows)
                return self.lift.value(U[n], self.network.pre_activation(n, U, blocks.W), self.network.activation)

            return self.gamma_of(n) * samples.weighted_sum(value)

        moved = set(layers).union(*(self.network.targets(n) for n in layers)) if block == "U" else set(layers)
        return Terms(
            loss=samples.weighted_sum(loss) if block == "V" or self.network.depth in moved else terms.loss,
            lift=terms.lift | {n: lift(n) for n in self.network.hidden if n in moved},
            ridge_V=0.5 * self.ridge_V * float(blocks.V.double().square().sum()),
            ridge_W=sum(
                0.5 * self.edge_ridge(edge) * float(matrix.double().square().sum()) for edge, matrix in blocks.W.items()
            ),
        )

    def feature_gradient(self, U: Layers, V: Tensor, W: Weights, targets: Tensor) -> tuple[Layers, Layers]:
        """Gradients of one sample's terms in its U[n] and, for the W-step, in its Z[n]."""
        network, last = self.network, self.network.depth
        Z = {n: network.pre_activation(n, U, W) for n in network.hidden}
        grad_Z = {n: self.gamma_of(n) * self.lift.grad_Z(U[n], Z[n], network.activation) for n in network.hidden}
        grad_U = {n: self.gamma_of(n) * (U[n] - Z[n]) for n in network.hidden}
        for (k, n), edge in network.edges.items():
            if n in grad_U:
                grad_U[n] += edge.adjoint(grad_Z[k], W.get((k, n)))
        grad_U[last] += self.loss.slope(targets, U[last] @ V.T) @ V
        return grad_U, grad_Z

    def stationarity(self, blocks: Blocks, samples: Samples) -> Stationarity:
        """The projected-gradient residual of every block, computed in float64 from the samples."""
        last = self.network.depth
        V = blocks.V.double()
        W = {edge: matrix.double() for edge, matrix in blocks.W.items()}
        grad_V = self.ridge_V * V
        grad_W = {edge: self.edge_ridge(edge) * matrix for edge, matrix in W.items()}
        sums: dict[str, Tensor] = {}

        def add(name: str, part: Tensor) -> None:
            sums[name] = part if name not in sums else sums[name] + part

        for rows in samples.chunks():
            U = rows_of(blocks.U, rows, torch.float64)
            targets = samples.targets[rows].double()
            grad_U, grad_Z = self.feature_gradient(U, V, W, targets)
            for n in self.network.hidden:
                gradient = samples.weigh(grad_U[n], rows)
                add("U", (U[n] - self.network.activation.value_(U[n] - gradient)).square().sum())
            slope = samples.weigh(self.loss.slope(targets, U[last] @ V.T), rows)
            add("V", slope.T @ U[last])
            for n, m in W:
                add(f"{n},{m}", self.network.edges[n, m].product(samples.weigh(grad_Z[n], rows), U[m]))
        sums = {name: samples.reduce(part) for name, part in sums.items()}
        grad_V = grad_V + sums["V"]
        residual_W = 0.0
        for edge, matrix in W.items():
            gradient = grad_W[edge] + sums[f"{edge[0]},{edge[1]}"]
            residual_W += float((matrix - self.edge_set(edge).project(matrix - gradient)).square().sum())
        residual_V = float((V - self.V_set.project(V - grad_V)).norm())
        return Stationarity({"U": float(sums["U"]) ** 0.5, "V": residual_V, "W": residual_W**0.5})
