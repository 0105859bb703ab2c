"""Eq. 4 term by term, its gradients, its stationarity residual, and the checks of a problem."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import finite_difference, make_blocks, make_samples, normal, problems, seeds
from tikhonet import (
    BIAS,
    Blocks,
    Box,
    Everything,
    Fenchel,
    FrobeniusBall,
    Huber,
    Network,
    NonNegative,
    Problem,
    Quantile,
    RowL1Ball,
    Samples,
    Softmax,
    Squared,
    SquaredHinge,
    Terms,
    Tikhonov,
    measure_stationarity,
)
from tikhonet.network.activation import ReLU
from tikhonet.problem.sets import Columns


def loss_of_sample(loss, t, s):
    if isinstance(loss, Squared):
        return 0.5 * np.sum((s - t) ** 2)
    if isinstance(loss, Softmax):
        return np.log(np.sum(np.exp(s))) - t @ s
    if isinstance(loss, SquaredHinge):
        return np.sum(np.maximum(0, 1 - t * s) ** 2)
    if isinstance(loss, Quantile):  # its pinball loss with a quadratic piece in place of the kink
        low, high, e = (loss.quantile - 1) * loss.width, loss.quantile * loss.width, t - s
        ends = np.where(e < low, low, high)
        return np.sum(np.where((low <= e) & (e <= high), e**2, (2 * e - ends) * ends)) / (2 * loss.width)
    assert isinstance(loss, Huber)
    e = np.abs(s - t)
    return np.sum(np.where(e <= loss.delta, e**2 / 2, loss.delta * (e - loss.delta / 2)))


def equation_4(problem, blocks, samples):
    """Eq. 4 sample by sample: the loss, each layer's lift, the ridges (biases exempt)."""
    network, V = problem.network, blocks.V.numpy()
    loss, lift = 0.0, dict.fromkeys(range(1, network.depth + 1), 0.0)
    for i in range(len(samples)):
        weight = 1.0 if samples.weight is None else float(samples.weight[i])
        u = {m: layer[i].numpy() for m, layer in blocks.U.items()}
        loss += weight * loss_of_sample(problem.loss, samples.targets[i].numpy(), V @ u[network.depth])
        for n in lift:
            z = np.zeros(network.widths[n])
            for (target, m), kind in network.edges.items():
                if target == n:
                    z += u[m] if not kind.learned else blocks.W[n, m].numpy() @ u[m]
            D = 0.5 * np.sum((u[n] - z) ** 2)
            if isinstance(problem.lift, Fenchel):
                D -= 0.5 * np.sum((z - np.clip(z, network.activation.lower, network.activation.upper)) ** 2)
            lift[n] += weight * problem.gamma[n - 1] * D
    ridge_W = sum(0.5 * problem.ridge_W * np.sum(M.numpy() ** 2) for (_, m), M in blocks.W.items() if m != BIAS)
    return Terms(loss, lift, 0.5 * problem.ridge_V * np.sum(V**2), ridge_W)


def assert_same(one, two, rel=1e-11):
    """Both Terms, number by number."""
    assert one.loss == pytest.approx(two.loss, rel=rel, abs=rel)
    assert one.lift == pytest.approx(two.lift, rel=rel, abs=rel)
    assert one.ridge_V == pytest.approx(two.ridge_V, rel=rel, abs=rel)
    assert one.ridge_W == pytest.approx(two.ridge_W, rel=rel, abs=rel)


def setting(problem, seed, rows=7, weighted=True):
    """Samples and feasible blocks, the biases not zero."""
    samples = make_samples(problem, seed, rows, weighted)
    blocks = make_blocks(problem, samples, seed)
    W = {edge: normal(*M.shape, seed=seed) if edge[1] == BIAS else M for edge, M in blocks.W.items()}
    return samples, replace(blocks, W=W)


# Values


@given(problems(), seeds, st.booleans())
def test_objective_is_equation_4(problem, seed, weighted):
    samples, blocks = setting(problem, seed, weighted=weighted)
    terms = problem.objective(blocks, samples)
    expected = equation_4(problem, blocks, samples)
    assert_same(terms, expected)
    parts = [expected.loss, *expected.lift.values(), expected.ridge_V, expected.ridge_W]
    assert terms.total == pytest.approx(sum(parts), rel=1e-11)


