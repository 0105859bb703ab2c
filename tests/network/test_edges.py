"""Sec. 2.1: what every edge promises as a linear operator, whichever it is."""

import runpy
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import normal, seeds
from tikhonet import BIAS, BlockDescent, Fenchel, Network, Problem, Stochastic, certify
from tikhonet.network.bias import Bias
from tikhonet.network.edges import Dense, Edge, Identity, edge_named
from tikhonet.network.operations import Constant, Product, Source

EDGES = [Dense().join(4, 3), Dense().join(1, 2), Bias().join(1, 3), Identity().join(3, 3)]
every_edge = pytest.mark.parametrize("edge", EDGES, ids=str)


def draw(edge, seed, rows=5):
    """Inputs, residuals and a matrix (None where there is none) for an edge."""
    W = normal(*edge.shape, seed=seed + 2) if edge.learned else None
    return normal(rows, edge.inputs, seed=seed), normal(rows, edge.outputs, seed=seed + 1), W


@every_edge
@given(seed=seeds)
def test_the_adjoint_is_the_transposed_operator(edge, seed):
    U, R, W = draw(edge, seed)
    assert float((edge.apply(U, W) * R).sum()) == pytest.approx(float((U * edge.adjoint(R, W)).sum()), abs=1e-10)


@every_edge
@given(seed=seeds, alpha=st.floats(-2, 2))
def test_values_are_added_in_place_where_out_is_given(edge, seed, alpha):
    U, R, W = draw(edge, seed)
    Z, Y = torch.ones_like(R), torch.ones_like(U)
    assert edge.apply(U, W, out=Z) is Z
    torch.testing.assert_close(Z, 1 + edge.apply(U, W))
    assert edge.adjoint(R, W, out=Y, alpha=alpha) is Y
    torch.testing.assert_close(Y, 1 + alpha * edge.adjoint(R, W))
    torch.testing.assert_close(edge.adjoint(R, W, alpha=alpha), alpha * edge.adjoint(R, W))


@every_edge
@given(seed=seeds)
def test_the_product_is_the_gradient_in_the_matrix(edge, seed):
    if edge.learned:
        U, R, W = draw(edge, seed)
        W.requires_grad_()
        (gradient,) = torch.autograd.grad((edge.apply(U, W) * R).sum(), W)
        torch.testing.assert_close(edge.product(R, U), gradient)
        torch.testing.assert_close(edge.gram_inputs(U) @ W.T, edge.apply(U, W))


@every_edge
@given(seed=seeds)
def test_what_is_exported_computes_the_same(edge, seed):
    U, _, W = draw(edge, seed)
    U = torch.ones_like(U) if edge.constant else U
    match edge.export(W):
        case Constant(values):
            found = values.expand(len(U), -1)
        case Source():
            found = U
        case Product(matrix):
            found = U @ matrix.T
    torch.testing.assert_close(found, edge.apply(U, W))
    torch.testing.assert_close(U @ Edge.export(edge, W).matrix.T.double(), edge.apply(U, W))


@every_edge
@given(seed=seeds, data=st.data())
def test_a_selection_joins_the_chosen_units_only(edge, seed, data):
    def choose(width):
        return torch.tensor(data.draw(st.lists(st.integers(0, width - 1), min_size=1, unique=True).map(sorted)))

    U, _, W = draw(edge, seed)
    rows, columns = choose(edge.outputs), choose(edge.inputs)
    smaller, matrix = edge.select(W, rows, columns)
    kept = torch.zeros_like(U)
    kept[:, columns] = U[:, columns]
    found = smaller.apply(U[:, columns], None if matrix is None else matrix.double())
    torch.testing.assert_close(found, edge.apply(kept, W)[:, rows])


@every_edge
@given(seed=seeds)
def test_units_without_weights_are_not_fed_and_hand_nothing_on(edge, seed):
    _, _, W = draw(edge, seed)
    if edge.learned:
        W[0] = 0
        assert edge.feeds(W).tolist() == [False] + [True] * (edge.outputs - 1)
        torch.testing.assert_close(edge.onward(W), W.square().sum(0))
    else:
        assert bool(edge.feeds(W).all())
        assert bool((edge.onward(W) == 1).all())


def test_names_of_version_0_1_mean_the_same_edges():
    assert edge_named("learned", constant=False) == edge_named("dense", constant=False) == Dense()
    assert edge_named("learned", constant=True) == edge_named("bias", constant=True) == Bias()
    assert Network([2, 2], {(1, 0): "learned", (1, BIAS): "learned"}) == Network([2, 2], {(1, 0): Dense()}, bias=True)


@pytest.mark.parametrize(
    ("kind", "constant", "words"),
    [
        ("convolution", False, "edges must be one of 'dense', 'identity', "),
        ("identity", True, "from the constant layer BIAS must be one of bias, got 'identity'"),
        ("bias", False, "an edge from a layer must be one of dense, identity"),
        (Bias(), False, "got 'bias'"),
        (3, False, "got 3"),
    ],
)
def test_an_unknown_or_misplaced_edge_is_refused(kind, constant, words):
    with pytest.raises(ValueError, match=words) as caught:
        edge_named(kind, constant)
    assert caught.value.argument == "edges"


def test_an_edge_of_ones_own_works_in_every_solver():
    runpy.run_path(str(Path(__file__).parents[2] / "docs" / "extend" / "edge.py"))  # which makes "reversal" known
    network = Network([3, 4, 3], {(1, 0): "dense", (2, 1): "dense", (2, 0): "reversal"}, bias=True)
    assert "reversed u0" in repr(network)
    X, targets = normal(40, 3), normal(40, 2, seed=1)
    W = network.random_weights(0, dtype=torch.float64)
    assert torch.equal(network.forward(X, W)[2], (network.forward(X, W)[1] @ W[2, 1].T + X.flip(1)).relu())
    problem = Problem(network, lift=Fenchel(), gamma=1.0, ridge_V=0.1)
    result = BlockDescent(max_iter=20).run(problem, X, targets)
    assert certify(result)["promise"].holds
    training = Stochastic(epochs=3, batch_size=20).run(problem, X, targets)
    assert training.epochs[-1].loss < training.epochs[0].loss
