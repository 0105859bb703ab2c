"""Slow references: every sub-problem as it is written, handed to cvxpy (in l2 balls to SciPy).

Losses, lifts and sets are written out once more and none of the package's own formulas are called, so
that a mistake in the package cannot hide in its own reference. A `Program` gives the least value with a
minimiser, and the value, gradient and projected gradient at any other point.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.optimize
import torch
from scipy.sparse import issparse
from torch import Tensor

from tikhonet import (
    AvgPool2d,
    Bias,
    Blocks,
    Box,
    Conv2d,
    ConvexSet,
    Edge,
    Everything,
    Fenchel,
    FrobeniusBall,
    GlobalAverage,
    Huber,
    Identity,
    Loss,
    NonNegative,
    Problem,
    Quantile,
    RowL1Ball,
    RowL2Ball,
    Samples,
    Softmax,
    Squared,
    SquaredHinge,
    Tikhonov,
)
from tikhonet.network.activation import Activation

Array = np.ndarray
Point = dict[Hashable, Array]
Expression = Any
"""A cvxpy expression or an array: the formulas read the same for both."""


@dataclass(frozen=True)
class Program:
    """Minimise the objective over the variables, each a matrix in its set."""

    objective: cp.Expression
    variables: dict[Hashable, cp.Variable]
    sets: dict[Hashable, ConvexSet]

    def minimum(self) -> tuple[Point, float]:
        """A minimiser and the least value."""
        constraints = [c for key, x in self.variables.items() for c in inside(self.sets[key], x)]
        if any(isinstance(set_, (FrobeniusBall, RowL2Ball)) for set_ in self.sets.values()):
            _solve(self.objective, constraints, tolerances=(1e-7, 1e-5))
            return self._refined_in_balls(np.concatenate([x.value.ravel() for x in self.variables.values()]))
        first = _solve(self.objective, constraints)
        # Where a bound is active with multiplier zero, an interior point method stays sqrt(gap) away from it;
        # so such entries are set to it and the rest is solved again.
        constraints = []
        for key, x in self.variables.items():
            constraints += inside(self.sets[key], x)
            for bound in bounds(self.sets[key]):
                near = abs(x.value - bound) < 1e-5
                constraints += [x[near] == bound] if near.any() else []
        value = _solve(self.objective, constraints)
        assert value <= first + 1e-9
        return {key: x.value for key, x in self.variables.items()}, value

    def _refined_in_balls(self, start: Array) -> tuple[Point, float]:
        # In l2 balls (second-order cones) CLARABEL gives up at 1e-5 in the point; SciPy's SLSQP goes on to 1e-8.
        ends = np.cumsum([x.size for x in self.variables.values()])

        def split(flat: Array) -> dict[Hashable, Tensor]:
            parts = zip(self.variables.items(), np.split(flat, ends[:-1]), strict=True)
            return {key: torch.from_numpy(part.reshape(x.shape)) for (key, x), part in parts}

        def slope(flat: Array) -> Array:
            return np.concatenate([part.ravel() for part in self.gradient(split(flat)).values()])

        def room(flat: Array) -> Array:
            """Squared radius less squared norm, ball by ball."""
            parts = [np.zeros(0)]
            for key, M in split(flat).items():
                set_ = self.sets[key]
                if not isinstance(set_, Everything):
                    axis = 1 if isinstance(set_, RowL2Ball) else None
                    parts.append(np.atleast_1d(set_.radius**2 - np.square(M.numpy()).sum(axis)))
            return np.concatenate(parts)

        found = scipy.optimize.minimize(
            lambda flat: self.value(split(flat)),
            start,
            jac=slope,
            method="SLSQP",
            constraints={"type": "ineq", "fun": room},
            options={"ftol": 1e-14, "maxiter": 30},
        )
        return {key: M.numpy() for key, M in split(found.x).items()}, float(found.fun)

    def value(self, point: Mapping[Any, Tensor]) -> float:
        self._put(point)
        return float(self.objective.value)

    def gradient(self, point: Mapping[Any, Tensor]) -> Point:
        self._put(point)
        by_variable = self.objective.grad
        gradients = {key: by_variable[x] for key, x in self.variables.items()}
        dense = {key: grad.toarray() if issparse(grad) else np.asarray(grad) for key, grad in gradients.items()}
        return {key: grad.reshape(self.variables[key].shape, order="F") for key, grad in dense.items()}

    def residual(self, point: Mapping[Any, Tensor]) -> float:
        """|x - Proj(x - gradient)| over all variables."""
        gradient = self.gradient(point)
        moves = [
            point[key].double().numpy() - project(self.sets[key], point[key].double().numpy() - gradient[key])
            for key in self.variables
        ]
        return float(np.sqrt(sum(np.square(move).sum() for move in moves)))

    def _put(self, point: Mapping[Any, Tensor]) -> None:
        for key, x in self.variables.items():
            x.value = point[key].double().numpy()


def quadratic(H: Tensor, linear: Tensor, set_: ConvexSet) -> Program:
    """1/2 <M H, M> - <linear, M>,  H shared by all rows of M."""
    M = cp.Variable(tuple(linear.shape))
    values, vectors = np.linalg.eigh(H.numpy())
    root = vectors * np.sqrt(np.maximum(values, 0))
    return Program(0.5 * cp.sum_squares(M @ root) - cp.sum(cp.multiply(linear.numpy(), M)), {"M": M}, {"M": set_})


def features(problem: Problem, blocks: Blocks, samples: Samples, rho: float, group: tuple[int, ...]) -> Program:
    """The u-step over a group of layers, all samples at once."""
    old, W, weight = _arrays(blocks.U), _arrays(blocks.W), _weight(samples)
    u = {n: cp.Variable(old[n].shape) for n in group}
    U = old | u
    scores = U[problem.network.depth] @ blocks.V.double().numpy().T
    objective = weight @ loss_rows(problem.loss, samples.targets.double().numpy(), scores)
    for n in problem.network.hidden:
        objective += problem.gamma_of(n) * weight @ lift_rows(problem, U[n], pre_activation(problem, n, U, W))
    for n in group:
        objective += rho / 2 * weight @ cp.sum(cp.square(u[n] - old[n]), axis=1)
    return Program(objective, u, dict.fromkeys(group, interval(problem.network.activation)))


def interval(activation: Activation) -> ConvexSet:
    """The set of U."""
    return NonNegative() if activation.upper == np.inf else Box(activation.lower, activation.upper)


def classifier(problem: Problem, blocks: Blocks, samples: Samples, rho: float) -> Program:
    """The V-step."""
    V = cp.Variable(tuple(blocks.V.shape))
    scores = blocks.U[problem.network.depth].double().numpy() @ V.T
    objective = _weight(samples) @ loss_rows(problem.loss, samples.targets.double().numpy(), scores)
    objective += problem.ridge_V / 2 * cp.sum_squares(V) + rho / 2 * cp.sum_squares(V - blocks.V.double().numpy())
    return Program(objective, {"V": V}, {"V": problem.V_set})


def weights(problem: Problem, blocks: Blocks, samples: Samples, rho: float) -> Program:
    """The W-step over all layers at once; biases are free of set and ridge."""
    U, old, weight = _arrays(blocks.U), _arrays(blocks.W), _weight(samples)
    W = {edge: cp.Variable(matrix.shape) for edge, matrix in old.items()}
    objective = cp.Constant(0.0)
    for n in problem.network.hidden:
        Z = pre_activation(problem, n, U, W)
        objective += problem.gamma_of(n) * weight @ lift_rows(problem, U[n], Z)
    for (n, m), matrix in W.items():
        ridge = problem.ridge_W if m >= 0 else 0.0
        objective += ridge / 2 * cp.sum_squares(matrix) + rho / 2 * cp.sum_squares(matrix - old[n, m])
    return Program(objective, W, {(n, m): problem.W_set if m >= 0 else Everything() for n, m in W})


def bounds(set_: ConvexSet) -> tuple[float, ...]:
    """The numbers at which entries of the set's matrices end."""
    match set_:
        case NonNegative():
            return (0.0,)
        case Box(lower, upper):
            return lower, upper
    return ()


