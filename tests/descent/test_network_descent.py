"""Descent on the network's own loss: it falls, stays bounded, ends stationary, and says so only then."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings

from tests.strategies import make_samples, problems, seeds
from tikhonet import (
    Everything,
    Fenchel,
    Network,
    NetworkDescent,
    Problem,
    RowL1Ball,
    Softmax,
    Squared,
    Status,
    certify,
    certify_network,
)
from tikhonet.network.errors import ArgumentError

SQUARED, PAPER = Squared(), Network.paper(3)


def small(loss=SQUARED, network=PAPER):
    problem = Problem(network, loss, Fenchel(), gamma=1.0, ridge_V=0.1, ridge_W=0.1)
    return problem, make_samples(problem, 0, rows=12)


@given(problems(sets=[Everything()]), seeds)
@settings(max_examples=10)
def test_the_loss_falls_with_every_step_by_what_the_ridges_promise(problem, seed):
    samples = make_samples(problem, seed, weighted=True)
    solver = NetworkDescent(max_iter=4, chunk_rows=3)
    result = solver.run(problem, samples.X, samples.targets, weight=samples.weight, seed=seed)
    certificate = certify(result)
    for key in ("feasible", "descent", "promise"):
        assert certificate[key].holds, certificate
    assert result.history.objective == sorted(result.history.objective, reverse=True)


@pytest.mark.parametrize(
    ("loss", "network"),
    [
        (Squared(), Network.chain([3, 4, 3])),
        (Squared(), Network.paper(3)),
        (Squared(), Network.chain([3, 4], bias=True, activation="clipped_relu")),
        (Softmax(), Network.chain([3, 4])),
    ],
)
def test_it_ends_at_a_stationary_point_of_the_network(loss, network):
    problem, samples = small(loss, network)
    result = NetworkDescent(tol=1e-7).run(problem, samples.X, samples.targets)
    assert result.status is Status.STATIONARY
    certificate = certify(result)
    assert certificate.stationary
    assert certificate["bounded"].holds is (None if problem.unbounded() else True)
    again = certify_network(problem, result.blocks.V, result.blocks.W, samples, tol=1e-7, rounding=result.loss.width)
    assert again.stationary
    assert again["gap"].holds


def test_it_goes_far_below_its_start_and_on_from_where_it_ended():
    problem, samples = small()
    half = NetworkDescent(max_iter=5).run(problem, samples.X, samples.targets)
    assert half.status is Status.MAX_ITER
    assert half.history.objective[-1] < 0.5 * half.history.objective[0]
    more = NetworkDescent(max_iter=5).run(problem, samples.X, samples.targets, start=half.blocks)
    assert more.history.objective[-1] < half.history.objective[-1]


def test_steps_that_no_longer_lower_the_loss_are_not_called_stationary():
    """In float32 the loss is known to some 1e-7 of itself, and no step is worth so little as this asks for."""
    problem, samples = small()
    X, targets = samples.X.float(), samples.targets.float()
    result = NetworkDescent(tol=1e-15).run(problem, X, targets)
    assert result.status in (Status.STALLED, Status.STATIONARY)
    assert (result.status is Status.STATIONARY) == result.measure().within(1e-15)


def test_sets_are_refused():
    problem, samples = small()
    with pytest.raises(ArgumentError, match="problem must have no sets"):
        NetworkDescent().run(dataclasses.replace(problem, W_set=RowL1Ball()), samples.X, samples.targets)


def test_a_watcher_can_end_it_and_a_seed_gives_the_same_bits():
    problem, samples = small()
    runs = [
        NetworkDescent().run(problem, samples.X, samples.targets, seed=3, watch=lambda history: history.iterations == 4)
        for _ in range(2)
    ]
    assert runs[0].status is Status.INTERRUPTED
    assert runs[0].history.iterations == 4
    assert torch.equal(runs[0].blocks.V, runs[1].blocks.V)
