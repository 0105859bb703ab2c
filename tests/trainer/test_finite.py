"""Whatever the data and the loss: a run gives finite weights, V that minimises its loss, and no error of a library."""

import math
from dataclasses import replace

import pytest
import torch

from tests.trainer.runs import SMALL64, error
from tikhonet import Fenchel, Huber, Network, NonNegative, Problem, Softmax, Squared, SquaredHinge, Status, Stochastic
from tikhonet.trainer.batches import Batch
from tikhonet.trainer.pace import Pace
from tikhonet.trainer.recipe import USUAL
from tikhonet.trainer.state import TrainingState
from tikhonet.trainer.statistics import RESIDUAL, factorise
from tikhonet.trainer.step import Stepper

LOSSES = [Huber(), Softmax(), SquaredHinge()]


def blobs(classes=2, rows=50, columns=10, seed=0):
    """Points around far centres, which any loss can separate."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(rows) % classes
    centres = 10 * torch.randn(classes, columns, generator=generator)
    return centres[y] + torch.randn(rows, columns, generator=generator), y


def finite(training):
    return all(bool(matrix.isfinite().all()) for matrix in (training.blocks.V, *training.blocks.W.values()))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", [Squared(), *LOSSES], ids=str)
def test_data_that_are_fitted_at_once_leave_weights_of_ordinary_size(loss, seed):
    """Where nothing is left to learn, steps end: they grew without bound, and weights with them."""
    X, y = blobs(classes=2 + seed % 2, seed=seed)
    problem = Problem(Network.chain([10, 30], bias=True), loss, Fenchel())
    training = Stochastic(epochs=400, drop_inputs=0.0, drop_features=0.0).run(problem, X, loss.encode(y))
    assert training.status is Status.FINISHED
    assert finite(training)
    assert max(float(matrix.abs().max()) for matrix in training.blocks.W.values()) < 1e3
    assert error(problem, training, X, y) == 0.0


def test_a_run_that_goes_on_for_long_stays_finite():
    X, y = blobs()
    problem = Problem(Network.chain([10, 30], bias=True), Softmax(), Fenchel())
    solver, state = Stochastic(epochs=4, refit=False), None
    for _ in range(100):
        training = solver.run(problem, X, problem.loss.encode(y), resume=state)
        state = replace(training.state, step=0, epochs=[])
    assert finite(training)
    assert max(float(matrix.abs().max()) for matrix in training.blocks.W.values()) < 1e3


def test_a_vanishing_gradient_makes_a_vanishing_step():
    pace = Pace(USUAL, total=100, size=1.0, depth=3, averaging=0.98)
    steps = [pace.length(0.3, 1.0, change, peak=1.0) * change**0.5 for change in (1.0, 1e-5, 1e-9, 0.0)]
    assert steps == pytest.approx([0.3, 0.3, 3e-3, 0.0])


@pytest.mark.parametrize("size", [1, 10, 50])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_small_batches_train_like_large_ones_whatever_the_loss(digits, loss, size):
    X, y, *_ = digits
    rows = 100 if size == 1 else len(X)
    problem = Problem(SMALL64, loss, Fenchel())
    training = Stochastic(epochs=5, batch_size=size).run(problem, X[:rows], loss.encode(y[:rows], 10))
    assert error(problem, training, X[:rows], y[:rows]) < 0.12


@pytest.mark.parametrize("size", [50, 1000])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_last_classifier_minimises_its_loss_over_all_rows(digits, loss, size):
    X, y, *_ = digits
    problem, solver = Problem(SMALL64, loss, Fenchel()), Stochastic(epochs=2, batch_size=size)
    targets = loss.encode(y)
    blocks = solver.run(problem, X, targets).blocks
    A, V = (matrix.double().requires_grad_(False) for matrix in (problem.network.features(X, blocks.W), blocks.V))
    ridge = 0.01 * solver.preset(problem.network).ridge_V * float(A.square().sum(0).mean())

    def gradient(V):
        return loss.slope(targets.double(), A @ V.T).T @ A + ridge * V

    assert float(gradient(V).norm()) <= 2 * RESIDUAL * float(gradient(torch.zeros_like(V)).norm())


@pytest.mark.parametrize("depth", [8, 16, 30, 60])
@pytest.mark.parametrize("size", [7, 200])
def test_a_deep_network_without_negative_weights_begins_neither_loud_nor_broken(digits, depth, size):
    X, y, *_ = digits
    network = Network.chain([64] + [20] * depth, bias=True)
    problem = Problem(network, lift=Fenchel(), W_set=NonNegative())
    training = Stochastic(epochs=1, batch_size=size).run(problem, X[:200], problem.loss.encode(y[:200]))
    assert training.status is Status.FINISHED
    assert finite(training)
    assert all(bool((matrix >= 0).all()) for pair, matrix in training.blocks.W.items() if pair[1] >= 0)


def poisoned(state: TrainingState) -> TrainingState:
    edge = next(iter(state.W))
    return replace(state, W=state.W | {edge: torch.full_like(state.W[edge], math.nan)})


def test_a_step_that_gives_nan_is_taken_back(digits, monkeypatch):
    X, y, *_ = digits
    problem = Problem(SMALL64, lift=Fenchel())

    def sometimes(self, state, batch, step=Stepper.__call__):
        after = step(self, state, batch)
        return poisoned(after) if after.step == 7 else after

    monkeypatch.setattr(Stepper, "__call__", sometimes)
    training = Stochastic(epochs=3, batch_size=100).run(problem, X, problem.loss.encode(y))
    assert training.status is Status.FINISHED
    assert training.epochs[-1].rejected >= 1
    assert finite(training)


@pytest.mark.parametrize("last", [True, False], ids=["at the end of an epoch", "at every step"])
def test_a_run_that_only_gives_nan_ends_with_the_last_finite_blocks(digits, monkeypatch, last):
    X, y, *_ = digits
    problem = Problem(SMALL64, lift=Fenchel())

    def broken(self, state, batch, step=Stepper.__call__):
        after = step(self, state, batch)
        return poisoned(after) if after.step == 26 or (after.step > 13 and not last) else after

    monkeypatch.setattr(Stepper, "__call__", broken)
    training = Stochastic(epochs=50, batch_size=100).run(problem, X, problem.loss.encode(y))
    assert training.status is Status.NONFINITE
    assert training.detail
    assert finite(training)
    assert len(training.epochs) == 1


def test_an_error_of_a_factorisation_does_not_leave_a_run(digits, monkeypatch):
    X, y, *_ = digits
    problem = Problem(SMALL64, lift=Fenchel())

    def fails(*args, **options):
        raise torch.linalg.LinAlgError("the algorithm failed to converge")

    monkeypatch.setattr(torch.linalg, "eigh", fails)
    training = Stochastic(epochs=5, batch_size=100).run(problem, X, problem.loss.encode(y))
    assert training.status is Status.NONFINITE
    assert finite(training)


def test_features_that_are_no_numbers_are_refused_by_name():
    problem, solver = Problem(SMALL64, lift=Fenchel()), Stochastic()
    bad = Batch(torch.full((5, 30), math.nan), torch.zeros(5, 10))
    with pytest.raises(FloatingPointError, match="a matrix of sums over the rows holds NaN or infinity"):
        solver.refit_V(problem, torch.zeros(10, 30), [bad])


def test_an_indefinite_matrix_is_damped_until_it_can_be_factorised():
    H = torch.tensor([[1.0, 1.0 + 1e-6], [1.0 + 1e-6, 1.0]])
    factor = factorise(H)
    assert bool(factor.isfinite().all())
    torch.testing.assert_close(factor @ factor.T, H, rtol=1e-2, atol=0)
    both = factorise(torch.stack([H, torch.eye(2)]))
    torch.testing.assert_close(both[1], torch.eye(2), rtol=1e-2, atol=0)
