"""The inner solvers against closed forms, SciPy and cvxpy, and what their residual says."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from torch import Tensor

from tests import oracles
from tests.strategies import SETS, normal, seeds
from tikhonet import ConvexSet, Everything, NonNegative
from tikhonet.descent.convex import ModelStep, ProjectedStep, accelerate, largest_eigenvalue, minimise_quadratic

BOUNDED = [set_ for set_ in SETS if not isinstance(set_, Everything)]
widths = st.integers(1, 6)
rows = st.integers(1, 4)


def hessian(width: int, seed: int, rank: int | None = None, shift: float = 0.0) -> Tensor:
    """A random positive semidefinite matrix of this rank, plus `shift` times the identity."""
    A = normal(rank or width + 2, width, seed=seed)
    return A.T @ A + shift * torch.eye(width, dtype=torch.float64)


def value(H: Tensor, linear: Tensor, M: Tensor) -> float:
    return float(0.5 * ((M @ H) * M).sum() - (linear * M).sum())


def residual(H: Tensor, linear: Tensor, set_: ConvexSet, M: Tensor) -> float:
    """|M - Proj(M - gradient)|, in NumPy and with the oracle's projection."""
    point = M.double().numpy()
    return float(np.linalg.norm(point - oracles.project(set_, point - (point @ H.numpy() - linear.numpy()))))


@pytest.mark.parametrize("set_", SETS, ids=str)
@settings(max_examples=8)
@given(rows=rows, width=widths, seed=seeds)
def test_minimiser_over_every_set_agrees_with_cvxpy(set_, rows, width, seed):
    H, linear = hessian(width, seed, shift=0.3), 3 * normal(rows, width, seed=seed + 1)
    found = minimise_quadratic(H, linear, set_, normal(rows, width, seed=seed + 2), tol=1e-11, max_iter=20000)
    expected, least = oracles.quadratic(H, linear, set_).minimum()
    np.testing.assert_allclose(found.point, expected["M"], atol=1e-6)
    assert value(H, linear, found.point) == pytest.approx(least, abs=1e-7)
    assert residual(H, linear, set_, found.point) <= 1e-9 * found.scale
    assert set_.contains(found.point)


@pytest.mark.parametrize("set_", SETS, ids=str)
@given(rows=rows, width=widths, seed=seeds)
def test_a_planted_minimiser_is_found_from_any_start(set_, rows, width, seed):
    # M - Proj(M) is normal to the set at Proj(M), so it may be the negative gradient of a minimiser there.
    H, M = hessian(width, seed, shift=0.3), 2 * normal(rows, width, seed=seed + 1)
    planted = set_.project(M)
    start = normal(rows, width, seed=seed + 2)
    found = minimise_quadratic(H, planted @ H + M - planted, set_, start, tol=1e-11, max_iter=20000)
    torch.testing.assert_close(found.point, planted, atol=1e-8, rtol=0)


@pytest.mark.parametrize("set_", SETS, ids=str)
@given(rows=rows, width=widths, seed=seeds)
def test_a_start_at_the_minimiser_ends_at_once(set_, rows, width, seed):
    H, M = hessian(width, seed), 2 * normal(rows, width, seed=seed + 1)
    planted = set_.project(M)
    found = minimise_quadratic(H, planted @ H + M - planted, set_, planted)
    assert found.steps <= 4
    torch.testing.assert_close(found.point, planted, atol=1e-12, rtol=0)


@given(rows=rows, width=widths, seed=seeds)
def test_without_constraints_it_is_numpys_solve(rows, width, seed):
    H, linear = hessian(width, seed, shift=0.1), normal(rows, width, seed=seed + 1)
    found = minimise_quadratic(H, linear, Everything(), normal(rows, width, seed=seed + 2))
    np.testing.assert_allclose(found.point, np.linalg.solve(H, linear.T).T, atol=1e-9)
    assert found.relative <= 1e-12


