from copy import deepcopy

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from tests.strategies import normal
from tikhonet import Fenchel, Network, Problem, RowL1Ball, Softmax, Status
from tikhonet.network.activation import ClippedReLU, ReLU
from tikhonet.paper.baselines import admm
from tikhonet.paper.baselines.admm import ADMM, QuadraticPenalty, Split, least_squares, square, update_pre_activation

SKIPS = Network(
    [4, 5, 5, 3], {(1, 0): "learned", (2, 1): "learned", (3, 1): "learned", (3, 2): "learned", (2, 0): "learned"}, [2]
)
IDENTITY = Network([4, 4, 4], {(1, 0): "learned", (2, 1): "learned", (2, 0): "identity"})


def lagrangian(problem, solver, split, targets, W, V):
    """L of the module's docstring, with neither the multipliers' squares nor the ridges."""
    network = problem.network
    value = problem.loss.rows(targets, split.A[network.depth] @ V.T).sum()
    for n in network.hidden:
        first = split.Z[n] - network.pre_activation(n, split.A, W) + split.P[n]
        second = split.A[n] - split.Z[n].relu() + split.Q[n]
        value = value + solver.beta / 2 * first.square().sum() + solver.alpha / 2 * second.square().sum()
    return value


def begun(network, solver):
    """A point in general position: multipliers and splits that do not fit."""
    problem = Problem(network, lift=Fenchel())
    X, targets = normal(12, network.widths[0]), normal(12, 3, seed=1)
    W = network.random_weights(3, dtype=torch.float64)
    split = Split.start(network, X, W)
    for n in network.hidden:
        split.Z[n] += 0.5 * normal(*split.Z[n].shape, seed=n)
        split.P[n] += 0.3 * normal(*split.Z[n].shape, seed=10 + n)
        split.Q[n] += 0.3 * normal(*split.Z[n].shape, seed=20 + n)
    V = normal(3, network.widths[-1], seed=7)
    return problem, split, targets, W, V


@pytest.mark.parametrize(
    "network", [Network.chain([4, 5, 3], bias=True), SKIPS, IDENTITY], ids=["chain", "skips", "id"]
)
def test_the_activations_minimise_the_lagrangian_one_layer_after_the_other(network):
    solver = ADMM(beta=0.7, alpha=1.9)
    problem, split, targets, W, V = begun(network, solver)
    slow = deepcopy(split)
    inverses = {n: solver.inverse(network, W, V, n) for n in network.hidden}
    solver.update_activations(network, split, targets, W, V, inverses)
    for n in reversed(network.hidden):
        point = slow.A[n].clone()

        def value(step, n=n, point=point):
            slow.A[n] = point + step
            return lagrangian(problem, solver, slow, targets, W, V)

        still = torch.zeros_like(point)
        slope = torch.autograd.functional.jacobian(value, still).flatten()
        curvature = torch.autograd.functional.hessian(value, still).reshape(len(slope), -1)
        slow.A[n] = point - torch.linalg.solve(curvature, slope).reshape(point.shape)
        inputs = network.pre_activation(n, slow.A, W) - slow.P[n]
        slow.Z[n] = update_pre_activation(inputs, slow.A[n] + slow.Q[n], solver.beta, solver.alpha, network.activation)
        torch.testing.assert_close(split.A[n], slow.A[n])
        torch.testing.assert_close(split.Z[n], slow.Z[n])


def test_multipliers_gather_what_is_left_of_the_constraints(monkeypatch):
    monkeypatch.setattr(admm, "CHUNK_ROWS", 5)  # 12 samples in three parts
    _, split, _, W, _ = begun(SKIPS, ADMM())
    before = deepcopy(split)
    split.close(SKIPS, W, multiply=False)
    assert all(torch.equal(split.P[n], before.P[n]) for n in SKIPS.hidden)
    split.close(SKIPS, W, multiply=True)
    left = [before.Z[n] - SKIPS.pre_activation(n, before.A, W) for n in SKIPS.hidden]
    left += [before.A[n] - before.Z[n].relu() for n in SKIPS.hidden]
    moved = [split.P[n] - before.P[n] for n in SKIPS.hidden] + [split.Q[n] - before.Q[n] for n in SKIPS.hidden]
    for found, expected in zip(moved, left, strict=True):
        torch.testing.assert_close(found, expected)
    size = sum(square(before.Z[n]) + square(before.A[n]) for n in SKIPS.hidden)
    assert split.gaps == pytest.approx([(sum(map(square, left)) / size) ** 0.5] * 2)


