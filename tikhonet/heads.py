"""Sec. 3.2: the linear SVM that replaces V on the learned features.

    minimise over V, b:  1/2 |V|^2 + C sum_i sum_k max(0, 1 - t_ik (V u_i + b)_k)^2,   t = +1 or -1

It is the V-step with the squared hinge (the same problem that LinearSVC solves, but for its penalised
intercept), so one Gram matrix serves all classes and it takes seconds on 60,000 x 784 features.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tikhonet.losses import SquaredHinge
from tikhonet.samples import Samples
from tikhonet.sets import Everything
from tikhonet.subproblems.linear import LinearFit


@dataclass(frozen=True)
class LinearSVM:
    """A linear classifier on features that it divides by their rms norm, so that C has no units."""

    V: Tensor
    intercept: Tensor
    norm: float

    def scores(self, features: Tensor) -> Tensor:
        return (features / self.norm) @ self.V.T + self.intercept

    def error(self, features: Tensor, labels: Tensor) -> float:
        """The share of rows whose highest score is not their label's."""
        return float((self.scores(features).argmax(1) != labels).double().mean())


def fit_linear_svm(
    features: Tensor, labels: Tensor, C: float = 5.0, *, classes: int | None = None, tol: float = 1e-4
) -> LinearSVM:
    """One against all, on features and integer labels."""
    if not 0 < C < float("inf"):
        raise ValueError(f"C must be positive and finite, got {C}")
    loss = SquaredHinge()
    norm = float(features.square().sum(1).mean().sqrt()) or 1.0
    samples = Samples(features / norm, loss.encode(labels, classes).to(features), chunk_rows=4096)
    ones = features.new_ones(samples.chunk_rows, 1)

    def inputs(rows: slice, dtype: torch.dtype) -> Tensor:
        part = samples.X[rows]
        return torch.cat([part, ones[: len(part)]], dim=1).to(dtype)

    def slope(rows: slice, scores: Tensor | None, dtype: torch.dtype) -> Tensor:
        targets = samples.targets[rows].to(dtype)
        return loss.slope(targets, torch.zeros_like(targets) if scores is None else scores)

    width = features.shape[1]
    ridge = torch.full((width + 1,), 1 / C, dtype=torch.float64, device=features.device)
    ridge[width] = 0.0
    fit = LinearFit(samples, inputs, slope, loss.curvature, loss.quadratic, ridge, Everything())
    start = features.new_zeros(samples.targets.shape[1], width + 1)
    V = fit.solve(fit.gram(), start, 0.0, tol=tol, max_iter=300).point
    return LinearSVM(V[:, :width], V[:, width], norm)
