import math

import pytest
import torch

from tests.strategies import normal
from tikhonet.network.graph import BIAS, Network
from tikhonet.network.initial import deep_and_plain, initial_weights


def flat_response(network, W, X):
    """How far the pre-activations of the last layer are from a linear function: |Z(x) + Z(-x)|, and their size."""
    there, back = (network.pre_activation(network.depth, network.forward(rows, W), W) for rows in (X, -X))
    return float((there + back).norm()), float(there.norm())


@pytest.mark.parametrize("widths", [[5, 8, 8, 8], [5, 7, 9, 3, 4], [3, 6, 2, 10], [4, 9], [1, 2, 5]])
@pytest.mark.parametrize("bias", [False, True])
def test_a_looks_linear_chain_of_any_widths_is_linear_and_alive(widths, bias):
    network = Network.chain(widths, bias)
    W = initial_weights(network, "looks-linear", 3, dtype=torch.float64)
    network.check_weights(W)
    departure, size = flat_response(network, W, normal(20, widths[0]))
    assert departure < 1e-12 * size
    assert size > 0


def test_several_learned_sources_still_look_linear():
    edges = {(1, 0): "learned", (2, 1): "learned", (3, 0): "learned", (3, 1): "learned", (3, 2): "learned"}
    network = Network([4, 6, 7, 8], edges)
    departure, size = flat_response(
        network, initial_weights(network, "looks-linear", dtype=torch.float64), normal(9, 4)
    )
    assert departure < 1e-12 * size


def test_equal_even_widths_keep_all_distances():
    """From the first layer on the network is an isometry of what its first matrix made."""
    network = Network.chain([6, 10] + [10] * 20)
    W = initial_weights(network, "looks-linear", dtype=torch.float64)
    U = network.forward(normal(15, 6), W)
    # Signed values x of the pairs: max(0, x) - max(0, -x).
    first, last = (U[n][:, :5] - U[n][:, 5:] for n in (1, network.depth))
    torch.testing.assert_close(torch.cdist(first, first), torch.cdist(last, last))


def test_the_first_matrix_has_variance_two_over_the_inputs_times_the_scale_squared():
    network = Network.chain([400, 600, 4])
    W = initial_weights(network, "looks-linear", scale=3.0)
    assert abs(float(W[1, 0].std()) - 3 * math.sqrt(2 / 400)) < 0.01 * 3 * math.sqrt(2 / 400)
    assert torch.equal(W[1, 0][:300], -W[1, 0][300:])


def test_a_width_of_one_passes_something_on():
    network = Network.chain([3, 1, 4])
    W = initial_weights(network, "looks-linear")
    assert float(network.features(normal(30, 3).float(), W).abs().max()) > 0


def test_biases_start_at_zero():
    W = initial_weights(Network.chain([3, 4, 5], bias=True), "looks-linear")
    assert all(not matrix.any() for (_, m), matrix in W.items() if m == BIAS)


@pytest.mark.parametrize(
    ("network", "kind"),
    [
        (Network.chain([4] * 4), "gaussian"),
        (Network.chain([4] * 5), "looks-linear"),
        (Network([4] * 6, {(n, n - 1): "learned" for n in range(1, 6)} | {(5, 3): "identity"}), "gaussian"),
    ],
)
def test_auto_looks_linear_only_where_the_network_is_deep_and_plain(network, kind):
    assert deep_and_plain(network) is (kind == "looks-linear")
    auto, chosen = (initial_weights(network, name, 7) for name in ("auto", kind))
    assert all(torch.equal(auto[edge], chosen[edge]) for edge in network.learned)


def test_gaussian_is_the_networks_own():
    network = Network.chain([4, 5, 6])
    one, other = initial_weights(network, "gaussian", 2, 0.7), network.random_weights(2, 0.7)
    assert all(torch.equal(one[edge], other[edge]) for edge in network.learned)


def test_seeds_repeat_and_float32_is_float64_rounded():
    network = Network.chain([4] * 6)
    one, again, other = (initial_weights(network, "auto", seed, dtype=torch.float64) for seed in (1, 1, 2))
    single = initial_weights(network, "auto", 1)
    for edge in network.learned:
        assert torch.equal(one[edge], again[edge])
        assert not torch.equal(one[edge], other[edge])
        assert torch.equal(one[edge].float(), single[edge])


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="initial must be one of 'auto', 'gaussian', 'looks-linear', got 'he'"):
        initial_weights(Network.chain([2, 2]), "he")