@pytest.mark.parametrize(
    "network", [Network.chain([4, 5, 3], bias=True), SKIPS, IDENTITY], ids=["chain", "skips", "id"]
)
def test_the_weights_step_minimises_the_lagrangian(network):
    solver = ADMM(ridge=1e-12)
    problem, split, targets, W, V = begun(network, solver)
    for n in network.hidden:
        W |= solver.update_weights(network, split, W, n)
    best = lagrangian(problem, solver, split, targets, W, V)
    for edge, matrix in W.items():
        moved = W | {edge: matrix + 1e-3 * normal(*matrix.shape)}
        assert lagrangian(problem, solver, split, targets, moved, V) > best


@pytest.mark.parametrize("activation", [ReLU(), ClippedReLU(0.4)], ids=lambda activation: activation.name)
def test_pre_activations_are_the_minima_of_their_parabolas(activation):
    inputs, outputs = normal(60), normal(60, seed=1)
    found = update_pre_activation(inputs, outputs, 0.8, 2.5, activation)
    for p, q, z in zip(inputs.tolist(), outputs.tolist(), found.tolist(), strict=True):

        def cost(x, p=p, q=q):
            return 0.8 * (x - p) ** 2 + 2.5 * (min(activation.upper, max(0.0, x)) - q) ** 2

        ends = (-9, 0), (0, min(9, activation.upper)), (min(9, activation.upper), 9.1)
        sides = [minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-10}) for bounds in ends]
        assert cost(z) <= min(side.fun for side in sides) + 1e-9


def test_a_clipped_network_is_trained_and_its_features_stay_below_the_cap():
    X, targets = normal(40, 4), normal(40, 2, seed=1)
    network = Network.chain([4, 8, 8], activation=ClippedReLU(0.5))
    training = ADMM(epochs=10).run(Problem(network, lift=Fenchel()), X, targets)
    assert training.status is Status.FINISHED
    assert training.epochs[-1].loss < float(targets.square().sum(1).mean()) / 2
    assert float(network.features(X, training.blocks.W).max()) <= 0.5


