"""Eq. 2: the regularised loss of the network proper, its gradient and its Gauss-Newton model.

    L(V, W) = sum_i loss(y_i, V a_{i,N}) + ridges on V and W,    a_n = sigma(sum over m in M_n of W_{n,m} a_m)

Minimisers of L lie on the activation's kinks for many samples, and there no gradient vanishes. So a kink may be
rounded: sigma becomes its mean over z - w .. z + w, with w a small share of the layer's pre-activations. It then has
a slope everywhere, one of sigma's own but in a band of that width. Without a width it is the network as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from tikhonet.descent.convex import minimise_quadratic
from tikhonet.descent.linear import given_gram
from tikhonet.descent.stationarity import ROUNDING, Fit, Stationarity, solve_scaled
from tikhonet.network.activation import Activation
from tikhonet.network.graph import Layers, Weights
from tikhonet.problem.objective import Blocks, Problem, Terms
from tikhonet.problem.samples import Samples
from tikhonet.problem.sets import in_groups

ACTIVE = 0.5
"""The share of units taken as active where only the size of a curvature matters: it scales a metric."""

Matrices = dict[str, Tensor]
"""V by its name, and the learned matrices of each layer side by side by its number."""


class Rounded(NamedTuple):
    """An activation whose kinks are rounded: its values, slopes and second derivatives."""

    value: Tensor
    slope: Tensor
    bend: Tensor


def rounded(activation: Activation, Z: Tensor, width: float) -> Rounded:
    """The mean of sigma over z - width .. z + width; sigma itself for width 0, with slope 0 at its kinks."""
    value, slope, bend = activation.value(Z), torch.zeros_like(Z), torch.zeros_like(Z)
    for kink, sign in ((activation.lower, 1.0), (activation.upper, -1.0)):
        if not math.isfinite(kink):
            slope += kink < 0  # no lower end: the slope is 1 from there on
        elif width == 0:
            slope += sign * (Z.gt(kink) if sign > 0 else Z.ge(kink))
        else:
            past = Z - kink
            inside = (width - past.abs()).relu_()
            value += sign * inside.square() / (4 * width)
            slope += sign * ((past + width) / (2 * width)).clamp_(0, 1)
            bend += sign * (inside > 0) / (2 * width)
    return Rounded(value, slope, bend)


@dataclass(frozen=True)
class NetworkLoss:
    """L of a problem on its samples; `width` says over how much of z each layer's kinks are rounded."""

    problem: Problem
    samples: Samples
    width: Mapping[int, float] = field(default_factory=dict)

    @staticmethod
    def widths(problem: Problem, samples: Samples, W: Weights, share: float) -> dict[int, float]:
        """This share of the root mean square of each layer's pre-activations at W."""
        hidden, proper = problem.network.hidden, NetworkLoss(problem, samples)

        def squares(rows: slice) -> Tensor:
            Z = proper.layers(rows, W)[1]
            means = [Z[n].square().mean(1) for n in hidden]
            return samples.weigh(torch.stack([*means, torch.ones_like(means[0])], 1), rows).sum(0)

        *totals, count = samples.sum(squares).tolist()
        return {n: share * math.sqrt(total / count) for n, total in zip(hidden, totals, strict=True)}

    def layers(self, rows: slice, W: Weights) -> tuple[Layers, Layers, dict[int, Rounded]]:
        """The forward pass of some samples, in the type of the weights: U, the pre-activations, the activations."""
        network = self.problem.network
        like = next(iter(W.values()), self.samples.X)
        U, Z, sigma = network.layers(self.samples.X[rows].to(like)), {}, {}
        for n in network.hidden:
            Z[n] = network.pre_activation(n, U, W)
            sigma[n] = rounded(network.activation, Z[n], self.width.get(n, 0.0))
            U[n] = sigma[n].value
        return U, Z, sigma

    def forward(self, V: Tensor, W: Weights) -> Blocks:
        """The blocks of which U is the forward pass of all samples."""
        parts = [self.layers(rows, W)[0] for rows in self.samples.chunks()]
        return Blocks({n: torch.cat([part[n] for part in parts]) for n in parts[0]}, V, W)

    def terms(self, blocks: Blocks) -> Terms:
        """L, given blocks of `forward`."""
        return self.problem.update_terms(Terms(0.0, {}), blocks, self.samples, "V", ())


class _Chunk(NamedTuple):
    """What the Gauss-Newton model keeps of some samples."""

    U: Layers
    slope: Layers
    bend: Layers
    curvature: Tensor


