"""Sec. 3 of the paper: the three sub-problems and Alg. 1, line by line."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from tests import oracles
from tests.paper.test_section_2 import dense_factor
from tests.strategies import LOSSES, SCHEDULES, SETS, make_blocks, make_samples, problems, seeds
from tikhonet import (
    BIAS,
    Blocks,
    Everything,
    Network,
    Power,
    Problem,
    Samples,
    Squared,
    Tikhonov,
    initial_blocks,
)
from tikhonet.descent.full import block_steps
from tikhonet.network.activation import ReLU

schedules = st.sampled_from(SCHEDULES)
iterations = st.sampled_from([2, 5])  # t = 1, where Power(2) has no proximal term, has a test of its own


def iterate(problem: Problem, blocks: Blocks, samples: Samples, theta: float, rho: float) -> dict[str, Blocks]:
    """One iteration of Alg. 1 as the package does it: the blocks after each block step."""
    return {move.block: move.blocks for move in block_steps(problem, blocks, samples, theta, rho, 1e-12, {})}


def features_by_hand(problem: Problem, blocks: Blocks, samples: Samples, rho: float) -> dict[int, np.ndarray]:
    """Line 4: one non-negative least-squares problem a sample, with dense Gamma and P."""
    network, hidden = problem.network, range(1, problem.network.depth + 1)
    widths = [network.widths[n] for n in hidden]
    size = sum(widths)
    factor, select = dense_factor(problem, blocks.W), np.eye(size)[size - widths[-1] :]
    given = [m for m in (BIAS, 0) if m in blocks.U]
    stars = []
    for i, target in enumerate(samples.targets.numpy()):
        fixed = np.concatenate([blocks.U[m][i].numpy() for m in given])
        old = np.concatenate([blocks.U[n][i].numpy() for n in hidden])
        A = np.vstack([blocks.V.numpy() @ select, factor[:, -size:], rho**0.5 * np.eye(size)])
        b = np.concatenate([target, -factor[:, :-size] @ fixed, rho**0.5 * old])
        stars.append(nnls(A, b)[0])
    parts = np.split(np.array(stars), np.cumsum(widths)[:-1], axis=1)
    return dict(zip(hidden, parts, strict=True))


def fit(A: np.ndarray, B: np.ndarray, weight: float, rho: float, old: np.ndarray) -> np.ndarray:
    """The minimiser over M of  weight/2 |B - A M'|^2 + rho/2 |M - old|^2."""
    H = weight * A.T @ A + rho * np.eye(A.shape[1])
    return np.linalg.solve(H, (weight * B.T @ A + rho * old).T).T


