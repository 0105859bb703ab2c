"""The u-step against the written objective, and what its Solution and its curvature bound say."""

from dataclasses import replace
from itertools import chain, combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracles
from tests.strategies import LIFTS, LOSSES, make_blocks, make_samples, problems, seeds
from tikhonet import Blocks, Network, Problem, Samples, Tikhonov
from tikhonet.descent.convex import Solution
from tikhonet.descent.feature_step import curvature, update_features
from tikhonet.problem.tikhonov import stacked_layers, tikhonov_matrix

rhos = st.sampled_from([0.0, 0.1, 1.0])


def groups(problem: Problem) -> st.SearchStrategy[tuple[int, ...]]:
    """Any layers together for a lift that is jointly convex, else any single one."""
    hidden = problem.network.hidden
    sizes = range(1, len(hidden) + 1) if problem.lift.quadratic else (1,)
    return st.sampled_from(list(chain.from_iterable(combinations(hidden, size) for size in sizes)))


def norm(point: dict) -> float:
    return float(np.sqrt(sum(np.square(np.asarray(part)).sum() for part in point.values())))


def all_groups(problem: Problem, blocks: Blocks, samples: Samples, rho: float, **settings) -> list[Solution]:
    return [update_features(problem, blocks, samples, rho, group, **settings) for group in problem.feature_groups()]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("lift", LIFTS, ids=str)
@settings(max_examples=6)
@given(data=st.data(), seed=seeds, rho=rhos)
def test_features_minimise_the_written_objective(lift, loss, data, seed, rho):
    problem = data.draw(problems(lifts=[lift], losses=[loss]))
    group = data.draw(groups(problem))
    samples = make_samples(problem, seed, rows=4)
    blocks = make_blocks(problem, samples, seed)
    found = update_features(problem, blocks, samples, rho, group, tol=1e-11, max_iter=20000)
    program = oracles.features(problem, blocks, samples, rho, group)
    expected, least = program.minimum()
    assert found.point.keys() == set(group)
    for n in group:  # gamma > 0 makes the minimiser unique, for rho = 0 too
        np.testing.assert_allclose(found.point[n], expected[n], atol=1e-6)
        assert problem.network.activation.violation(found.point[n]) <= 0
    assert program.value(found.point) == pytest.approx(least, abs=1e-9)
    assert program.residual(found.point) <= 1e-9


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@settings(max_examples=12)
@given(data=st.data(), seed=seeds, rho=rhos, max_iter=st.integers(1, 6))
def test_the_solution_states_its_residual_gradient_and_scale_in_float64(dtype, data, seed, rho, max_iter):
    problem = data.draw(problems())
    group = data.draw(groups(problem))
    exact = make_samples(problem, seed, rows=4)
    samples = Samples(exact.X.to(dtype), exact.targets.to(dtype), chunk_rows=3)
    blocks = make_blocks(problem, samples, seed)
    found = update_features(problem, blocks, samples, rho, group, tol=0.5, max_iter=max_iter)
    assert found.steps <= max_iter
    program = oracles.features(problem, blocks, samples, rho, group)
    zero = {n: torch.zeros_like(blocks.U[n]) for n in group}
    scale = norm(program.gradient(zero))
    assert found.residual == pytest.approx(program.residual(found.point), rel=1e-9, abs=1e-12 * scale)
    assert found.gradient == pytest.approx(norm(program.gradient(found.point)), rel=1e-9, abs=1e-12 * scale)
    assert found.scale == pytest.approx(scale, rel=1e-5)


@given(problem=problems(), seed=seeds, rho=rhos, tol=st.sampled_from([1e-1, 1e-3, 1e-6]))
def test_an_early_end_means_that_the_residual_is_below_the_tolerance(problem, seed, rho, tol):
    samples = make_samples(problem, seed)
    for found in all_groups(problem, make_blocks(problem, samples, seed), samples, rho, tol=tol, max_iter=20000):
        assert found.steps < 20000
        assert found.relative <= tol * (1 + 1e-6)


@given(problem=problems(), seed=seeds, weighted=st.booleans())
def test_the_relative_residual_does_not_depend_on_the_unit_of_the_weights(problem, seed, weighted):
    samples = make_samples(problem, seed, weighted=weighted)
    weight = torch.ones(len(samples), dtype=torch.float64) if samples.weight is None else samples.weight
    blocks = make_blocks(problem, samples, seed)
    plain, heavy = (
        all_groups(problem, blocks, replace(samples, weight=unit * weight), 0.1, tol=0.3, max_iter=2)
        for unit in (1.0, 64.0)
    )
    assert [found.relative for found in heavy] == pytest.approx([found.relative for found in plain])