@settings(max_examples=100)
@given(rows=rows, width=st.integers(2, 6), samples=st.integers(1, 10), data=st.data(), seed=seeds)
def test_where_the_hessian_is_singular_it_is_the_minimiser_nearest_to_the_start(rows, width, samples, data, seed):
    rank = data.draw(st.integers(1, width - 1))
    A = normal(samples, rank, seed=seed) @ normal(rank, width, seed=seed + 1)
    B, start = normal(samples, rows, seed=seed + 2), normal(rows, width, seed=seed + 3)
    found = minimise_quadratic(A.T @ A, B.T @ A, Everything(), start)
    nearest = start + (torch.linalg.pinv(A, rtol=1e-10) @ (B - A @ start.T)).T
    torch.testing.assert_close(found.point, nearest, atol=1e-6, rtol=0)


@pytest.mark.parametrize("seed", range(10))
def test_proportional_columns_of_unequal_size_are_seen_to_be_singular(seed):
    # The first pivot is as small as its column; the second is rounding of the larger one.
    A = normal(8, 1, seed=seed) @ torch.tensor([[1e-3, 1.0]], dtype=torch.float64)
    B, start = normal(8, 2, seed=seed + 1), normal(2, 2, seed=seed + 2)
    found = minimise_quadratic(A.T @ A, B.T @ A, Everything(), start)
    nearest = start + (torch.linalg.pinv(A, rtol=1e-10) @ (B - A @ start.T)).T
    torch.testing.assert_close(found.point, nearest, atol=1e-6, rtol=0)


@pytest.mark.parametrize("set_", BOUNDED, ids=str)
@settings(max_examples=10)
@given(rows=rows, width=st.integers(2, 5), seed=seeds)
def test_where_the_hessian_is_singular_the_least_value_over_a_set_is_reached(set_, rows, width, seed):
    H, M = hessian(width, seed, rank=width - 1), 2 * normal(rows, width, seed=seed + 1)
    planted = set_.project(M)
    linear = planted @ H + M - planted
    found = minimise_quadratic(H, linear, set_, normal(rows, width, seed=seed + 2), tol=1e-10, max_iter=20000)
    assert value(H, linear, found.point) == pytest.approx(value(H, linear, planted), abs=1e-8)


