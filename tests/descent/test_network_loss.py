"""The loss of the network proper: its gradient, its Gauss-Newton model, and what is said of a point."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planted import plant
from tests.strategies import (
    ACTIVATIONS,
    CLASSES,
    LOSSES,
    finite_difference,
    make_blocks,
    make_samples,
    normal,
    problems,
    seeds,
)
from tikhonet import BIAS, Blocks, Everything, Fenchel, Network, NonNegative, Problem, Samples, Squared
from tikhonet.descent.network_loss import Expansion, NetworkLoss, measure_network, rounded

widths = st.sampled_from([0.0, 0.3])


def rounded_loss(problem, samples, W, share):
    return NetworkLoss(problem, samples, NetworkLoss.widths(problem, samples, W, share))


def random_point(problem, seed, share=0.0, weighted=True):
    samples = make_samples(problem, seed, weighted=weighted)
    blocks = make_blocks(problem, samples, seed)
    # Biases begin at zero, where a unit without inputs is on its kink.
    blocks = replace(blocks, W={edge: M + 0.1 * normal(*M.shape, seed=seed) for edge, M in blocks.W.items()})
    return rounded_loss(problem, samples, blocks.W, share), blocks


def value(loss, V, W):
    return loss.terms(loss.forward(V, W)).total


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_rounded_activation_is_the_mean_of_the_activation_and_its_slopes_are_its_derivatives(activation):
    Z, width = torch.linspace(-2, 2, 41, dtype=torch.float64)[None], 0.3
    found = rounded(activation, Z, width)
    shifts = torch.linspace(-width, width, 20001, dtype=torch.float64)
    mean = activation.value(Z[..., None] + shifts).mean(-1)
    torch.testing.assert_close(found.value, mean, atol=1e-4, rtol=0)
    step = 1e-5
    ahead, behind = (rounded(activation, Z + shift, width) for shift in (step, -step))
    torch.testing.assert_close(found.slope, (ahead.value - behind.value) / (2 * step), atol=1e-4, rtol=0)
    torch.testing.assert_close(rounded(activation, Z, 0.0).value, activation.value(Z))


@given(problems(sets=[Everything()]), seeds, widths)
@settings(max_examples=25)
def test_the_gradient_is_that_of_the_loss(problem, seed, share):
    loss, blocks = random_point(problem, seed, share)
    here = Expansion(loss, blocks.V, blocks.W)
    assert here.objective == pytest.approx(value(loss, blocks.V, blocks.W))
    expected = finite_difference(lambda V: value(loss, V, blocks.W), blocks.V)
    torch.testing.assert_close(here.gradient["V"], expected, rtol=1e-4, atol=1e-5)
    split = problem.network.split_weights
    for n in here.learned:
        M = problem.network.stacked_weights(n, blocks.W)
        expected = finite_difference(lambda M, n=n: value(loss, blocks.V, blocks.W | split(n, M)), M)
        torch.testing.assert_close(here.gradient[str(n)], expected, rtol=1e-4, atol=1e-5)


@given(problems(losses=[Squared()], sets=[Everything()]), seeds)
@settings(max_examples=15)
def test_the_curvature_is_that_of_the_loss_along_the_linearised_network(problem, seed):
    """With a squared loss  |d scores / dt|^2 + the ridge's, for a step of V or of one layer."""
    loss, blocks = random_point(problem, seed, weighted=False)
    here, last = Expansion(loss, blocks.V, blocks.W), problem.network.depth
    for name, fit in here.fits.items():
        S = normal(*fit.M.shape, seed=seed)

        def scores(t, name=name, step=S, M=fit.M):
            if name == "V":
                return problem.network.forward(loss.samples.X, blocks.W)[last] @ (M + t * step).T
            W = blocks.W | problem.network.split_weights(int(name), M + t * step)
            return problem.network.forward(loss.samples.X, W)[last] @ blocks.V.T

        change = (scores(1e-7) - scores(-1e-7)) / 2e-7
        expected = float(change.square().sum() + (fit.ridge * S.square()).sum())
        assert here.curvature(name, S) == pytest.approx(expected, rel=1e-4, abs=1e-9)


@given(problems(sets=[Everything(), NonNegative()]), seeds)
@settings(max_examples=15)
def test_a_point_is_stationary_only_where_the_gradient_vanishes(problem, seed):
    loss, blocks = random_point(problem, seed, 0.1)
    found = measure_network(loss, blocks)
    assert found.objective == pytest.approx(value(loss, blocks.V, blocks.W))
    assert (found.share > 0) == (found.total > 1e-12 * found.objective) or found.share < 1e-20


@pytest.mark.parametrize("network", [Network.chain([3, 4, 2]), Network.paper(3), Network.chain([2, 3], bias=True)])
def test_a_planted_network_is_stationary_and_a_shifted_one_is_not(network):
    problem = Problem(network, lift=Fenchel())
    planted, targets = plant(problem, rows=9, outputs=2, seed=0)
    loss = NetworkLoss(problem, Samples(planted.U[0], targets))
    assert measure_network(loss, planted).within(1e-12)
    moved = replace(planted, W={edge: matrix + 0.1 for edge, matrix in planted.W.items()})
    assert not measure_network(loss, moved).within(1e-3)


@given(seeds, st.integers(-6, 6).map(lambda power: 10.0**power), st.sampled_from(LOSSES))
@settings(max_examples=15)
def test_no_unit_of_inputs_or_objective_changes_what_is_measured(seed, scale, loss):
    problem = Problem(Network.chain([3, 4, 2], bias=True), loss, Fenchel(), ridge_V=0.1)
    samples = make_samples(problem, seed, rows=12)
    blocks = make_blocks(problem, samples, seed)
    W = blocks.W | {(1, BIAS): blocks.W[1, BIAS] + 0.3}
    X, scaled_W = scale * samples.X, W | {(1, 0): W[1, 0] / scale}
    weight = torch.full((len(samples),), scale, dtype=torch.float64)
    plain = rounded_loss(problem, samples, W, 0.1)
    moved = rounded_loss(problem, Samples(X, samples.targets), scaled_W, 0.1)
    larger = rounded_loss(replace(problem, ridge_V=0.1 * scale), replace(samples, weight=weight), W, 0.1)
    expected = measure_network(plain, Blocks({}, blocks.V, W)).share
    assert measure_network(moved, Blocks({}, blocks.V, scaled_W)).share == pytest.approx(expected, rel=1e-5)
    assert measure_network(larger, Blocks({}, blocks.V, W)).share == pytest.approx(expected, rel=1e-5)


def test_sums_over_samples_go_through_reduce():
    """Two halves, each of which adds the other's sums, say what the whole says."""
    problem = Problem(Network.chain([3, 4, 2]), lift=Fenchel(), ridge_V=0.1, ridge_W=0.1)
    samples = make_samples(problem, 0, rows=8)
    blocks = make_blocks(problem, samples, 0)
    doubled = replace(samples, reduce=lambda total: 2 * total)
    twice = Samples(samples.X.repeat(2, 1), samples.targets.repeat(2, 1))
    one, two = (measure_network(rounded_loss(problem, rows, blocks.W, 0.1), blocks) for rows in (doubled, twice))
    assert one.share == pytest.approx(two.share)
    assert one.objective == pytest.approx(two.objective)
    assert samples.targets.shape[1] == CLASSES
