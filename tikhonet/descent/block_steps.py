"""Alg. 1: six lines, a minimiser and a relaxation for each of U, V and W."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tikhonet.descent.convex import Solution
from tikhonet.descent.feature_step import update_features
from tikhonet.descent.linear import WeightSums, update_classifier, update_weights
from tikhonet.network.graph import Layers, Weights
from tikhonet.problem.objective import Blocks, Problem, Terms
from tikhonet.problem.samples import Samples

SOME = 2048
"""Rows that are looked at at a time."""


@dataclass(frozen=True)
class Move:
    """A solved sub-problem, and the blocks after its step."""

    block: str
    layers: tuple[int, ...]
    solution: Solution
    blocks: Blocks
    sums: WeightSums | None = None
    """Those of the U of these blocks, where they are there already."""

    @property
    def label(self) -> str:
        return f"U[{self.layers[0]}]" if self.block == "U" and len(self.layers) == 1 else self.block

    def where_nonfinite(self, terms: Terms) -> str:
        """Which block and layer a non-finite number first shows in."""
        tensors: dict[str, Tensor] = {"V": self.blocks.V}
        tensors |= {f"U, layer {n}": self.blocks.U[n] for n in self.layers if self.block == "U"}
        tensors |= {f"W, layer {n}": self.blocks.W[n, m] for n, m in self.blocks.W}
        bad = [
            name for name, tensor in tensors.items() if not all(bool(p.isfinite().all()) for p in tensor.split(SOME))
        ]
        bad += [f"{self.block}, layer {n}" for n, value in terms.lift.items() if not math.isfinite(value)]
        return f"block {bad[0] if bad else f'{self.block}, the loss'}"


def block_steps(
    problem: Problem,
    blocks: Blocks,
    samples: Samples,
    theta: float,
    rho: float,
    tol: float,
    guess: Layers,
    guess_W: Weights | None = None,
) -> Iterator[Move]:
    """One iteration of Alg. 1, a sub-problem at a time; the guesses are the last U_star and W_star, if any."""
    hidden, sums = problem.network.hidden, None
    for group in problem.feature_groups():
        start = {n: guess[n] for n in group if n in guess}
        U_star = update_features(problem, blocks, samples, rho, group, start=start, tol=tol)
        blocks = replace(blocks, U=relax_layers(blocks.U, U_star.point, theta, samples))
        sums = WeightSums(problem, blocks, samples) if problem.lift.quadratic else None  # they give f as well
        yield Move("U", group, U_star, blocks, sums)
    V_star = update_classifier(problem, blocks, samples, rho, tol=tol)
    blocks = replace(blocks, V=problem.V_set.project(torch.lerp(blocks.V, V_star.point, theta)))
    yield Move("V", (), V_star, blocks)
    W_star = update_weights(problem, blocks, samples, rho, start=guess_W, sums=sums, tol=tol)
    blocks = replace(blocks, W=relax_weights(problem, blocks.W, W_star.point, theta))
    yield Move("W", hidden, W_star, blocks, sums)


def relax_layers(
    U: Layers, U_star: Layers, theta: float, samples: Samples, value_: Callable[[Tensor], Tensor] = lambda Z: Z
) -> Layers:
    """U moved by the share theta of the way to U_star; `value_` is applied to what is further away than that."""
    if theta == 1:
        return U | U_star
    # By chunks: the last entries of a whole matrix may be rounded otherwise than the others.
    widths = {n: star.shape[1] for n, star in U_star.items()}
    return U | samples.matrices(
        widths, lambda rows: {n: value_(torch.lerp(U[n][rows], U_star[n][rows], theta)) for n in widths}
    )


def relax_weights(problem: Problem, W: Weights, W_star: Weights, theta: float) -> Weights:
    # A convex combination is in the set but for rounding, which the projection undoes.
    return {edge: problem.edge_set(edge).project(torch.lerp(W[edge], star, theta)) for edge, star in W_star.items()}
