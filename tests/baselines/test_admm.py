import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_digits

from tests.strategies import normal
from tikhonet import Fenchel, Network, Problem, Softmax, Status
from tikhonet.baselines.admm import ADMM, Split, least_squares, update_pre_activation

SKIPS = Network(
    [4, 5, 5, 3], {(1, 0): "learned", (2, 1): "learned", (3, 1): "learned", (3, 2): "learned", (2, 0): "learned"}, [2]
)
IDENTITY = Network([4, 4, 4], {(1, 0): "learned", (2, 1): "learned", (2, 0): "identity"})


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y)


def lagrangian(problem, solver, split, targets, W, V):
    """L of the module's docstring, with neither the multipliers' squares nor the ridges."""
    network = problem.network
    value = float(problem.loss.rows(targets, split.A[network.depth] @ V.T).sum())
    for n in network.hidden:
        value += (
            solver.beta / 2 * float((split.Z[n] - network.pre_activation(n, split.A, W) + split.P[n]).square().sum())
        )
        value += solver.alpha / 2 * float((split.A[n] - split.Z[n].relu() + split.Q[n]).square().sum())
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
def test_the_step_of_a_layers_outputs_minimises_the_lagrangian(network):
    solver = ADMM(beta=0.7, alpha=1.9)
    problem, split, targets, W, V = begun(network, solver)
    for n in network.hidden:
        solver.update_outputs(problem, split, targets, W, V, n)
        best, point = lagrangian(problem, solver, split, targets, W, V), split.A[n]
        for seed in range(4):
            for step in (1e-3, -1e-3):
                split.A[n] = point + step * normal(*point.shape, seed=seed)
                assert lagrangian(problem, solver, split, targets, W, V) > best
        split.A[n] = point


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


def test_pre_activations_are_the_minima_of_their_two_parabolas():
    inputs, outputs = normal(30), normal(30, seed=1)
    found = update_pre_activation(inputs, outputs, 0.8, 2.5)
    for p, q, z in zip(inputs.tolist(), outputs.tolist(), found.tolist(), strict=True):

        def cost(x, p=p, q=q):
            return 0.8 * (x - p) ** 2 + 2.5 * (max(0.0, x) - q) ** 2

        sides = [
            minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-10})
            for bounds in ((-9, 0), (0, 9))
        ]
        assert cost(z) <= min(side.fun for side in sides) + 1e-9


def test_least_squares_is_ridge_regression():
    A, T = normal(20, 4).numpy(), normal(20, 3, seed=1).numpy()
    H = A.T @ A
    expected = np.linalg.solve(H + 0.1 * np.mean(np.diag(H)) * np.eye(4), A.T @ T).T
    np.testing.assert_allclose(least_squares(torch.tensor(A), torch.tensor(T), 0.1).numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("depth", [2, 3])
def test_digits_are_learned_and_the_constraints_close_in(digits, depth):
    X, y = digits
    problem = Problem(Network.chain([64] + [60] * depth, bias=True), lift=Fenchel())
    training = ADMM(40).run(problem, X[:1300], problem.loss.encode(y[:1300]))
    scores = problem.network.features(X[1300:], training.blocks.W) @ training.blocks.V.T
    assert training.status is Status.FINISHED
    assert float((scores.argmax(1) != y[1300:]).float().mean()) < 0.15
    assert training.epochs[-1].loss < 0.7 * training.epochs[0].loss
    gaps = training.state.gaps
    assert gaps[9] < gaps[0]  # while the multipliers rest
    assert max(gaps) < 0.1


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
    for settings in ({"beta": 0.0}, {"alpha": -1.0}, {"epochs": 0}, {"initial": "he"}):
        with pytest.raises(ValueError, match=f"{next(iter(settings))} must be"):
            ADMM(**settings)
