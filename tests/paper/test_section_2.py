"""Sec. 2 of the paper: the network, the lifted objective and its Tikhonov form, one test per statement."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests import oracles
from tests.strategies import LIFTS, make_blocks, make_samples, networks, normal, problems, seeds
from tikhonet import BIAS, Blocks, Fenchel, Network, NonNegative, Problem, Samples, Tikhonov
from tikhonet.problem.tikhonov import select_last, stack, tikhonov_factor, tikhonov_matrix

shares = st.floats(0, 1)


def dense_factor(problem: Problem, W: dict) -> np.ndarray:
    """Gamma by its blocks: sqrt(gamma_n) I in layer n's own place, -sqrt(gamma_n) W_{n,m} in its sources'."""
    network = problem.network
    layers = [*([BIAS] if network.targets(BIAS) else []), *range(network.depth + 1)]
    rows = []
    for n in range(1, network.depth + 1):
        row = []
        for m in layers:
            block = np.eye(network.widths[n]) if m == n else np.zeros((network.widths[n], network.width(m)))
            if (n, m) in network.edges:
                block = block - (np.eye(network.widths[n]) if not network.edges[n, m].learned else W[n, m].numpy())
            row.append(problem.gamma_of(n) ** 0.5 * block)
        rows.append(np.hstack(row))
    return np.vstack(rows)


@given(networks(), seeds)
def test_equation_1_multi_input_relu(network, seed):
    X = normal(5, network.widths[0], seed=seed)
    W = {edge: normal(*network.shape(edge), seed=seed + i) for i, edge in enumerate(network.learned, 1)}
    U = network.forward(X, W)
    torch.testing.assert_close(U[0], X)
    for i, x in enumerate(X.numpy()):
        u = {BIAS: np.ones(1), 0: x}
        for n in range(1, network.depth + 1):
            terms = [
                u[m] if not kind.learned else W[n, m].numpy() @ u[m] for (k, m), kind in network.edges.items() if k == n
            ]
            u[n] = np.clip(sum(terms), network.activation.lower, network.activation.upper)
            np.testing.assert_allclose(U[n][i], u[n], atol=1e-12)


@pytest.mark.parametrize("lift", LIFTS, ids=str)
@given(data=st.data(), seed=seeds)
def test_equation_2_is_equation_4_at_the_forward_pass_for_the_tight_lift_only(lift, data, seed):
    # Paper: Eq. 4 relaxes Eq. 2, "unrolling" each ReLU by Eq. 3.
    # Here: at the forward pass itself Eq. 4 exceeds Eq. 2 by gamma/2 |z - sigma(z)|^2, because |u - z|^2 charges
    # every negative pre-activation; with the Fenchel lift instead the two are equal.
    problem = replace(data.draw(problems(lifts=[lift])), ridge_V=0.0, ridge_W=0.0)
    samples = make_samples(problem, seed)
    start = make_blocks(problem, samples, seed)
    W, V = start.W, start.V
    blocks = Blocks(problem.network.forward(samples.X, W), V, W)
    scores = problem.network.features(samples.X, W).numpy() @ V.numpy().T
    conventional = float(oracles.loss_rows(problem.loss, samples.targets.numpy(), scores).value.sum())
    charge = 0.0
    if lift == Tikhonov():
        for n in problem.network.hidden:
            Z = oracles.pre_activation(problem, n, {m: u.numpy() for m, u in blocks.U.items()}, W_arrays(W))
            charge += problem.gamma_of(n) / 2 * np.square(Z - blocks.U[n].numpy()).sum()
    assert problem.objective(blocks, samples).total == pytest.approx(conventional + charge)


def W_arrays(W: dict) -> dict:
    return {edge: matrix.numpy() for edge, matrix in W.items()}


@given(width=st.integers(1, 6), seed=seeds)
def test_equation_3_the_relu_is_the_projection_onto_the_non_negative_orthant(width, seed):
    x = normal(1, width, seed=seed)
    relu = NonNegative().project(x)
    assert torch.equal(relu, torch.maximum(torch.zeros(()), x))
    for u in normal(20, width, seed=seed + 1).abs():
        assert (relu - x).norm() <= (u - x).norm()
    found, _ = oracles.quadratic(torch.eye(width, dtype=torch.float64), x, NonNegative()).minimum()
    np.testing.assert_allclose(relu, found["M"], atol=1e-8)


@given(problem=problems(lifts=[Tikhonov()]), seed=seeds)
def test_equation_4_is_the_loss_and_the_penalties_sample_by_sample(problem, seed):
    problem = replace(problem, ridge_V=0.0, ridge_W=0.0)
    samples = make_samples(problem, seed, rows=4)
    blocks = make_blocks(problem, samples, seed)
    total = 0.0
    for i in range(len(samples)):
        u = {m: layer[i].numpy() for m, layer in blocks.U.items()}
        scores = (blocks.V.numpy() @ u[problem.network.depth])[None]
        total += oracles.loss_rows(problem.loss, samples.targets[i : i + 1].numpy(), scores).value.item()
        for n in problem.network.hidden:
            z = sum(
                u[m] if not kind.learned else blocks.W[n, m].numpy() @ u[m]
                for (k, m), kind in problem.network.edges.items()
                if k == n
            )
            total += problem.gamma_of(n) / 2 * np.square(u[n] - z).sum()
    assert problem.objective(blocks, samples).total == pytest.approx(total)


@given(problem=problems(lifts=[Tikhonov()]), seed=seeds)
def test_equation_5_the_tikhonov_form_is_equation_4(problem, seed):
    problem = replace(problem, ridge_V=0.0, ridge_W=0.0)
    samples = make_samples(problem, seed, rows=4)
    blocks = make_blocks(problem, samples, seed)
    Q, P = tikhonov_matrix(problem, blocks.W).numpy(), select_last(problem.network).numpy()
    total = 0.0
    for u, target in zip(stack(problem.network, blocks.U).numpy(), samples.targets.numpy(), strict=True):
        scores = (blocks.V.numpy() @ P @ u)[None]
        total += oracles.loss_rows(problem.loss, target[None], scores).value.item() + 0.5 * u @ Q @ u
    assert problem.objective(blocks, samples).total == pytest.approx(total)


@given(problem=problems(lifts=[Tikhonov()]), seed=seeds)
def test_proposition_1_q_is_gamma_transposed_gamma_and_positive_semidefinite(problem, seed):
    W = make_blocks(problem, make_samples(problem, seed), seed).W
    factor, Q = dense_factor(problem, W), tikhonov_matrix(problem, W).numpy()
    np.testing.assert_allclose(tikhonov_factor(problem, W), factor, atol=1e-12)
    np.testing.assert_allclose(Q, factor.T @ factor, atol=1e-12)
    assert np.linalg.eigvalsh(Q)[0] >= -1e-12 * np.linalg.eigvalsh(Q)[-1]
    # It is never definite: the given layers can be met exactly, so its rank is that of the hidden ones.
    assert np.linalg.matrix_rank(Q) == sum(problem.network.widths[1:])


def test_definition_1_block_multi_convex_does_not_mean_convex():
    # y = v u with u = w x: both ends of the segment fit the sample exactly, its middle does not.
    problem = Problem(Network.chain([1, 1]), gamma=1.0)
    one = torch.ones(1, 1, dtype=torch.float64)
    samples = Samples(one, one)
    ends = [Blocks({0: one, 1: u * one}, one / u, {(1, 0): u * one}) for u in (0.5, 2.0)]
    assert [problem.objective(end, samples).total for end in ends] == [0.0, 0.0]
    assert problem.objective(between(*ends, 0.5), samples).total > 0.1


def between(a: Blocks, b: Blocks, share: float) -> Blocks:
    return Blocks(
        {m: torch.lerp(a.U[m], b.U[m], share) for m in a.U},
        torch.lerp(a.V, b.V, share),
        {edge: torch.lerp(a.W[edge], b.W[edge], share) for edge in a.W},
    )


@pytest.mark.parametrize("lift", LIFTS, ids=str)
@given(data=st.data(), seed=seeds, share=shares)
def test_proposition_2_the_objective_is_block_multi_convex(lift, data, seed, share):
    problem = data.draw(problems(lifts=[lift]))
    samples = make_samples(problem, seed)
    a, other = make_blocks(problem, samples, seed), make_blocks(problem, samples, seed + 1)
    # Paper: three blocks. Here: for the Fenchel lift U is one block a layer, because it is not jointly convex in U.
    features = [replace(a, U=a.U | {n: other.U[n] for n in group}) for group in problem.feature_groups()]
    for b in (*features, replace(a, V=other.V), replace(a, W=other.W)):
        low, high = (problem.objective(end, samples).total for end in (a, b))
        chord = low + share * (high - low)
        assert problem.objective(between(a, b, share), samples).total <= chord + 1e-12 * (1 + low + high)


def test_the_fenchel_lift_is_not_convex_in_all_of_u():
    # gamma_2 w^2 > gamma_1: a second layer that is fed by an inactive z outweighs the first layer's curvature.
    problem = Problem(Network.chain([1, 1, 1]), lift=Fenchel(), gamma=(0.1, 1.0))
    one = torch.ones(1, 1, dtype=torch.float64)
    samples = Samples(one, 0 * one)
    W = {(1, 0): 0 * one, (2, 1): -one}
    ends = [Blocks({0: one, 1: u * one, 2: (2 - u) * one}, 0 * one, W) for u in (0.0, 2.0)]
    values = [problem.objective(end, samples).total for end in ends]
    assert problem.objective(between(*ends, 0.5), samples).total > sum(values) / 2
    tikhonov = replace(problem, lift=Tikhonov())
    values = [tikhonov.objective(end, samples).total for end in ends]
    assert tikhonov.objective(between(*ends, 0.5), samples).total <= sum(values) / 2


def test_the_mapping_function_of_section_3_3_1():
    network = Network.paper(5)
    X, W = normal(7, 5), network.random_weights(1, dtype=torch.float64)
    x = X.numpy().T
    u1 = np.maximum(0, W[1, 0].numpy() @ x)
    u2 = np.maximum(0, x + W[2, 1].numpy() @ u1)
    u3 = np.maximum(0, x + u1 + W[3, 2].numpy() @ u2)
    np.testing.assert_allclose(network.features(X, W), u3.T, atol=1e-12)
