"""Eq. 4: the lifted objective f(U, V, W), term by term, and its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tikhonet.network.arguments import NON_NEGATIVE, check_numbers, check_type
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Layers, Network, Pair, Weights
from tikhonet.problem.lifts import Lift, Tikhonov
from tikhonet.problem.losses import Loss, Squared
from tikhonet.problem.samples import Samples, rows_of
from tikhonet.problem.sets import Columns, ConvexSet, Everything


@dataclass(frozen=True)
class Blocks:
    """The three blocks of variables of Eq. 4.

    Parameters
    ----------
    U : dict of int to Tensor
        The layers, the given ones too: U[0] is X.
    V : Tensor
        The classifier, outputs x width of the last layer.
    W : dict of (n, m) to Tensor
        The matrices of the learned edges.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Blocks, Network
    >>> network = Network.chain([3, 4])
    >>> W = network.random_weights()
    >>> blocks = Blocks(network.forward(torch.ones(5, 3), W), torch.zeros(2, 4), W)
    >>> blocks.U[1].shape
    torch.Size([5, 4])
    """

    U: Layers
    V: Tensor
    W: Weights

    def norms(self) -> dict[str, float]:
        """The norms of V and of each W.

        Returns
        -------
        dict of str to float
            By the names "V" and "W[n,m]".
        """
        named = {"V": self.V} | {f"W[{n},{m}]": matrix for (n, m), matrix in self.W.items()}
        return {name: float(matrix.double().norm()) for name, matrix in named.items()}


@dataclass(frozen=True)
class Terms:
    """The value of Eq. 4 by term.

    Parameters
    ----------
    loss : float
        The loss of the classifier's scores.
    lift : dict of int to float
        The penalty of each hidden layer, times its gamma.
    ridge_V : float, default=0.0
        The ridge of V.
    ridge_W : float, default=0.0
        The ridges of all W.

    Examples
    --------
    >>> from tikhonet import Terms
    >>> Terms(loss=2.0, lift={1: 0.5}).total
    2.5
    """

    loss: float
    lift: dict[int, float]
    ridge_V: float = 0.0
    ridge_W: float = 0.0

    @property
    def total(self) -> float:
        """The value of f: the sum of all terms."""
        return math.fsum([self.loss, *self.lift.values(), self.ridge_V, self.ridge_W])


class Slopes(NamedTuple):
    """Gradients of samples' terms of f, one row per sample, and the pre-activations that they were computed from."""

    U: Layers
    Z: Layers
    scores: Tensor
    pre_activation: Layers


