"""The minimum over U of the lifted objective lies below the network's own loss, by a gap that is enclosed."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy.optimize import minimize

from tests.strategies import ACTIVATIONS, make_blocks, make_samples, networks, normal, problems, seeds
from tikhonet import Blocks, Everything, Fenchel, Network, Problem, Tikhonov
from tikhonet.descent.lift_gap import lift_gap
from tikhonet.network.errors import ArgumentError


def random_point(problem, seed, rows=7, weighted=True):
    samples = make_samples(problem, seed, rows, weighted)
    return samples, make_blocks(problem, samples, seed)


@given(problems(lifts=[Fenchel()]), seeds)
@settings(max_examples=25)
def test_the_tight_lift_at_the_forward_pass_is_the_loss_and_no_u_found_lies_above_it(problem, seed):
    samples, blocks = random_point(problem, seed)
    gap = lift_gap(problem, blocks.V, blocks.W, samples)
    U = problem.network.forward(samples.X, blocks.W)
    assert problem.objective(Blocks(U, blocks.V, blocks.W), samples).total == pytest.approx(gap.loss)
    assert gap.floor - 1e-9 * gap.loss <= gap.found <= gap.loss
    assert gap.at_least >= 0


@given(problems(lifts=[Fenchel()]), seeds)
@settings(max_examples=25)
def test_no_u_lies_below_the_floor(problem, seed):
    samples, blocks = random_point(problem, seed)
    gap = lift_gap(problem, blocks.V, blocks.W, samples)
    forward = problem.network.forward(samples.X, blocks.W)
    for k, size in enumerate((0.01, 0.1, 1.0)):
        U = forward | {
            n: problem.network.activation.value(forward[n] + size * normal(*forward[n].shape, seed=seed + k))
            for n in problem.network.hidden
        }
        assert problem.objective(Blocks(U, blocks.V, blocks.W), samples).total >= gap.floor - 1e-9 * gap.loss


def least(problem, samples, blocks, starts=6):
    """The minimum over U by some local searches of SciPy with finite differences: slow, and independent."""
    hidden, activation = problem.network.hidden, problem.network.activation
    forward = problem.network.forward(samples.X, blocks.W)
    sizes = [forward[n].numel() for n in hidden]

    def f(u):
        parts = torch.from_numpy(u).split(sizes)
        U = forward | {n: part.view_as(forward[n]) for n, part in zip(hidden, parts, strict=True)}
        return problem.objective(Blocks(U, blocks.V, blocks.W), samples).total

    first = torch.cat([forward[n].flatten() for n in hidden]).numpy()
    noise = np.random.default_rng(0).normal(size=(starts, len(first)))
    noise[0] = 0
    bounds = [(activation.lower, min(activation.upper, 1e6))] * len(first)
    return min(
        minimize(f, np.clip(first + shift, activation.lower, activation.upper), method="L-BFGS-B", bounds=bounds).fun
        for shift in noise
    )


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("edges", [{}, {(2, 0): "identity"}, {(2, 0): "dense"}], ids=["chain", "identity", "dense"])
def test_a_slow_search_finds_the_minimum_within_the_enclosure(activation, edges):
    network = Network([2, 2, 2], {(1, 0): "dense", (2, 1): "dense"} | edges, activation=activation)
    problem = Problem(network, lift=Fenchel(), gamma=0.5, ridge_V=0.1)
    for seed in range(2):
        samples, blocks = random_point(problem, seed, rows=2)
        gap, truth = lift_gap(problem, blocks.V, blocks.W, samples, sweeps=100), least(problem, samples, blocks)
        assert gap.floor - 1e-6 <= truth <= gap.found + 1e-6


@given(networks(max_depth=1), seeds)
@settings(max_examples=15)
def test_with_one_hidden_layer_the_gap_is_known_exactly(network, seed):
    problem = Problem(network, lift=Fenchel(), gamma=1.0, V_set=Everything())
    samples, blocks = random_point(problem, seed)
    gap = lift_gap(problem, blocks.V, blocks.W, samples)
    assert gap.at_most - gap.at_least <= 1e-6 * gap.loss


def test_the_gap_closes_as_gamma_grows():
    problem = Problem(Network.paper(3), lift=Fenchel())
    samples, blocks = random_point(problem, 0)
    found = [
        lift_gap(Problem(Network.paper(3), lift=Fenchel(), gamma=gamma), blocks.V, blocks.W, samples).at_most
        for gamma in (1.0, 1e3, 1e6)
    ]
    assert found[0] > found[1] > found[2]
    assert found[2] < 1e-3


def test_a_lift_that_is_not_tight_has_no_such_gap():
    problem = Problem(Network.chain([2, 2]), lift=Tikhonov())
    samples, blocks = random_point(problem, 0)
    with pytest.raises(ArgumentError, match="problem must have a tight lift"):
        lift_gap(problem, blocks.V, blocks.W, samples)