def inside(set_: ConvexSet, M: cp.Variable) -> list[cp.Constraint]:
    match set_:
        case Everything():
            return []
        case NonNegative():
            return [M >= 0]
        case Box(lower, upper):
            return [lower <= M, upper >= M]
        case FrobeniusBall(radius):
            return [cp.norm(M, "fro") <= radius]
        case RowL2Ball(radius):
            return [cp.norm(M, 2, axis=1) <= radius]
        case RowL1Ball(radius):
            return [cp.norm(M, 1, axis=1) <= radius]
    raise NotImplementedError(f"no oracle for {set_}")


def project(set_: ConvexSet, M: Array) -> Array:
    """The nearest point of the set."""
    match set_:
        case Everything():
            return M
        case NonNegative():
            return np.maximum(M, 0)
        case Box(lower, upper):
            return np.clip(M, lower, upper)
        case FrobeniusBall(radius):
            return M / max(1.0, np.linalg.norm(M) / radius)
        case RowL2Ball(radius):
            return M / np.maximum(1.0, np.linalg.norm(M, axis=1, keepdims=True) / radius)
        case RowL1Ball(radius):
            # Soft thresholding: the largest k entries of a row that leave a positive threshold each.
            size = -np.sort(-np.abs(M), axis=1)
            thresholds = (np.cumsum(size, axis=1) - radius) / np.arange(1, M.shape[1] + 1)
            threshold = np.maximum(0, np.where(size > thresholds, thresholds, -np.inf).max(axis=1, keepdims=True))
            return np.sign(M) * np.maximum(0, np.abs(M) - threshold)
    raise NotImplementedError(f"no oracle for {set_}")