@dataclass(frozen=True)
class Problem:
    """All that defines the lifted objective (Eq. 4) but the samples.

        ``f(U, V, W) = sum_i loss(y_i, V u_{i,N}) + sum_n gamma_n sum_i D(u_{i,n}, z_{i,n}) + ridges``

    over U in the activation's interval and V and W in their sets, with z_n the sum over m of ``W_{n,m} u_m``.

    Parameters
    ----------
    network : Network
        The graph of layers.
    loss : Loss or str, default=Squared()
        The loss of the classifier's scores, or its name.
    lift : Lift or str, default=Tikhonov()
        How the activation is lifted, or its name.
    gamma : float or tuple of float, default=0.1
        The weight of the lift: one positive number, or one for each hidden layer.
    V_set : ConvexSet, default=Everything()
        The set of V.
    W_set : ConvexSet or mapping of (n, m) to ConvexSet, default=Everything()
        One set for every learned edge, or one for each; biases are free.
    ridge_V : float, default=0.0
        The weight of ``1/2 |V|^2``.
    ridge_W : float, default=0.0
        The weight of ``1/2 |W|^2``, biases exempt.

    Examples
    --------
    >>> from tikhonet import Network, Problem, RowL1Ball
    >>> problem = Problem(Network.chain([3, 4]), lift="fenchel", gamma=1.0, W_set=RowL1Ball(2.0), ridge_V=0.1)
    >>> problem.unbounded()
    []
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
        check_type("network", self.network, Network)
        for name, kind in (("loss", Loss), ("lift", Lift)):
            choice = getattr(self, name)
            object.__setattr__(self, name, kind.kinds[choice]() if isinstance(choice, str) else choice)
            check_type(name, getattr(self, name), kind, remedy=f"or a name: {', '.join(map(repr, kind.kinds))}")
        check_type("V_set", self.V_set, ConvexSet)
        check_type("W_set", self.W_set, ConvexSet, Mapping)
        check_type("gamma", self.gamma, Real, Sequence, np.ndarray, Tensor)
        check_numbers(self, NON_NEGATIVE, ["ridge_V", "ridge_W"])
        depth = self.network.depth
        gamma = [self.gamma] * depth if isinstance(self.gamma, (int, float, Real)) else list(self.gamma)
        if len(gamma) != depth:
            raise ArgumentError(
                "gamma",
                f"gamma must hold one positive number per hidden layer ({depth}), got {len(gamma)}; "
                "pass a scalar to share it",
            )
        for layer, value in enumerate(gamma, 1):
            number = value.item() if isinstance(value, Tensor) else value
            if isinstance(number, bool) or not isinstance(number, Real) or not 0 < number < math.inf:
                raise ArgumentError("gamma", f"gamma must be positive and finite, got {value} for layer {layer}")
        if isinstance(self.W_set, Mapping):
            for part in self.W_set.values():
                check_type("W_set", part, ConvexSet)
            unknown = set(self.W_set) - set(self.network.learned)
            if unknown:
                raise ValueError(
                    f"W_set names edges that are not learned: {sorted(unknown)}; "
                    f"learned are {list(self.network.learned)}"
                )
        for edge in self.network.learned:
            self.edge_set(edge).check(self.network.shape(edge), f"W[{edge[0]}, {edge[1]}]")

    def gamma_of(self, n: int) -> float:
        """The weight of the lift of layer n.

        Parameters
        ----------
        n : int
            A hidden layer.

        Returns
        -------
        float
            gamma_n.
        """
        return float(self.gamma if isinstance(self.gamma, (int, float, Real)) else self.gamma[n - 1])

    def edge_set(self, edge: Pair) -> ConvexSet:
        """The set of the matrix of an edge.

        Parameters
        ----------
        edge : (int, int)
            The edge `(n, m)`.

        Returns
        -------
        ConvexSet
            `Everything()` for a bias.
        """
        if isinstance(self.W_set, Mapping):
            return self.W_set.get(edge, Everything())
        return self.W_set if self.network.edges[edge].penalised else Everything()

    def layer_set(self, n: int) -> ConvexSet:
        """The set of all learned matrices of layer n side by side.

        Parameters
        ----------
        n : int
            A hidden layer.

        Returns
        -------
        ConvexSet
            The set.
        """
        sets = tuple(self.edge_set((n, m)) for m in self.network.learned_sources(n))
        if all(set_.everything for set_ in sets):
            return Everything()
        return Columns(sets, tuple(self.network.stacked_widths(n)))

    def edge_ridge(self, edge: Pair) -> float:
        """The ridge of the matrix of an edge.

        Parameters
        ----------
        edge : (int, int)
            The edge `(n, m)`.

        Returns
        -------
        float
            0 for a bias.
        """
        return self.ridge_W if self.network.edges[edge].penalised else 0.0

    def layer_ridge(self, n: int) -> Tensor:
        """The ridge of every column of the learned matrices of layer n side by side.

        Parameters
        ----------
        n : int
            A hidden layer.

        Returns
        -------
        Tensor
            In float64.
        """
        ridges = [self.edge_ridge((n, m)) for m in self.network.learned_sources(n)]
        widths = torch.tensor(self.network.stacked_widths(n))
        return torch.tensor(ridges, dtype=torch.float64).repeat_interleave(widths)

    def unbounded(self) -> list[str]:
        """The names of V and the W that could grow without end while f falls.

        Neither a ridge nor a bounded set holds them. Where there are none U is bounded too:
        ``D(u, z) >= 1/2 |u - sigma(z)|^2``, and f does not rise.

        Returns
        -------
        list of str
            Such as "V" and "W[1,0]".
        """
        held = {"V": self.ridge_V > 0 or self.V_set.bounded}
        for n, m in self.network.learned:
            held[f"W[{n},{m}]"] = self.edge_ridge((n, m)) > 0 or self.edge_set((n, m)).bounded
        return [name for name, is_held in held.items() if not is_held]

    def feature_groups(self) -> tuple[tuple[int, ...], ...]:
        """The convex blocks of U: all hidden layers at once, or one by one from the last.

        Returns
        -------
        tuple of tuple of int
            The layers of each block.
        """
        hidden = self.network.hidden
        return (hidden,) if self.lift.quadratic else tuple((n,) for n in reversed(hidden))

    def check(self, samples: Samples) -> None:
        """Raise unless the samples fit the network, the loss and the set of V.

        Parameters
        ----------
        samples : Samples
            The training samples.
        """
        inputs = self.network.widths[0]
        if samples.X.shape[1] != inputs:
            raise ValueError(
                f"X must have {inputs} columns, the width of the network's input, got {samples.X.shape[1]}"
            )
        self.loss.check(samples.targets)
        self.V_set.check((samples.targets.shape[1], self.network.widths[-1]), "V")

    def objective(self, blocks: Blocks, samples: Samples) -> Terms:
        """Eq. 4 at these blocks; elementwise in their type, summed in float64.

        Parameters
        ----------
        blocks : Blocks
            A point.
        samples : Samples
            The training samples.

        Returns
        -------
        Terms
            The value by term; `total` is f.
        """
        return self.update_terms(Terms(0.0, {}), blocks, samples, "U", self.network.hidden)

    def update_terms(
        self, terms: Terms, blocks: Blocks, samples: Samples, block: str, layers: tuple[int, ...]
    ) -> Terms:
        """Eq. 4 where only some layers of one block differ from where `terms` was taken.

        Parameters
        ----------
        terms : Terms
            The value before.
        blocks : Blocks
            The new point.
        samples : Samples
            The training samples.
        block : str
            "U", "V" or "W".
        layers : tuple of int
            The layers that have changed.

        Returns
        -------
        Terms
            The value at the new point.
        """
        sums = samples.weighted_sums(self.changed_rows(blocks, samples, block, layers))
        return self.terms_with(terms, sums, blocks)

    def changed_rows(
        self, blocks: Blocks, samples: Samples, block: str, layers: tuple[int, ...], known: Collection[int] = ()
    ) -> Callable[[slice], dict[int, Tensor]]:
        """Each sample's terms of Eq. 4 that some layers of one block change.

        Parameters
        ----------
        blocks : Blocks
            The new point.
        samples : Samples
            The training samples.
        block : str
            "U", "V" or "W".
        layers : tuple of int
            The layers that have changed.
        known : collection of int, default=()
            Layers whose lift is not asked for.

        Returns
        -------
        callable
            Of some rows, the terms of these: lifts by their layer, the loss by 0.
        """
        hidden, depth = self.network.hidden, self.network.depth
        moved = set(layers).union(*(self.network.targets(n) for n in layers)) if block == "U" else set(layers)

        def terms(rows: slice) -> dict[int, Tensor]:
            U, found = rows_of(blocks.U, rows), {}
            if block == "V" or depth in moved:
                found[0] = self.loss.rows(samples.targets[rows], U[depth] @ blocks.V.T)
            for n in hidden:
                if n in moved and n not in known:
                    Z = self.network.pre_activation(n, U, blocks.W)
                    found[n] = self.lift.value(U[n], Z, self.network.activation)
            return found

        return terms

    def terms_with(self, terms: Terms, sums: Mapping[int, float], blocks: Blocks) -> Terms:
        """The terms where some sums over the samples are new, as are V and W.

        Parameters
        ----------
        terms : Terms
            The value before.
        sums : mapping of int to float
            The new sums: lifts by their layer, the loss by 0.
        blocks : Blocks
            The new point.

        Returns
        -------
        Terms
            The value at the new point.
        """
        return Terms(
            loss=sums.get(0, terms.loss),
            lift=terms.lift | {n: self.gamma_of(n) * sums[n] for n in self.network.hidden if n in sums},
            ridge_V=0.5 * self.ridge_V * float(blocks.V.double().square().sum()),
            ridge_W=sum(
                0.5 * self.edge_ridge(edge) * float(matrix.double().square().sum()) for edge, matrix in blocks.W.items()
            ),
        )

    def slopes(self, U: Layers, V: Tensor, W: Weights, targets: Tensor) -> Slopes:
        """Gradients of each sample's terms in its U[n], in its Z[n] (for W) and in its scores (for V).

        Parameters
        ----------
        U : dict of int to Tensor
            The layers of some samples.
        V : Tensor
            The classifier.
        W : dict of (n, m) to Tensor
            The matrices.
        targets : Tensor
            The targets of these samples.

        Returns
        -------
        Slopes
            The gradients, and the pre-activations that they were computed from.
        """
        network, last = self.network, self.network.depth
        Z = {n: network.pre_activation(n, U, W) for n in network.hidden}
        grad_Z = {n: self.lift.grad_Z(U[n], Z[n], network.activation).mul_(self.gamma_of(n)) for n in network.hidden}
        grad_U = {n: (U[n] - Z[n]).mul_(self.gamma_of(n)) for n in network.hidden}
        for (k, n), edge in network.edges.items():
            if n in grad_U:
                edge.adjoint(grad_Z[k], W.get((k, n)), out=grad_U[n])
        scores = self.loss.slope(targets, U[last] @ V.T)
        grad_U[last] += scores @ V
        return Slopes(grad_U, grad_Z, scores, Z)
