"""How far the lifted objective lies below the network's own loss: what the relaxation of Eq. 2 by Eq. 4 gives away.

For a tight lift f(forward pass, V, W) = L(V, W), so the minimum over U is at most L. That minimum is not convex in all
layers together, so it is enclosed: from above by a U that was found, from below by a bound that is proven.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tikhonet.descent.feature_step import update_features
from tikhonet.descent.network_loss import NetworkLoss
from tikhonet.descent.stationarity import measure_stationarity
from tikhonet.network.edges import Edge
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Weights
from tikhonet.problem.objective import Problem
from tikhonet.problem.samples import Samples

WIDE = 4096
"""Units of a layer above which the matrix of an edge is not formed."""


@dataclass(frozen=True)
class LiftGap:
    """Between which numbers the gap ``L(V, W) - min over U of f(U, V, W)`` lies: `at_least` and `at_most`.

    Parameters
    ----------
    loss : float
        L, the network's regularised loss.
    found : float
        f at the best U that was found: not below the minimum.
    floor : float
        A number that is not above the minimum.

    Examples
    --------
    >>> from tikhonet import LiftGap
    >>> gap = LiftGap(loss=10.0, found=8.0, floor=7.0)
    >>> gap.at_least, gap.at_most
    (2.0, 3.0)
    """

    loss: float
    found: float
    floor: float

    @property
    def at_least(self) -> float:
        """A number that the gap is not below."""
        return self.loss - self.found

    @property
    def at_most(self) -> float:
        """A number that the gap is not above."""
        return self.loss - self.floor


@torch.no_grad()
def lift_gap(problem: Problem, V: Tensor, W: Weights, samples: Samples, *, sweeps: int = 10) -> LiftGap:
    """Enclose the gap between the network's loss and the least f over U, in float64.

    From above by exact u-steps, layer by layer, from the forward pass; from below by a bound that is proven.

    Parameters
    ----------
    problem : Problem
        With a tight lift such as `Fenchel()`.
    V : Tensor
        The classifier.
    W : dict of (n, m) to Tensor
        The matrices.
    samples : Samples
        The training samples.
    sweeps : int, default=10
        Sweeps of u-steps at most.

    Returns
    -------
    LiftGap
        The bounds.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Network, Problem, Samples, initial_blocks, lift_gap
    >>> X = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    >>> problem = Problem(Network.chain([3, 4]), lift="fenchel", ridge_V=0.1)
    >>> samples = Samples(X, X[:, :2].abs())
    >>> start = initial_blocks(problem, samples)
    >>> gap = lift_gap(problem, start.V, start.W, samples)
    >>> 0 <= gap.at_least <= gap.at_most <= gap.loss
    True
    """
    if not problem.lift.tight:
        raise ArgumentError("problem", f"problem must have a tight lift such as Fenchel(), got {problem.lift}")
    W = {edge: matrix.double() for edge, matrix in W.items()}
    weight = None if samples.weight is None else samples.weight.double()
    samples = replace(samples, X=samples.X.double(), targets=samples.targets.double(), weight=weight)
    network = NetworkLoss(problem, samples)
    blocks = network.forward(V.double(), W)
    loss = network.terms(blocks).total
    floor = loss - most_that_features_save(problem, blocks.V, W, samples, blocks.U[problem.network.depth])
    found = loss
    for _ in range(sweeps):
        for group in problem.feature_groups():
            U_star = update_features(problem, blocks, samples, 0.0, group, tol=1e-8)
            blocks = replace(blocks, U=blocks.U | U_star.point)
        before, found = found, min(found, problem.objective(blocks, samples).total)
        if before - found <= 1e-9 * loss:
            break
    if len(problem.network.hidden) == 1:  # one convex problem, so what is left to save is bounded
        floor = max(floor, found - measure_stationarity(problem, blocks, samples).decrease["U"])
    return LiftGap(loss, found, floor)


def most_that_features_save(problem: Problem, V: Tensor, W: Weights, samples: Samples, features: Tensor) -> float:
    """A bound on L - min over U of f.

    D(u, z) >= 1/2 |u - sigma(z)|^2, so with e_n = u_n - sigma(z_n) and l_n the sum over paths from n to N of products
    of operator norms, |u_N - a_N| <= sum l_n |e_n|. Hence the lift terms are at least kappa/2 |u_N - a_N|^2 with
    1 / kappa = sum l_n^2 / gamma_n, and with g the gradient of the loss in the scores, c its curvature if it is
    quadratic and else 0, a sample saves at most  1/2 g'V (c V'V + kappa I)^-1 V'g,  and no more than its loss.
    """
    network, loss = problem.network, problem.loss
    reach: dict[int, float] = {network.depth: 1.0}
    for n in reversed(network.hidden):
        for k in network.targets(n):
            norm = operator_norm(network.edges[k, n], W.get((k, n)), network.widths[n], V)
            reach[n] = reach.get(n, 0.0) + norm * reach[k]
    kappa = 1 / sum(reach[n] ** 2 / problem.gamma_of(n) for n in network.hidden)
    curvature = loss.curvature if loss.quadratic else 0.0
    values, vectors = torch.linalg.eigh(V @ V.T)

    def saved(rows: slice) -> Tensor:
        targets, scores = samples.targets[rows], features[rows] @ V.T
        squares = (loss.slope(targets, scores) @ vectors).square() * values / (curvature * values + kappa)
        return torch.minimum(0.5 * squares.sum(1), loss.rows(targets, scores))

    return samples.weighted_sum(saved)


def operator_norm(edge: Edge, W: Tensor | None, width: int, like: Tensor) -> float:
    """The largest factor by which an edge lengthens a vector; of a very wide source a bound on it."""
    if width > WIDE:
        return math.sqrt(float(edge.onward(W).double().expand(width).sum()))
    return float(torch.linalg.matrix_norm(edge.apply(torch.eye(width, dtype=like.dtype, device=like.device), W), 2))
