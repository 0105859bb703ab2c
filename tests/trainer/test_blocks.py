from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import CLASSES, LOSSES, SETS, make_samples, problems, seeds
from tests.trainer.runs import DEEP64, SMALL64, error, same
from tikhonet import (
    Budget,
    Fenchel,
    Network,
    Problem,
    Squared,
    Status,
    Stochastic,
)
from tikhonet.trainer.recipe import DEEP, LASTING, LONG, SPARSE, USUAL, WHOLE
from tikhonet.trainer.sweep import forward, targets_sweep

SMALL = Network([4, 5, 5, 3], {(1, 0): "learned", (2, 1): "learned", (3, 1): "learned", (3, 2): "learned"}, bias=[2])


@pytest.mark.parametrize("decay", [0.0, 0.2])
def test_one_pass_without_momentum_and_memory_equals_the_written_formulas(decay):
    """All samples in one batch, no dropout, beta = mu = 0, on a chain of two layers, in NumPy."""
    network = Network.chain([4, 5, 3])
    problem = Problem(network, lift=Fenchel(), gamma=(0.5, 2.0))
    samples = make_samples(problem, 0, rows=20)
    X, Y = samples.X.numpy(), samples.targets.numpy()
    start = network.random_weights(1, dtype=torch.float64)
    options = {"memory": 0.0, "momentum": 0.0, "drop_inputs": 0.0, "drop_features": 0.0}
    solver = Stochastic(epochs=1, batch_size=20, change=0.3, decay=decay, **options)
    training = solver.run(problem, samples.X, samples.targets, start=start, dtype=torch.float64)

    W1, W2 = start[1, 0].numpy(), start[2, 1].numpy()
    X = X / np.sqrt(np.mean(X**2))
    Z1 = X @ W1.T
    A1 = np.maximum(Z1, 0)
    Z2 = A1 @ W2.T
    A2 = np.maximum(Z2, 0)
    S = A2.T @ A2
    V = np.linalg.solve(S + 0.1 * np.mean(np.diag(S)) * np.eye(3), A2.T @ Y).T
    slope = A2 @ V.T - Y
    g = 30 * np.sum(V**2) / CLASSES
    D2 = A2 - np.maximum(0, Z2 - slope @ V / (g + np.linalg.norm(V, 2) ** 2))
    D1 = A1 - np.maximum(0, Z1 - 4.0 * D2 @ W2)  # gamma_2 / gamma_1 = 4
    rate = 0.3 * np.sqrt(20 / 1000)
    for D, A, Z, W, edge in ((D1, X, Z1, W1, (1, 0)), (D2, A1, Z2, W2, (2, 1))):
        G = A.T @ A / 20
        R = -(D.T @ A / 20) @ np.linalg.inv(G + 10 * np.mean(np.diag(G)) * np.eye(len(G)))
        step = rate * np.sqrt(np.mean(Z**2) / np.mean((A @ R.T) ** 2)) * R
        moved = (1 - decay * rate) * (W + step)
        np.testing.assert_allclose(training.blocks.W[edge].numpy(), moved, rtol=1e-9, atol=1e-12)


@given(problems(lifts=[Fenchel()], losses=[Squared()]), seeds)
@settings(max_examples=15)
def test_the_sweeps_targets_lower_the_lifted_objective(problem, seed):
    """Seen from u = A, the last layer's target lowers loss + g D for every single sample."""
    samples = make_samples(problem, seed, rows=9)
    network, last = problem.network, problem.network.depth
    W = network.random_weights(seed, dtype=torch.float64)
    here = forward(problem, samples.X, W, {})
    generator = torch.Generator().manual_seed(seed)
    V = torch.randn(CLASSES, network.widths[-1], generator=generator, dtype=torch.float64)
    slope = problem.loss.slope(samples.targets, here.A[last] @ V.T)
    target = network.activation.value(here.Z[last]) - targets_sweep(problem, V, W, here, slope, damping=30.0)[last]

    def value(U):
        weight = 30.0 * float(V.square().sum()) / CLASSES
        return problem.loss.rows(samples.targets, U @ V.T) + weight * problem.lift.value(
            U, here.Z[last], network.activation
        )

    assert bool((target >= 0).all())
    assert network.activation.violation(target) <= 1e-12
    assert bool((value(target) <= value(here.A[last]) + 1e-12).all())


def test_digits_are_learned_to_three_percent(digits):
    X, y, X_test, y_test = digits
    problem = Problem(Network.chain([64, 200, 200], bias=True), lift=Fenchel())
    training = Stochastic(epochs=30, batch_size=200).run(problem, X, problem.loss.encode(y))
    assert training.status is Status.FINISHED
    assert error(problem, training, X_test, y_test) <= 0.03


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_trains(digits, loss):
    X, y, X_test, y_test = digits
    problem = Problem(Network.chain([64, 60, 60]), loss, Fenchel())
    training = Stochastic(epochs=12, batch_size=100).run(problem, X, loss.encode(y))
    assert training.epochs[-1].loss < training.epochs[0].loss
    assert error(problem, training, X_test, y_test) < 0.12


