"""The exported module computes what the library computes, and is an ordinary module."""

from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import nn

from tests.model.export import models
from tests.strategies import networks, normal, seeds
from tikhonet import BIAS, Network
from tikhonet.model.export import TorchNetwork, to_torch, torch_program
from tikhonet.model.heads import Head
from tikhonet.model.model import Model
from tikhonet.model.scaling import Scaling
from tikhonet.network.activation import ClippedReLU


def random_parts(network, seed, classes=3, dtype=torch.float64):
    """W (with biases other than zero), V, and the three vectors of the standardisation and the head."""
    W = {edge: normal(*network.shape(edge), seed=seed + k).to(dtype) for k, edge in enumerate(network.learned)}
    V = normal(classes, network.widths[-1], seed=seed + 100).to(dtype)
    vectors = {
        "shift": normal(network.widths[0], seed=seed + 101).to(dtype),
        "scale": normal(network.widths[0], seed=seed + 102).to(dtype).abs() + 0.5,
        "intercept": normal(classes, seed=seed + 103).to(dtype),
    }
    return W, V, vectors


def module_of(network, W, V, shift=None, scale=None, intercept=None):
    """The network's module, in the type of V, with no bounds to speak of."""
    width = network.widths[0]
    shift, scale = torch.zeros(width) if shift is None else shift, torch.ones(width) if scale is None else scale
    bounds = torch.full((width,), -1e9), torch.full((width,), 1e9)
    intercept = torch.zeros(len(V)) if intercept is None else intercept
    scaling = Scaling(*(vector.double().numpy() for vector in (shift, scale, *bounds)))
    model = Model(scaling, network, W, head=Head(V.numpy(), intercept.numpy()))
    return TorchNetwork(model.checked(), V.dtype)


def largest_error(scores, expected):
    return float((scores.detach() - expected).abs().max() / (1 + expected.abs().max()))


def library_scores(network, W, V, X, shift=0.0, scale=1.0, intercept=0.0):
    return network.features((X - shift) / scale, W) @ V.T + intercept


NET = Network([4, 4, 5, 4], {(1, 0): "learned", (2, 1): "learned", (3, 0): "identity", (3, 2): "learned"}, bias=[1, 3])
X = normal(6, 4, seed=9)


@given(
    network=networks(),
    seed=seeds,
    given_vectors=st.sets(st.sampled_from(["shift", "scale", "intercept"])),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    clipped=st.booleans(),
)
def test_the_scores_are_those_of_the_library(network, seed, given_vectors, dtype, clipped):
    network = network.with_activation(ClippedReLU(0.5)) if clipped else network
    W, V, vectors = random_parts(network, seed, dtype=dtype)
    vectors = {name: vectors[name] for name in given_vectors}
    rows = normal(9, network.widths[0], seed=seed + 200).to(dtype)
    scores = module_of(network, W, V, **vectors)(rows)
    expected = library_scores(network, W, V, rows, **vectors)
    assert scores.dtype == dtype
    assert largest_error(scores, expected) <= 1e-6


def test_the_scores_are_those_of_the_library_on_the_papers_network():
    network = Network.paper(784)
    W, V = network.random_weights(0), normal(10, 784).float() / 28
    rows = normal(50, 784, seed=1).float()
    expected = library_scores(network, W, V, rows)
    assert largest_error(module_of(network, W, V)(rows), expected) <= 1e-6


def test_layers_may_be_fed_by_layers_of_a_higher_number():
    network = Network([2, 3, 3, 2], {(2, 0): "learned", (1, 2): "identity", (3, 1): "learned", (3, 0): "identity"}, [1])
    W, V, vectors = random_parts(network, 0)
    rows = normal(5, 2)
    torch.testing.assert_close(
        module_of(network, W, V, **vectors)(rows), library_scores(network, W, V, rows, **vectors)
    )


