"""Sec. 2.3: Gamma, Q and P as operators and as matrices."""

import pytest
import torch
from hypothesis import given

from tests.strategies import make_blocks, make_samples, normal, problems, seeds
from tikhonet import BIAS, Network, Problem, Tikhonov
from tikhonet.problem.tikhonov import (
    apply_factor,
    apply_factor_transpose,
    apply_matrix,
    select_last,
    stack,
    stacked_layers,
    tikhonov_factor,
    tikhonov_matrix,
    unstack,
)


def draw(problem, seed, rows=3):
    """Weights, and any layers (not only feasible ones, and any 'constant')."""
    network = problem.network
    W = {edge: normal(*network.shape(edge), seed=seed + k) for k, edge in enumerate(network.learned)}
    U = {m: normal(rows, network.width(m), seed=seed + 50 + m) for m in stacked_layers(network)}
    return W, U


def hidden_rows(network, R):
    return torch.cat([R[n] for n in range(1, network.depth + 1)], dim=1)


def close(one, two):
    torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


@given(problems(), seeds)
def test_gamma_as_operator_is_gamma_as_matrix(problem, seed):
    W, U = draw(problem, seed)
    u = stack(problem.network, U)
    close(hidden_rows(problem.network, apply_factor(problem, W, U)), u @ tikhonov_factor(problem, W).T)


@given(problems(), seeds)
def test_gamma_transposed_as_operator_is_gamma_transposed_as_matrix(problem, seed):
    W, _ = draw(problem, seed)
    R = {n: normal(3, problem.network.widths[n], seed=seed + n) for n in problem.network.hidden}
    pulled = stack(problem.network, apply_factor_transpose(problem, W, R))
    close(pulled, hidden_rows(problem.network, R) @ tikhonov_factor(problem, W))


@given(problems(), seeds)
def test_gamma_transposed_is_the_adjoint_of_gamma(problem, seed):
    W, U = draw(problem, seed)
    network = problem.network
    R = {n: normal(3, network.widths[n], seed=seed + n) for n in reversed(network.hidden)}
    GU, GR = apply_factor(problem, W, U), apply_factor_transpose(problem, W, R)
    close((hidden_rows(network, GU) * hidden_rows(network, R)).sum(), (stack(network, U) * stack(network, GR)).sum())


@given(problems(), seeds)
def test_q_as_operator_is_q_as_matrix_is_gamma_transposed_gamma(problem, seed):
    W, U = draw(problem, seed)
    G, Q = tikhonov_factor(problem, W), tikhonov_matrix(problem, W)
    close(Q, G.T @ G)
    close(stack(problem.network, apply_matrix(problem, W, U)), stack(problem.network, U) @ Q.T)


@given(problems(lifts=[Tikhonov()]), seeds)
def test_half_the_squared_length_of_gamma_u_is_the_sum_of_the_lifts(problem, seed):
    samples = make_samples(problem, seed)
    blocks = make_blocks(problem, samples, seed)
    residual = hidden_rows(problem.network, apply_factor(problem, blocks.W, blocks.U))
    expected = sum(problem.objective(blocks, samples).lift.values())
    assert 0.5 * float(residual.square().sum()) == pytest.approx(expected, rel=1e-12)


@given(problems(), seeds)
def test_unstack_undoes_stack(problem, seed):
    _, U = draw(problem, seed)
    again = unstack(problem.network, stack(problem.network, U))
    assert set(again) == set(U)
    assert all(torch.equal(again[m], U[m]) for m in U)


@given(problems(), seeds)
def test_p_selects_the_last_layer(problem, seed):
    _, U = draw(problem, seed)
    P = select_last(problem.network)
    assert torch.equal(stack(problem.network, U) @ P.T, U[problem.network.depth])


def test_the_constant_is_stacked_first_and_only_if_there_is_a_bias():
    assert stacked_layers(Network.chain([3, 2])) == (0, 1)
    assert stacked_layers(Network.chain([3, 2], bias=True)) == (BIAS, 0, 1)


def test_gamma_of_a_small_network_by_hand():
    network = Network([1, 1, 1], {(1, 0): "learned", (2, 0): "identity", (2, 1): "learned"}, bias=[2])
    W = {(1, 0): torch.tensor([[3.0]]), (2, 1): torch.tensor([[5.0]]), (2, BIAS): torch.tensor([[7.0]])}
    G = tikhonov_factor(Problem(network, gamma=(4.0, 9.0)), W)
    assert G.tolist() == [[0.0, -6.0, 2.0, 0.0], [-21.0, -3.0, -15.0, 3.0]]
