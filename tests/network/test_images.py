"""Layers of images: convolutions and means as linear operators, networks made of them, and what is refused."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracles
from tests.strategies import convolutions, image_networks, normal, seeds
from tikhonet import AvgPool2d, Bias, Conv2d, Dense, GlobalAverage, Identity, Network
from tikhonet.network.designs import PATCHES
from tikhonet.network.errors import ArgumentError
from tikhonet.network.initial import initial_weights
from tikhonet.network.shapes import as_images

images = st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 5))
LENET = Conv2d(6, 5, padding=2), AvgPool2d(2), Conv2d(16, 5), AvgPool2d(2), 120, 84


@st.composite
def edges(draw):
    """Any edge from a layer of images, joined, or the bias of one."""
    source = draw(images)
    pool = st.builds(AvgPool2d, st.tuples(*(st.integers(1, n) for n in source[1:])), st.integers(1, 3))
    padded = st.just(AvgPool2d(2, 1, 1))
    edge = draw(st.one_of(convolutions(*source), pool, padded, st.just(GlobalAverage()), st.just(Bias())))
    return edge.join(1, source) if edge.constant else edge.join(source, edge.leads_to(source))


def draw_values(edge, seed, rows=3):
    W = normal(*edge.shape, seed=seed + 2) if edge.learned else None
    return normal(rows, edge.inputs, seed=seed), normal(rows, edge.outputs, seed=seed + 1), W


@settings(max_examples=200)
@given(edges(), seeds, st.floats(-2, 2))
def test_operator_and_adjoint_are_the_written_matrix_and_its_transpose(edge, seed, alpha):
    U, R, W = draw_values(edge, seed)
    matrix = torch.from_numpy(oracles.edge_matrix(edge, None if W is None else W.numpy()))
    torch.testing.assert_close(edge.apply(U, W), U @ matrix.T)
    torch.testing.assert_close(edge.adjoint(R, W), R @ matrix)
    assert float((edge.apply(U, W) * R).sum()) == pytest.approx(float((U * edge.adjoint(R, W)).sum()), abs=1e-9)
    Z, Y = torch.ones(3, 2 * edge.outputs).double()[:, : edge.outputs], torch.ones_like(U)
    assert edge.apply(U, W, out=Z) is Z
    assert edge.adjoint(R, W, out=Y, alpha=alpha) is Y
    torch.testing.assert_close(Z, 1 + U @ matrix.T)
    torch.testing.assert_close(Y, 1 + alpha * R @ matrix)
    torch.testing.assert_close(edge.onward(W).double().expand(edge.inputs), matrix.square().sum(0).to(torch.float64))
    if not edge.constant:
        torch.testing.assert_close(edge.export(W).matrix.double(), matrix)


BOTH = edges() | images.map(lambda s: Identity().join(s, s)) | images.map(lambda s: Dense().join(s, 3))


def forms(values, shape):
    """A layer's values as rows and, if it has a shape, as images."""
    return [values, as_images(values, shape)] if len(shape) > 1 else [values]


@settings(max_examples=200)
@given(BOTH, seeds, st.floats(-2, 2))
def test_layers_may_be_given_as_rows_or_as_images(edge, seed, alpha):
    U, R, W = draw_values(edge, seed)
    Z, Y = edge.apply(U, W), edge.adjoint(R, W)
    for form in forms(U, edge.source):
        found = edge.apply(form, W)
        assert found.ndim == (form.ndim if len(edge.target) > 1 else 2)
        torch.testing.assert_close(found.flatten(1), Z)
        for out in map(torch.clone, forms(torch.ones_like(Z), edge.target)):
            assert edge.apply(form, W, out=out) is out
            torch.testing.assert_close(out.flatten(1), 1 + Z)
    for form in forms(R, edge.target):
        torch.testing.assert_close(edge.adjoint(form, W, alpha=alpha).flatten(1), alpha * Y)
        for out in map(torch.clone, forms(torch.ones_like(Y), edge.source)):
            assert edge.adjoint(form, W, out=out, alpha=alpha) is out
            torch.testing.assert_close(out.flatten(1), 1 + alpha * Y)
    for source, target in itertools.product(forms(U, edge.source), forms(R, edge.target)) if edge.learned else ():
        torch.testing.assert_close(edge.product(target, source), edge.product(R, U))
        torch.testing.assert_close(edge.gram_inputs(source), edge.gram_inputs(U))


