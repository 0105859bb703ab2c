"""Sec. 2.2: the two penalties that stand for "u is the ReLU of z"."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import LIFTS, finite_difference, normal, seeds
from tikhonet import Fenchel, Tikhonov

LIFT = st.sampled_from(LIFTS)
GRID = torch.tensor(list(itertools.product([0.0, 0.5, 1.0, 2.0], [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])))
U_GRID, Z_GRID = GRID[:, :1], GRID[:, 1:]


def pair(seed, rows=4, columns=3):
    """A feasible U (with zeros) and any Z."""
    return normal(rows, columns, seed=seed).relu(), normal(rows, columns, seed=seed + 1)


def test_tikhonov_is_zero_iff_u_is_z_and_not_negative():
    expected = (U_GRID == Z_GRID) & (Z_GRID >= 0)
    assert torch.equal(Tikhonov().value(U_GRID, Z_GRID) == 0, expected[:, 0])


def test_fenchel_is_zero_iff_u_is_the_relu_of_z():
    expected = Z_GRID.relu() == U_GRID
    assert torch.equal(Fenchel().value(U_GRID, Z_GRID) == 0, expected[:, 0])


@pytest.mark.parametrize("lift", LIFTS, ids=str)
def test_lifts_are_positive_where_they_are_not_zero(lift):
    value = lift.value(U_GRID, Z_GRID)
    assert bool((value >= 0).all())
    assert bool((value > 0).any())


@given(seeds)
def test_tikhonov_is_half_the_squared_distance(seed):
    U, Z = pair(seed)
    expected = [sum(0.5 * (u - z) ** 2 for u, z in zip(*rows, strict=True)) for rows in zip(U, Z, strict=True)]
    torch.testing.assert_close(Tikhonov().value(U, Z), torch.stack(expected), rtol=1e-14, atol=0)


@given(seeds)
def test_tikhonov_is_fenchel_and_half_the_squared_negative_part_of_z(seed):
    U, Z = pair(seed)
    charge = 0.5 * (-Z).relu().square().sum(1)
    torch.testing.assert_close(Tikhonov().value(U, Z), Fenchel().value(U, Z) + charge, rtol=1e-12, atol=1e-12)


@given(LIFT, seeds)
def test_lift_gradients_agree_with_finite_differences(lift, seed):
    U, Z = pair(seed)
    by_U = finite_difference(lambda point: lift.value(point, Z).sum(), U)
    by_Z = finite_difference(lambda point: lift.value(U, point).sum(), Z)
    torch.testing.assert_close(lift.grad_U(U, Z), by_U, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(lift.grad_Z(U, Z), by_Z, rtol=1e-6, atol=1e-6)


@given(LIFT, seeds, st.floats(0, 1))
def test_lifts_are_convex_in_u_and_in_z(lift, seed, share):
    (U, Z), (U_end, Z_end) = pair(seed), pair(seed + 2)
    ends = share * lift.value(U, Z) + (1 - share) * lift.value(U_end, Z)
    assert bool((lift.value(share * U + (1 - share) * U_end, Z) <= ends + 1e-12).all())
    ends = share * lift.value(U, Z) + (1 - share) * lift.value(U, Z_end)
    assert bool((lift.value(U, share * Z + (1 - share) * Z_end) <= ends + 1e-12).all())


@given(seeds, st.floats(0, 1))
def test_tikhonov_is_jointly_convex(seed, share):
    lift, (U, Z), (U_end, Z_end) = Tikhonov(), pair(seed), pair(seed + 2)
    middle = lift.value(share * U + (1 - share) * U_end, share * Z + (1 - share) * Z_end)
    assert bool((middle <= share * lift.value(U, Z) + (1 - share) * lift.value(U_end, Z_end) + 1e-12).all())


def test_only_the_jointly_convex_lift_is_called_quadratic():
    # For z < 0 Fenchel is u^2 / 2 - u z; it is 0 at (0, -2) and 0.5 at (1, 0), but 0.625 between them.
    ends = [(torch.tensor([[0.0]]), torch.tensor([[-2.0]])), (torch.tensor([[1.0]]), torch.tensor([[0.0]]))]
    middle = Fenchel().value(torch.tensor([[0.5]]), torch.tensor([[-1.0]]))
    assert float(middle) > 0.5 * sum(float(Fenchel().value(*end)) for end in ends)
    assert not Fenchel().quadratic
    assert Tikhonov().quadratic


@given(LIFT, seeds)
def test_grad_z_moves_no_more_than_z(lift, seed):
    (U, Z), (_, Z_end) = pair(seed), pair(seed + 2)
    moved = (lift.grad_Z(U, Z) - lift.grad_Z(U, Z_end)).abs()
    assert bool((moved <= (Z - Z_end).abs() + 1e-15).all())


@given(LIFT, seeds)
def test_grad_z_writes_the_same_into_out_and_into_z_itself(lift, seed):
    U, Z = pair(seed)
    expected, out = lift.grad_Z(U, Z), torch.empty_like(Z)
    assert lift.grad_Z(U, Z, out=out) is out
    assert torch.equal(out, expected)
    U_before = U.clone()
    assert lift.grad_Z(U, Z, out=Z) is Z
    assert torch.equal(Z, expected)
    assert torch.equal(U, U_before)
