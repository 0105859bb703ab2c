"""W-step (Sec. 3.1): least-squares regression, layer by layer.

    minimise over W in its set:  gamma_n sum_i D(u_{i,n}, z_{i,n}) + ridge/2 |W|^2 + rho/2 |W - W_old|^2

The learned matrices of a layer are fitted side by side, since they share its pre-activation; the
layers are independent of each other, so together this is the minimum over all of W.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tikhonet.descent.convex import Solution
from tikhonet.descent.linear import LinearFit
from tikhonet.network.graph import Weights
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Samples, rows_of


def update_weights(
    problem: Problem, blocks: Blocks, samples: Samples, rho: float, *, tol: float = 1e-3, max_iter: int = 1000
) -> Solution:
    """The minimisers W_star of all layers."""
    W_star: Weights = {}
    parts = []
    for n in problem.network.hidden:
        sources = problem.network.learned_sources(n)
        if sources:
            part = update_layer(problem, blocks, samples, rho, n, tol=tol, max_iter=max_iter)
            widths = [problem.network.width(m) for m in sources]
            W_star |= {(n, m): M for m, M in zip(sources, part.point.split(widths, dim=1), strict=True)}
            parts.append(part)
    return Solution(
        W_star,
        residual=math.hypot(*(part.residual for part in parts)),
        scale=math.hypot(*(part.scale for part in parts)),
        gradient=math.hypot(*(part.gradient for part in parts)),
        steps=max((part.steps for part in parts), default=0),
    )


def update_layer(
    problem: Problem, blocks: Blocks, samples: Samples, rho: float, n: int, *, tol: float, max_iter: int
) -> Solution:
    """The minimiser of layer n's learned matrices, side by side."""
    network, gamma = problem.network, problem.gamma_of(n)
    sources = network.learned_sources(n)
    identities = [m for m in network.sources(n) if m not in sources]

    def inputs(rows: slice, dtype: torch.dtype) -> Tensor:
        parts = [blocks.U[m][rows].to(dtype) for m in sources]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def slope(rows: slice, scores: Tensor | None, dtype: torch.dtype) -> Tensor:
        U = rows_of(blocks.U, rows, dtype)
        Z = network.pre_activation(n, U, blocks.W, identities)
        return gamma * problem.lift.grad_Z(U[n], Z if scores is None else Z.add_(scores))

    exact: Any = {"dtype": torch.float64, "device": blocks.V.device}
    fit = LinearFit(
        samples=samples,
        inputs=inputs,
        slope=slope,
        curvature=gamma,
        quadratic=problem.lift.quadratic,
        ridge=torch.cat([torch.full((network.width(m),), problem.edge_ridge((n, m)), **exact) for m in sources]),
        set_=problem.layer_set(n),
    )
    given = all(m <= 0 for m in sources)
    gram = samples.constant(("gram", sources), fit.gram) if given else fit.gram()
    W_old = torch.cat([blocks.W[n, m] for m in sources], dim=1)
    return fit.solve(gram, W_old, rho, tol=tol, max_iter=max_iter)
