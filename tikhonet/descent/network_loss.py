"""Eq. 2: the regularised loss of the network proper, its gradient and its Gauss-Newton model.

    L(V, W) = sum_i loss(y_i, V a_{i,N}) + ridges on V and W,    a_n = sigma(sum over m in M_n of W_{n,m} a_m)

Minimisers of L lie on the activation's kinks for many samples, and there no gradient vanishes. So a kink may be
rounded: sigma becomes its mean over z - w .. z + w, with w a small share of the layer's pre-activations. It then has
a slope everywhere, one of sigma's own but in a band of that width. Without a width it is the network as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from tikhonet.descent.convex import minimise_quadratic
from tikhonet.descent.stationarity import ROUNDING, Fit, Stationarity, solve_scaled
from tikhonet.network.activation import Activation
from tikhonet.network.graph import Layers, Weights
from tikhonet.problem.objective import Blocks, Problem, Terms
from tikhonet.problem.samples import Samples

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

    @classmethod
    def rounding(cls, problem: Problem, samples: Samples, W: Weights, share: float) -> NetworkLoss:
        """Kinks rounded over this share of the root mean square of each layer's pre-activations at W."""
        loss = cls(problem, samples)
        size = loss.sizes(W)
        return cls(problem, samples, {n: share * size[n] for n in size})

    def sizes(self, W: Weights) -> dict[int, float]:
        """The root mean square of each layer's pre-activations."""
        hidden = self.problem.network.hidden

        def squares(rows: slice) -> Tensor:
            Z = self.layers(rows, W)[1]
            means = [Z[n].square().mean(1) for n in hidden]
            return self.samples.weigh(torch.stack([*means, torch.ones_like(means[0])], 1), rows).sum(0)

        *totals, count = self.samples.sum(squares).tolist()
        return {n: math.sqrt(total / count) for n, total in zip(hidden, totals, strict=True)}

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
    """L around a point: its gradient, and products with a positive semidefinite matrix in place of its Hessian.

    That matrix has the curvature of the loss along the linearised network and, within the bands where kinks are
    rounded, the curvature of those kinks that bend upward.
    """

    def __init__(self, loss: NetworkLoss, V: Tensor, W: Weights) -> None:
        self.loss, self.problem, self.samples, self.V, self.W = loss, loss.problem, loss.samples, V, W
        network = self.problem.network
        self.hidden = network.hidden
        self.learned = [n for n in network.hidden if network.learned_sources(n)]
        self.sums: Matrices = {}
        self.chunks: list[_Chunk] = []
        for rows in self.samples.chunks():
            self.chunks.append(self.add_rows(rows))
        self.sums = {name: self.samples.reduce(part) for name, part in self.sums.items()}
        self.fits = {"V": self.fit("V", V, torch.full((V.shape[1],), self.problem.ridge_V), 1.0)}
        curvature = self.mean_curvature()
        for n in self.learned:
            ridge = self.problem.layer_ridge(n)
            self.fits[str(n)] = self.fit(str(n), network.stacked_weights(n, W), ridge, curvature[n])
        self.gradient = {name: fit.gradient(self.sums[f"gradient {name}"]) for name, fit in self.fits.items()}
        self.objective = float(self.sums["loss"]) + sum(fit.ridge_value() for fit in self.fits.values())

    def fit(self, name: str, M: Tensor, ridge: Tensor, curvature: float) -> Fit:
        set_ = self.problem.V_set if name == "V" else self.problem.layer_set(int(name))
        return Fit(M.double(), curvature * self.sums[f"gram {name}"], ridge.to(M.device, torch.float64), set_)

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

    def add(self, name: str, part: Tensor) -> None:
        part = part.double()
        self.sums[name] = part if name not in self.sums else self.sums[name] + part

    def add_rows(self, rows: slice) -> _Chunk:
        problem, network, samples, last = self.problem, self.problem.network, self.samples, self.problem.network.depth
        U, _, sigma = self.loss.layers(rows, self.W)
        targets, scores = samples.targets[rows].to(self.V), U[last] @ self.V.T
        slope = samples.weigh(problem.loss.slope(targets, scores), rows)
        curvature = samples.weigh(problem.loss.local_curvature(targets, scores)[:, None], rows)
        self.add("loss", samples.weigh(problem.loss.rows(targets, scores)[:, None].double(), rows).sum())
        self.add("gradient V", slope.T @ U[last])
        self.add("gram V", (curvature * U[last]).T @ U[last])
        bends: Layers = {}
        grad_Z: Layers = {}
        for n, pull in self.pulls(slope, grad_Z):
            grad_Z[n] = pull * sigma[n].slope
            bends[n] = (pull * sigma[n].bend).relu_()
        for n in self.learned:
            inputs = network.stacked_inputs(n, U)
            self.add(f"gradient {n}", grad_Z[n].T @ inputs)
            self.add(f"gram {n}", samples.weigh(inputs, rows).T @ inputs)
        return _Chunk(U, {n: part.slope for n, part in sigma.items()}, bends, curvature)

    def pulls(self, slope: Tensor, grad_Z: Layers) -> Iterator[tuple[int, Tensor]]:
        """From the last layer down, the gradient in each U[n]; the caller puts that in Z[n] into `grad_Z` each time."""
        network = self.problem.network
        for n in reversed(self.hidden):
            pull = slope @ self.V if n == network.depth else slope.new_zeros(len(slope), network.widths[n])
            for k in network.targets(n):
                network.edges[k, n].adjoint(grad_Z[k], self.W.get((k, n)), out=pull)
            yield n, pull

    def product(self, S: Matrices) -> Matrices:
        """The matrix times a change S of V and of some layers; for those alone."""
        total = {name: torch.zeros_like(part, dtype=torch.float64) for name, part in S.items()}
        for chunk in self.chunks:
            for name, part in self.product_rows(chunk, S).items():
                total[name] += part
        return {name: self.samples.reduce(part) + self.fits[name].ridge * S[name] for name, part in total.items()}

    def product_rows(self, chunk: _Chunk, S: Matrices) -> Matrices:
        network, last = self.problem.network, self.problem.network.depth
        step = {name: part.to(self.V) for name, part in S.items()}
        change: Layers = {}
        dZ: Layers = {}
        for n in self.hidden:
            parts = [
                network.edges[n, m].apply(change[m], self.W.get((n, m))) for m in network.sources(n) if m in change
            ]
            if str(n) in step:
                parts.append(network.stacked_inputs(n, chunk.U) @ step[str(n)].T)
            if parts:
                dZ[n] = sum(parts[1:], start=parts[0])
                change[n] = dZ[n] * chunk.slope[n]
        scores = change[last] @ self.V.T if last in change else torch.zeros_like(chunk.U[last] @ self.V.T)
        if "V" in step:
            scores = scores + chunk.U[last] @ step["V"].T
        slope = scores.mul_(chunk.curvature)
        found = {"V": slope.T @ chunk.U[last]} if "V" in S else {}
        grad_Z: Layers = {}
        for n, pull in self.pulls(slope, grad_Z):
            grad_Z[n] = pull.mul_(chunk.slope[n])
            if n in dZ:
                grad_Z[n] += chunk.bend[n] * dZ[n]
            if str(n) in S:
                found[str(n)] = grad_Z[n].T @ network.stacked_inputs(n, chunk.U)
        return found


def inner(A: Matrices, B: Matrices) -> float:
    return math.fsum(float((A[name] * B[name]).sum()) for name in A)


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
        fall, curvature = -float((gradient * step).sum()), float((here.product({name: step})[name] * step).sum())
        length = min(longest, fall / curvature) if curvature > 0 else 0.0
        decrease[block] += length * fall - 0.5 * length**2 * curvature
        residual[block] = math.hypot(residual[block], fit.residual(gradient))
        rounding += fit.rounding()
    units = (ROUNDING * torch.finfo(blocks.V.dtype).eps) ** 2
    return Stationarity(residual, decrease, here.objective, units * rounding)
