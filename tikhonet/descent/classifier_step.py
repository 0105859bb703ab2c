"""V-step (Sec. 3.1): learning the classifier on the current features.

minimise over V in its set:  sum_i loss(y_i, V u_{i,N}) + ridge/2 |V|^2 + rho/2 |V - V_old|^2
"""

from __future__ import annotations

import torch
from torch import Tensor

from tikhonet.descent.convex import Solution
from tikhonet.descent.linear import LinearFit
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Samples


def update_classifier(
    problem: Problem, blocks: Blocks, samples: Samples, rho: float, *, tol: float = 1e-3, max_iter: int = 1000
) -> Solution:
    """The minimiser V_star: ridge regression for the squared loss, majorised steps for others."""
    features = blocks.U[problem.network.depth]

    def slope(rows: slice, scores: Tensor | None, dtype: torch.dtype) -> Tensor:
        targets = samples.targets[rows].to(dtype)
        return problem.loss.slope(targets, torch.zeros_like(targets) if scores is None else scores)

    fit = LinearFit(
        samples=samples,
        inputs=lambda rows, dtype: features[rows].to(dtype),
        slope=slope,
        curvature=problem.loss.curvature,
        quadratic=problem.loss.quadratic,
        ridge=torch.full((features.shape[1],), problem.ridge_V, dtype=torch.float64, device=features.device),
        set_=problem.V_set,
    )
    return fit.solve(fit.gram(), blocks.V, rho, tol=tol, max_iter=max_iter)
