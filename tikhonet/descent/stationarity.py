"""How far a point is from stationary, in no units: the share of f that exact steps of single blocks would still take.

The steps have no proximal term, so the answer does not depend on a schedule. Each is measured in the metric of its own
block's curvature: it stays the same when inputs, targets or f are scaled, and when inputs are shifted and the layers
they feed have biases. All sums are in float64 and over chunks of samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tikhonet.descent.convex import largest_of, solve_rows
from tikhonet.descent.feature_step import unit_curvature
from tikhonet.descent.linear import given_gram
from tikhonet.network.graph import Weights
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Samples, rows_of
from tikhonet.problem.sets import ConvexSet, in_groups

ROUNDING = 4.0
"""A block is known to so many units in the last place, which solving and storing it have left."""

FACTORS = (1.0, 0.01)
"""Curvatures of the projections that bound a decrease over a set, relative to the largest: one finds the normals at
the point itself, the other those further on."""


@dataclass(frozen=True)
class Stationarity:
    """How far a point is from stationary: what exact steps of single blocks would still take off f.

    Parameters
    ----------
    residual : dict of str to float
        ``|B - Proj(B - grad_B f)|`` for each block B, in the units of the data: zero exactly at stationary points.
    decrease : dict of str to float
        The most by which a step of each block alone could still lower the quadratic model of f.
    objective : float
        f itself.
    rounding : float, default=0.0
        The decrease that rounding of the blocks to their type leaves at a stationary point.

    Examples
    --------
    >>> from tikhonet import Stationarity
    >>> found = Stationarity(residual={"U": 3.0, "V": 4.0}, decrease={"U": 0.5, "V": 1.5}, objective=100.0)
    >>> found.share, found.total
    (0.02, 5.0)
    >>> found.within(1e-6)
    False
    """

    residual: dict[str, float]
    decrease: dict[str, float]
    objective: float
    rounding: float = 0.0

    @property
    def total(self) -> float:
        """The norm of the projected gradient."""
        return math.hypot(*self.residual.values())

    @property
    def share(self) -> float:
        """The most of f that the steps would take, all blocks together, beyond rounding; no unit changes it.

        At most 1: no term of f is negative, and the bounds of steps over sets can be loose far from their end.
        """
        excess = sum(self.decrease.values()) - self.rounding
        if excess <= 0:
            return 0.0
        return min(1.0, excess / self.objective) if self.objective else 1.0

    def within(self, tol: float) -> bool:
        """Whether the point counts as stationary.

        Parameters
        ----------
        tol : float
            The share of f that steps may still take.

        Returns
        -------
        bool
            The answer.
        """
        return self.share <= tol


def measure_stationarity(problem: Problem, blocks: Blocks, samples: Samples) -> Stationarity:
    """The stationarity of a point, from the samples in float64; costs about as much as an iteration.

    Parameters
    ----------
    problem : Problem
        What is minimised.
    blocks : Blocks
        The point.
    samples : Samples
        The training samples.

    Returns
    -------
    Stationarity
        What steps of single blocks would still take, in no units.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Network, Problem, Samples, initial_blocks, measure_stationarity
    >>> problem = Problem(Network.chain([3, 4]), ridge_V=0.1, ridge_W=0.1)
    >>> samples = Samples(torch.ones(5, 3), torch.ones(5, 2))
    >>> found = measure_stationarity(problem, initial_blocks(problem, samples), samples)
    >>> 0 < found.share <= 1
    True
    """
    return _Measurement(problem, blocks, samples).result()


class _Measurement:
    """One pass over the samples: what belongs to U is summed up, V and each layer get a gradient and a Gram matrix."""

    def __init__(self, problem: Problem, blocks: Blocks, samples: Samples) -> None:
        self.problem, self.blocks, self.samples = problem, blocks, samples
        self.V = blocks.V.double()
        self.W: Weights = {edge: matrix.double() for edge, matrix in blocks.W.items()}
        self.layers = [n for n in problem.network.hidden if problem.network.learned_sources(n)]
        self.given = {n: gram for n in self.layers if (gram := given_gram(problem, samples, n)) is not None}
        self.curvature = {n: float(unit_curvature(problem, n, self.V, self.W).max()) for n in problem.network.hidden}
        self.sums = samples.sums(self.terms) | {f"gram {n}": gram for n, gram in self.given.items()}

    def terms(self, rows: slice) -> dict[str, Tensor]:
        """The sums over some rows, by their names."""
        problem, network, samples, last = self.problem, self.problem.network, self.samples, self.problem.network.depth
        U = rows_of(self.blocks.U, rows, torch.float64)
        targets = samples.targets[rows].double()
        slopes = problem.slopes(U, self.V, self.W, targets)
        scores = U[last] @ self.V.T
        curvature = samples.weigh(problem.loss.local_curvature(targets, scores)[:, None], rows)
        sums = {
            "f": samples.weigh(problem.loss.rows(targets, scores)[:, None], rows).sum(),
            "gradient V": samples.weigh(slopes.scores, rows).T @ U[last],
            "gram V": (curvature * U[last]).T @ U[last],
        }
        sums |= dict.fromkeys(("U", "residual", "rounding"), torch.zeros_like(sums["f"]))
        for n in network.hidden:
            values = problem.lift.value(U[n], slopes.pre_activation[n], network.activation)[:, None]
            sums["f"] = sums["f"] + problem.gamma_of(n) * samples.weigh(values, rows).sum()
            for name, part in self.feature_terms(n, U[n], slopes.U[n], rows).items():
                sums[name] = sums[name] + part
        for n in self.layers:
            design = network.design(n, U)
            sums[f"gradient {n}"] = design.product(samples.weigh(slopes.Z[n], rows))
            if n not in self.given:
                sums[f"gram {n}"] = design.gram(samples.weights(rows))
        return sums

    def feature_terms(self, n: int, U: Tensor, slope: Tensor, rows: slice) -> dict[str, Tensor]:
        """Layer n of U: f is strongly convex in it with gamma_n at least, whatever V and the next layers are."""
        gamma, value_ = self.problem.gamma_of(n), self.problem.network.activation.value_
        step = value_(torch.sub(U, slope, alpha=1 / gamma)).sub_(U)
        model = torch.add(slope, step, alpha=gamma / 2)
        residual = value_(U - self.samples.weigh(slope, rows)).sub_(U)
        return {
            "U": -_inner(self.samples.weigh(step, rows), model),
            "residual": _inner(residual, residual),
            "rounding": _inner(self.samples.weigh(U, rows), U) * self.curvature[n] ** 2 / (2 * gamma),
        }

    def result(self) -> Stationarity:
        problem, network, sums = self.problem, self.problem.network, self.sums
        ridge_V = self.V.new_full(self.V.shape[1:], problem.ridge_V)
        fits = {"V": Fit(self.V, sums["gram V"], ridge_V, problem.V_set)}
        for n in self.layers:
            gram = problem.gamma_of(n) * sums[f"gram {n}"]
            matrix = network.stacked_weights(n, self.W)
            grouped = matrix.reshape(*gram.shape[:-2], -1, gram.shape[-1])
            set_ = in_groups(problem.layer_set(n), gram)
            fits[str(n)] = Fit(grouped, gram, problem.layer_ridge(n).to(matrix), set_)
        residual = {"U": float(sums["residual"]) ** 0.5, "V": 0.0, "W": 0.0}
        decrease = {"U": float(sums["U"]), "V": 0.0, "W": 0.0}
        objective, rounding = float(sums["f"]), float(sums["rounding"])
        for name, fit in fits.items():
            block, gradient = "V" if name == "V" else "W", fit.gradient(sums[f"gradient {name}"].view_as(fit.M))
            residual[block] = math.hypot(residual[block], fit.residual(gradient))
            decrease[block] += fit.decrease(gradient)
            objective, rounding = objective + fit.ridge_value(), rounding + fit.rounding()
        units = (ROUNDING * torch.finfo(self.blocks.V.dtype).eps) ** 2
        return Stationarity(residual, decrease, objective, units * rounding)


@dataclass(frozen=True)
class Fit:
    """V, or the matrices of a layer side by side, with the Gram matrix that bounds the curvature of f in each row."""

    M: Tensor
    gram: Tensor
    ridge: Tensor
    set_: ConvexSet

    @property
    def H(self) -> Tensor:
        return self.gram + torch.diag(self.ridge)

    def gradient(self, pull: Tensor) -> Tensor:
        return pull + self.ridge * self.M

    def ridge_value(self) -> float:
        return 0.5 * float((self.ridge * self.M.square()).sum())

    def rounding(self) -> float:
        return 0.5 * float((self.H.diagonal(dim1=-2, dim2=-1)[..., None, :] * self.M.square()).sum())

    def residual(self, gradient: Tensor) -> float:
        return float((self.M - self.set_.project(self.M - gradient)).norm())

    def decrease(self, gradient: Tensor) -> float:
        """The most that  -<G, S> - 1/2 <S H, S>  can be for M + S in the set.

        Without a set 1/2 <G H^-1, G>. With one, weak duality: for any matrix N normal to the set at a point Y of it,
        it is at most  1/2 <(G + N) H^-1, G + N> + <N, Y - M>,  and with the right N it is that. What a projection
        removes is normal to the set where it ends. The least of some bounds counts.
        """
        if self.set_.everything:
            return 0.5 * float((gradient * solve_scaled(self.H, gradient)).sum())
        norm = largest_of(self.H)
        rests, paid = [], []
        for curvature in (norm * factor for factor in FACTORS):
            there = self.M - gradient / curvature
            Y = self.set_.project(there)
            normal = (there - Y) * curvature
            rests.append(gradient + normal)
            paid.append(float((normal * (Y - self.M)).sum()))
        rest = torch.cat(rests, dim=-2)
        left = (rest * solve_scaled(self.H, rest)).unflatten(-2, (len(FACTORS), -1)).movedim(-3, 0).flatten(1).sum(1)
        return float(min(part + 0.5 * square for part, square in zip(paid, left.tolist(), strict=True)))


def solve_scaled(H: Tensor, right: Tensor) -> Tensor:
    """right H^-1 in units in which the diagonal of H is 1, so that no column's unit decides what counts as singular."""
    size = H.diagonal(dim1=-2, dim2=-1).sqrt()[..., None, :]
    size = torch.where(size == 0, 1.0, size)
    return solve_rows(H / (size.mT * size), right / size, torch.float64) / size


def _inner(A: Tensor, B: Tensor) -> Tensor:
    return A.flatten() @ B.flatten()
