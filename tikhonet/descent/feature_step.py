"""u-step (Sec. 3.1): the Tikhonov regularised inverse problem, for every sample on its own.

    minimise over u in the activation's interval:  loss(y, V u_N) + sum_n gamma_n D(u_n, z_n) + rho/2 |u - u_old|^2

over the hidden layers of one convex group: all of them for the Tikhonov lift, whose Hessian
Q + P'V'VP + rho I is the same for all samples, or one for the Fenchel lift. Products with Q go
through the network's own matrices, which for the paper's net is half the work of a dense Q.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from tikhonet.descent.convex import ProjectedStep, Solution, accelerate, largest_eigenvalue
from tikhonet.network.graph import BIAS, Layers, Weights
from tikhonet.problem.lifts import Tikhonov
from tikhonet.problem.losses import Squared
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Samples, rows_of


class FeatureModel:
    """The u-step's objective for a chunk of samples, as a function of the group's layers side by side.

    `load` sets the chunk. Threads need one each: its buffers are those of the last chunk.
    """

    def __init__(self, problem: Problem, group: tuple[int, ...], V: Tensor, W: Weights, rho: float) -> None:
        self.problem, self.network, self.group = problem, problem.network, group
        self.V, self.W, self.rho = V, W, rho
        children = {k for n in group for k in self.network.targets(n)}
        self.touched = [n for n in self.network.hidden if n in group or n in children]
        self.widths = [self.network.widths[n] for n in group]
        self.fixed: Layers = {}
        self.buffers: Layers = {}

    def load(self, U: Layers, targets: Tensor, fixed: Layers | None = None) -> Tensor:
        """Take a chunk; returns its current values of the group, the proximal anchor.

        `fixed` is what layers outside the group bring to each pre-activation, where it is known.
        """
        self.U, self.targets = U, targets
        self.anchor = torch.cat([U[n] for n in self.group], dim=1)
        self.pull = -self.rho * self.anchor
        for n in self.touched:
            outside = [m for m in self.network.sources(n) if m not in self.group]
            self.fixed[n] = fixed[n] if fixed else self.network.pre_activation(n, U, self.W, outside)
        if len(self.buffers.get(0, ())) != len(self.anchor):
            self.buffers = {n: torch.empty_like(self.fixed[n]) for n in self.touched}
            self.buffers[0] = torch.empty_like(self.anchor)
        return self.anchor

    def split(self, u: Tensor) -> Layers:
        return dict(zip(self.group, u.split(self.widths, dim=1), strict=True))

    def gradient(self, u: Tensor, fed: bool = True) -> Tensor:
        problem, network = self.problem, self.network
        layers, total = self.split(u), self.buffers[0]
        parts, pull, Z = self.split(total), self.split(self.pull), self.buffers
        for n in self.touched:
            Z[n].copy_(self.fixed[n])
            for m in network.sources(n):
                if fed and m in layers:
                    network.edges[n, m].apply(layers[m], self.W.get((n, m)), out=Z[n])
        for n in self.group:  # gamma (u - z) + rho (u - anchor)
            gamma = problem.gamma_of(n)
            torch.add(pull[n], layers[n], alpha=gamma + self.rho, out=parts[n]).sub_(Z[n], alpha=gamma)
        for k in self.touched:
            problem.lift.grad_Z(layers[k] if k in layers else self.U[k], Z[k], network.activation, out=Z[k])
            for n in network.sources(k):
                if n in parts:
                    network.edges[k, n].adjoint(Z[k], self.W.get((k, n)), out=parts[n], alpha=problem.gamma_of(k))
        if network.depth in parts:
            last = layers[network.depth]
            parts[network.depth].addmm_(problem.loss.slope(self.targets, last @ self.V.T), self.V)
        return total


def curvature(problem: Problem, group: tuple[int, ...], V: Tensor, W: Weights, rho: float) -> tuple[Tensor, float]:
    """A diagonal matrix above the sub-problem's Hessian, and the least curvature in its units, from below.

    The Hessian is bounded by that of the Tikhonov lift with a squared loss of the same curvature,
    whose gradient without data is the Hessian's product. The matrix is the Hessian's own diagonal, since units that
    feed others by small and by large weights curve differently, times a number for each layer, because the last
    layer's curvature (that of V) may be far from the others'.
    """
    network = problem.network
    quadratic, given = replace(problem, lift=Tikhonov(), loss=Squared()), (BIAS, 0, *network.hidden)

    def norm(layers: tuple[int, ...], scale: Tensor) -> float:
        model = FeatureModel(quadratic, layers, problem.loss.curvature**0.5 * V, W, rho)
        width = sum(model.widths)

        def product(block: Tensor) -> Tensor:
            model.load({m: V.new_zeros(len(block), network.width(m)) for m in given}, V.new_zeros(len(block), len(V)))
            return model.gradient(block / scale) / scale

        return largest_eigenvalue(product, width, V)

    units = [unit_curvature(problem, n, V, W) + rho for n in group]
    diagonal = torch.cat([own * norm((n,), own.sqrt()) for n, own in zip(group, units, strict=True)])
    if len(group) > 1:
        diagonal *= norm(group, diagonal.sqrt())
    return diagonal, least_curvature(problem, group, W, diagonal.sqrt()) + rho / float(diagonal.max())


def unit_curvature(problem: Problem, n: int, V: Tensor, W: Weights) -> Tensor:
    """The largest second derivative that f can have in each unit of layer n."""
    network = problem.network
    total = V.new_full((network.widths[n],), problem.gamma_of(n))
    for k in network.targets(n):
        total += problem.gamma_of(k) * network.edges[k, n].onward(W.get((k, n)))
    return total + problem.loss.curvature * V.square().sum(0) if n == network.depth else total


def least_curvature(problem: Problem, group: tuple[int, ...], W: Weights, scale: Tensor) -> float:
    """A number below the eigenvalues of the lift's Hessian in the group's layers, in units of `scale` on both sides.

    In one layer the lift curves as gamma does. With several the Hessian is at least T'T, where T are the rows and
    columns of Gamma (Sec. 2.3) that belong to the group. T is triangular, with the roots of gamma on its diagonal: its
    inverse is a forward pass through the group and that of T' one back, so that the least eigenvalue is found as the
    largest one of the inverse. Known convexity makes accelerated steps fewer.
    """
    network, widths = problem.network, [problem.network.widths[n] for n in group]

    def inverse(block: Tensor) -> Tensor:
        parts = dict(zip(group, [part.clone() for part in (block * scale).split(widths, dim=1)], strict=True))
        for n in sorted(group, reverse=True):
            for m in network.sources(n):
                if m in parts:
                    network.edges[n, m].adjoint(parts[n], W.get((n, m)), out=parts[m])
        for n in sorted(group):
            parts[n] /= problem.gamma_of(n)
            for m in network.sources(n):
                if m in parts:
                    network.edges[n, m].apply(parts[m], W.get((n, m)), out=parts[n])
        return torch.cat([parts[n] for n in group], dim=1) * scale

    largest = largest_eigenvalue(inverse, len(scale), scale)
    return 1 / largest if 0 < largest < math.inf else 0.0


def update_features(
    problem: Problem,
    blocks: Blocks,
    samples: Samples,
    rho: float,
    group: tuple[int, ...],
    *,
    start: Layers | None = None,
    tol: float = 1e-3,
    max_iter: int = 1000,
) -> Solution:
    """The minimisers U_star of the group's layers, for all samples chunk by chunk.

    `start` is a guess, such as the last iteration's U_star; without one they start from the current U.
    """
    V, W, activation = blocks.V, blocks.W, problem.network.activation
    diagonal, convexity = curvature(problem, group, V, W, rho)
    step = ProjectedStep(diagonal, activation.value_)
    exact_V, exact_W = V.double(), {edge: matrix.double() for edge, matrix in W.items()}
    U_star = {n: samples.empty(problem.network.widths[n]) for n in group}
    counts = []

    def solve(rows: slice) -> Tensor:
        model, exact = (FeatureModel(problem, group, *point, rho) for point in ((V, W), (exact_V, exact_W)))
        exact.load(rows_of(blocks.U, rows, torch.float64), samples.targets[rows].double())
        fixed = {n: part.to(V) for n, part in exact.fixed.items()}
        u = model.load(rows_of(blocks.U, rows), samples.targets[rows], fixed)
        at_zero = model.gradient(torch.zeros_like(u), fed=False)  # zeros add nothing to pre-activations
        scale, weighted_scale = at_zero.norm(), samples.weigh(at_zero, rows).norm()
        u, steps = accelerate(
            model.gradient,
            step,
            torch.cat([start[n][rows] for n in group], dim=1) if start else u,
            scale=float(scale),
            tol=tol,
            tighten=1.0 if start else 0.1,
            max_iter=max_iter,
            convexity=convexity,
        )
        for n, part in model.split(u).items():
            U_star[n][rows] = part
        counts.append(steps)
        u = u.double()
        gradient = exact.gradient(u)
        residual = samples.weigh(u - activation.value_(u - gradient), rows)
        sizes = residual, samples.weigh(gradient, rows), weighted_scale
        return torch.stack([size.double().square().sum() for size in sizes])

    residual, gradient, scale = (math.sqrt(total) for total in samples.sum(solve).tolist())
    return Solution(U_star, residual, scale, gradient, max(counts))