def test_the_module_shares_no_memory_and_draws_no_random_numbers():
    W, V, vectors = random_parts(NET, 0)
    state = torch.random.get_rng_state()
    module = module_of(NET, W, V, **vectors)
    assert torch.equal(torch.random.get_rng_state(), state)
    before = module(X)
    for tensor in [*W.values(), V, *vectors.values()]:
        tensor.zero_()
    assert torch.equal(module(X), before)


def test_the_state_is_plain_tensors_that_another_module_takes_over():
    W, V, vectors = random_parts(NET, 0)
    module = module_of(NET, W, V, **vectors)
    other = module_of(NET, *random_parts(NET, 50)[:2], **random_parts(NET, 50)[2])
    other.load_state_dict(load(save(module.state_dict())))
    assert torch.equal(other(X), module(X))
    assert set(module.state_dict()) == {
        *("edges.1_0.weight", "edges.2_1.weight", "edges.3_2.weight", "biases.1", "biases.3"),
        *("head.weight", "head.bias", "shift", "scale"),
    }


def test_it_is_made_of_linear_and_identity_modules():
    kinds = [type(module) for module in module_of(NET, *random_parts(NET, 0)[:2]).modules()]
    assert kinds.count(nn.Linear) == 4
    assert kinds.count(nn.Identity) == 1


def test_eval_and_dtype_follow_the_usual_methods():
    W, V, vectors = random_parts(NET, 0)
    module = module_of(NET, W, V, **vectors)
    expected = module(X)
    assert torch.equal(module.eval()(X), expected)
    single = module.to(torch.float32)(X.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), expected, rtol=1e-4, atol=1e-4)


def test_single_precision_vectors_and_weights_follow_the_dtype_of_the_classifier():
    W, V, vectors = random_parts(NET, 0, dtype=torch.float32)
    assert {tensor.dtype for tensor in module_of(NET, W, V.double(), **vectors).state_dict().values()} == {
        torch.float64
    }


@pytest.mark.parametrize("scaled", [True, False])
def test_torch_export_gives_the_same_scores_for_any_number_of_rows(scaled):
    W, V, vectors = random_parts(NET, 0)
    module = module_of(NET, W, V, **(vectors if scaled else {}))
    program = torch.export.export(module, (X,), dynamic_shapes=({0: torch.export.Dim("rows")},))
    many = normal(33, 4, seed=3)
    torch.testing.assert_close(program.module()(many), module(many))


def test_it_can_be_trained_further():
    module = module_of(NET, *random_parts(NET, 0)[:2], **random_parts(NET, 0)[2])
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2)
    targets = normal(6, 3, seed=4)
    losses = []
    for _ in range(20):
        loss = (module(X) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert all(parameter.grad is not None for parameter in module.parameters())
    assert losses[-1] < losses[0]
    assert not module.shift.requires_grad


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"V": torch.ones(3, 5)}, r"coef must have shape \(3, 4\), got \(3, 5\)"),
        ({"V": torch.ones(4)}, r"coef must have shape \(4, 4\), got \(4,\)"),
        ({"shift": torch.ones(3)}, r"shift must have shape \(4,\), got \(3,\)"),
        ({"scale": torch.ones(())}, r"scale must have shape \(4,\)"),
        ({"scale": torch.tensor([1.0, 0.0, 1.0, 1.0])}, "scale must hold positive numbers"),
        ({"scale": torch.tensor([1.0, float("nan"), 1.0, 1.0])}, "scale must hold finite numbers"),
        ({"intercept": torch.ones(4)}, r"intercept must have shape \(3,\)"),
        ({"W": {(1, BIAS): torch.ones(4, 1)}}, "W must hold the learned edges"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change, reason):
    W, V, vectors = random_parts(NET, 0)
    with pytest.raises(ValueError, match=reason):
        module_of(NET, **({"W": W, "V": V} | vectors | change))


