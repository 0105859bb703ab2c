"""The blocks of Alg. 1 for networks of images, against the written objective, autograd and dense matrices."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracles
from tests.strategies import LIFTS, SETS, make_blocks, make_samples, normal, problems, seeds
from tikhonet import (
    BIAS,
    BlockDescent,
    Blocks,
    Conv2d,
    Fenchel,
    FrobeniusBall,
    GlobalAverage,
    Network,
    Problem,
    RowL1Ball,
    Squared,
    Tikhonov,
    certify,
)
from tikhonet.descent.feature_step import curvature, update_features
from tikhonet.descent.linear import update_weights
from tikhonet.descent.stationarity import measure_stationarity
from tikhonet.problem.tikhonov import (
    apply_factor_transpose,
    apply_matrix,
    select_last,
    stack,
    stacked_layers,
    tikhonov_factor,
    tikhonov_matrix,
    unstack,
)

GROUPED = Network.sequential((2, 3, 3), Conv2d(4, 2, groups=2), Conv2d(4, 2, groups=4), GlobalAverage())


@pytest.mark.parametrize("lift", LIFTS, ids=str)
@settings(max_examples=15)
@given(data=st.data(), seed=seeds, rho=st.sampled_from([0.1, 1.0]), weighted=st.booleans())
def test_filters_minimise_the_written_objective(lift, data, seed, rho, weighted):
    problem = data.draw(problems(lifts=[lift], images=True))
    check_weights(problem, seed, rho, weighted)


@pytest.mark.parametrize("set_", SETS, ids=str)
@pytest.mark.parametrize("lift", LIFTS, ids=str)
def test_groups_are_fitted_each_to_its_own_patches_within_one_set(lift, set_):
    check_weights(Problem(GROUPED, lift=lift, gamma=(0.5, 1.0, 2.0), W_set=set_, ridge_W=0.1), 0, 0.1, True)


def check_weights(problem, seed, rho, weighted):
    samples = make_samples(problem, seed, rows=5, weighted=weighted)
    blocks = make_blocks(problem, samples, seed)
    found = update_weights(problem, blocks, samples, rho, tol=1e-10, max_iter=5000)
    program = oracles.weights(problem, blocks, samples, rho)
    expected, least = program.minimum()
    for edge, matrix in found.point.items():
        np.testing.assert_allclose(matrix, expected[edge], atol=1e-6)
        assert problem.edge_set(edge).contains(matrix)
    assert program.value(found.point) == pytest.approx(least, abs=1e-7)
    assert program.residual(found.point) <= 1e-8 * (1 + found.scale)


@pytest.mark.parametrize("lift", LIFTS, ids=str)
@settings(max_examples=10)
@given(data=st.data(), seed=seeds, rho=st.sampled_from([0.0, 0.1, 1.0]))
def test_features_minimise_the_written_objective(lift, data, seed, rho):
    problem = data.draw(problems(lifts=[lift], images=True))
    group = data.draw(st.sampled_from(problem.feature_groups()))
    samples = make_samples(problem, seed, rows=3)
    blocks = make_blocks(problem, samples, seed)
    found = update_features(problem, blocks, samples, rho, group, tol=1e-11, max_iter=20000)
    program = oracles.features(problem, blocks, samples, rho, group)
    expected, least = program.minimum()
    for n in group:
        np.testing.assert_allclose(found.point[n], expected[n], atol=1e-6)
    assert program.value(found.point) == pytest.approx(least, abs=1e-9)


@settings(max_examples=20)
@given(problem=problems(lifts=[Tikhonov()], losses=[Squared()], images=True), seed=seeds)
def test_propositions_1_and_2_hold_with_gamma_q_and_p_as_matrices(problem, seed):
    network, samples = problem.network, make_samples(problem, seed)
    blocks = make_blocks(problem, samples, seed)
    U, V, W = blocks.U, blocks.V, blocks.W
    gamma, Q, P = tikhonov_factor(problem, W), tikhonov_matrix(problem, W), select_last(network)
    # Gamma by its blocks, each written tap by tap.
    order, rows = stacked_layers(network), []
    for n in range(1, network.depth + 1):
        row = [np.eye(network.widths[n]) if m == n else np.zeros((network.widths[n], network.width(m))) for m in order]
        for place, m in enumerate(order):
            if (n, m) in network.edges:
                edge, matrix = network.edges[n, m], W.get((n, m))
                unit = np.eye(network.width(m))
                row[place] = row[place] - oracles.edge_values(edge, unit, None if matrix is None else matrix.numpy()).T
        rows.append(problem.gamma_of(n) ** 0.5 * np.hstack(row))
    np.testing.assert_allclose(gamma, np.vstack(rows), atol=1e-12)
    # Prop. 1: Eq. 4 is Eq. 5, a loss and half a quadratic form of Q = Gamma' Gamma.
    torch.testing.assert_close(Q, gamma.T @ gamma)
    u = stack(network, U)
    torch.testing.assert_close(stack(network, apply_matrix(problem, W, U)), u @ Q)
    pulled = apply_factor_transpose(problem, W, {n: normal(2, network.widths[n], seed=n) for n in network.hidden})
    R = torch.cat([normal(2, network.widths[n], seed=n) for n in range(1, network.depth + 1)], 1)
    torch.testing.assert_close(stack(network, pulled), R @ gamma)
    form = 0.5 * float((u @ Q * u).sum())
    loss = float(problem.loss.rows(samples.targets, u @ P.T @ V.T).sum())
    ridges = problem.objective(blocks, samples)
    assert ridges.loss + sum(ridges.lift.values()) == pytest.approx(loss + form)
    # Prop. 2: for each block by itself it is convex; in u its Hessian is Q + P'V'VP.
    H = (Q + P.T @ (V.T @ V) @ P).numpy()
    assert np.linalg.eigvalsh(H)[0] >= -1e-10 * np.linalg.eigvalsh(H)[-1]
    places = unstack(network, torch.arange(len(H))[None])
    free = torch.cat([places[n][0] for n in network.hidden])
    diagonal, _ = curvature(problem, network.hidden, V, W, 0.0)
    bound = torch.diag(diagonal) - torch.from_numpy(H)[free][:, free]
    assert float(torch.linalg.eigvalsh(bound)[0]) >= -1e-9 * float(diagonal.max())


@settings(max_examples=15)
@given(problem=problems(images=True), seed=seeds)
def test_gradients_are_those_of_autograd(problem, seed):
    samples = make_samples(problem, seed)
    blocks = make_blocks(problem, samples, seed)
    network, hidden = problem.network, problem.network.hidden
    U, V, W = ({key: part.clone().requires_grad_() for key, part in block.items()} for block in
               ({n: blocks.U[n] for n in hidden}, {"V": blocks.V}, blocks.W))  # fmt: skip
    layers, value = blocks.U | U, 0.0
    for n in hidden:
        Z = network.pre_activation(n, layers, W)
        P = Z if problem.lift.quadratic else network.activation.value(Z)
        D = 0.5 * layers[n].square() - layers[n] * Z + P * Z - 0.5 * P.square()
        value = value + problem.gamma_of(n) * D.sum()
    value = value + problem.loss.rows(samples.targets, layers[network.depth] @ V["V"].T).sum()
    gradients = torch.autograd.grad(value, [*U.values(), V["V"], *W.values()])
    slopes = problem.slopes(blocks.U, blocks.V, blocks.W, samples.targets)
    for (n, _), gradient in zip(U.items(), gradients, strict=False):
        torch.testing.assert_close(slopes.U[n], gradient)
    for pair, gradient in zip(W, gradients[len(U) + 1 :], strict=True):
        torch.testing.assert_close(network.edges[pair].product(slopes.Z[pair[0]], blocks.U[pair[1]]), gradient)


@pytest.mark.parametrize("lift", LIFTS, ids=str)
def test_runs_descend_as_promised_within_their_sets_and_end_stationary(lift):
    problem = Problem(GROUPED, lift=lift, gamma=1.0, W_set=FrobeniusBall(1.0), ridge_V=0.1, ridge_W=0.1)
    samples = make_samples(problem, 3, rows=12)
    run = BlockDescent(max_iter=300, tol=1e-2, check_every=20).run(problem, samples.X, samples.targets)
    certificate = certify(run)
    assert certificate.stationary
    assert certificate["promise"].holds
    assert certificate["feasible"].holds


@given(seed=seeds, set_=st.sampled_from(SETS), lift=st.sampled_from(LIFTS))
@settings(max_examples=10)
def test_stationarity_is_what_the_block_steps_still_take(seed, set_, lift):
    problem = Problem(GROUPED, lift=lift, gamma=1.0, W_set=set_, ridge_V=0.1, ridge_W=0.1)
    samples = make_samples(problem, seed, rows=12)
    blocks = make_blocks(problem, samples, seed)
    found = measure_stationarity(problem, blocks, samples)
    before = problem.objective(blocks, samples).total
    W_star = update_weights(problem, blocks, samples, 0.0, tol=1e-9, max_iter=5000).point
    after = problem.objective(Blocks(blocks.U, blocks.V, W_star), samples).total
    assert found.objective == pytest.approx(before)
    assert found.decrease["W"] >= (before - after) * (1 - 1e-6) if lift.quadratic else found.decrease["W"] > 0
    if lift.quadratic and set_.everything:
        assert found.decrease["W"] == pytest.approx(before - after)


def test_pixels_as_images_give_the_run_of_dense_edges_bit_by_bit():
    conv = Network([(5, 1, 1), (7, 1, 1), (4, 1, 1)], {(1, 0): Conv2d(7, 1), (2, 1): Conv2d(4, 1)}, bias=True)
    dense = Network.chain([5, 7, 4], bias=True)
    X, targets = normal(30, 5).float(), normal(30, 3, seed=1).float()
    runs = [
        BlockDescent(max_iter=5).run(Problem(net, lift=Fenchel(), W_set=RowL1Ball(1.0), ridge_V=0.1), X, targets)
        for net in (conv, dense)
    ]
    assert runs[0].history.objective == runs[1].history.objective
    one, two = (run.blocks for run in runs)
    assert torch.equal(one.V, two.V)
    assert all(torch.equal(one.W[pair], two.W[pair]) for pair in [(1, 0), (2, 1), (1, BIAS)])
