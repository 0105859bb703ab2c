"""Steps that keep the norm of a layer's weights and the mean of every unit."""

import pytest
import torch

from tests.strategies import normal
from tikhonet import Conv2d, GlobalAverage, Network, Problem, Stochastic
from tikhonet.trainer.statistics import FullGram
from tikhonet.trainer.turning import against_mean, turned

IMAGES = Network.sequential((1, 6, 6), Conv2d(4, 3), Conv2d(5, 3), GlobalAverage())
DENSE = Network.chain([36, 6, 5], bias=True)


@pytest.mark.parametrize(("network", "settings"), [(IMAGES, {}), (DENSE, {"turns": True}), (DENSE, {})])
def test_weights_of_a_run_keep_their_norms_where_steps_turn(network, settings):
    X, Y = normal(90, 36).float(), normal(90, 3, seed=1).float()
    solver, problem = Stochastic(epochs=3, batch_size=30, **settings), Problem(network, lift="fenchel", gamma=1.0)
    start = network.random_weights(0)
    W = solver.run(problem, X, Y, start=start).state.W
    weights = network.penalised
    same = [float(W[pair].norm()) == pytest.approx(float(start[pair].norm()), rel=1e-4) for pair in weights]
    assert all(same) is bool(network.has_images or settings)
    assert not any(torch.equal(W[pair], start[pair]) for pair in network.learned)


def test_no_units_mean_moves_along_a_direction():
    A = torch.cat([torch.ones(50, 1), normal(50, 4).float() + 2], 1)
    gram = FullGram(A.T @ A, 1.0, 50.0)
    network = Network.chain([4, 3], bias=True)
    direction = normal(3, 5, seed=1).float()
    weights = direction[:, 1:].clone()
    moved = against_mean(network, 1, direction, gram)
    torch.testing.assert_close((A @ moved.T).mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    assert torch.equal(moved[:, 1:], weights)
    empty = FullGram(torch.zeros(5, 5), 1.0, 0.0)
    assert torch.equal(against_mean(network, 1, direction.clone(), empty), direction)
    plain = normal(3, 4).float()
    assert torch.equal(against_mean(Network.chain([4, 3]), 1, plain.clone(), gram), plain)


def test_a_layer_beside_an_identity_and_weights_of_zero_take_the_whole_step():
    network = Network([3, 3, 3], {(1, 0): "dense", (2, 1): "dense", (2, 0): "identity"})
    step = normal(3, 3).float()
    torch.testing.assert_close(turned(network, 2, torch.eye(3), step, 0.5), torch.eye(3) + 0.5 * step)
    torch.testing.assert_close(turned(network, 1, torch.zeros(3, 3), step, 0.5), 0.5 * step)
    assert float(turned(network, 1, torch.eye(3), step, 0.5).norm()) == pytest.approx(3**0.5, rel=1e-6)
