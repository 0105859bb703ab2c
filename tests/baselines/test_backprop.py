import pytest
import torch
from sklearn.datasets import load_digits

from tikhonet import Fenchel, Network, Problem
from tikhonet.baselines import SOLVERS, Backprop
from tikhonet.initialisations import initial_weights

RATES = {"SGD": 0.03, "Nesterov": 0.03, "AdaGrad": 0.02, "AdaDelta": 1.0, "RMSProp": 1e-3, "Adam": 3e-3}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y)


def test_the_table_holds_the_papers_six():
    assert set(SOLVERS) == {"SGD", "AdaDelta", "AdaGrad", "Adam", "Nesterov", "RMSProp"}


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_learns_the_digits(solver, digits):
    X, y = digits
    problem = Problem(Network.paper(64), lift=Fenchel())
    training = Backprop(solver, RATES[solver], epochs=8, batch_size=64).run(
        problem, X[:1300], problem.loss.encode(y[:1300])
    )
    scores = problem.network.features(X[1300:], training.blocks.W) @ training.blocks.V.T
    assert training.epochs[-1].loss < training.epochs[0].loss
    assert float((scores.argmax(1) != y[1300:]).float().mean()) < 0.15


def test_the_scores_are_those_of_the_forward_pass(digits):
    X, _ = digits
    network = Network.chain([64, 9, 5], bias=True)
    problem, W = Problem(network), network.random_weights(0)
    V = torch.randn(3, 5)
    torch.testing.assert_close(Backprop().scores(problem, X, V, W), network.features(X, W) @ V.T)


def test_the_same_seed_gives_the_same_bits_with_dropout(digits):
    X, y = digits
    problem = Problem(Network.chain([64, 20]))
    solver = Backprop(epochs=1, drop_inputs=0.1, drop_features=0.2)
    first, second = (solver.run(problem, X, problem.loss.encode(y), seed=4).blocks.V for _ in range(2))
    assert torch.equal(first, second)


def test_it_starts_from_the_weights_given_and_leaves_them_alone(digits):
    X, y = digits
    problem = Problem(Network.chain([64, 20]))
    start = problem.network.random_weights(5)
    kept = start[1, 0].clone()
    training = Backprop("SGD", 1e-12, epochs=1).run(problem, X, problem.loss.encode(y), start=start)
    torch.testing.assert_close(training.blocks.W[1, 0], kept)
    assert torch.equal(start[1, 0], kept)


@pytest.mark.parametrize("initial", ["gaussian", "looks-linear"])
def test_it_starts_from_the_initialisation_named(digits, initial):
    X, y = digits
    problem = Problem(Network.chain([64] + [20] * 5))
    training = Backprop("SGD", 1e-12, epochs=1, initial=initial, initial_scale=1.0).run(
        problem, X, problem.loss.encode(y), seed=3
    )
    expected = initial_weights(problem.network, initial, 3)
    for edge, matrix in training.blocks.W.items():
        torch.testing.assert_close(matrix, expected[edge])


@pytest.mark.parametrize("settings", [{"solver": "Adamax"}, {"rate": 0.0}, {"schedule": "linear"}, {"initial": "he"}])
def test_bad_settings_are_refused(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must be"):
        Backprop(**settings)