def loss_rows(loss: Loss, T: Array, S: Expression) -> cp.Expression:
    """The loss of each sample."""
    match loss:
        case Squared():
            return 0.5 * cp.sum(cp.square(S - T), axis=1)
        case Huber(delta):
            return 0.5 * cp.sum(cp.huber(S - T, delta), axis=1)
        case Quantile(q, width):
            sides = cp.huber(cp.pos(T - S), q * width) + cp.huber(cp.neg(T - S), (1 - q) * width)
            return cp.sum(sides, axis=1) / (2 * width)
        case Softmax():
            return cp.log_sum_exp(S, axis=1) - cp.sum(cp.multiply(T, S), axis=1)
        case SquaredHinge():
            return cp.sum(cp.square(cp.pos(1 - cp.multiply(T, S))), axis=1)
    raise NotImplementedError(f"no oracle for {loss}")


def lift_rows(problem: Problem, U: Expression, Z: Expression) -> cp.Expression:
    """D(u, z) of each sample."""
    match problem.lift:
        case Tikhonov():
            return 0.5 * cp.sum(cp.square(U - Z), axis=1)
        case Fenchel():
            cap = problem.network.activation.upper
            psi = cp.square(cp.pos(Z)) if cap == np.inf else cp.huber(cp.pos(Z), cap)
            squares = 0.5 * cp.sum(cp.square(U), axis=1) + 0.5 * cp.sum(psi, axis=1)
            return squares - cp.sum(cp.multiply(U, Z), axis=1)
    raise NotImplementedError(f"no oracle for {problem.lift}")


def pre_activation(problem: Problem, n: int, U: Mapping[int, Expression], W: Mapping[Any, Expression]) -> Expression:
    """z_n of Eq. 1, one row per sample."""
    edges = [(m, kind) for (k, m), kind in problem.network.edges.items() if k == n]
    return sum(edge_values(kind, U[m], W.get((n, m))) for m, kind in edges)