@given(problem=problems(), seed=seeds, rho=rhos, max_iter=st.integers(1, 30))
def test_the_objective_is_never_above_that_of_the_start(problem, seed, rho, max_iter):
    samples = make_samples(problem, seed)
    blocks = make_blocks(problem, samples, seed)
    start = problem.objective(blocks, samples).total
    for found in all_groups(problem, blocks, samples, rho, tol=1e-9, max_iter=max_iter):
        moved = replace(blocks, U=blocks.U | found.point)
        step = sum(float((moved.U[n] - blocks.U[n]).square().sum()) for n in found.point)
        assert problem.objective(moved, samples).total + rho / 2 * step <= start + 1e-12 * (1 + start)


@given(problem=problems(), seed=seeds, rho=rhos)
def test_a_start_at_the_minimiser_ends_at_once(problem, seed, rho):
    samples = make_samples(problem, seed)
    blocks = make_blocks(problem, samples, seed)
    group = problem.feature_groups()[0]
    for _ in range(4):  # each solve is at least ten times as exact as its start
        blocks = replace(blocks, U=blocks.U | update_features(problem, blocks, samples, 0.0, group, tol=1e-14).point)
    again = update_features(problem, blocks, samples, rho, group)
    assert again.steps <= 8
    for n in group:
        torch.testing.assert_close(again.point[n], blocks.U[n], atol=1e-10, rtol=0)


@given(problem=problems(), seed=seeds, rho=rhos, chunk_rows=st.integers(1, 6))
def test_chunked_equals_whole(problem, seed, rho, chunk_rows):
    whole = make_samples(problem, seed, weighted=True, chunk_rows=100)
    blocks = make_blocks(problem, whole, seed)
    settings = {"tol": 1e-14, "max_iter": 5000}
    chunked = all_groups(problem, blocks, replace(whole, chunk_rows=chunk_rows), rho, **settings)
    for part, full in zip(chunked, all_groups(problem, blocks, whole, rho, **settings), strict=True):
        for n in full.point:
            torch.testing.assert_close(part.point[n], full.point[n], atol=1e-10, rtol=0)
        assert part.scale == pytest.approx(full.scale, rel=1e-12)


@given(problem=problems(), seed=seeds)
def test_weights_leave_every_samples_own_minimiser_as_it_is(problem, seed):
    plain, weighted = (make_samples(problem, seed, weighted=weighted) for weighted in (False, True))
    blocks = make_blocks(problem, plain, seed)
    for one, two in zip(
        all_groups(problem, blocks, plain, 0.1), all_groups(problem, blocks, weighted, 0.1), strict=True
    ):
        assert all(torch.equal(one.point[n], two.point[n]) for n in one.point)


@given(data=st.data(), seed=seeds, rho=rhos)
def test_the_curvature_bounds_the_hessian_closely_and_the_convexity_from_below(data, seed, rho):
    problem = data.draw(problems())
    group = data.draw(groups(problem))
    blocks = make_blocks(problem, make_samples(problem, seed), seed)
    hessian = dense_hessian(problem, group, blocks, rho)
    diagonal, convexity = curvature(problem, group, blocks.V, blocks.W, rho)
    spectrum = torch.linalg.eigvalsh(hessian / diagonal.sqrt() / diagonal.sqrt()[:, None])
    assert 0.97 <= spectrum[-1] <= 1 + 1e-12
    assert 0 < convexity <= spectrum[0] + 1e-12


def dense_hessian(problem: Problem, group: tuple[int, ...], blocks: Blocks, rho: float) -> torch.Tensor:
    """Q + c P'V'VP + rho I with the loss's curvature c, its rows and columns those of the group."""
    network = problem.network
    order = stacked_layers(network)
    ends = np.cumsum([network.width(m) for m in order])
    place = {m: torch.arange(end - network.width(m), end) for m, end in zip(order, ends, strict=True)}
    H = tikhonov_matrix(problem, blocks.W)
    last = place[network.depth]
    H[last[:, None], last] += problem.loss.curvature * blocks.V.T @ blocks.V
    kept = torch.cat([place[n] for n in group])
    return H[kept[:, None], kept] + rho * torch.eye(len(kept), dtype=torch.float64)