@given(rows=st.integers(1, 20), width=widths, seed=seeds)
def test_the_batched_non_negative_program_is_scipys_nnls_row_by_row(rows, width, seed):
    A, B = normal(width + 2, width, seed=seed), normal(rows, width + 2, seed=seed + 1)
    start = torch.zeros(rows, width, dtype=torch.float64)
    found = minimise_quadratic(A.T @ A, B @ A, NonNegative(), start, tol=1e-11, max_iter=50000)
    expected = [nnls(A.numpy(), b.numpy())[0] for b in B]
    np.testing.assert_allclose(found.point, expected, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("set_", SETS, ids=str)
@settings(max_examples=5)
@given(rows=rows, width=widths, seed=seeds)
def test_the_solution_states_its_residual_gradient_and_scale_in_float64(set_, dtype, rows, width, seed):
    H, linear = hessian(width, seed, shift=0.3), 3 * normal(rows, width, seed=seed + 1)
    start = normal(rows, width, seed=seed + 2).to(dtype)
    found = minimise_quadratic(H, linear, set_, start, tol=0.5, max_iter=1)
    assert found.point.dtype == dtype
    scale = np.linalg.norm(linear)
    assert found.residual == pytest.approx(residual(H, linear, set_, found.point), rel=1e-6, abs=1e-9 * scale)
    assert found.gradient == pytest.approx(np.linalg.norm(found.point.double() @ H - linear), rel=1e-9, abs=1e-12)
    assert found.scale == pytest.approx(scale)
    assert found.relative == pytest.approx(found.residual / scale)


@given(set_=st.sampled_from(BOUNDED), rows=rows, width=widths, seed=seeds, tol=st.sampled_from([1e-2, 1e-5, 1e-9]))
def test_an_early_end_means_that_the_residual_is_below_the_tolerance(set_, rows, width, seed, tol):
    H, linear = hessian(width, seed, shift=0.01), 3 * normal(rows, width, seed=seed + 1)
    found = minimise_quadratic(H, linear, set_, normal(rows, width, seed=seed + 2), tol=tol, max_iter=20000)
    assert found.steps < 20000
    assert found.relative <= tol * (1 + 1e-6)


@given(set_=st.sampled_from(BOUNDED), rows=rows, width=widths, seed=seeds, max_iter=st.integers(1, 40))
def test_the_value_is_never_above_that_of_the_start(set_, rows, width, seed, max_iter):
    H, linear = hessian(width, seed), normal(rows, width, seed=seed + 1)
    start = set_.project(normal(rows, width, seed=seed + 2))
    found = minimise_quadratic(H, linear, set_, start, tol=1e-12, max_iter=max_iter)
    assert found.steps <= max_iter
    assert value(H, linear, found.point) <= value(H, linear, start) + 1e-12


@pytest.mark.parametrize("set_", BOUNDED, ids=str)
def test_the_number_of_steps_does_not_depend_on_the_units_of_the_objective(set_):
    H, linear, start = hessian(5, 1), normal(3, 5, seed=2), set_.project(normal(3, 5, seed=3))
    plain = minimise_quadratic(H, linear, set_, start)
    for unit in (2.0**30, 2.0**-30):  # powers of two, which round nothing
        scaled = minimise_quadratic(unit * H, unit * linear, set_, start)
        assert scaled.steps == plain.steps
        torch.testing.assert_close(scaled.point, plain.point, atol=1e-6, rtol=0)


@given(width=widths, seed=seeds)
def test_steps_in_a_diagonal_metric_reach_the_same_minimiser(width, seed):
    H, linear = hessian(width, seed, shift=0.3), normal(2, width, seed=seed + 1)
    spread = torch.logspace(0, 2, width, dtype=torch.float64)
    H, linear = spread * H * spread[:, None], linear * spread
    metric = 1.01 * float(torch.linalg.eigvalsh(H / spread / spread[:, None])[-1]) * spread.square()
    step = ProjectedStep(metric, NonNegative().project_)
    start = torch.zeros_like(linear)
    scale = float(linear.norm())
    found, _ = accelerate(lambda M: M @ H - linear, step, start, scale=scale, tol=1e-12, max_iter=50000)
    expected, _ = oracles.quadratic(H, linear, NonNegative()).minimum()
    np.testing.assert_allclose(found, expected["M"], atol=1e-6)


@pytest.mark.parametrize("set_", SETS, ids=str)
def test_one_model_step_minimises_a_quadratic(set_):
    H, linear, y = hessian(4, 1, shift=0.5), 3 * normal(3, 4, seed=2), normal(3, 4, seed=3)
    reached = ModelStep(H, set_, 1e-10)(y, y @ H - linear, torch.empty_like(y))
    expected = minimise_quadratic(H, linear, set_, y, tol=1e-12).point
    torch.testing.assert_close(reached, expected, atol=1e-8, rtol=0)


@given(width=st.integers(1, 40), rank=st.integers(1, 40), seed=seeds)
def test_the_largest_eigenvalue_is_not_below_the_truth_and_within_two_percent(width, rank, seed):
    H = hessian(width, seed, rank)
    true = float(torch.linalg.eigvalsh(H)[-1])
    assert (1 - 1e-13) * true <= largest_eigenvalue(lambda block: block @ H, width, H) <= 1.02 * true


@pytest.mark.parametrize("seed", range(3))
def test_the_largest_eigenvalue_of_a_wide_gram_matrix_is_not_below_the_truth(seed):
    # The paper's width. The top of such a spectrum is crowded, which is where power steps are slow.
    H = hessian(784, seed, rank=784)
    true = float(torch.linalg.eigvalsh(H)[-1])
    assert true <= largest_eigenvalue(lambda block: block @ H, 784, H) <= 1.02 * true


def test_the_largest_eigenvalue_of_zero_is_zero():
    H = torch.zeros(3, 3, dtype=torch.float64)
    assert largest_eigenvalue(lambda block: block @ H, 3, H) == 0


@pytest.mark.parametrize("set_", SETS, ids=str)
@pytest.mark.parametrize("where", ["H", "linear", "start"])
def test_a_nan_ends_the_steps_and_shows_in_the_residual(set_, where):
    given = {"H": hessian(3, 1), "linear": normal(2, 3, seed=2), "start": torch.zeros(2, 3, dtype=torch.float64)}
    given[where][0, 0] = torch.nan
    found = minimise_quadratic(given["H"], given["linear"], set_, given["start"])
    assert np.isnan(found.residual)
    assert found.steps == 1
