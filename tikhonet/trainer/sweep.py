"""The u-step of Alg. 1 on one mini-batch: a forward pass, and one backward sweep that gives every layer its target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tikhonet.network.graph import Layers, Weights
from tikhonet.network.shapes import like_layer
from tikhonet.problem.objective import Problem

TINY = 1e-30
"""Added where a divisor may be zero; no sum that counts is as small."""
POOL = 16
"""Masks of the first batch's size that a pool of random numbers holds: fewer would repeat each other too soon."""
LARGEST_POOL = 4_000_000
"""Random numbers in a pool, at most (unless three masks need more), so that wide networks do not fill the memory."""
Operand = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Dropout:
    """Masks with entries 0 or 1/(1 - p), cut from one pool of random numbers: drawing each anew is slow."""

    pool: Tensor

    @classmethod
    def draw(cls, p: float, mask: int, generator: torch.Generator, like: Tensor) -> Dropout:
        """A pool for masks of this many entries."""
        draw = torch.rand(cls.size(mask), generator=generator)
        return cls(((draw >= p).to(like.dtype) / (1 - p)).to(like.device))

    @staticmethod
    def size(mask: int) -> int:
        """The numbers of a pool for masks of this many entries."""
        return max(3 * mask, min(POOL * mask, LARGEST_POOL))

    def __call__(self, rows: int, width: int, generator: torch.Generator, rank: int = 0, ranks: int = 1) -> Tensor:
        """A mask for so many rows of a layer; each rank has one of its own, and all move the generator on alike."""
        pool, size = self.pool, rows * width
        if size > len(pool):  # batches may be larger than the first one, for which the pool was made
            pool = pool.repeat(size // len(pool) + 1)
        draw = torch.randint(len(pool) - size + 1, (ranks,), generator=generator)
        offset = int(draw[rank])
        return pool[offset : offset + size].view(rows, width)


@dataclass(frozen=True)
class Pass:
    """A forward pass: pre-activations, and outputs after the dropout masks that act on some layers."""

    Z: Layers
    A: Layers
    masks: Layers


def as_it_is(M: Tensor) -> Tensor:
    return M


def forward(problem: Problem, X: Tensor, W: Weights, masks: Layers, operand: Operand = as_it_is) -> Pass:
    """Eq. 1 with these masks; the last layer of A holds the features. `operand` rounds what is multiplied.

    X may hold images (`Network.seen`), and so do the layers of images then.
    """
    network, W = problem.network, {pair: operand(M) for pair, M in W.items()}
    A, Z = network.layers(operand(X * like_layer(masks[0], X) if 0 in masks else X)), {}
    for n in network.hidden:
        Z[n] = network.pre_activation(n, A, W)
        A[n] = network.activation.value(Z[n])
        if n in masks:
            A[n] *= like_layer(masks[n], A[n])
        A[n] = operand(A[n])
    return Pass(Z, A, masks)


def targets_sweep(
    problem: Problem, V: Tensor, W: Weights, here: Pass, slope: Tensor, damping: float, operand: Operand = as_it_is
) -> Layers:
    """u-step: one backward Gauss-Seidel sweep from u = A; returns the lift's gradient in Z at the targets.

    The last layer takes the damped step of the loss (c its curvature, sigma the activation),
    U[N] = sigma(Z[N] - slope V / (g + c |V|^2))  with  g = damping * mean |V_k|^2,
    which lowers loss + g D for every sample, and each layer below a step of the lift's pull:
    U[n] = sigma(Z[n] - sum over children k of (gamma_k / gamma_n) grad_Z[k] W[k, n]).
    """
    network, last = problem.network, problem.network.depth
    size = V @ V.T
    bound = problem.loss.curvature * torch.linalg.eigvalsh(size)[-1].double()
    V = V / (damping * size.diagonal().mean().double() + bound + TINY)
    grad_Z, W = Layers(), {pair: operand(M) for pair, M in W.items()}
    for n in reversed(network.hidden):
        pull = slope @ V if n == last else None
        for k in network.targets(n):
            ratio = problem.gamma_of(k) / problem.gamma_of(n)
            pull = network.edges[k, n].adjoint(grad_Z[k], W.get((k, n)), out=pull, alpha=ratio)
        pull = torch.zeros_like(here.Z[n]) if pull is None else like_layer(pull, here.Z[n])
        if n in here.masks:
            pull *= like_layer(here.masks[n], pull)
        U = network.activation.value_(torch.sub(here.Z[n], pull, out=pull))
        # A tight lift's slope is the activation, whose values are there already: layers of images are large.
        known = problem.lift.tight and n not in here.masks
        P = here.A[n] if known else problem.lift.slope(here.Z[n], network.activation)
        grad_Z[n] = operand(torch.sub(P, U, out=U))
    return grad_Z
