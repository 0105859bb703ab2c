"""Activations with a bound: the run is in units of scaled inputs, the network that it leaves in those given."""

import pytest
import torch

from tests.trainer.runs import error
from tikhonet import Budget, Fenchel, Network, Problem, Stochastic
from tikhonet.network.activation import ClippedReLU


@pytest.mark.parametrize("factor", [0.01, 1.0, 100.0])
def test_a_clipped_network_trains_whatever_the_units(digits, factor):
    X, y, X_test, y_test = digits
    network = Network.chain([64, 60, 60], bias=True, activation=ClippedReLU(0.5 * factor))
    problem = Problem(network, lift=Fenchel())
    training = Stochastic(epochs=12, batch_size=100).run(problem, factor * X, problem.loss.encode(y))
    assert error(problem, training, factor * X_test, y_test) < 0.08
    features = network.features(factor * X, training.blocks.W)
    assert 0.01 < float((features == 0.5 * factor).float().mean()) < 0.99


@pytest.mark.parametrize("budget", [None, Budget(0.2)])
def test_outputs_in_given_units_are_those_of_the_scaled_run(digits, budget):
    X, y, *_ = digits
    X = 7 * X.double()
    network = Network.chain([64, 30, 30], bias=True, activation=ClippedReLU(3.0))
    problem = Problem(network, lift=Fenchel())
    solver = Stochastic(epochs=3, batch_size=100, refit=False, budget=budget)
    training = solver.run(problem, X, problem.loss.encode(y).double(), dtype=X.dtype)
    state, (W, V) = training.state, (training.blocks.W, training.blocks.V)
    assert state.scale > 2
    scaled = network.with_activation(ClippedReLU(3.0 / state.scale))
    inner = state.average.W if budget is None else {p: M / (state.scale if p[1] < 0 else 1) for p, M in W.items()}
    wanted = scaled.features(X / state.scale, inner) @ state.average.V.T
    torch.testing.assert_close(network.features(X, W) @ V.T, wanted)
    assert bool((network.features(X, W) == 3.0).any())