@given(problems(), seeds, st.data())
def test_terms_updated_after_a_block_step_are_the_terms_from_scratch(problem, seed, data):
    samples, old = setting(problem, seed)
    new = setting(problem, seed + 1)[1]
    before = problem.objective(old, samples)
    block = data.draw(st.sampled_from(["U", "V", "W"]))
    layers = tuple(data.draw(st.sets(st.sampled_from(problem.network.hidden), min_size=1)))
    if block == "U":
        moved = replace(old, U=old.U | {n: new.U[n] for n in layers})
    elif block == "W":
        moved = replace(old, W=old.W | {edge: M for edge, M in new.W.items() if edge[0] in layers})
    else:
        moved, layers = replace(old, V=new.V), ()
    assert_same(problem.update_terms(before, moved, samples, block, layers), problem.objective(moved, samples))


@given(problems(), seeds)
def test_the_objective_does_not_depend_on_the_chunks(problem, seed):
    samples, blocks = setting(problem, seed)
    expected = problem.objective(blocks, samples)
    for chunk_rows in (1, 2, 7, 100):
        assert_same(problem.objective(blocks, replace(samples, chunk_rows=chunk_rows)), expected)


def twice(blocks, rows):
    return replace(blocks, U={m: torch.cat([layer, layer[rows]]) for m, layer in blocks.U.items()})


@given(problems(), seeds)
def test_weight_2_is_the_row_twice(problem, seed):
    samples, blocks = setting(problem, seed, weighted=False)
    rows = torch.tensor([1, 4])
    weight = torch.ones(7, dtype=torch.float64).index_fill(0, rows, 2.0)
    weighted = Samples(samples.X, samples.targets, weight, 3)
    repeated = Samples(torch.cat([samples.X, samples.X[rows]]), torch.cat([samples.targets, samples.targets[rows]]))
    blocks_repeated = twice(blocks, rows)
    assert_same(problem.objective(blocks, weighted), problem.objective(blocks_repeated, repeated))
    one, two = measure_stationarity(problem, blocks, weighted), measure_stationarity(problem, blocks_repeated, repeated)
    for block in ("V", "W"):
        assert one.residual[block] == pytest.approx(two.residual[block], rel=1e-10, abs=1e-10)


@given(problems(), seeds)
def test_every_sum_over_samples_is_reduced(problem, seed):
    # Two machines with the same samples are one machine that has them twice.
    samples, blocks = setting(problem, seed, weighted=False)
    one_of_two = replace(samples, reduce=lambda total: 2 * total)
    both = Samples(torch.cat([samples.X] * 2), torch.cat([samples.targets] * 2))
    blocks_both = twice(blocks, torch.arange(7))
    assert_same(problem.objective(blocks, one_of_two), problem.objective(blocks_both, both))
    one, two = measure_stationarity(problem, blocks, one_of_two), measure_stationarity(problem, blocks_both, both)
    assert one.residual == pytest.approx(two.residual, rel=1e-10, abs=1e-10)


# Gradients


@settings(max_examples=15)
@given(problems(), seeds)
def test_slopes_agree_with_finite_differences(problem, seed):
    samples, blocks = setting(problem, seed, rows=2, weighted=False)
    grad_U, grad_Z, *_ = problem.slopes(blocks.U, blocks.V, blocks.W, samples.targets)
    assert set(grad_U) == set(grad_Z) == set(problem.network.hidden)
    for n, gradient in grad_U.items():

        def value_U(point, n=n):
            return problem.objective(replace(blocks, U=blocks.U | {n: point}), samples).total

        torch.testing.assert_close(gradient, finite_difference(value_U, blocks.U[n]), rtol=1e-5, atol=1e-5)
    for (n, m), matrix in blocks.W.items():

        def value_W(point, edge=(n, m)):
            return problem.objective(replace(blocks, W=blocks.W | {edge: point}), samples).total

        gradient = grad_Z[n].T @ blocks.U[m] + (0 if m == BIAS else problem.ridge_W * matrix)
        torch.testing.assert_close(gradient, finite_difference(value_W, matrix), rtol=1e-5, atol=1e-5)


@settings(max_examples=15)
@given(problems(), seeds, st.booleans())
def test_stationarity_is_the_step_of_a_projected_gradient_by_finite_differences(problem, seed, weighted):
    samples, blocks = setting(problem, seed, rows=2, weighted=weighted)

    def total(**changes):
        return problem.objective(replace(blocks, **changes), samples).total

    squares = {"U": 0.0, "V": 0.0, "W": 0.0}
    for n in problem.network.hidden:
        U = blocks.U[n]
        gradient = finite_difference(lambda point, n=n: total(U=blocks.U | {n: point}), U)
        squares["U"] += float((U - problem.network.activation.value(U - gradient)).square().sum())
    gradient = finite_difference(lambda point: total(V=point), blocks.V)
    squares["V"] = float((blocks.V - problem.V_set.project(blocks.V - gradient)).square().sum())
    for edge, W in blocks.W.items():
        gradient = finite_difference(lambda point, edge=edge: total(W=blocks.W | {edge: point}), W)
        squares["W"] += float((W - problem.edge_set(edge).project(W - gradient)).square().sum())

    stationarity = measure_stationarity(problem, blocks, samples)
    expected = {block: math.sqrt(square) for block, square in squares.items()}
    assert stationarity.residual == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert stationarity.total == pytest.approx(math.sqrt(sum(squares.values())), rel=1e-5, abs=1e-5)


