import pytest
import torch
from hypothesis import given, settings

from tests.strategies import networks, seeds
from tikhonet import Budget, Network, Problem, compact
from tikhonet.trainer.sparsity.scopes import free_layers, living, restrict
from tikhonet.trainer.sparsity.zeros import measure_sparsity


def scores(network, X, W, V):
    return network.features(X, W) @ V.T


@given(networks(max_depth=4, max_width=6), seeds)
@settings(max_examples=60)
def test_the_smaller_network_has_the_same_outputs_and_no_dead_unit(network, seed):
    generator = torch.Generator().manual_seed(seed)
    W = {edge: torch.randn(network.shape(edge), generator=generator, dtype=torch.float64) for edge in network.learned}
    V = torch.randn(3, network.widths[-1], generator=generator, dtype=torch.float64)
    if free_layers(network):
        W = restrict(W, Budget(0.4, "units").choose(network, W, V))
    X = torch.randn(7, network.widths[0], generator=generator, dtype=torch.float64)
    smaller, W_small, V_small = compact(network, W, V)
    torch.testing.assert_close(scores(smaller, X, W_small, V_small), scores(network, X, W, V))
    assert all(a <= b for a, b in zip(smaller.widths, network.widths, strict=True))
    for n in smaller.hidden:
        assert smaller.widths[n] == 1 or bool(living(smaller, W_small, n).all())


def test_a_quarter_of_the_units_leaves_layers_of_a_quarter():
    network = Network.chain([20, 16, 8], bias=True)
    W, V = network.random_weights(0), torch.randn(3, 8)
    W = {edge: torch.randn_like(matrix) for edge, matrix in W.items()}
    smaller, *_ = compact(network, restrict(W, Budget(0.25, "units").choose(network, W, V)), V)
    assert smaller.widths == (20, 4, 2)


def test_a_network_without_dead_units_stays_as_it_is():
    network = Network.paper(5)
    W, V = network.random_weights(0), torch.randn(2, 5)
    same, W_same, V_same = compact(network, W, V)
    assert same == network
    assert torch.equal(V_same, V)
    assert all(torch.equal(W[edge], W_same[edge]) for edge in W)


def test_a_layer_of_dead_units_keeps_one():
    network = Network.chain([3, 4, 2])
    W = {edge: torch.zeros(network.shape(edge)) for edge in network.learned}
    smaller, W_small, V_small = compact(network, W, torch.ones(2, 2))
    assert smaller.widths == (3, 1, 1)
    assert not bool(scores(smaller, torch.ones(5, 3), W_small, V_small).any())


@pytest.mark.parametrize("bias", [False, True])
def test_a_network_without_weights_has_no_zeros_and_stays_as_it_is(bias):
    network = Network([3, 3, 3], {(1, 0): "identity", (2, 1): "identity", (2, 0): "identity"}, bias)
    W, V = network.random_weights(0), torch.randn(2, 3)
    found = measure_sparsity(Problem(network), W)
    assert found.share == found.as_dict()["share"] == 1.0
    same, W_same, V_same = compact(network, W, V)
    assert same == network
    assert set(W_same) == set(W)
    assert torch.equal(V_same, V)