def test_least_squares_is_ridge_regression():
    A, T = normal(20, 4).numpy(), normal(20, 3, seed=1).numpy()
    H = A.T @ A
    expected = np.linalg.solve(H + 0.1 * np.mean(np.diag(H)) * np.eye(4), A.T @ T).T
    np.testing.assert_allclose(least_squares(torch.tensor(A), torch.tensor(T), 0.1).numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("depth", [2, 3])
def test_digits_are_learned_and_the_constraints_close_in(digits, depth):
    X, y = digits
    problem = Problem(Network.chain([64] + [60] * depth, bias=True), lift=Fenchel())
    training = ADMM(40, warm_up=10).run(problem, X[:1300], problem.loss.encode(y[:1300]))
    scores = problem.network.features(X[1300:], training.blocks.W) @ training.blocks.V.T
    assert training.status is Status.FINISHED
    assert float((scores.argmax(1) != y[1300:]).float().mean()) < 0.15
    assert training.epochs[-1].loss < 0.7 * training.epochs[0].loss
    gaps = training.state.gaps
    assert gaps[9] < gaps[0]  # while the multipliers rest
    assert max(gaps) < 0.1


def test_multipliers_move_in_admm_and_stay_zero_in_the_quadratic_penalty(digits):
    X, y = digits[0][:200], digits[1][:200]
    problem = Problem(Network.chain([64, 20, 20]), lift=Fenchel())
    moved, still = (kind(15).run(problem, X, problem.loss.encode(y, 10)).state for kind in (ADMM, QuadraticPenalty))
    assert not any(bool(still.P[n].any() | still.Q[n].any()) for n in (1, 2))
    assert all(bool(moved.P[n].any() & moved.Q[n].any()) for n in (1, 2))


def test_the_same_seed_gives_the_same_bits_and_every_iteration_is_watched(digits):
    X, y = digits
    problem = Problem(Network.chain([64, 10]))
    seen = []
    first, second = (
        ADMM(3).run(problem, X, problem.loss.encode(y), seed=4, watch=lambda epoch, blocks: seen.append(epoch.number))
        for _ in range(2)
    )
    assert torch.equal(first.blocks.V, second.blocks.V)
    assert seen == [1, 2, 3] * 2


def test_it_starts_from_the_weights_given_and_leaves_them_alone(digits):
    X, y = digits
    problem = Problem(Network.chain([64, 20]))
    start = problem.network.random_weights(5)
    kept = start[1, 0].clone()
    ADMM(1).run(problem, X, problem.loss.encode(y), start=start)
    assert torch.equal(start[1, 0], kept)


def test_what_it_cannot_do_is_refused(digits):
    X, y = digits
    with pytest.raises(ValueError, match="loss must be the squared one"):
        ADMM().run(Problem(Network.chain([64, 5]), Softmax()), X, Softmax().encode(y))
    for settings in ({"beta": 0.0}, {"alpha": -1.0}, {"epochs": 0}, {"initial": "he"}, {"warm_up": 50}):
        with pytest.raises(ValueError, match=f"{next(iter(settings))} must be"):
            ADMM(**settings)


@pytest.mark.parametrize(
    ("scale", "dtype"), [(1e25, torch.float32), (1e-25, torch.float32), (1e18, torch.float32), (1e200, torch.float64)]
)
def test_data_beyond_the_range_of_their_type_end_with_finite_blocks(digits, scale, dtype):
    X, y = digits[0][:50].to(dtype), digits[1][:50]
    problem = Problem(Network.chain([64, 8, 8]), lift=Fenchel())
    seen = []
    training = ADMM(epochs=3).run(
        problem, scale * X, problem.loss.encode(y, 10).to(dtype), watch=lambda epoch, blocks: seen.append(blocks)
    )
    assert training.status in (Status.NONFINITE, Status.FINISHED)
    for blocks in (training.blocks, *seen):
        assert all(bool(matrix.isfinite().all()) for matrix in (blocks.V, *blocks.W.values()))


def test_an_iteration_that_breaks_leaves_the_blocks_before_it(digits, monkeypatch):
    X, y = digits[0][:50], digits[1][:50]
    problem = Problem(Network.chain([64, 8]), lift=Fenchel())
    iterate, seen = ADMM.iterate, []

    def break_third(self, problem, split, targets, W, V):
        W, V = iterate(self, problem, split, targets, W, V)
        return ({edge: torch.full_like(M, -torch.inf) for edge, M in W.items()} if len(seen) == 2 else W), V

    monkeypatch.setattr(ADMM, "iterate", break_third)
    training = ADMM(epochs=5).run(
        problem, X, problem.loss.encode(y, 10), watch=lambda epoch, blocks: seen.append(blocks)
    )
    assert training.status is Status.NONFINITE
    assert training.message.endswith("(iteration 3)")
    assert len(seen) == len(training.epochs) == 3
    assert training.blocks is seen[1] is seen[2]
    assert bool(training.blocks.V.isfinite().all() & training.blocks.W[1, 0].isfinite().all())


def test_what_admm_cannot_do_is_refused(digits):
    X, y = digits[0][:50], digits[1][:50]
    network = Network.chain([64, 8])
    problem = Problem(network, lift=Fenchel(), W_set=RowL1Ball(1.0))
    with pytest.raises(ValueError, match=r"W_set must be Everything\(\), .* got RowL1Ball"):
        ADMM().run(problem, X, problem.loss.encode(y, 10))
    with pytest.raises(ValueError, match=r"targets must have one row per sample \(50\), got 49"):
        ADMM().run(Problem(network, lift=Fenchel()), X, problem.loss.encode(y[:49], 10))