@given(problems(sets=[Everything()], activations=[ReLU()]), seeds)
def test_stationarity_of_u_is_the_gradient_itself_far_from_the_boundary(problem, seed):
    # Small gamma and V keep the gradient below U, so that U - gradient is positive and projects on itself.
    problem = replace(problem, gamma=1e-4)
    samples, blocks = setting(problem, seed, weighted=False)
    U = {m: layer + 1 if m > 0 else layer for m, layer in blocks.U.items()}
    blocks = replace(blocks, U=U, V=1e-2 * blocks.V)
    gradient = problem.slopes(blocks.U, blocks.V, blocks.W, samples.targets).U
    assert all(bool((U[n] > gradient[n]).all()) for n in gradient)
    expected = math.sqrt(sum(float(g.square().sum()) for g in gradient.values()))
    assert measure_stationarity(problem, blocks, samples).residual["U"] == pytest.approx(expected, rel=1e-10)


def test_stationarity_counts_no_pull_into_the_boundary():
    # One sample, one unit, u = 0 = x: the loss pulls u below zero, where it may not go.
    problem = Problem(Network.chain([1, 1]), gamma=1.0)
    X = torch.zeros(1, 1, dtype=torch.float64)
    blocks = Blocks({0: X, 1: X.clone()}, X + 1, {(1, 0): X + 1})
    assert measure_stationarity(problem, blocks, Samples(X, X - 3)).residual["U"] == 0
    assert measure_stationarity(problem, blocks, Samples(X, X + 3)).residual["U"] == 3


@given(problems(losses=[Squared(), Huber(0.7)], sets=[Everything()]), seeds)
def test_a_planted_point_has_objective_and_residual_zero(problem, seed):
    problem = replace(problem, ridge_V=0.0, ridge_W=0.0)
    network = problem.network
    X, W = normal(5, network.widths[0], seed=seed), network.random_weights(seed, dtype=torch.float64)
    if isinstance(problem.lift, Tikhonov):
        # The paper's lift is zero only where no pre-activation is outside the interval.
        X, W = 1e-3 * X.abs(), {edge: matrix.abs() for edge, matrix in W.items()}
    V = normal(2, network.widths[-1], seed=seed + 1)
    U = network.forward(X, W)
    samples = Samples(X, U[network.depth] @ V.T, chunk_rows=2)
    blocks = Blocks(U, V, W)
    assert problem.objective(blocks, samples).total == pytest.approx(0, abs=1e-24)
    assert measure_stationarity(problem, blocks, samples).total == pytest.approx(0, abs=1e-12)


@given(problems(), seeds)
def test_stationarity_is_computed_in_float64_from_float32_blocks(problem, seed):
    samples, blocks = setting(problem, seed)
    single = Blocks(
        {m: layer.float() for m, layer in blocks.U.items()},
        blocks.V.float(),
        {edge: matrix.float() for edge, matrix in blocks.W.items()},
    )
    double = Blocks(
        {m: layer.double() for m, layer in single.U.items()},
        single.V.double(),
        {edge: matrix.double() for edge, matrix in single.W.items()},
    )
    samples_single = Samples(samples.X.float(), samples.targets.float(), samples.weight.float())
    samples_double = Samples(
        *(tensor.double() for tensor in (single.U[0], samples_single.targets, samples_single.weight))
    )
    assert measure_stationarity(problem, single, samples_single).residual == pytest.approx(
        measure_stationarity(problem, double, samples_double).residual, rel=1e-12, abs=1e-12
    )


# The problem's own parts


def test_gamma_is_shared_or_one_a_layer():
    network = Network.chain([2, 2, 2])
    assert [Problem(network, gamma=0.3).gamma_of(n) for n in (1, 2)] == [0.3, 0.3]
    assert [Problem(network, gamma=(0.3, 2)).gamma_of(n) for n in (1, 2)] == [0.3, 2.0]


def test_one_set_for_all_edges_leaves_biases_free():
    problem = Problem(Network.chain([2, 3], bias=True), W_set=RowL1Ball(1.0), ridge_W=0.5)
    assert problem.edge_set((1, 0)) == RowL1Ball(1.0)
    assert problem.edge_set((1, BIAS)) == Everything()
    assert (problem.edge_ridge((1, 0)), problem.edge_ridge((1, BIAS))) == (0.5, 0.0)
    assert problem.layer_set(1) == Columns((Everything(), RowL1Ball(1.0)), (1, 2))


