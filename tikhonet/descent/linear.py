"""V-step and W-step (Sec. 3.1): linear maps fitted to the samples.

The V-step learns the classifier on the current features, the W-step the matrices of every layer by least squares,

    V:  minimise over V in its set  sum_i loss(y_i, V u_{i,N}) + ridge/2 |V|^2 + rho/2 |V - V_old|^2
    W:  minimise over W in its set  gamma_n sum_i D(u_{i,n}, z_{i,n}) + ridge/2 |W|^2 + rho/2 |W - W_old|^2

The learned matrices of a layer are fitted side by side, since they share its pre-activation; the layers are
independent of each other, so together this is the minimum over all of W. Both are one problem,

    minimise over M in the set:  sum_i w_i phi_i(M a_i) + 1/2 <M R, M> + rho/2 |M - M_old|^2

with phi convex of curvature at most c and R the diagonal of ridge strengths. The Gram matrix
H = c sum_i w_i a_i a_i' + R + rho I majorises its Hessian in every row, so one factorisation
serves all rows and all inner steps; where phi is quadratic it is the Hessian and one step is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tikhonet.descent.convex import ModelStep, Solution, accelerate, minimise_quadratic
from tikhonet.network.designs import Design, Rows
from tikhonet.network.graph import Weights
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Samples, rows_of
from tikhonet.problem.sets import ConvexSet, in_groups

ADDED = 4096
"""How many roundings of float64 a sum over samples is taken to have, relative to the size of what is added: a chunk's
rows, and the chunks."""

MANY = 4
"""So many samples for each column of a Gram matrix, at least, make its product in float64 worth half a pass."""


@dataclass(frozen=True)
class LinearFit:
    """`design(rows, dtype)` maps M to the scores M a_i, `slope(rows, scores)` gives phi_i' (at scores 0 for None)."""

    samples: Samples
    design: Callable[[slice, torch.dtype], Design]
    slope: Callable[[slice, Tensor | None, torch.dtype], Tensor]
    curvature: float
    quadratic: bool
    ridge: Tensor
    set_: ConvexSet

    def parts(self, rows: slice, given: Tensor | None) -> dict[str, Tensor]:
        """The sums over some rows that a step begins with: the pull at zero and, unless it is given, the Gram matrix.

        In float64: else a residual would be that of other sums than the samples have. Where phi is quadratic, with a
        minimum of zero, its value at zero is among them.
        """
        design, slope = self.design(rows, torch.float64), self.slope(rows, None, torch.float64)
        weighted = self.samples.weigh(slope, rows)
        parts = {"pull": design.product(weighted)}
        if self.quadratic:  # not a dot product of BLAS, whose bits differ from thread to thread
            parts["value"] = (weighted * slope).sum() / (2 * self.curvature)
        return parts if given is not None else parts | {"gram": design.gram(self.samples.weights(rows))}

    def value(self, M: Tensor, gram: Tensor, pull: Tensor, at_zero: Tensor) -> float | None:
        """The sum over samples of a quadratic phi at M; None where it would cancel to less than M's type can tell."""
        exact = M.double()
        grouped = exact.reshape(*gram.shape[:-2], -1, gram.shape[-1])
        square = float((grouped @ gram * grouped).sum())
        parts = float(at_zero), float((pull * exact).sum()), 0.5 * self.curvature * square
        value, size = math.fsum(parts), math.fsum(map(abs, parts))
        lost = ADDED * torch.finfo(torch.float64).eps * size
        return value if lost <= torch.finfo(M.dtype).eps * value else None

    def pull(self, M: Tensor, dtype: torch.dtype) -> Tensor:
        """The gradient of the sum over samples at M."""

        def term(rows: slice) -> Tensor:
            design = self.design(rows, dtype)
            return design.product(self.samples.weigh(self.slope(rows, design.scores(M), dtype), rows))

        return self.samples.sum(term)

    def solve(
        self,
        gram: Tensor,
        pull: Tensor,
        M_old: Tensor,
        rho: float,
        *,
        guess: Tensor | None = None,
        tol: float,
        max_iter: int,
    ) -> Solution:
        """The minimiser, found from a guess of it, or else from M_old; a closed form needs no guess."""

        def fold(M: Tensor) -> Tensor:  # rows by group, where each group of them has a Gram matrix of its own
            return M.reshape(*gram.shape[:-2], -1, gram.shape[-1])

        dtype, set_ = M_old.dtype, in_groups(self.set_, gram)
        closed = self.quadratic and set_.everything
        start, tighten = (fold(M_old), 0.1) if guess is None or closed else (fold(guess), 1.0)
        anchor, shift = fold(M_old).double(), self.ridge.double() + rho
        H = self.curvature * gram + torch.diag(shift)
        linear = rho * anchor - fold(pull)
        if self.quadratic:
            best = minimise_quadratic(H, linear, set_, start, tol=tol, max_iter=max_iter, tighten=tighten)
            return replace(best, point=best.point.flatten(0, -2))

        def gradient(M: Tensor, dtype: torch.dtype = dtype) -> Tensor:
            return fold(self.pull(M.flatten(0, -2), dtype)) + shift * M.double() - rho * anchor

        scale, M, steps, asked = float(linear.norm()), start, 0, tol
        while True:
            M, more = accelerate(
                gradient,
                ModelStep(H, set_, asked),
                M,
                scale=scale,
                tol=asked,
                max_iter=max_iter - steps,
                tighten=tighten,
                check_every=1,
            )
            exact, steps = M.double(), steps + more
            final = gradient(exact, torch.float64)
            residual = float((exact - set_.project(exact - final)).norm())
            if not tol * scale < residual or steps >= max_iter:
                return Solution(M.flatten(0, -2), residual, scale, float(final.norm()), steps)
            # Where H is ill-conditioned the model's step can be small before the residual is.
            asked = 0.1 * asked


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
        design=lambda rows, dtype: Rows(features[rows].to(dtype)),
        slope=slope,
        curvature=problem.loss.curvature,
        quadratic=problem.loss.quadratic,
        ridge=torch.full((features.shape[1],), problem.ridge_V, dtype=torch.float64, device=features.device),
        set_=problem.V_set,
    )
    sums = samples.sums(lambda rows: fit.parts(rows, None))
    return fit.solve(sums["gram"], sums["pull"], blocks.V, rho, tol=tol, max_iter=max_iter)


