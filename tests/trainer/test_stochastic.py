"""What a run does around its steps: seeds, going on, early stopping, forms of data, what it refuses."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.runs import DEEP64, SMALL64, error, same
from tikhonet import (
    BlockDescent,
    Fenchel,
    Network,
    Problem,
    Proximal,
    SquaredHinge,
    Status,
    Stochastic,
    certify,
)
from tikhonet.trainer.batches import ArrayBatches, Batch
from tikhonet.trainer.pace import Pace
from tikhonet.trainer.state import TrainingState
from tikhonet.trainer.training import best_epoch


def test_the_same_seed_gives_the_same_bits_and_another_does_not(digits):
    X, y, _, _ = digits
    problem = Problem(SMALL64, lift=Fenchel())
    runs = [Stochastic(epochs=2).run(problem, X, problem.loss.encode(y), seed=seed) for seed in (1, 1, 2)]
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


def test_products_in_bfloat16_learn_as_well_with_weights_that_are_not_rounded(digits):
    X, y, _, _ = digits
    problem = Problem(SMALL64, lift=Fenchel())
    whole, rounded = (
        Stochastic(epochs=5, batch_size=200, products=products).run(problem, X, problem.loss.encode(y))
        for products in ("float32", "bfloat16")
    )
    W = rounded.blocks.W[1, 0]
    assert not same(whole, rounded)
    assert (W.bfloat16().to(W) != W).any()
    assert rounded.epochs[-1].loss < 1.2 * whole.epochs[-1].loss
    with pytest.raises(ValueError, match="products must be 'float32' or 'bfloat16', got 'half'"):
        Stochastic(products="half")


def test_a_resumed_run_equals_an_uninterrupted_one(digits):
    X, y, _, _ = digits
    problem, solver = Problem(SMALL64, lift=Fenchel()), Stochastic(epochs=5, batch_size=200)
    whole = solver.run(problem, X, problem.loss.encode(y))
    part = solver.run(problem, X, problem.loss.encode(y), watch=lambda epoch: epoch.number == 2)
    assert part.status is Status.INTERRUPTED
    assert len(part.epochs) == 2
    rest = solver.run(problem, X, problem.loss.encode(y), resume=part.state)
    assert same(whole, rest)
    assert len(rest.epochs) == 5


def test_a_resumed_run_returns_the_best_epoch_of_both_parts(digits):
    X, y, X_test, y_test = digits
    problem, solver = Problem(SMALL64, lift=Fenchel()), Stochastic(epochs=20, batch_size=100, patience=4)
    shuffled = problem.loss.encode(y[torch.randperm(len(y), generator=torch.Generator().manual_seed(0))])
    data = {"X": X, "targets": shuffled, "validation": (X_test, problem.loss.encode(y_test, 10))}
    whole = solver.run(problem, **data)
    best, end = best_epoch(whole.epochs).number, len(whole.epochs)
    for last in (best - 1, best + 2):
        part = solver.run(problem, **data, watch=lambda epoch, last=last: epoch.number == last)
        rest = solver.run(problem, **data, resume=pickle.loads(pickle.dumps(part.state)))
        assert same(whole, rest)
        assert len(rest.epochs) == end
    stopped = solver.run(problem, **data, watch=lambda epoch: epoch.number == end)
    assert stopped.status is Status.EARLY_STOPPED


def test_a_warm_start_begins_where_it_is_told(digits):
    X, y, _, _ = digits
    problem = Problem(SMALL64, lift=Fenchel())
    targets = problem.loss.encode(y)
    first = Stochastic(epochs=10, batch_size=200).run(problem, X, targets)
    cold, warm = (
        Stochastic(epochs=1, batch_size=200).run(problem, X, targets, start=start) for start in (None, first.blocks.W)
    )
    assert warm.epochs[0].loss < cold.epochs[0].loss
    assert error(problem, warm, X, y) < 0.5 * error(problem, cold, X, y)


def test_weight_two_is_the_row_twice_in_the_statistics(digits):
    X, y, _, _ = digits
    problem = Problem(SMALL64, lift=Fenchel())
    X, targets = X[:50].double(), problem.loss.encode(y[:50]).double()
    solver = Stochastic(epochs=1, batch_size=1000, drop_inputs=0.0, drop_features=0.0)
    start = problem.network.random_weights(0, dtype=torch.float64)
    weight = torch.ones(50, dtype=torch.float64).index_fill(0, torch.arange(7), 2.0)
    twice = torch.cat([torch.arange(50), torch.arange(7)])
    # The rms that scales the inputs counts rows, so it is made equal first.
    X = X / X.square().mean(1, keepdim=True).sqrt()
    settings = {"start": start, "dtype": torch.float64}
    weighted = solver.run(problem, X, targets, weight=weight, **settings)
    repeated = solver.run(problem, X[twice], targets[twice], **settings)
    torch.testing.assert_close(weighted.blocks.V, repeated.blocks.V, rtol=0.05, atol=0.05)
    assert weighted.state.classifier.weight == repeated.state.classifier.weight == 57


def test_early_stopping_returns_the_best_epoch(digits):
    X, y, X_test, y_test = digits
    problem = Problem(SMALL64, lift=Fenchel())
    shuffled = problem.loss.encode(y[torch.randperm(len(y), generator=torch.Generator().manual_seed(0))])
    # Labels without a pattern: without dropout the first epoch is the best.
    solver = Stochastic(epochs=50, batch_size=100, drop_inputs=0.1, drop_features=0.2)
    training = replace(solver, patience=2).run(
        problem, X, shuffled, validation=(X_test, problem.loss.encode(y_test, 10))
    )
    assert training.status is Status.EARLY_STOPPED
    best = min(training.epochs, key=lambda epoch: epoch.validation_loss)
    assert best.number == 3  # epochs 6 and 7 anneal from it, and are no better
    assert len(training.epochs) == 6
    again = solver.run(problem, X, shuffled, watch=lambda epoch: epoch.number == best.number)
    assert same(training, again)


def test_early_stopping_anneals_the_steps_before_it_ends_a_run(digits, monkeypatch):
    X, y, X_test, y_test = digits
    problem, rates = Problem(SMALL64, lift=Fenchel()), []
    rate = Pace.rate
    monkeypatch.setattr(Pace, "rate", lambda self, t, trust: rates.append(rate(self, t, 1.0)) or rates[-1])
    noisy = torch.where(torch.rand(len(y), generator=torch.Generator().manual_seed(0)) < 0.5, y, y.roll(1))
    solver = Stochastic(epochs=200, batch_size=100, patience=3)
    training = solver.run(
        problem, X, problem.loss.encode(noisy, 10), validation=(X_test, problem.loss.encode(y_test, 10))
    )
    assert training.status is Status.EARLY_STOPPED
    assert len(training.epochs) < 100
    assert rates[-1] < 0.1 * rates[0]
    before = [epoch.validation_loss for epoch in training.epochs[: training.state.undone]]
    assert min(epoch.validation_loss for epoch in training.epochs) < min(before)


def test_validation_rows_count_by_their_weights(digits):
    X, y, X_test, y_test = digits
    problem = Problem(SMALL64, lift=Fenchel())
    X_val, T_val = X_test[:60], problem.loss.encode(y_test[:60], 10)
    counts = torch.arange(60) % 3

    def losses(*validation):
        training = Stochastic(epochs=2, batch_size=300).run(problem, X, problem.loss.encode(y), validation=validation)
        return [(epoch.validation_loss, epoch.validation_error) for epoch in training.epochs]

    repeated = losses(X_val.repeat_interleave(counts, 0), T_val.repeat_interleave(counts, 0))
    np.testing.assert_allclose(losses(X_val, T_val, counts), repeated, rtol=1e-5)
    assert losses(X_val, T_val) != repeated
    for weight in (torch.ones(59), torch.zeros(60), -torch.ones(60)):
        with pytest.raises(ValueError, match="validation: weight must"):
            losses(X_val, T_val, weight)


@pytest.mark.parametrize("form", ["numpy", "memmap", "batches"])
def test_data_may_be_arrays_memory_mapped_arrays_or_batches(digits, form, tmp_path):
    X, y, X_test, y_test = digits
    problem = Problem(SMALL64, lift=Fenchel())
    targets = problem.loss.encode(y)
    if form == "batches":
        data = [list(zip(X.split(200), targets.split(200), strict=True))]
    else:
        arrays = [X.numpy(), targets.numpy()]
        if form == "memmap":
            for index, array in enumerate(arrays):
                np.save(tmp_path / f"{index}.npy", array)
            arrays = [np.load(tmp_path / f"{index}.npy", mmap_mode="r") for index in (0, 1)]
        data = arrays
    training = Stochastic(epochs=12, batch_size=200).run(problem, *data)
    assert error(problem, training, X_test, y_test) < 0.12
    if form != "batches":
        assert same(training, Stochastic(epochs=12, batch_size=200).run(problem, X, targets))


def test_a_batch_with_nan_is_refused_with_its_index_and_the_model_stays_good(digits):
    X, y, _, _ = digits
    problem = Problem(SMALL64, lift=Fenchel())
    batches = list(zip(X.split(200), problem.loss.encode(y).split(200), strict=True))
    good = Stochastic(epochs=1).run(problem, batches[:3])
    batches[3] = (torch.full_like(batches[3][0], math.nan), batches[3][1])
    training = Stochastic(epochs=2).run(problem, batches)
    assert training.status is Status.NONFINITE
    assert "batch 3 of epoch 1 holds NaN or infinity in X" in training.message
    assert all(bool(matrix.isfinite().all()) for matrix in training.blocks.W.values())
    assert training.state.step == good.state.step == 3


def test_polishing_ends_at_a_certified_stationary_point():
    problem = Problem(Network.chain([3, 3]), gamma=1.0, ridge_V=0.5, ridge_W=0.5)
    X = torch.rand(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    targets = problem.loss.encode(torch.tensor([0, 1, 0, 1, 0, 1])).double()
    solver = Stochastic(epochs=3, polish=BlockDescent(Proximal(0.1), max_iter=300, tol=1e-8))
    training = solver.run(problem, X, targets, dtype=torch.float64)
    assert training.polished.status is Status.STATIONARY
    assert certify(training.polished).stationary
    assert training.polished.history.objective[-1] < training.polished.history.objective[0]
    assert training.polished.history.seconds > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\)"),
        ({"drop_inputs": -0.1}, r"drop_inputs must lie in \[0, 1\)"),
        ({"change": 0.0}, "change must be positive"),
        ({"damping_W": math.inf}, "damping_W must be positive"),
        ({"initial": "he"}, "initial must be one of"),
        ({"metric": "cubic"}, "metric must be 'leading', 'full'.* or None, got 'cubic'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Stochastic(**settings)


def test_bad_data_are_refused_before_any_work(digits):
    X, y, _, _ = digits
    problem = Problem(SMALL64, SquaredHinge(), Fenchel())
    targets = problem.loss.encode(y)
    with pytest.raises(ValueError, match="same number of rows"):
        Stochastic().run(problem, X, targets[:5])
    with pytest.raises(ValueError, match="X must have 64 columns"):
        Stochastic().run(problem, X[:, :9], targets)
    with pytest.raises(ValueError, match=r"must be \+1 or -1"):
        Stochastic().run(problem, X, 0.5 * targets)
    with pytest.raises(ValueError, match="at least one batch"):
        Stochastic().run(problem, [])
    with pytest.raises(ValueError, match="must have a length"):
        Stochastic().run(problem, (batch for batch in [(X, targets)]))
    with pytest.raises(ValueError, match="W must hold the learned edges"):
        Stochastic().run(problem, X, targets, start={})


@given(st.integers(1, 50), st.integers(1, 60))
def test_every_row_comes_once_an_epoch(rows, size):
    X = torch.arange(rows, dtype=torch.float32)[:, None]
    batches = ArrayBatches(X, X, size=size)
    parts = list(batches.epoch(torch.Generator().manual_seed(0)))
    assert len(parts) == len(batches)
    assert sorted(torch.cat([part.X for part in parts]).flatten().tolist()) == list(range(rows))


def test_the_average_is_what_an_interrupted_run_gives_and_vanishes_at_the_end(digits):
    X, y, *_ = digits
    problem = Problem(Network.chain([64, 32, 16]), lift=Fenchel())
    targets = problem.loss.encode(y, 10)
    solver = Stochastic(epochs=4, batch_size=200)
    half = solver.run(problem, X, targets, watch=lambda epoch: epoch.number == 2)
    whole = solver.run(problem, X, targets, resume=half.state)
    plain = Stochastic(epochs=4, batch_size=200, averaging=0.0).run(problem, X, targets)
    assert not torch.equal(half.blocks.W[1, 0], half.state.W[1, 0])
    assert torch.equal(whole.blocks.W[1, 0], whole.state.W[1, 0])
    assert same(whole, plain)


def test_a_deep_run_resumed_equals_an_uninterrupted_one(digits):
    X, y, _, _ = digits
    problem, solver = Problem(DEEP64, lift=Fenchel()), Stochastic(epochs=3, batch_size=400)
    whole = solver.run(problem, X, problem.loss.encode(y))
    part = solver.run(problem, X, problem.loss.encode(y), watch=lambda epoch: epoch.number == 2)
    assert same(whole, solver.run(problem, X, problem.loss.encode(y), resume=part.state))


def test_without_a_refit_the_classifier_is_the_running_average(digits):
    X, y = digits[0].double(), digits[1]
    problem = Problem(SMALL64, lift=Fenchel())
    targets = problem.loss.encode(y).double()
    left, fitted = (
        Stochastic(epochs=2, refit=refit).run(problem, X, targets, dtype=X.dtype) for refit in (False, True)
    )
    torch.testing.assert_close(left.blocks.V, left.state.average.V / left.state.scale)
    assert all(torch.equal(left.blocks.W[edge], fitted.blocks.W[edge]) for edge in left.blocks.W)
    features = Batch(SMALL64.features(X, left.blocks.W), targets)
    found = Stochastic().refit_V(problem, left.blocks.V, [features])
    torch.testing.assert_close(found, fitted.blocks.V, rtol=1e-9, atol=1e-9)
    loss = [float(problem.loss.value(targets, features.X @ V.T).sum()) for V in (left.blocks.V, found)]
    assert loss[1] < loss[0]


def test_the_last_of_several_validation_sets_decides_by_the_metric(digits):
    """The metric here prefers early epochs, which no loss would."""
    X, y, X_test, y_test = digits
    problem = Problem(SMALL64, lift=Fenchel())

    class Norm:
        larger = False

        def __call__(self, targets, scores, weight):
            return float(scores.norm())

    T, T_test = problem.loss.encode(y, 10), problem.loss.encode(y_test, 10)
    solver = Stochastic(epochs=4, batch_size=300, patience=10)
    training = solver.run(problem, X, T, validation=[(X, T), (X_test, T_test)], metric=Norm())
    assert [len(epoch.validation) for epoch in training.epochs] == [2] * 4
    last = [epoch.validation[-1] for epoch in training.epochs]
    assert [epoch.validation_loss for epoch in training.epochs] == [found.loss for found in last]
    assert best_epoch(training.epochs).metric == min(found.metric for found in last)
    alone = solver.run(problem, X, T, validation=(X_test, T_test))
    assert [epoch.validation_loss for epoch in alone.epochs] == [found.loss for found in last]
    assert TrainingState.from_dict(training.state.state_dict()).epochs == training.epochs