def test_a_single_column_is_not_broadcast():
    W, V, vectors = random_parts(NET, 0)
    with pytest.raises(ValueError, match=r"x must have 4 columns, got shape \(6, 1\)"):
        module_of(NET, W, V, **vectors)(X[:, :1])


@given(network=networks(), seed=seeds, nonzero=st.sampled_from([0.0, 0.2, 1.0]))
def test_sparse_modules_give_the_same_scores(network, seed, nonzero):
    forward = models.random_model(network, seed, nonzero=nonzero)
    rows = models.rows(forward, 7, seed)
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        scores = to_torch(forward, sparse=True).to(dtype)(torch.from_numpy(rows).to(dtype))
        assert models.largest_error(scores.detach().double().numpy(), models.oracle(forward, rows)) <= tolerance


@pytest.mark.parametrize("kind", models.KINDS)
def test_fitted_models_give_the_same_dense_and_sparse(kind):
    model, rows = models.fitted(kind)
    for sparse in (False, True):
        scores = model.to_torch(sparse=sparse)(torch.from_numpy(rows)).detach().numpy()
        assert models.largest_error(scores, models.expected_scores(model, rows)) <= 1e-9


def test_matrices_are_kept_sparse_where_that_is_smaller():
    forward = models.random_model(Network.chain([60, 50, 40]), nonzero=0.1)
    module = to_torch(forward, sparse=True).float()
    kinds = {name: tensor.layout for name, tensor in module.state_dict().items() if name.endswith("weight")}
    assert kinds["1.edges.1_0.weight"] == kinds["1.edges.2_1.weight"] == torch.sparse_csr
    assert kinds["1.head.weight"] == torch.strided
    assert module[1].edges["1_0"].weight.values().numel() == int(forward.W[1, 0].count_nonzero())


def test_a_sparse_module_takes_single_rows_and_blocks():
    forward = models.random_model(Network.chain([60, 50]), nonzero=0.1)
    module, rows = to_torch(forward, sparse=True), torch.from_numpy(models.rows(forward, 6)).double()
    whole = module(rows)
    torch.testing.assert_close(module(rows[3]), whole[3])
    torch.testing.assert_close(module(rows.reshape(2, 3, 60)), whole.reshape(2, 3, 3))


@pytest.mark.parametrize("network", [NET, models.CLIPPED], ids=["relu", "clipped"])
def test_the_program_runs_with_torch_alone_for_any_number_of_rows(network, tmp_path):
    forward = models.random_model(network)
    (tmp_path / "net.pt2").write_bytes(torch_program(forward))
    program = torch.export.load(tmp_path / "net.pt2").module()
    rows = models.rows(forward, 33)
    scores = program(torch.from_numpy(rows)).numpy()
    assert scores.dtype == "float32"
    assert models.largest_error(scores, models.oracle(forward, rows)) <= 1e-5


def run_program(forward, rows):
    program = torch.export.load(BytesIO(torch_program(forward))).module()
    return program(torch.from_numpy(rows.astype(np.float32))).numpy()


@pytest.mark.parametrize("mean", [2e3, 1.7e9, 1e300])
def test_the_program_keeps_a_spread_that_is_small_against_the_mean(mean):
    forward = models.random_model(NET)
    step = mean * 2.0**-20 if mean < 1e38 else 1e299
    shift, scale = np.full(4, mean) + step / 3, np.full(4, step)
    forward = replace(forward, scaling=Scaling(shift, scale, shift - 5 * scale, shift + 5 * scale))
    rows = np.clip(mean + step * np.arange(-4, 4).reshape(2, 4), -3e38, 3e38).astype(np.float32)
    assert models.largest_error(run_program(forward, rows), models.oracle(forward, rows)) <= 1e-5


def test_weights_too_large_for_the_program_are_refused():
    forward = models.random_model(NET)
    with pytest.raises(ValueError, match="intercept must fit into float32, got 1e\\+300"):
        torch_program(replace(forward, head=replace(forward.head, intercept=np.full(3, 1e300))))