@pytest.mark.parametrize("set_", SETS, ids=str)
def test_every_set_trains_and_holds_after_every_epoch(digits, set_):
    X, y, _, _ = digits
    problem = Problem(Network.paper(64), lift=Fenchel(), W_set=set_)
    training = Stochastic(epochs=5, batch_size=200).run(problem, X, problem.loss.encode(y))
    assert training.epochs[-1].loss < training.epochs[0].loss
    assert all(set_.contains(matrix) for matrix in training.blocks.W.values())
    assert all(set_.contains(matrix) for matrix in training.state.W.values())


@given(problems(), seeds)
@settings(max_examples=20)
def test_any_network_gives_a_finite_feasible_model(problem, seed):
    samples = make_samples(problem, seed, rows=13, weighted=True)
    training = Stochastic(epochs=3, batch_size=5).run(
        problem, samples.X, samples.targets, weight=samples.weight, seed=seed, dtype=torch.float64
    )
    assert training.status is Status.FINISHED
    assert bool(training.blocks.V.isfinite().all())
    assert problem.V_set.contains(training.blocks.V, 1e-9)
    for edge, matrix in training.blocks.W.items():
        assert problem.edge_set(edge).contains(matrix), edge


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_units_of_the_data_do_not_matter(digits, scale):
    X, y, X_test, _ = digits
    problem = Problem(SMALL64, lift=Fenchel())
    one, other = (
        Stochastic(epochs=2, batch_size=300).run(problem, factor * X, problem.loss.encode(y)) for factor in (1.0, scale)
    )
    scores = problem.network.features(X_test, one.blocks.W) @ one.blocks.V.T
    scaled = problem.network.features(scale * X_test, other.blocks.W) @ other.blocks.V.T
    torch.testing.assert_close(scores, scaled, rtol=1e-2, atol=1e-2)


def test_a_deep_plain_network_trains_with_the_same_call(digits):
    X, y, X_test, y_test = digits
    problem = Problem(DEEP64, lift=Fenchel())
    training = Stochastic(epochs=15, batch_size=200).run(problem, X, problem.loss.encode(y))
    assert training.epochs[-1].loss < 0.3 * training.epochs[0].loss
    assert error(problem, training, X_test, y_test) < 0.08


def test_biases_do_not_decay(digits):
    X, y, *_ = digits
    problem = Problem(Network.chain([64, 8], bias=True), lift=Fenchel())
    edge = next(pair for pair in problem.network.learned if pair not in problem.network.penalised)
    solver = Stochastic(epochs=1, batch_size=len(X), averaging=0.0, drop_inputs=0.0)
    plain, shrunk = (
        replace(solver, decay=decay).run(problem, X, problem.loss.encode(y)).blocks.W for decay in (0.0, 0.05)
    )
    assert torch.equal(plain[edge], shrunk[edge])
    assert shrunk[1, 0].norm() < plain[1, 0].norm()


def test_depth_length_and_budget_decide_what_is_not_given():
    assert Stochastic().preset(DEEP64, 1.0) == Stochastic().preset(DEEP64, 2 * LONG) == DEEP
    assert Stochastic().preset(SMALL64) == Stochastic().preset(Network.paper(8), WHOLE) == USUAL
    assert Stochastic().preset(SMALL64, 2 * LONG) == LASTING
    sparse = Stochastic(budget=Budget(0.1))
    assert sparse.preset(SMALL64, 1.0) == sparse.preset(SMALL64, 2 * LONG) == SPARSE
    assert sparse.preset(DEEP64, 2 * LONG) == DEEP
    mine = Stochastic(change=0.2, metric="leading", drop_inputs=0.3).preset(DEEP64, 1.0)
    assert (mine.change, mine.metric, mine.drop_inputs) == (0.2, "leading", 0.3)
    assert (mine.momentum, mine.drop_features) == (DEEP.momentum, DEEP.drop_features)


@given(st.floats(0.0, 2 * LONG), st.floats(0.0, 2 * LONG))
def test_the_longer_a_run_the_more_it_drops(one, other):
    short, long = (Stochastic().preset(SMALL64, length) for length in sorted((one, other)))
    assert 0 <= short.drop_inputs <= long.drop_inputs <= LASTING.drop_inputs
    assert 0 <= short.drop_features <= long.drop_features <= USUAL.drop_features
    given = Stochastic(drop_inputs=0.3, drop_features=0.0).preset(SMALL64, one)
    assert (given.drop_inputs, given.drop_features) == (0.3, 0.0)


def test_dropout_goes_by_the_rows_that_a_run_sees_not_by_its_batches(digits):
    X, y = (part[:1000] for part in digits[:2])
    problem = Problem(SMALL64, lift=Fenchel())

    def first_epoch(epochs, **options):
        run = Stochastic(epochs=epochs, batch_size=500, **options)
        return run.run(problem, X, problem.loss.encode(y), watch=lambda epoch: True)

    long, whole, part = int(LONG) + 1, int(WHOLE), 2 / WHOLE
    for epochs, inputs, features in ((long, 0.2, 0.2), (whole, 0.1, 0.2), (2, part * 0.1, part * 0.2)):
        assert same(first_epoch(epochs), first_epoch(epochs, drop_inputs=inputs, drop_features=features))