class WeightSums:
    """The sums over the samples of the W-step's fits, which depend on U alone.

    Where the lift is quadratic they are all that it has of the samples, at any W: so f after the u-step and after the
    W-step needs no further pass.
    """

    def __init__(self, problem: Problem, blocks: Blocks, samples: Samples) -> None:
        self.problem, self.samples, network = problem, samples, problem.network
        self.fits = {n: layer_fit(problem, blocks, samples, n) for n in network.hidden if network.learned_sources(n)}
        given = {n: given_gram(problem, samples, n) for n in self.fits}

        def terms(rows: slice) -> dict[tuple[int, str], Tensor]:
            return {(n, name): part for n, fit in self.fits.items() for name, part in fit.parts(rows, given[n]).items()}

        self.sums = samples.sums(terms) if self.fits else {}
        self.sums |= {(n, "gram"): gram for n, gram in given.items() if gram is not None}

    def lifts(self, W: Weights) -> dict[int, float]:
        """The sums of the lift at these matrices, by layer, where it is quadratic, known well, and cheap so."""
        found, sums = {}, self.sums
        for n, fit in self.fits.items() if self.problem.lift.quadratic else ():
            M = self.problem.network.stacked_weights(n, W)
            if MANY * M.shape[1] <= self.samples.place.total:
                value = fit.value(M, sums[n, "gram"], sums[n, "pull"], sums[n, "value"])
                if value is not None:
                    found[n] = value / fit.curvature
        return found


def update_weights(
    problem: Problem,
    blocks: Blocks,
    samples: Samples,
    rho: float,
    *,
    start: Weights | None = None,
    sums: WeightSums | None = None,
    tol: float = 1e-3,
    max_iter: int = 1000,
) -> Solution:
    """The minimisers W_star of all layers, from sums over the samples that are made in one go, or are there.

    `start` is a guess, such as the last iteration's W_star; without one they start from the current W.
    """
    network, W_star = problem.network, Weights()
    parts: list[Solution] = []
    found = sums or WeightSums(problem, blocks, samples)
    for n, fit in found.fits.items():
        gram, pull, M_old = found.sums[n, "gram"], found.sums[n, "pull"], network.stacked_weights(n, blocks.W)
        guess = network.stacked_weights(n, start) if start else None
        part = fit.solve(gram, pull, M_old, rho, guess=guess, tol=tol, max_iter=max_iter)
        W_star |= network.split_weights(n, part.point)
        parts.append(part)
    return Solution(
        W_star,
        residual=math.hypot(*(part.residual for part in parts)),
        scale=math.hypot(*(part.scale for part in parts)),
        gradient=math.hypot(*(part.gradient for part in parts)),
        steps=max((part.steps for part in parts), default=0),
    )


def layer_fit(problem: Problem, blocks: Blocks, samples: Samples, n: int) -> LinearFit:
    """The fit of layer n's learned matrices, side by side."""
    network, gamma = problem.network, problem.gamma_of(n)
    sources = network.learned_sources(n)

    def design(rows: slice, dtype: torch.dtype) -> Design:
        return network.design(n, {m: blocks.U[m][rows].to(dtype) for m in sources})

    def slope(rows: slice, scores: Tensor | None, dtype: torch.dtype) -> Tensor:
        U = rows_of(blocks.U, rows, dtype)
        Z = network.pre_activation(n, U, blocks.W, network.fixed_sources(n))
        return gamma * problem.lift.grad_Z(U[n], Z if scores is None else Z.add_(scores), network.activation)

    return LinearFit(
        samples=samples,
        design=design,
        slope=slope,
        curvature=gamma,
        quadratic=problem.lift.quadratic,
        ridge=problem.layer_ridge(n).to(blocks.V.device),
        set_=problem.layer_set(n),
    )


def given_gram(problem: Problem, samples: Samples, n: int) -> Tensor | None:
    """The Gram matrix of layer n's inputs where these are all given, computed once; None where some are learned."""
    sources, given = problem.network.learned_sources(n), problem.network.layers(samples.X)
    if not set(sources) <= set(given):
        return None

    def term(rows: slice) -> Tensor:
        design = problem.network.design(n, {m: given[m][rows].double() for m in sources})
        return design.gram(samples.weights(rows))

    edges = tuple(problem.network.edges[n, m] for m in sources)
    return samples.constant(("gram", edges), lambda: samples.sum(term))