@given(
    problem=problems(lifts=[Tikhonov()], losses=[Squared()], sets=[Everything()], activations=[ReLU()]),
    seed=seeds,
    data=st.data(),
)
def test_algorithm_1_is_its_lines_4_to_9_in_numpy(problem, seed, data):
    schedule, t = data.draw(schedules), data.draw(iterations)
    theta, rho = schedule.theta(t), schedule.rho(t)
    problem = replace(problem, ridge_V=0.0, ridge_W=0.0)
    network = problem.network
    samples = make_samples(problem, seed, rows=20)
    old = make_blocks(problem, samples, seed)
    new = iterate(problem, old, samples, theta, rho)["W"]
    U = {m: layer.numpy() for m, layer in old.U.items()}
    for n, star in features_by_hand(problem, old, samples, rho).items():  # lines 4 and 5
        U[n] = U[n] + theta * (star - U[n])
        np.testing.assert_allclose(new.U[n], U[n], atol=1e-6)
    star = fit(U[network.depth], samples.targets.numpy(), 1.0, rho, old.V.numpy())  # lines 6 and 7
    np.testing.assert_allclose(new.V, (1 - theta) * old.V.numpy() + theta * star, atol=1e-6)
    for n in network.hidden:  # lines 8 and 9
        sources = network.learned_sources(n)
        if sources:
            A = np.hstack([U[m] for m in sources])
            W = np.hstack([old.W[n, m].numpy() for m in sources])
            B = U[n] - sum(U[m] for m in network.sources(n) if m not in sources)
            W = W + theta * (fit(A, B, problem.gamma_of(n), rho, W) - W)
            found = np.hstack([new.W[n, m].numpy() for m in sources])
            np.testing.assert_allclose(found, W, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@settings(max_examples=6)
@given(data=st.data(), seed=seeds, schedule=schedules)
def test_algorithm_1_with_any_loss_and_sets_is_its_lines_4_to_9_in_cvxpy(loss, data, seed, schedule):
    problem = data.draw(problems(lifts=[Tikhonov()], losses=[loss], sets=SETS))
    theta, rho = schedule.theta(3), schedule.rho(3)
    samples = make_samples(problem, seed)
    blocks = make_blocks(problem, samples, seed)
    steps = iterate(problem, blocks, samples, theta, rho)
    assert list(steps) == ["U", "V", "W"]
    star, _ = oracles.features(problem, blocks, samples, rho, problem.network.hidden).minimum()
    for n, layer in relaxed(blocks.U, star, theta).items():
        torch.testing.assert_close(steps["U"].U[n], layer, atol=1e-6, rtol=0)
    star, _ = oracles.classifier(problem, steps["U"], samples, rho).minimum()  # from what was found equal
    V = relaxed({"V": blocks.V}, star, theta)["V"]
    torch.testing.assert_close(steps["V"].V, V, atol=1e-6, rtol=0)
    star, _ = oracles.weights(problem, steps["V"], samples, rho).minimum()
    for edge, matrix in relaxed(blocks.W, star, theta).items():
        torch.testing.assert_close(steps["W"].W[edge], matrix, atol=1e-6, rtol=0)


def relaxed(old: dict, star: dict, theta: float) -> dict:
    return {key: old[key] + theta * (torch.from_numpy(star[key]) - old[key]) for key in star}


@given(problem=problems(), seed=seeds)
def test_algorithm_1_line_1_starts_from_random_feasible_blocks(problem, seed):
    samples = make_samples(problem, seed)
    blocks, others = (initial_blocks(problem, samples, s) for s in (seed, seed + 1))
    for n in problem.network.hidden:
        assert blocks.U[n].min() >= 0
        assert not torch.equal(blocks.U[n], others.U[n])
    assert problem.V_set.contains(blocks.V)
    assert all(problem.edge_set(edge).contains(matrix) for edge, matrix in blocks.W.items())


def test_algorithm_1_line_2_the_example_satisfies_the_condition_from_t_2_on():
    # Paper: sum over k >= t of theta_k / (1 - theta_k), for t = 1, 2, .., converges to zero, "e.g. 1/t^2".
    # Here: its first member is infinite, because theta_1 = 1; from t = 2 on it is 1/2 (1/(t-1) + 1/t).
    schedule = Power(2)
    schedule.check(1000)
    assert schedule.tail(1) == np.inf
    for t in (2, 3, 10, 1000):
        assert schedule.tail(t) == pytest.approx((1 / (t - 1) + 1 / t) / 2)


@settings(max_examples=40)
@given(seed=seeds, rows=st.integers(1, 6))
def test_theta_1_leaves_no_proximal_term_and_singular_systems_give_the_nearest_minimisers(seed, rows):
    # Paper: each sub-problem has "an extra quadratic term". Here: not at t = 1, because (1 - theta_1)^2 = 0;
    # with few samples V and W then have many minimisers, and the nearest to the old ones is taken.
    schedule = Power(2)
    assert (schedule.theta(1), schedule.rho(1)) == (1.0, 0.0)
    problem = Problem(Network.chain([4, 5, 5]), gamma=0.1)
    samples = make_samples(problem, seed, rows=rows)
    old = make_blocks(problem, samples, seed)
    new = iterate(problem, old, samples, 1.0, 0.0)["W"]

    def nearest(A: torch.Tensor, B: torch.Tensor, M: torch.Tensor) -> torch.Tensor:
        size = torch.linalg.svdvals(A)
        # Between these it is rounding that decides whether a direction counts.
        assume(not bool(((size > 1e-10 * size[0]) & (size < 1e-4 * size[0])).any()))
        return M + (torch.linalg.pinv(A, rtol=1e-8) @ (B - A @ M.T)).T

    torch.testing.assert_close(new.V, nearest(new.U[2], samples.targets, old.V), atol=1e-5, rtol=0)
    for n, m in problem.network.learned:
        torch.testing.assert_close(new.W[n, m], nearest(new.U[m], new.U[n], old.W[n, m]), atol=1e-5, rtol=0)


@given(problem=problems(lifts=[Tikhonov()]), seed=seeds)
def test_section_3_1_each_subproblem_is_equation_4_in_its_own_block(problem, seed):
    samples = make_samples(problem, seed)
    blocks, other = (make_blocks(problem, samples, s) for s in (seed, seed + 1))
    hidden = problem.network.hidden
    programs = {
        "U": (oracles.features(problem, blocks, samples, 0.0, hidden), {n: other.U[n] for n in hidden}),
        "V": (oracles.classifier(problem, blocks, samples, 0.0), {"V": other.V}),
        "W": (oracles.weights(problem, blocks, samples, 0.0), other.W),
    }
    moved = {
        "U": replace(blocks, U=other.U),
        "V": replace(blocks, V=other.V),
        "W": replace(blocks, W=other.W),
    }
    here = {"U": blocks.U, "V": {"V": blocks.V}, "W": blocks.W}
    for block, (program, there) in programs.items():
        change = program.value(there) - program.value(here[block])
        total = problem.objective(moved[block], samples).total - problem.objective(blocks, samples).total
        assert change == pytest.approx(total, abs=1e-9)
