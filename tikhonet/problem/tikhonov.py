"""Sec. 2.3: the Tikhonov matrix Gamma, Q = Gamma' Gamma and P, for which Eq. 4 is Eq. 5.

They act on a sample's layers stacked into one vector, u = [constant, x, u_1, .., u_N] (the constant
only if some layer has a bias). As operators they act on all samples at once; the dense forms are the
operators applied to the unit vectors, for small networks and for tests.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tikhonet.network.graph import BIAS, Layers, Network, Weights
from tikhonet.problem.objective import Problem


def stacked_layers(network: Network) -> tuple[int, ...]:
    """The order of the layers in the stacked vector."""
    return (*((BIAS,) if network.targets(BIAS) else ()), *range(network.depth + 1))


def stack(network: Network, U: Layers) -> Tensor:
    return torch.cat([U[m] for m in stacked_layers(network)], dim=1)


def unstack(network: Network, u: Tensor) -> Layers:
    order = stacked_layers(network)
    return dict(zip(order, u.split([network.width(m) for m in order], dim=1), strict=True))


def apply_factor(problem: Problem, W: Weights, U: Layers) -> Layers:
    """Gamma u: for each hidden layer  sqrt(gamma_n) (u_n - z_n)."""
    network = problem.network
    return {
        n: problem.gamma_of(n) ** 0.5 * (U[n] - network.pre_activation(n, U, W)) for n in range(1, network.depth + 1)
    }


def apply_factor_transpose(problem: Problem, W: Weights, R: Layers) -> Layers:
    """Gamma' r: what the hidden layers' residuals pull at, in every layer."""
    network = problem.network
    U = {m: R[1].new_zeros(len(R[1]), network.width(m)) for m in stacked_layers(network)}
    for n, r in R.items():
        pull = problem.gamma_of(n) ** 0.5 * r
        U[n] += pull
        for m in network.sources(n):
            U[m] -= network.edges[n, m].adjoint(pull, W.get((n, m)))
    return U


def apply_matrix(problem: Problem, W: Weights, U: Layers) -> Layers:
    """Q u = Gamma' (Gamma u)."""
    return apply_factor_transpose(problem, W, apply_factor(problem, W, U))


def _units(network: Network) -> Tensor:
    return torch.eye(sum(network.width(m) for m in stacked_layers(network)), dtype=torch.float64)


def tikhonov_factor(problem: Problem, W: Weights) -> Tensor:
    """Gamma, dense, in float64."""
    network = problem.network
    W = {edge: matrix.double() for edge, matrix in W.items()}
    rows = apply_factor(problem, W, unstack(network, _units(network)))
    return torch.cat([rows[n] for n in range(1, network.depth + 1)], dim=1).T


def tikhonov_matrix(problem: Problem, W: Weights) -> Tensor:
    """Q, dense, in float64."""
    network = problem.network
    W = {edge: matrix.double() for edge, matrix in W.items()}
    return stack(network, apply_matrix(problem, W, unstack(network, _units(network)))).T


def select_last(network: Network) -> Tensor:
    """P, dense, with P u = u_N."""
    return unstack(network, _units(network))[network.depth].T
