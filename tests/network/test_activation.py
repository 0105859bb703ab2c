"""Sec. 2.1: activations are projections onto the interval that U lives in."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import ACTIVATIONS, normal, seeds
from tikhonet import BlockDescent, Fenchel, Network, Problem, Stochastic, Tikhonov, certify
from tikhonet.network.activation import Activation, ClippedReLU, ReLU

every_activation = pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)


@every_activation
@given(seed=seeds)
def test_an_activation_is_the_projection_onto_its_interval(activation, seed):
    Z = 2 * normal(4, 3, seed=seed)
    value = activation.value(Z)
    assert activation.violation(value) <= 0
    assert torch.equal(activation.value(value), value)
    assert torch.equal(activation.value_(Z.clone()), value)
    assert torch.equal(value, Z.clamp(activation.lower, activation.upper))


@every_activation
@given(seed=seeds, factor=st.floats(0.1, 10))
def test_in_other_units_an_activation_does_the_same(activation, seed, factor):
    Z = 2 * normal(4, 3, seed=seed)
    torch.testing.assert_close(activation.scaled(factor).value(factor * Z), factor * activation.value(Z))


@every_activation
def test_a_description_gives_the_activation_back(activation):
    assert Activation.from_dict(activation.as_dict()) == activation
    assert Activation.named(activation) is activation
    assert Activation.named(activation.name) == type(activation)()


def test_violations_are_distances_from_the_interval():
    assert ReLU().violation(torch.tensor([2.0, -3.0])) == 3
    assert ClippedReLU(1.0).violation(torch.tensor([2.5, -1.0])) == 1.5
    assert math.isnan(ReLU().violation(torch.tensor([1.0, math.nan])))


@pytest.mark.parametrize("cap", [0.0, -1.0, math.inf, math.nan])
def test_a_cap_must_be_positive_and_finite(cap):
    with pytest.raises(ValueError, match="cap must be positive and finite"):
        ClippedReLU(cap)


def test_an_unknown_name_is_refused_with_those_that_are_known():
    with pytest.raises(ValueError, match=r"activation must be one of 'relu', 'clipped_relu'.*got 'tanh'") as caught:
        Network.chain([2, 2], activation="tanh")
    assert caught.value.argument == "activation"


@pytest.mark.parametrize("lift", [Tikhonov(), Fenchel()], ids=str)
def test_a_clipped_network_descends_as_promised_and_stays_within_its_cap(lift):
    network = Network.chain([3, 5, 4], bias=True, activation=ClippedReLU(0.5))
    assert "min(0.5, relu(" in repr(network)
    problem = Problem(network, lift=lift, gamma=1.0, ridge_V=0.1, ridge_W=0.01)
    result = BlockDescent(max_iter=40).run(problem, normal(30, 3), normal(30, 2, seed=1))
    certificate = certify(result)
    assert certificate["feasible"].holds, certificate
    assert certificate["promise"].holds, certificate
    assert max(float(result.blocks.U[n].max()) for n in network.hidden) == 0.5


def test_a_clipped_network_learns_over_mini_batches_in_any_units():
    X = normal(400, 3).float()
    targets = torch.stack([X[:, 0].abs(), (X[:, 1] * X[:, 2]).clamp(-1, 1)], 1)

    def error(activation, unit):
        network = Network.chain([3, 16, 16], bias=True, activation=activation)
        solver = Stochastic(epochs=20, batch_size=50, drop_inputs=0.0, drop_features=0.0)
        training = solver.run(Problem(network, lift=Fenchel(), gamma=1.0), unit * X, targets)
        scores = network.features(unit * X, training.blocks.W) @ training.blocks.V.T
        return float((scores - targets).square().mean())

    plain = error(ReLU(), 1.0)
    assert plain < 0.5 * float(targets.var())
    assert error(ClippedReLU(2.0), 1.0) < 1.5 * plain
    assert error(ClippedReLU(100.0), 50.0) < 1.5 * plain


class HardTanh(Activation):
    """The projection onto [-1, 1] (in other units [-cap, cap]), an activation of one's own."""

    name = "hard_tanh"

    def __init__(self, cap=1.0):
        self.upper, self.lower = cap, -cap

    upper = lower = 0.0

    def scaled(self, factor):
        return HardTanh(self.upper * factor)

    def formula(self, text):
        return f"hardtanh({text})"


def test_an_activation_of_ones_own_works_in_every_solver():
    network = Network.chain([3, 8, 4], bias=True, activation=HardTanh())
    X, targets = normal(60, 3), normal(60, 2, seed=1)
    problem = Problem(network, lift=Fenchel(), gamma=1.0, ridge_V=0.1)
    result = BlockDescent(max_iter=20, initial_features="forward").run(problem, X, targets)
    assert certify(result)["promise"].holds
    assert min(float(result.blocks.U[n].min()) for n in network.hidden) < 0
    training = Stochastic(epochs=5, batch_size=20).run(problem, X, targets)
    assert training.epochs[-1].loss < training.epochs[0].loss


def test_a_cap_that_float32_rounds_up_is_no_violation():
    activation = ClippedReLU(0.8)  # 0.800000012 in float32
    assert activation.violation(activation.value(torch.full((2, 2), 3.0))) <= 0
    assert activation.violation(torch.full((2, 2), 0.8001)) > 0
