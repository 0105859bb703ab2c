"""Steps that keep the norm of a layer's weights and the mean of every unit."""

import pytest
import torch
from sklearn.datasets import load_digits

from tests.strategies import normal
from tikhonet import Conv2d, GlobalAverage, Network, Problem, Stochastic
from tikhonet.trainer.statistics import FullGram
from tikhonet.trainer.turning import against_mean, mean_inputs, turned

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


INPUTS = torch.cat([torch.ones(50, 1), normal(50, 4).float() + 2], 1)
BIASED = Network.chain([4, 3], bias=True)


def gram_of(A):
    return FullGram(A.T @ A, 1.0, float(len(A)))


def test_no_units_mean_moves_along_a_direction():
    direction = normal(3, 5, seed=1).float()
    weights = direction[:, 1:].clone()
    against_mean(direction, mean_inputs(BIASED, 1, gram_of(INPUTS)))
    torch.testing.assert_close((INPUTS @ direction.T).mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    assert torch.equal(direction[:, 1:], weights)
    assert torch.equal(mean_inputs(BIASED, 1, FullGram(torch.zeros(5, 5), 1.0, 0.0)), torch.zeros(4))
    assert mean_inputs(Network.chain([4, 3]), 1, gram_of(INPUTS)) is None


@pytest.mark.parametrize("length", [0.1, 3.0])
def test_no_units_mean_moves_where_weights_turn_far(length):
    M, step = normal(3, 5).float(), normal(3, 5, seed=1).float()
    means, norm = (INPUTS @ M.T).mean(0), float(M[:, 1:].norm())
    moved = turned(BIASED, 1, M, step, length, mean_inputs(BIASED, 1, gram_of(INPUTS)))
    torch.testing.assert_close((INPUTS @ moved.T).mean(0), means, atol=1e-4, rtol=0)
    assert float(moved[:, 1:].norm()) == pytest.approx(norm, rel=1e-5)


def test_images_that_are_not_centred_are_learned():
    digits = load_digits()
    X, y = torch.tensor(2 - digits.images / 16).float().flatten(1), torch.tensor(digits.target)
    network = Network.sequential((1, 8, 8), Conv2d(4, 3), Conv2d(6, 3), 16)
    problem = Problem(network, lift="fenchel", gamma=1.0)
    blocks = Stochastic(epochs=5, batch_size=50).run(problem, X[:600], problem.loss.encode(y[:600], 10), seed=0).blocks
    scores = network.features(X[600:], blocks.W) @ blocks.V.T
    assert float((scores.argmax(1) == y[600:]).double().mean()) > 0.7


def test_a_layer_beside_an_identity_and_weights_of_zero_take_the_whole_step():
    network = Network([3, 3, 3], {(1, 0): "dense", (2, 1): "dense", (2, 0): "identity"})
    step = normal(3, 3).float()
    torch.testing.assert_close(turned(network, 2, torch.eye(3), step, 0.5, None), torch.eye(3) + 0.5 * step)
    torch.testing.assert_close(turned(network, 1, torch.zeros(3, 3), step, 0.5, None), 0.5 * step)
    assert float(turned(network, 1, torch.eye(3), step, 0.5, None).norm()) == pytest.approx(3**0.5, rel=1e-6)