@pytest.mark.parametrize("lift", LIFTS, ids=str)
def test_the_number_of_steps_does_not_depend_on_the_unit_of_gamma(lift):
    # With V = 0 and rho = 0 the sub-problem is gamma times one and the same.
    network = Network.chain([3, 4, 2, 3])
    samples = make_samples(Problem(network), 0)
    blocks = make_blocks(Problem(network), samples, 0)
    blocks = replace(blocks, V=torch.zeros_like(blocks.V))
    plain, small, large = (
        update_features(problem, blocks, samples, 0.0, problem.feature_groups()[-1], tol=1e-4)
        for problem in (Problem(network, lift=lift, gamma=gamma) for gamma in (1.0, 2.0**-20, 2.0**20))
    )
    assert (small.steps, large.steps) == (plain.steps, plain.steps)


def test_layers_of_unequal_curvature_are_solved_as_exactly():
    problem = Problem(Network.paper(4), gamma=0.1)
    samples = make_samples(problem, 0)
    blocks = make_blocks(problem, samples, 0)
    blocks = replace(blocks, V=10 * blocks.V)
    found = update_features(problem, blocks, samples, 0.1, (1, 2, 3), tol=1e-9, max_iter=3000)
    assert found.steps < 3000
    program = oracles.features(problem, blocks, samples, 0.1, (1, 2, 3))
    expected, _ = program.minimum()
    for n in (1, 2, 3):
        np.testing.assert_allclose(found.point[n], expected[n], atol=1e-6)


@pytest.mark.parametrize("lift", LIFTS, ids=str)
def test_units_of_unequal_curvature_cost_few_steps(lift):
    # Weights that leave some units of the first layer are a hundred times as large as those that leave the others.
    problem = Problem(Network.chain([6, 6, 6]), lift=lift, gamma=0.1)
    samples = make_samples(problem, 0)
    blocks = make_blocks(problem, samples, 0)
    blocks.W[2, 1] = torch.eye(6, dtype=torch.float64) * torch.tensor([100.0, 100, 1, 1, 1, 1])
    assert update_features(problem, blocks, samples, 0.0, (1,), tol=1e-6, max_iter=400).steps <= 20


@pytest.mark.parametrize("where", ["U", "V", "W"])
@pytest.mark.parametrize("lift", LIFTS, ids=str)
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_what_is_not_finite_shows_in_the_residual(lift, where, value):
    problem = Problem(Network.chain([3, 4, 3], bias=True), lift=lift)
    samples = make_samples(problem, 0)
    blocks = make_blocks(problem, samples, 0)
    {"U": blocks.U[2], "V": blocks.V, "W": blocks.W[2, 1]}[where][0, 0] = value
    assert not np.isfinite(update_features(problem, blocks, samples, 1.0, problem.feature_groups()[0]).residual)


def test_the_tikhonov_lift_solves_all_layers_jointly():
    # One sample, one weight a layer: the joint minimum of Eq. 4 over u_1, u_2 >= 0, by hand.
    problem = Problem(Network.chain([1, 1, 1]), lift=Tikhonov(), gamma=1.0)
    one = torch.ones(1, 1, dtype=torch.float64)
    samples = Samples(one, 4 * one)
    blocks = Blocks({0: one, 1: 0 * one, 2: 0 * one}, one, {(1, 0): one, (2, 1): one})
    point = update_features(problem, blocks, samples, 0.0, (1, 2), tol=1e-12).point
    # minimise 1/2 (4 - b)^2 + 1/2 (a - 1)^2 + 1/2 (b - a)^2:  a = 2, b = 3
    assert point[1].item() == pytest.approx(2)
    assert point[2].item() == pytest.approx(3)


@given(problem=problems(), seed=seeds, rho=rhos)
def test_any_guess_leads_to_the_same_minimiser(problem, seed, rho):
    samples = make_samples(problem, seed)
    blocks = make_blocks(problem, samples, seed)
    guess = make_blocks(problem, samples, seed + 1).U
    group = problem.feature_groups()[-1]
    settings = {"tol": 1e-11, "max_iter": 20000}
    plain = update_features(problem, blocks, samples, rho, group, **settings)
    guessed = update_features(problem, blocks, samples, rho, group, start={n: guess[n] for n in group}, **settings)
    for n in group:
        torch.testing.assert_close(guessed.point[n], plain.point[n], atol=1e-8, rtol=0)
    assert guessed.scale == plain.scale
