"""Sec. 2.1: the graph, its forward pass (Eq. 1), and every way in which it can be wrong."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import networks, normal, seeds
from tikhonet import BIAS, Network


def equation_1(network, x, W):
    """Eq. 1 for one sample, layer by layer, from the edges alone."""
    U = {BIAS: np.ones(1), 0: x}

    def layer(n):
        if n not in U:
            Z = np.zeros(network.widths[n])
            for (target, m), kind in network.edges.items():
                if target == n:
                    Z += layer(m) if not kind.learned else W[n, m].numpy() @ layer(m)
            U[n] = np.clip(Z, network.activation.lower, network.activation.upper)
        return U[n]

    return {n: layer(n) for n in range(1, len(network.widths))}


def weights(network, seed):
    """Normal weights, biases included."""
    return {edge: normal(*network.shape(edge), seed=seed + k) for k, edge in enumerate(network.learned)}


@given(networks(), seeds)
def test_forward_is_equation_1(network, seed):
    X, W = normal(4, network.widths[0], seed=seed), weights(network, seed)
    U = network.forward(X, W)
    assert torch.equal(U[0], X)
    for i in range(4):
        for n, expected in equation_1(network, X[i].numpy(), W).items():
            np.testing.assert_allclose(U[n][i].numpy(), expected, rtol=1e-12, atol=1e-12)


@given(networks(max_depth=4), st.randoms(use_true_random=False), seeds)
def test_the_numbering_of_the_layers_does_not_matter(network, random, seed):
    inner = list(range(1, network.depth))
    random.shuffle(inner)
    name = {BIAS: BIAS, 0: 0, network.depth: network.depth} | dict(zip(range(1, network.depth), inner, strict=True))
    widths = [network.widths[next(old for old in name if name[old] == new)] for new in range(network.depth + 1)]
    renamed = Network(
        widths, {(name[n], name[m]): kind for (n, m), kind in network.edges.items()}, activation=network.activation
    )
    X, W = normal(3, network.widths[0], seed=seed), weights(network, seed)
    U = network.forward(X, W)
    U_renamed = renamed.forward(X, {(name[n], name[m]): matrix for (n, m), matrix in W.items()})
    for n in network.hidden:
        torch.testing.assert_close(U_renamed[name[n]], U[n], rtol=1e-12, atol=1e-12)


def test_hidden_lists_every_layer_after_its_sources():
    network = Network([2] * 4, {(2, 0): "learned", (1, 2): "learned", (3, 1): "learned", (3, 2): "identity"})
    assert network.hidden == (2, 1, 3)
    assert network.sources(3) == (1, 2)
    assert network.learned_sources(3) == (1,)
    assert network.targets(2) == (1, 3)


def test_paper_is_the_mapping_function_of_section_3_3_1():
    network = Network.paper(5)
    X, W = normal(6, 5, seed=1), network.random_weights(2, dtype=torch.float64)
    W_10, W_21, W_32 = (W[edge].numpy() for edge in ((1, 0), (2, 1), (3, 2)))
    for i, x in enumerate(X.numpy()):
        u1 = np.maximum(0, W_10 @ x)
        u2 = np.maximum(0, x + W_21 @ u1)
        u3 = np.maximum(0, x + u1 + W_32 @ u2)
        U = network.forward(X, W)
        for n, expected in ((1, u1), (2, u2), (3, u3)):
            np.testing.assert_allclose(U[n][i].numpy(), expected, rtol=1e-13, atol=1e-13)


def test_paper_has_784_nodes_a_layer_three_learned_matrices_and_no_bias():
    network = Network.paper()
    assert network.widths == (784,) * 4
    assert network.learned == ((1, 0), (2, 1), (3, 2))
    assert sum(not kind.learned for kind in network.edges.values()) == 3
    assert network.targets(BIAS) == ()


def test_chain_joins_each_layer_to_the_one_before():
    network = Network.chain([5, 4, 3, 2])
    assert {pair: edge.name for pair, edge in network.edges.items()} == dict.fromkeys([(1, 0), (2, 1), (3, 2)], "dense")
    assert [network.shape(edge) for edge in network.learned] == [(4, 5), (3, 4), (2, 3)]
    X, W = normal(6, 5), network.random_weights(dtype=torch.float64)
    expected = X
    for edge in network.learned:
        expected = (expected @ W[edge].T).relu()
    torch.testing.assert_close(network.features(X, W), expected, rtol=1e-13, atol=1e-13)


def test_bias_is_a_learned_edge_from_a_constant():
    network = Network.chain([3, 2], bias=True)
    assert network.learned == ((1, BIAS), (1, 0))
    assert network.shape((1, BIAS)) == (2, 1)
    X, W = normal(5, 3), weights(network, 4)
    expected = (X @ W[1, 0].T + W[1, BIAS].T).relu()
    torch.testing.assert_close(network.features(X, W), expected, rtol=1e-13, atol=1e-13)
    assert torch.equal(network.forward(X, W)[BIAS], torch.ones(5, 1, dtype=torch.float64))


def test_bias_is_had_by_the_named_layers_alone():
    network = Network.chain([3, 2, 2], bias=[2])
    assert network.sources(1) == (0,)
    assert network.sources(2) == (BIAS, 1)
    assert BIAS not in Network.chain([3, 2, 2]).layers(normal(2, 3))


@given(networks(), seeds)
def test_forward_in_float32_is_forward_in_float64_rounded(network, seed):
    X, W = normal(4, network.widths[0], seed=seed), weights(network, seed)
    exact = network.forward(X, W)
    single = network.forward(X.float(), {edge: matrix.float() for edge, matrix in W.items()})
    size = max(float(layer.abs().max()) for layer in exact.values())
    for n in network.hidden:
        assert exact[n].dtype == torch.float64
        assert single[n].dtype == torch.float32
        torch.testing.assert_close(single[n].double(), exact[n], rtol=1e-4, atol=1e-4 * size)


@given(networks(), seeds, st.integers(1, 9))
def test_features_are_the_last_layer_of_forward_for_any_chunk(network, seed, chunk_rows):
    X, W = normal(7, network.widths[0], seed=seed), weights(network, seed)
    last = network.forward(X, W)[network.depth]
    torch.testing.assert_close(network.features(X, W, chunk_rows), last, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.uint8])
def test_features_of_numpy_arrays_are_those_of_the_tensor(kind):
    network = Network.chain([3, 4, 2])
    W = network.random_weights(0)
    X = np.arange(15).reshape(5, 3).astype(kind)
    X.flags.writeable = False
    expected = network.features(torch.tensor(X).float(), W)
    assert torch.equal(network.features(X, W, chunk_rows=2), expected)


def test_forward_leaves_input_and_weights_as_they_were():
    network = Network.paper(4)
    X, W = normal(3, 4), network.random_weights(dtype=torch.float64)
    X_before, W_before = X.clone(), {edge: matrix.clone() for edge, matrix in W.items()}
    network.forward(X, W)
    assert torch.equal(X, X_before)
    assert all(torch.equal(W[edge], W_before[edge]) for edge in W)


@pytest.mark.parametrize("sources", [[0], [1], [0, 1], []])
def test_pre_activation_sums_over_the_given_sources_only(sources):
    network = Network([2, 3, 3], {(1, 0): "learned", (2, 0): "learned", (2, 1): "identity"})
    W = weights(network, 0)
    U = {0: normal(4, 2), 1: normal(4, 3, seed=1)}
    parts = {0: U[0] @ W[2, 0].T, 1: U[1]}
    expected = sum((parts[m] for m in sources), torch.zeros(4, 3, dtype=torch.float64))
    torch.testing.assert_close(network.pre_activation(2, U, W, sources), expected, rtol=1e-13, atol=1e-13)


# Random weights


def test_random_weights_are_repeatable_by_seed_and_differ_between_seeds():
    network = Network.paper(6)
    one, again, other = (network.random_weights(seed) for seed in (3, 3, 4))
    assert all(torch.equal(one[edge], again[edge]) for edge in network.learned)
    assert not any(torch.equal(one[edge], other[edge]) for edge in network.learned)


def test_random_weights_of_a_generator_go_on_where_it_stands():
    network, generator = Network.chain([4, 3]), torch.Generator().manual_seed(3)
    first, second = network.random_weights(generator), network.random_weights(generator)
    assert torch.equal(first[1, 0], network.random_weights(3)[1, 0])
    assert not torch.equal(first[1, 0], second[1, 0])


def test_random_weights_in_float32_are_those_in_float64_rounded():
    network = Network.chain([4, 3], bias=True)
    single, double = network.random_weights(5), network.random_weights(5, dtype=torch.float64)
    assert all(torch.equal(single[edge], double[edge].float()) for edge in network.learned)


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_random_weights_have_variance_scale_squared_over_fan_in(scale):
    network = Network([300, 100, 200], {(1, 0): "learned", (2, 0): "learned", (2, 1): "learned"}, bias=[2])
    W = network.random_weights(0, scale, dtype=torch.float64)
    for edge, fan_in in (((1, 0), 300), ((2, 0), 400), ((2, 1), 400)):
        # The variance of n normal numbers is known to within a relative sqrt(2 / n), here 0.01; five of those.
        assert float(W[edge].var()) == pytest.approx(scale**2 / fan_in, rel=0.05)
    assert not W[2, BIAS].any()


# Errors


@pytest.mark.parametrize(
    ("widths", "edges", "words"),
    [
        ([2, 2, 2], {(1, 0): "learned", (1, 2): "learned", (2, 1): "learned"}, ["cycle", "1 -> 2 -> 1"]),
        ([2, 2], {(1, 0): "learned", (1, 1): "identity"}, ["cycle", "1 -> 1"]),
        (
            [3, 2],
            {(1, 0): "identity"},
            [r"edge \(1, 0\): identity must join", "a target of 2 and a source of 3"],
        ),
        ([3, 2, 2], {(2, 0): "learned"}, ["layer 1 has no source"]),
        ([3, 2], {}, ["layer 1 has no source"]),
        ([3, 2], {(1, BIAS): "learned"}, ["layer 1 has no source"]),
        ([3, 2], {(1, 0): "learned", (2, 1): "learned"}, [r"edge \(2, 1\)", "unknown layer"]),
        ([3, 2], {(1, 0): "learned", (1, 5): "learned"}, [r"edge \(1, 5\)", "unknown layer"]),
        ([3, 2], {(1, 0): "learned", (1, -2): "learned"}, [r"edge \(1, -2\)", "unknown layer"]),
        ([3, 2], {(1, 0): "learned", (0, 1): "learned"}, [r"edge \(0, 1\)", "unknown layer"]),
        ([3, 2], {(1, 0): "fixed"}, [r"edge \(1, 0\)", "'fixed'"]),
        ([2, 2, 2], {(1, 0): "learned", (2, 0): "learned"}, ["layer 1 does not reach the last layer 2"]),
        ([3], {}, ["at least one hidden layer"]),
    ],
)
def test_a_wrong_graph_is_an_error_that_names_the_edge_or_layer(widths, edges, words):
    with pytest.raises(ValueError) as error:
        Network(widths, edges)
    for word in words:
        assert error.match(word)


@pytest.mark.parametrize("width", [0, -3, 2.5, float("nan"), float("inf"), "4", None])
def test_a_width_that_is_not_an_integer_of_at_least_1_is_an_error_that_names_the_layer(width):
    with pytest.raises(ValueError, match="width of layer 1 must be an integer of at least 1"):
        Network([3, width, 2], {(1, 0): "learned", (2, 1): "learned"})


def test_a_bias_of_an_unknown_layer_is_an_error_that_names_it():
    with pytest.raises(ValueError, match=r"edge \(3, -1\) names an unknown layer"):
        Network.chain([3, 2, 2], bias=[3])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda W: W.pop((2, 1)), r"learned edges \[\(1, 0\), \(2, 1\)\], got \[\(1, 0\)\]"),
        (lambda W: W.update({(2, 0): W[2, 1]}), r"got \[\(1, 0\), \(2, 0\), \(2, 1\)\]"),
        (lambda W: W.update({(2, 1): W[2, 1].T}), r"W\[2, 1\] must have shape \(2, 4\), got \(4, 2\)"),
    ],
)
def test_wrong_weights_are_an_error_that_names_the_edge(change, words):
    network = Network.chain([3, 4, 2])
    W = network.random_weights()
    change(W)
    with pytest.raises(ValueError, match=words):
        network.forward(torch.zeros(5, 3), W)


@pytest.mark.parametrize("shape", [(5, 4), (3,), (5, 3, 1)])
def test_an_input_of_the_wrong_width_is_an_error_that_names_both_shapes(shape):
    network = Network.chain([3, 2])
    with pytest.raises(ValueError, match=r"X must have shape \(samples, 3\)") as error:
        network.forward(torch.zeros(shape), network.random_weights())
    assert str(shape) in str(error.value)


# Text, equality


def test_repr_of_the_papers_network():
    assert repr(Network.paper(784)) == (
        "Network(784 -> 784 -> 784 -> 784)\n"
        "  u1 = relu(W[1,0] u0)\n"
        "  u2 = relu(W[2,1] u1 + u0)\n"
        "  u3 = relu(W[3,2] u2 + u1 + u0)\n"
        "  1,843,968 weights in 3 learned edges"
    )


def test_repr_names_biases_and_counts_them():
    assert repr(Network.chain([3, 2], bias=True)) == (
        "Network(3 -> 2)\n  u1 = relu(W[1,0] u0 + b1)\n  8 weights in 2 learned edges"
    )


def test_networks_are_equal_and_hash_alike_whatever_the_order_of_their_edges():
    edges = {(1, 0): "learned", (2, 1): "identity", (2, 0): "learned"}
    one, two = Network([3, 2, 2], edges), Network([3, 2, 2], dict(reversed(edges.items())))
    assert one == two
    assert len({one, two}) == 1
    assert Network.chain([3, 2], bias=True) == Network([3, 2], {(1, 0): "learned", (1, BIAS): "learned"})


@pytest.mark.parametrize(
    "other",
    [Network([3, 3], {(1, 0): "identity"}), Network.chain([3, 2]), Network.chain([3, 3], bias=True), "Network(3 -> 3)"],
)
def test_networks_of_other_widths_kinds_or_edges_differ(other):
    assert Network.chain([3, 3]) != other