def edge_values(edge: Edge, U: Expression, W: Expression | None) -> Expression:
    """What an edge adds to z, one row per sample; in images by its taps, one by one."""
    match edge:
        case Identity():
            return U
        case Conv2d() | AvgPool2d() | GlobalAverage() | Bias():
            if isinstance(W, cp.Variable):
                T = np.zeros((len(U), edge.outputs, *W.shape))
                for t, s, row, column in taps(edge):
                    T[:, t, row, column] += U[:, s]
                return cp.reshape(T.reshape(-1, W.size) @ cp.vec(W, "C"), (len(U), edge.outputs), "C")
            return U @ edge_matrix(edge, W).T
    assert W is not None
    return U @ W.T


def edge_matrix(edge: Edge, W: Array | None) -> Array:
    """The matrix of an edge, written out."""
    M = np.zeros((edge.outputs, edge.inputs))
    for t, s, row, column in taps(edge):
        M[t, s] += edge_share(edge) if W is None else W[row, column]
    return M


def edge_share(edge: Edge) -> float:
    """What a pixel counts in a mean."""
    match edge:
        case AvgPool2d(kernel=kernel):
            return float(1 / np.prod(kernel))
    return float(1 / np.prod(edge.source[1:]))


def taps(edge: Edge) -> Iterator[tuple[int, int, int, int]]:
    """Each unit of the target, a unit of the source that it sees, and the row and column of W that multiplies it."""
    match edge:
        case Bias(target=(_, *rest)):
            for t in range(edge.outputs):
                yield t, 0, t // int(np.prod(rest)), 0
        case GlobalAverage(source=(_, height, width)):
            for s in range(edge.inputs):
                yield s // (height * width), s, 0, 0
        case Conv2d(stride=stride, padding=padding, kernel=kernel, dilation=dilation, groups=groups):
            yield from window_taps(edge, kernel, stride, padding, dilation, edge.source[0] // groups)
        case AvgPool2d(stride=stride, padding=padding, kernel=kernel):
            yield from window_taps(edge, kernel, stride, padding, (1, 1), 1)


def window_taps(edge: Edge, kernel: Any, stride: Any, padding: Any, dilation: Any, seen: int) -> Iterator[Any]:
    """Those of a window that moves over images; each channel of the target sees so many of the source."""
    _, height, width = edge.source
    for c, i, j in np.ndindex(*edge.target):
        first = c // (edge.target[0] // (edge.source[0] // seen)) * seen
        for k, a, b in np.ndindex(seen, *kernel):
            y, x = i * stride[0] - padding[0] + a * dilation[0], j * stride[1] - padding[1] + b * dilation[1]
            if 0 <= y < height and 0 <= x < width:
                target = (c * edge.target[1] + i) * edge.target[2] + j
                source = ((first + k) * height + y) * width + x
                yield target, source, c, (k * kernel[0] + a) * kernel[1] + b


def _solve(
    objective: cp.Expression,
    constraints: list[cp.Constraint],
    tolerances: tuple[float, ...] = (1e-12, 1e-11, 1e-10, 1e-9, 1e-8),
) -> float:
    """The least value, to the first of the tolerances that the solver can reach; the variables keep the minimiser."""
    program = cp.Problem(cp.Minimize(objective), constraints)
    for tol in tolerances:
        with warnings.catch_warnings(), contextlib.suppress(cp.SolverError):
            warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
            program.solve(solver=cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
            if program.status == cp.OPTIMAL:
                return float(program.value)
    raise AssertionError(f"the oracle itself ended as {program.status}")


def _arrays(tensors: Mapping[Any, Tensor]) -> dict[Any, Array]:
    return {key: tensor.double().numpy() for key, tensor in tensors.items()}


def _weight(samples: Samples) -> Array:
    return np.ones(len(samples)) if samples.weight is None else samples.weight.double().numpy()
