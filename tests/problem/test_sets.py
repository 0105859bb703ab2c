"""The convex sets: what a projection promises, exactly as stored, rounding included."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import SETS, normal, seeds
from tikhonet import Box, Everything, FrobeniusBall, NonNegative, RowL1Ball, RowL2Ball
from tikhonet.problem.sets import Columns

BALLS = [FrobeniusBall, RowL2Ball, RowL1Ball]
DTYPES = [torch.float32, torch.float64]
BOUNDED = [set_ for set_ in SETS if set_ != Everything()]
every_type = pytest.mark.parametrize("dtype", DTYPES, ids=str)


@st.composite
def matrices(draw, max_rows=4, max_columns=6):
    """Matrices of any size from 1e-3 to 1e3, some rows of them zero, in either type."""
    shape = draw(st.integers(1, max_rows)), draw(st.integers(1, max_columns))
    M = normal(*shape, seed=draw(seeds)) * 10.0 ** draw(st.integers(-3, 3))
    if draw(st.booleans()):
        M[0] = 0
    return M.to(draw(st.sampled_from(DTYPES)))


def feasible_points(set_, M, seed):
    """Points of the set: zero, small ones, and some on its boundary in random directions and along the axes."""
    directions = [normal(*M.shape, seed=seed + k) * size for k in range(8) for size in (1e-2, 1.0, 1e2)]
    axes = [torch.zeros_like(M).double() for _ in range(2 * M.shape[1])]
    for k, axis in enumerate(axes):
        axis[:, k // 2] = 10.0 * (-1) ** k
    points = [set_.project(point.to(M)) for point in (torch.zeros_like(M), *directions, *axes)]
    return [point for point in points if set_.contains(point)]


def project_row_l1(M, radius):
    """The projection on the row l1 balls, exact: each row's threshold from its sorted entries.

    The simplex projection is unchanged when all entries move by the same amount, so that entries are
    taken from the largest down and huge rows lose nothing to rounding.
    """
    result = M.copy()
    for row, out in zip(M, result, strict=True):
        size = np.abs(row)
        if size.sum() > radius:
            shifted = (size - size.max()) + radius
            descending = np.sort(shifted)[::-1]
            excess = (np.cumsum(descending) - radius) / np.arange(1, len(row) + 1)
            tau = excess[np.nonzero(descending > excess)[0][-1]]
            out[:] = np.sign(row) * np.maximum(0, shifted - tau)
    return result


def exact_projection(set_, M):
    """The closed form of each projection, in NumPy and float64."""
    M = M.double().numpy()
    if isinstance(set_, NonNegative):
        return np.maximum(M, 0)
    if isinstance(set_, Box):
        return np.minimum(np.maximum(M, set_.lower), set_.upper)
    if isinstance(set_, RowL1Ball):
        return project_row_l1(M, set_.radius)
    if isinstance(set_, FrobeniusBall):
        return M * min(1.0, set_.radius / max(np.linalg.norm(M), 1e-300))
    if isinstance(set_, RowL2Ball):
        return M * np.minimum(1.0, set_.radius / np.maximum(np.linalg.norm(M, axis=1, keepdims=True), 1e-300))
    assert isinstance(set_, Everything)
    return M


# Every set


@given(st.sampled_from(SETS), matrices())
def test_projection_is_in_the_set_exactly_as_stored(set_, M):
    P = set_.project(M)
    assert set_.contains(P, tol=0)
    assert set_.violation(P) <= 0
    assert (P.dtype, P.shape) == (M.dtype, M.shape)


@given(st.sampled_from(SETS), matrices())
def test_projection_is_idempotent_bit_for_bit(set_, M):
    P = set_.project(M)
    assert torch.equal(set_.project(P.clone()), P)


@given(st.sampled_from(SETS), matrices(), st.floats(0.1, 0.99))
def test_projection_leaves_interior_points_unchanged_bit_for_bit(set_, M, share):
    # All these sets are convex and hold zero, so part of the way from zero to a point of the set is inside.
    inside = set_.project(M).clone() * share
    assert set_.contains(inside)
    assert torch.equal(set_.project(inside.clone()), inside)


@given(st.sampled_from(SETS), matrices(), seeds)
def test_nothing_in_the_set_is_nearer_than_the_projection(set_, M, seed):
    P = set_.project(M).double()
    step, eps = M.double() - P, torch.finfo(M.dtype).eps
    for Q in feasible_points(set_, M, seed):
        # P is nearest iff no point of the set lies on M's side of it; P itself is rounded.
        inner = float((step * (Q.double() - P)).sum())
        assert inner <= 16 * eps * float(step.norm()) * float(P.norm() + Q.double().norm())


@given(st.sampled_from(SETS), matrices())
def test_projection_agrees_with_its_closed_form(set_, M):
    expected = torch.from_numpy(exact_projection(set_, M))
    eps = torch.finfo(M.dtype).eps
    torch.testing.assert_close(
        set_.project(M).double(), expected, rtol=16 * eps, atol=16 * eps * float(expected.abs().max())
    )


@given(st.sampled_from(SETS), matrices())
def test_projection_in_place_is_the_projection_in_place(set_, M):
    M_before = M.clone()
    expected = set_.project(M).clone()
    assert torch.equal(M, M_before)
    assert set_.project_(M) is M
    assert torch.equal(M, expected)


@given(st.sampled_from(BOUNDED), matrices())
def test_violation_is_positive_outside_and_not_inside(set_, M):
    expected = exact_projection(set_, M)
    distance = float(np.abs(M.double().numpy() - expected).max())
    # Nearer than the type's rounding, inside and outside cannot be told apart by the closed form.
    if distance > 16 * torch.finfo(M.dtype).eps * float(M.abs().max()):
        assert set_.violation(M) > 0
        assert not set_.contains(M)
        assert set_.contains(M, tol=set_.violation(M))
    elif distance == 0:
        assert set_.violation(M) <= 0
        assert set_.contains(M)


def test_violation_is_in_the_units_of_the_inequality():
    M = torch.tensor([[3.0, -4.0], [0.0, 1.0]])
    assert NonNegative().violation(M) == 4
    assert Box(-1.0, 2.5).violation(M) == 3
    assert FrobeniusBall(1.0).violation(M) == pytest.approx(26**0.5 - 1)
    assert RowL2Ball(1.5).violation(M) == 3.5
    assert RowL1Ball(1.5).violation(M) == 5.5
    assert Everything().violation(M) == 0


@pytest.mark.parametrize("set_", SETS, ids=str)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_set_contains_what_is_not_finite(set_, value):
    assert not set_.contains(torch.tensor([[0.1, 0.1], [0.1, value]]), tol=1e30)


@every_type
@pytest.mark.parametrize("set_", SETS, ids=str)
def test_zero_is_unchanged(set_, dtype):
    zero = torch.zeros(3, 2, dtype=dtype)
    assert torch.equal(set_.project(zero), zero)


@every_type
@pytest.mark.parametrize("set_", SETS, ids=str)
def test_a_huge_row_is_projected_as_its_closed_form_says(set_, dtype):
    M = torch.tensor([[1e30, 1e30, -1e30, 0.0], [0.01, -0.02, 0.0, 0.0]], dtype=dtype)
    P = set_.project(M)
    assert set_.contains(P)
    expected = torch.from_numpy(exact_projection(set_, M))
    torch.testing.assert_close(P.double(), expected, rtol=1e-6, atol=1e-7)


@every_type
@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("row", [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
def test_a_row_exactly_on_the_boundary_is_unchanged(ball, row, dtype):
    M = torch.tensor([row], dtype=dtype)
    assert ball(1.0).violation(M) == 0
    assert torch.equal(ball(1.0).project(M), M)


@every_type
@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("value", [7.0, 0.25, -9.0])
def test_a_single_number_is_clamped_to_the_radius(ball, dtype, value):
    M = torch.tensor([[value]], dtype=dtype)
    torch.testing.assert_close(ball(0.3).project(M), M.clamp(-0.3, 0.3), rtol=4 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("ball", [RowL2Ball, RowL1Ball])
def test_a_row_ball_leaves_the_rows_inside_as_they_are_beside_rows_outside(ball):
    M = normal(6, 5)
    M[::2] *= 0.01
    P = ball(1.0).project(M)
    assert torch.equal(P[::2], M[::2])
    assert not torch.isclose(P[1::2], M[1::2]).all(1).any()


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("radius", [0.0, -1.0, float("inf"), float("nan")])
def test_the_radius_must_be_positive_and_finite(ball, radius):
    with pytest.raises(ValueError, match=f"radius must be positive and finite, got {radius}"):
        ball(radius)


@pytest.mark.parametrize("ball", BALLS)
def test_membership_does_not_depend_on_how_a_matrix_lies_in_memory(ball):
    # A sum depends on its order in the last bit; a point that was projected as a slice or a transpose
    # must still be in the set when it is stored as a matrix of its own, and the other way round.
    set_, wide = ball(0.8), torch.zeros(30, 110, dtype=torch.float64)
    for seed in range(20):
        M = normal(30, 100, seed=seed)
        for view in (M, M.T.contiguous().T):
            P = set_.project(view)
            wide[:, 3:103] = P
            for stored in (P, P.contiguous(), P.T.contiguous().T, wide[:, 3:103]):
                assert set_.contains(stored)
                assert torch.equal(set_.project(stored), P)


# The row l1 ball


@given(matrices(), st.sampled_from([1e-3, 0.3, 1.0, 50.0]))
def test_row_l1_projection_is_exact_to_the_rounding_of_the_radius(M, radius):
    P = RowL1Ball(radius).project(M).double().numpy()
    expected = project_row_l1(M.double().numpy(), radius)
    assert np.abs(P - expected).sum(1).max() <= 16 * torch.finfo(M.dtype).eps * radius


@pytest.mark.parametrize("columns", [2, 33, 784])
def test_row_l1_projection_in_float32_has_norm_at_most_the_radius_and_loses_little(columns):
    M = normal(200, columns).float()
    sums = RowL1Ball(1.0).project(M).double().abs().sum(1)
    assert float(sums.max()) <= 1.0
    outside = M.double().abs().sum(1) > 1
    assert float(sums[outside].min()) >= 1 - 1e-6


def test_row_l1_projection_shares_the_radius_between_equal_entries():
    P = RowL1Ball(1.0).project(torch.tensor([[5.0, -5.0, 5.0, -5.0]], dtype=torch.float64))
    torch.testing.assert_close(P, torch.tensor([[0.25, -0.25, 0.25, -0.25]]).double(), rtol=1e-15, atol=0)


def test_row_l1_projection_sets_small_entries_to_exactly_zero():
    P = RowL1Ball(1.0).project(torch.tensor([[3.0, 2.5, 0.1, -1.0]]))
    assert torch.equal(P == 0, torch.tensor([[False, False, True, True]]))


# Boxes


@given(matrices(), seeds)
def test_a_box_may_have_a_bound_for_every_entry(M, seed):
    lower = normal(*M.shape, seed=seed)
    box = Box(lower, lower + 0.5)
    P = box.project(M)
    assert box.contains(P)
    eps = torch.finfo(M.dtype).eps
    torch.testing.assert_close(P.double(), M.double().clamp(lower, lower + 0.5), rtol=eps, atol=eps)


@pytest.mark.parametrize(("lower", "upper"), [(-0.1, 0.1), (0.1, 0.2), (0.3, 0.7), (-0.7, -0.3), (1 / 3, 2 / 3)])
def test_box_bounds_that_float32_cannot_hold_are_kept(lower, upper):
    P = Box(lower, upper).project(torch.tensor([[-9.0, 9.0]])).double()
    assert lower <= float(P.min()) <= float(P.max()) <= upper
    torch.testing.assert_close(P, torch.tensor([[lower, upper]]).double(), rtol=2e-7, atol=0)


def test_box_bounds_are_exact_in_float64():
    P = Box(0.1, 0.7).project(torch.tensor([[-9.0, 9.0]]).double())
    assert P.tolist() == [[0.1, 0.7]]


def test_a_box_that_holds_no_float32_still_projects_on_one_point_beside_it():
    box = Box(0.1, 0.1)
    P = box.project(torch.tensor([[-9.0, 9.0]]))
    assert P[0, 0] == P[0, 1]
    assert box.contains(P)
    assert float(P[0, 0]) == pytest.approx(0.1, rel=2e-7)


@every_type
def test_a_box_may_be_open_to_one_side(dtype):
    M = torch.tensor([[-2.0, 5.0]], dtype=dtype)
    assert Box(0.0, float("inf")).project(M).tolist() == [[0.0, 5.0]]
    assert Box(-float("inf"), 1.0).project(M).tolist() == [[-2.0, 1.0]]


@pytest.mark.parametrize(
    ("lower", "upper"), [(1.0, 0.0), (float("nan"), 1.0), (torch.tensor([[0.0, 2.0]]), torch.tensor([[1.0, 1.0]]))]
)
def test_a_lower_bound_above_the_upper_is_an_error(lower, upper):
    with pytest.raises(ValueError, match="lower must not exceed upper"):
        Box(lower, upper)


@pytest.mark.parametrize(
    ("box", "side"),
    [(Box(torch.zeros(2, 3), 1.0), "lower"), (Box(0.0, torch.ones(3)), "upper")],
    ids=["lower", "upper"],
)
def test_a_box_of_the_wrong_shape_is_an_error_that_names_the_matrix(box, side):
    with pytest.raises(ValueError, match=rf"the {side} bound of the box for W\[2, 1\] must .* shape \(3, 2\), got \("):
        box.check((3, 2), "W[2, 1]")


def test_a_box_of_numbers_or_of_the_right_shape_fits():
    Box(0.0, torch.tensor(1.0)).check((3, 2), "V")
    Box(torch.zeros(3, 2), torch.ones(3, 2)).check((3, 2), "V")


def test_bounds_of_unequal_shapes_are_an_error_that_names_them():
    with pytest.raises(ValueError, match=r"lower.*upper.*\(2, 3\).*\(3, 2\)"):
        Box(torch.zeros(2, 3), torch.ones(3, 2))


# Columns


@given(st.lists(st.tuples(st.sampled_from(SETS), st.integers(1, 3)), min_size=1, max_size=3), seeds)
def test_columns_project_each_part_on_its_own_set(parts, seed):
    sets, widths = zip(*parts, strict=True)
    M = 2 * normal(3, sum(widths), seed=seed)
    joint, P = Columns(sets, widths), Columns(sets, widths).project(M)
    assert joint.contains(P)
    assert torch.equal(joint.project(P), P)
    for set_, before, after in zip(sets, M.split(widths, 1), P.split(widths, 1), strict=True):
        assert torch.equal(after, set_.project(before))
    assert joint.violation(M) == max(set_.violation(part) for set_, part in zip(sets, M.split(widths, 1), strict=True))


@pytest.mark.parametrize("place", [0, 1])
def test_columns_do_not_contain_nan_in_any_part(place):
    M = torch.zeros(2, 2)
    M[0, place] = float("nan")
    assert not Columns((Everything(), NonNegative()), (1, 1)).contains(M)


@pytest.mark.parametrize("set_", SETS, ids=str)
def test_a_set_that_calls_itself_bounded_holds_no_large_matrix(set_):
    """And one that does not holds matrices of any size."""
    sizes = [float(set_.project(torch.full((3, 4), size, dtype=torch.float64)).norm()) for size in (1e3, 1e6)]
    assert (sizes[1] <= sizes[0] * 1.001) == set_.bounded
