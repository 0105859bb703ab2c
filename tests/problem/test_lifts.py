"""Sec. 2.2: the two penalties that stand for "u is the ReLU of z"."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import ACTIVATIONS, LIFTS, finite_difference, normal, seeds
from tikhonet import BlockDescent, Fenchel, Lift, Network, Problem, Tikhonov, certify
from tikhonet.network.activation import ClippedReLU, ReLU

LIFT, ACTIVATION, RELU = st.sampled_from(LIFTS), st.sampled_from(ACTIVATIONS), ReLU()
GRID = torch.tensor(list(itertools.product([0.0, 0.5, 1.0, 2.0], [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])))
U_GRID, Z_GRID = GRID[:, :1], GRID[:, 1:]


def pair(seed, activation=RELU, rows=4, columns=3):
    """A feasible U (with zeros) and any Z."""
    return activation.value(normal(rows, columns, seed=seed)), normal(rows, columns, seed=seed + 1)


def test_tikhonov_is_zero_iff_u_is_z_and_not_negative():
    expected = (U_GRID == Z_GRID) & (Z_GRID >= 0)
    assert torch.equal(Tikhonov().value(U_GRID, Z_GRID, RELU) == 0, expected[:, 0])


def test_fenchel_is_zero_iff_u_is_the_relu_of_z():
    expected = Z_GRID.relu() == U_GRID
    assert torch.equal(Fenchel().value(U_GRID, Z_GRID, RELU) == 0, expected[:, 0])


@pytest.mark.parametrize("lift", LIFTS, ids=str)
def test_lifts_are_positive_where_they_are_not_zero(lift):
    value = lift.value(U_GRID, Z_GRID, RELU)
    assert bool((value >= 0).all())
    assert bool((value > 0).any())


@given(seeds)
def test_tikhonov_is_half_the_squared_distance(seed):
    U, Z = pair(seed)
    expected = [sum(0.5 * (u - z) ** 2 for u, z in zip(*rows, strict=True)) for rows in zip(U, Z, strict=True)]
    torch.testing.assert_close(Tikhonov().value(U, Z, RELU), torch.stack(expected), rtol=1e-14, atol=0)


@given(seeds)
def test_tikhonov_is_fenchel_and_half_the_squared_negative_part_of_z(seed):
    U, Z = pair(seed)
    charge = 0.5 * (-Z).relu().square().sum(1)
    expected = Fenchel().value(U, Z, RELU) + charge
    torch.testing.assert_close(Tikhonov().value(U, Z, RELU), expected, rtol=1e-12, atol=1e-12)


@given(LIFT, ACTIVATION, seeds)
def test_lift_gradients_agree_with_finite_differences(lift, activation, seed):
    U, Z = pair(seed, activation)
    by_U = finite_difference(lambda point: lift.value(point, Z, activation).sum(), U)
    by_Z = finite_difference(lambda point: lift.value(U, point, activation).sum(), Z)
    torch.testing.assert_close(U - Z, by_U, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(lift.grad_Z(U, Z, activation), by_Z, rtol=1e-6, atol=1e-6)


@given(LIFT, ACTIVATION, seeds, st.floats(0, 1))
def test_lifts_are_convex_in_u_and_in_z(lift, activation, seed, share):
    (U, Z), (U_end, Z_end) = pair(seed, activation), pair(seed + 2, activation)
    ends = share * lift.value(U, Z, activation) + (1 - share) * lift.value(U_end, Z, activation)
    assert bool((lift.value(share * U + (1 - share) * U_end, Z, activation) <= ends + 1e-12).all())
    ends = share * lift.value(U, Z, activation) + (1 - share) * lift.value(U, Z_end, activation)
    assert bool((lift.value(U, share * Z + (1 - share) * Z_end, activation) <= ends + 1e-12).all())


@given(seeds, st.floats(0, 1))
def test_tikhonov_is_jointly_convex(seed, share):
    lift, (U, Z), (U_end, Z_end) = Tikhonov(), pair(seed), pair(seed + 2)
    middle = lift.value(share * U + (1 - share) * U_end, share * Z + (1 - share) * Z_end, RELU)
    assert bool((middle <= share * lift.value(U, Z, RELU) + (1 - share) * lift.value(U_end, Z_end, RELU) + 1e-12).all())


def test_only_the_jointly_convex_lift_is_called_quadratic():
    # For z < 0 Fenchel is u^2 / 2 - u z; it is 0 at (0, -2) and 0.5 at (1, 0), but 0.625 between them.
    ends = [(torch.tensor([[0.0]]), torch.tensor([[-2.0]])), (torch.tensor([[1.0]]), torch.tensor([[0.0]]))]
    middle = Fenchel().value(torch.tensor([[0.5]]), torch.tensor([[-1.0]]), RELU)
    assert float(middle) > 0.5 * sum(float(Fenchel().value(*end, RELU)) for end in ends)
    assert not Fenchel().quadratic
    assert Tikhonov().quadratic


@given(LIFT, ACTIVATION, seeds)
def test_grad_z_moves_no_more_than_z(lift, activation, seed):
    (U, Z), (_, Z_end) = pair(seed, activation), pair(seed + 2, activation)
    moved = (lift.grad_Z(U, Z, activation) - lift.grad_Z(U, Z_end, activation)).abs()
    assert bool((moved <= (Z - Z_end).abs() + 1e-15).all())


@given(LIFT, ACTIVATION, seeds)
def test_grad_z_writes_the_same_into_out_and_into_z_itself(lift, activation, seed):
    U, Z = pair(seed, activation)
    expected, out = lift.grad_Z(U, Z, activation), torch.empty_like(Z)
    assert lift.grad_Z(U, Z, activation, out=out) is out
    assert torch.equal(out, expected)
    U_before = U.clone()
    assert lift.grad_Z(U, Z, activation, out=Z) is Z
    assert torch.equal(Z, expected)
    assert torch.equal(U, U_before)


@given(seeds, st.floats(0.1, 3))
def test_fenchel_is_zero_iff_u_is_the_activation_of_z(seed, cap):
    for activation in (RELU, ClippedReLU(cap)):
        _, Z = pair(seed)
        assert float(Fenchel().value(activation.value(Z), Z, activation).abs().max()) == 0
        other = activation.value(activation.value(Z) - 0.01 * normal(4, 3, seed=seed + 5).sign())
        moved = (other != activation.value(Z)).any(1)
        assert bool((Fenchel().value(other, Z, activation)[moved] > 0).all())


class Blend(Lift):
    """Half Tikhonov, half Fenchel: a psi that is not that of a projection, so it has an excess."""

    quadratic = False

    def slope(self, Z, activation, out=None):
        return torch.lerp(Z, activation.value(Z), 0.5)

    def excess(self, Z, activation):
        A, P = activation.value(Z), self.slope(Z, activation)
        psi = 0.25 * Z.square() + 0.5 * (A * Z - 0.5 * A.square())
        return (psi - P * Z + 0.5 * P.square()).sum(1)


@given(ACTIVATION, seeds)
def test_a_lift_of_ones_own_is_its_slope_and_its_excess(activation, seed):
    U, Z = pair(seed, activation)
    half = 0.5 * Tikhonov().value(U, Z, activation) + 0.5 * Fenchel().value(U, Z, activation)
    torch.testing.assert_close(Blend().value(U, Z, activation), half, rtol=1e-12, atol=1e-12)
    by_Z = finite_difference(lambda point: Blend().value(U, point, activation).sum(), Z)
    torch.testing.assert_close(Blend().grad_Z(U, Z, activation), by_Z, rtol=1e-6, atol=1e-6)


def test_a_lift_of_ones_own_descends():
    problem = Problem(Network.chain([3, 4, 2], bias=True), lift=Blend(), gamma=1.0, ridge_V=0.1, ridge_W=0.1)
    X, targets = normal(20, 3), normal(20, 2, seed=1)
    result = BlockDescent(max_iter=60).run(problem, X, targets)
    certificate = certify(result)
    assert certificate["descent"].holds
    assert certificate["promise"].holds
    assert result.history.objective[-1] < 0.5 * result.history.objective[0]