@given(images, st.integers(1, 3))
def test_images_are_pixel_by_pixel_in_memory_whatever_their_sizes(shape, rows):
    U = normal(rows, math.prod(shape))
    found = as_images(U, shape)
    assert found.stride() == (math.prod(shape), 1, shape[2] * shape[0], shape[0])
    assert torch.equal(found.flatten(1), U)
    assert as_images(found, shape).data_ptr() == found.data_ptr()


LEARNED = images.flatmap(lambda s: convolutions(*s).map(lambda c: c.join(s, c.leads_to(s))))


@given(LEARNED | images.map(lambda shape: Bias().join(1, shape)), seeds)
def test_the_product_is_the_gradient_in_the_filters(edge, seed):
    U, R, W = draw_values(edge, seed)
    W.requires_grad_()
    (gradient,) = torch.autograd.grad((edge.apply(U, W) * R).sum(), W)
    torch.testing.assert_close(edge.product(R, U), gradient)


@given(image_networks(), seeds)
def test_designs_are_the_maps_from_filters_to_pre_activations(network, seed):
    W = {pair: normal(*network.shape(pair), seed=seed + k) for k, pair in enumerate(network.learned)}
    U, weight = network.forward(normal(5, network.widths[0], seed=seed), W), normal(5).abs()
    for n in network.hidden:
        learned = network.learned_sources(n)
        if not learned:
            continue
        design, M = network.design(n, U), network.stacked_weights(n, W)
        M.requires_grad_()
        Z = network.pre_activation(n, U, W, learned)
        torch.testing.assert_close(design.scores(M), Z)
        torch.testing.assert_close(design[:2].scores(M), Z[:2])
        # The Hessian of half the weighted squares, in the rows of M one by one.
        hessian = torch.autograd.functional.hessian(
            lambda M, design=design: 0.5 * (weight @ design.scores(M).square()).sum(), M.detach()
        )
        gram = design.gram(weight)
        grams = gram if gram.ndim == 3 else gram[None]
        share = len(M) // len(grams)
        for row in range(len(M)):
            torch.testing.assert_close(hessian[row, :, row], grams[row // share])


def test_grams_are_the_same_sums_however_few_patches_fit(monkeypatch):
    network = Network.sequential((2, 4, 4), Conv2d(3, 2))
    U = network.layers(normal(7, 32))
    whole, weighted = network.design(1, U).gram(), network.design(1, U).gram(torch.arange(7.0).double())
    assert PATCHES > 7 * 9 * 9
    monkeypatch.setattr("tikhonet.network.designs.PATCHES", 2 * 9 * 9)
    torch.testing.assert_close(network.design(1, U).gram(), whole)
    torch.testing.assert_close(network.design(1, U).gram(torch.arange(7.0).double()), weighted)


@pytest.mark.parametrize("groups", [1, 2])
def test_of_large_images_every_kth_patch_is_taken_as_many_as_are_enough(monkeypatch, groups):
    network = Network.sequential((2, 30, 32), Conv2d(4, 3, padding=1, groups=groups))
    U, weight = network.layers(normal(20, 2 * 30 * 32)), torch.arange(20.0).double()
    design, entries = network.design(1, U), 18 // groups + 1
    whole, all_weights = design.few(weight)
    assert len(whole) == groups * 16 * 960
    assert torch.equal(design.few()[0], whole)
    monkeypatch.setattr("tikhonet.network.designs.MOST", 16 * 960 * groups * entries // 8)
    some, weights = design.few(weight)
    assert len(some) == len(weights) == groups * 16 * 107  # every 9th, since 8 divides the width
    places = torch.arange(0, 960, 9)
    assert torch.equal(some, whole.view(groups, 16, 960, -1)[:, :, places].flatten(0, 2))
    assert torch.equal(weights, all_weights.view(groups, 16, 960)[:, :, places].flatten())
    monkeypatch.setattr("tikhonet.network.designs.MOST", 1)
    assert 8 * entries < len(design.few()[0]) < 14 * entries


def test_a_lenet_takes_five_lines_and_shows_its_shapes():
    network = Network.sequential((1, 28, 28), *LENET)
    assert network.shapes == ((1, 28, 28), (6, 28, 28), (6, 14, 14), (16, 10, 10), (16, 5, 5), (120,), (84,))
    text = repr(network)
    assert "Network(1x28x28 -> 6x28x28 -> 6x14x14 -> 16x10x10 -> 16x5x5 -> 120 -> 84)" in text
    assert "u1 = relu(W[1,0] * u0 + b1)" in text
    assert "u2 = relu(mean u1)" in text
    torch_count = 6 * 25 + 6 + 16 * 150 + 16 + 120 * 400 + 120 + 84 * 120 + 84
    assert f"{torch_count:,} weights in 8 learned edges" in text
    pytest.importorskip("matplotlib").use("Agg")
    assert "16x10x10" in " ".join(text.get_text() for text in network.draw().texts)


def test_a_network_of_images_is_torchs_modules():
    from torch import nn

    network = Network.sequential(
        (1, 12, 12), Conv2d(4, 3, 2, 1), AvgPool2d(2), Conv2d(6, 3, groups=2), GlobalAverage(), 5
    )
    W = network.random_weights(0)
    b = {n: W[n, -1] + normal(*W[n, -1].shape, seed=n).float() for n in (1, 3, 5)}
    W |= {(n, -1): b[n] for n in b}
    X = normal(3, 144).float()
    layers = [nn.Conv2d(1, 4, 3, 2, 1), nn.Conv2d(4, 6, 3, groups=2), nn.Linear(6, 5)]
    for layer, n in zip(layers, (1, 3, 5), strict=True):
        layer.weight.data = W[n, n - 1].view_as(layer.weight)
        layer.bias.data = b[n][:, 0]
    pool, mean = nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1)
    first, second, last = (nn.Sequential(layer, nn.ReLU()) for layer in layers)
    module = nn.Sequential(first, pool, second, mean, nn.Flatten(), last)
    torch.testing.assert_close(network.features(X, W), module(X.view(-1, 1, 12, 12)).detach())


def test_a_kernel_of_one_pixel_on_one_pixel_is_the_dense_edge_bit_by_bit():
    conv = Network([(5, 1, 1), (7, 1, 1), (4, 1, 1)], {(1, 0): Conv2d(7, 1), (2, 1): Conv2d(4, 1)}, bias=True)
    dense = Network.chain([5, 7, 4], bias=True)
    for dtype in (torch.float32, torch.float64):
        W = conv.random_weights(0, dtype=dtype)
        X, R = normal(9, 5).to(dtype), normal(9, 7).to(dtype)
        assert all(torch.equal(W[pair], matrix) for pair, matrix in dense.random_weights(0, dtype=dtype).items())
        assert torch.equal(conv.features(X, W), dense.features(X, W))
        for pair in W:
            one, two, U = conv.edges[pair], dense.edges[pair], X if pair[1] else X.new_ones(9, 1)
            if pair[0] == 1:
                assert torch.equal(one.adjoint(R, W[pair]), two.adjoint(R, W[pair]))
                U = X if pair[1] == 0 else X.new_ones(9, 1)
                assert torch.equal(one.product(R, U), two.product(R, U))
                assert torch.equal(one.gram_inputs(U), two.gram_inputs(U))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Network.sequential((1, 4, 4), Conv2d(2, 7)), "kernel covers 7x7, more than the padded input of 4x4"),
        (lambda: Network.sequential((1, 4, 4), Conv2d(2, 3, dilation=2)), "kernel covers 5x5"),
        (lambda: Network.sequential((1, 4, 4), AvgPool2d(5)), "avg_pool2d: the kernel covers 5x5"),
        (lambda: Network.sequential((3, 4, 4), Conv2d(4, 3, groups=2)), "groups must divide .* 3 channels"),
        (lambda: Network.sequential((4, 4, 4), Conv2d(3, 3, groups=2)), "3 channels of the convolution"),
        (lambda: Network([(1, 4, 4), (2, 4, 4)], {(1, 0): Conv2d(2, 3)}), r"a layer of shape 2x2x2 .* target of 2x4x4"),
        (lambda: Network([16, (2, 4, 4)], {(1, 0): Conv2d(2, 3)}), r"from a layer of images .* got 16"),
        (lambda: Network([16, (2, 4, 4)], {(1, 0): "dense"}), "dense must lead to a flat layer, .* 2x4x4"),
        (lambda: Network([(1, 4, 4), 16], {(1, 0): "identity"}), "target of 16 and a source of 1x4x4"),
        (lambda: Network([(1, 4, 4), 16], {(1, 0): "conv2d"}), "'conv2d' has parameters"),
        (lambda: Network([(1, 4), 16], {(1, 0): "dense"}), r"layer 0 must be a width or \(channels, height, width\)"),
        (lambda: Network.sequential((1, 4, 4), Identity()), "'identity' does not say how wide"),
        (lambda: Conv2d(2, (3, 3, 3)), "kernel must be one number or two"),
        (lambda: Conv2d(2, 0), "kernel must be at least 1"),
        (lambda: Conv2d(2, 3, padding=-1), "padding must be at least 0"),
        (lambda: Conv2d(2.5, 3), "channels must be an integer"),
        (lambda: AvgPool2d(2, padding=2), "padding must be at most half"),
        (lambda: initial_weights(Network.sequential((1, 4, 4), Conv2d(2, 3)), "looks-linear"), "initial must be 'gau"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_one_clear_error(make, words):
    with pytest.raises(ArgumentError, match=words):
        make()


def test_dense_reads_images_and_channels_are_left_out_as_a_whole():
    network = Network.sequential((1, 4, 4), Conv2d(2, 3), 3)
    assert network.shape((2, 1)) == (3, 8)
    assert Dense().join((2, 2, 2), 3).shape == (3, 8)
    edge, some = network.edges[1, 0], torch.arange(3)
    with pytest.raises(ArgumentError, match="by whole channels alone"):
        edge.select(torch.zeros(edge.shape), some, torch.arange(16))


@given(edges() | images.map(lambda shape: Identity().join(shape, shape)), seeds, st.data())
def test_a_selection_joins_the_chosen_channels_only(edge, seed, data):
    def choose(shape):
        chosen = data.draw(st.lists(st.integers(0, shape[0] - 1), min_size=1, unique=True).map(sorted))
        return torch.arange(math.prod(shape)).view(shape[0], -1)[chosen].flatten()

    U, _, W = draw_values(edge, seed)
    rows, columns = choose(edge.target), choose(edge.source)
    smaller, matrix = edge.select(W, rows, columns)
    kept = torch.zeros_like(U)
    kept[:, columns] = U[:, columns]
    found = smaller.apply(U[:, columns], None if matrix is None else matrix.double())
    torch.testing.assert_close(found, edge.apply(kept, W)[:, rows])
    assert smaller.outputs == len(rows)
    power = torch.zeros(edge.inputs).index_fill_(0, columns, 1.0)
    if edge.learned and not edge.constant:  # exactly the entries of W that multiply something
        W[(edge.multiplied(power) > 0).expand_as(W)] = 0
        assert not edge.apply(kept, W).any()


class RowsAlone(Conv2d):
    """A convolution whose layers must be rows, as an edge of one's own may be."""

    takes_images = False

    def apply(self, U, W, out=None):
        assert U.ndim == 2
        return super().apply(U, W, out)


def test_layers_are_rows_where_an_edge_does_not_take_images():
    known, own = (Network.sequential((2, 5, 5), kind(3, 3), Conv2d(2, 2), 3) for kind in (Conv2d, RowsAlone))
    X, W = normal(6, 50), known.random_weights(0, dtype=torch.float64)
    assert known.seen(X).ndim == 4
    assert own.seen(X) is X
    torch.testing.assert_close(own.features(X, W), known.features(X, W))