def test_a_set_an_edge_leaves_the_edges_that_are_not_named_free():
    network = Network([2, 3, 3], {(1, 0): "learned", (2, 0): "learned", (2, 1): "learned"}, bias=[2])
    problem = Problem(network, W_set={(2, 1): NonNegative(), (2, BIAS): FrobeniusBall(1.0)})
    assert problem.layer_set(1) == Everything()
    assert problem.layer_set(2) == Columns((FrobeniusBall(1.0), Everything(), NonNegative()), (1, 2, 3))


def test_hidden_layers_are_one_block_for_the_tikhonov_lift_and_one_by_one_from_the_last_for_fenchel():
    network = Network([2] * 4, {(2, 0): "learned", (1, 2): "learned", (3, 1): "learned"})
    assert Problem(network, lift=Tikhonov()).feature_groups() == ((2, 1, 3),)
    assert Problem(network, lift=Fenchel()).feature_groups() == ((3,), (1,), (2,))


CHAIN = Network.chain([3, 2, 4])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"gamma": 0}, "gamma must be positive and finite, got 0 for layer 1"),
        ({"gamma": -1.0}, "gamma must be positive and finite, got -1.0 for layer 1"),
        ({"gamma": float("nan")}, "gamma must be positive and finite, got nan for layer 1"),
        ({"gamma": float("inf")}, "gamma must be positive and finite, got inf for layer 1"),
        ({"gamma": (1.0, -2.0)}, "gamma must be positive and finite, got -2.0 for layer 2"),
        ({"gamma": (1.0,)}, r"gamma must hold one positive number per hidden layer \(2\), got 1; pass a scalar"),
        ({"gamma": (1.0, 1.0, 1.0)}, r"gamma must hold one positive number per hidden layer \(2\), got 3"),
        ({"ridge_V": -0.1}, "ridge_V must be non-negative and finite, got -0.1"),
        ({"ridge_W": -0.1}, "ridge_W must be non-negative and finite, got -0.1"),
        ({"ridge_V": float("inf")}, "ridge_V must be non-negative and finite, got inf"),
        ({"ridge_W": float("nan")}, "ridge_W must be non-negative and finite, got nan"),
        ({"W_set": {(2, 0): NonNegative()}}, r"W_set names edges that are not learned: \[\(2, 0\)\]; learned are"),
        (
            {"W_set": Box(torch.zeros(2, 3), 1.0)},
            r"lower bound of the box for W\[2, 1\] .* shape \(4, 2\), got \(2, 3\)",
        ),
        ({"W_set": {(1, 0): Box(0.0, torch.ones(3, 2))}}, r"upper bound of the box for W\[1, 0\] .* shape \(2, 3\)"),
    ],
)
def test_a_wrong_problem_is_an_error_that_names_the_argument(arguments, words):
    with pytest.raises(ValueError, match=words):
        Problem(CHAIN, **arguments)


@pytest.mark.parametrize("gamma", [np.float32(0.5), np.int64(2)], ids=["float32", "int64"])
def test_gamma_may_be_any_kind_of_number(gamma):
    assert Problem(CHAIN, gamma=gamma).gamma_of(2) == float(gamma)


@pytest.mark.parametrize(
    ("arguments", "X", "targets", "words"),
    [
        ({}, torch.ones(5, 2), torch.ones(5, 1), "X must have 3 columns, the width of the network's input, got 2"),
        ({}, torch.ones(5, 3), torch.ones(5), r"targets must have shape \(samples, outputs\), got \(5,\)"),
        ({"loss": Softmax()}, torch.ones(5, 3), torch.ones(5, 2), "targets of the softmax loss"),
        ({"loss": SquaredHinge()}, torch.ones(5, 3), torch.zeros(5, 2), "targets of the squared hinge"),
        (
            {"V_set": Box(torch.zeros(4, 2), 1.0)},
            torch.ones(5, 3),
            torch.ones(5, 2),
            r"lower bound of the box for V must be a number or have shape \(2, 4\), got \(4, 2\)",
        ),
    ],
    ids=["X", "targets", "softmax", "hinge", "V"],
)
def test_samples_that_do_not_fit_the_problem_are_an_error(arguments, X, targets, words):
    with pytest.raises(ValueError, match=words):
        Problem(CHAIN, **arguments).check(Samples(X, targets))


def test_samples_that_fit_the_problem_pass():
    Problem(CHAIN, loss=Softmax(), V_set=Box(torch.zeros(2, 4), 1.0)).check(
        Samples(torch.ones(5, 3), torch.eye(2)[[0] * 5])
    )