class Expansion:
    """L around a point: its gradient, and a curvature that is never negative in place of its own.

    It is that of the loss along the linearised network (Gauss and Newton's) and, within the bands where kinks are
    rounded, that of the kinks that bend upward.
    """

    def __init__(self, loss: NetworkLoss, V: Tensor, W: Weights) -> None:
        self.loss, self.problem, self.samples, self.V, self.W = loss, loss.problem, loss.samples, V, W
        network = self.problem.network
        self.hidden = network.hidden
        self.learned = [n for n in network.hidden if network.learned_sources(n)]
        self.given = {n: gram for n in self.learned if (gram := given_gram(self.problem, self.samples, n)) is not None}
        self.chunks: dict[int, _Chunk] = {}
        self.sums = self.samples.sums(self.terms) | {f"gram {n}": gram for n, gram in self.given.items()}
        self.fits = {"V": self.fit("V", V, torch.full((V.shape[1],), self.problem.ridge_V, dtype=torch.float64), 1.0)}
        curvature = self.mean_curvature()
        for n in self.learned:
            ridge = self.problem.layer_ridge(n)
            self.fits[str(n)] = self.fit(str(n), network.stacked_weights(n, W), ridge, curvature[n])
        self.gradient = {
            name: fit.gradient(self.sums[f"gradient {name}"].view_as(fit.M)) for name, fit in self.fits.items()
        }
        self.objective = float(self.sums["loss"]) + sum(fit.ridge_value() for fit in self.fits.values())

    def fit(self, name: str, M: Tensor, ridge: Tensor, curvature: float) -> Fit:
        gram = curvature * self.sums[f"gram {name}"]
        set_ = self.problem.V_set if name == "V" else self.problem.layer_set(int(name))
        grouped = M.double().reshape(*gram.shape[:-2], -1, gram.shape[-1])
        return Fit(grouped, gram, ridge.to(M.device, torch.float64), in_groups(set_, gram))

    def mean_curvature(self) -> dict[int, float]:
        """The curvature of L in a unit's pre-activation, as random weights of these sizes would have it."""
        network = self.problem.network
        found: dict[int, float] = {}
        for n in reversed(self.hidden):
            total = sum(
                found[k] * float(network.edges[k, n].onward(self.W.get((k, n))).mean()) for k in network.targets(n)
            )
            if n == network.depth:
                total += self.problem.loss.curvature * float(self.V.square().sum()) / self.V.shape[1]
            found[n] = ACTIVE * total
        return found

    def terms(self, rows: slice) -> Matrices:
        """The sums over some rows, by their names; what the model needs of these rows is kept."""
        problem, network, samples, last = self.problem, self.problem.network, self.samples, self.problem.network.depth
        U, _, sigma = self.loss.layers(rows, self.W)
        targets, scores = samples.targets[rows].to(self.V), U[last] @ self.V.T
        slope = samples.weigh(problem.loss.slope(targets, scores), rows)
        curvature = samples.weigh(problem.loss.local_curvature(targets, scores)[:, None], rows)
        sums = {
            "loss": samples.weigh(problem.loss.rows(targets, scores)[:, None].double(), rows).sum(),
            "gradient V": slope.T @ U[last],
            "gram V": (curvature * U[last]).T @ U[last],
        }
        bends: Layers = {}
        grad_Z: Layers = {}
        for n in reversed(self.hidden):
            pull = slope @ self.V if n == last else slope.new_zeros(len(slope), network.widths[n])
            for k in network.targets(n):
                network.edges[k, n].adjoint(grad_Z[k], self.W.get((k, n)), out=pull)
            grad_Z[n] = pull * sigma[n].slope
            bends[n] = pull.mul_(sigma[n].bend).relu_()
        for n in self.learned:
            design = network.design(n, U)
            sums[f"gradient {n}"] = design.product(grad_Z[n])
            if n not in self.given:
                sums[f"gram {n}"] = design.gram(samples.weights(rows))
        self.chunks[rows.start] = _Chunk(U, {n: part.slope for n, part in sigma.items()}, bends, curvature)
        return sums

    def curvature(self, name: str, step: Tensor) -> float:
        """The second derivative along a step of V or of one layer."""
        total = self.samples.sum(lambda rows: self.curvature_of(self.chunks[rows.start], name, step))
        return float(total) + float((self.fits[name].ridge * step.square()).sum())

    def curvature_of(self, chunk: _Chunk, name: str, step: Tensor) -> Tensor:
        network, last, step = self.problem.network, self.problem.network.depth, step.to(self.V)
        if name == "V":
            return (chunk.curvature * (chunk.U[last] @ step.T).square()).sum().double()
        total, change = torch.zeros((), dtype=torch.float64, device=step.device), Layers()
        for n in self.hidden:
            sources = [m for m in network.sources(n) if m in change]
            if sources or name == str(n):
                Z = network.pre_activation(n, chunk.U | change, self.W, sources)
                if name == str(n):
                    Z += network.design(n, chunk.U).scores(step.flatten(0, -2))
                total += (chunk.bend[n] * Z.square()).sum()
                change[n] = Z * chunk.slope[n]
        return total + (chunk.curvature * (change[last] @ self.V.T).square()).sum()


def measure_network(loss: NetworkLoss, blocks: Blocks) -> Stationarity:
    """What steps of single blocks would still take off the network's own loss, in float64 and in no units.

    V, or the matrices of a layer, step along the gradient in the metric of their inputs' Gram matrix (over a set to
    the minimiser of that model), as far as the Gauss-Newton model falls.
    """
    W = {edge: matrix.double() for edge, matrix in blocks.W.items()}
    here = Expansion(loss, blocks.V.double(), W)
    residual, decrease, rounding = {"V": 0.0, "W": 0.0}, {"V": 0.0, "W": 0.0}, 0.0
    for name, fit in here.fits.items():
        block, gradient = "V" if name == "V" else "W", here.gradient[name]
        if fit.set_.everything:
            step, longest = -solve_scaled(fit.H, gradient), math.inf
        else:
            linear = fit.M @ fit.H - gradient
            step, longest = minimise_quadratic(fit.H, linear, fit.set_, fit.M).point - fit.M, 1.0
        fall, curvature = -float((gradient * step).sum()), here.curvature(name, step)
        length = min(longest, fall / curvature) if curvature > 0 else 0.0
        decrease[block] += length * fall - 0.5 * length**2 * curvature
        residual[block] = math.hypot(residual[block], fit.residual(gradient))
        rounding += fit.rounding()
    units = (ROUNDING * torch.finfo(blocks.V.dtype).eps) ** 2
    return Stationarity(residual, decrease, here.objective, units * rounding)
