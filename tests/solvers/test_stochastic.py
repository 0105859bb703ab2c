import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from tests.strategies import CLASSES, LOSSES, SETS, make_samples, problems, seeds
from tikhonet import (
    BlockDescent,
    Budget,
    Fenchel,
    Network,
    Problem,
    Proximal,
    Squared,
    SquaredHinge,
    Status,
    Stochastic,
    certify,
)
from tikhonet.solvers.batches import ArrayBatches
from tikhonet.solvers.minibatch import forward, targets_sweep
from tikhonet.solvers.recipe import DEEP, LASTING, LONG, SPARSE, USUAL
from tikhonet.solvers.result import best_epoch


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = torch.tensor(X[order] / 16, dtype=torch.float32), torch.tensor(y[order])
    return X[:1297], y[:1297], X[1297:], y[1297:]


def error(problem, training, X, y):
    scores = problem.network.features(X, training.blocks.W) @ training.blocks.V.T
    return float((scores.argmax(1) != y).float().mean())


def same(first, second):
    pairs = [(first.blocks.V, second.blocks.V), *((first.blocks.W[e], second.blocks.W[e]) for e in first.blocks.W)]
    return all(torch.equal(a, b) for a, b in pairs)


SMALL = Network([4, 5, 5, 3], {(1, 0): "learned", (2, 1): "learned", (3, 1): "learned", (3, 2): "learned"}, bias=[2])


def test_one_pass_without_momentum_and_memory_equals_the_written_formulas():
    """All samples in one batch, no dropout, beta = mu = 0, on a chain of two layers, in NumPy."""
    network = Network.chain([4, 5, 3])
    problem = Problem(network, lift=Fenchel(), gamma=(0.5, 2.0))
    samples = make_samples(problem, 0, rows=20)
    X, Y = samples.X.numpy(), samples.targets.numpy()
    start = network.random_weights(1, dtype=torch.float64)
    solver = Stochastic(epochs=1, batch_size=20, memory=0.0, momentum=0.0, drop_inputs=0.0, drop_features=0.0)
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
        np.testing.assert_allclose(training.blocks.W[edge].numpy(), W + step, rtol=1e-9, atol=1e-12)


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
    target = here.Z[last].relu() - targets_sweep(problem, V, W, here, slope, damping=30.0)[last]

    def value(U):
        weight = 30.0 * float(V.square().sum()) / CLASSES
        return problem.loss.rows(samples.targets, U @ V.T) + weight * problem.lift.value(U, here.Z[last])

    assert bool((target >= 0).all())
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


SMALL64 = Network.chain([64, 30, 30], bias=True)


def test_the_same_seed_gives_the_same_bits_and_another_does_not(digits):
    X, y, _, _ = digits
    problem = Problem(SMALL64, lift=Fenchel())
    runs = [Stochastic(epochs=2).run(problem, X, problem.loss.encode(y), seed=seed) for seed in (1, 1, 2)]
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


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
    training = Stochastic(epochs=50, batch_size=100, patience=2).run(
        problem, X, shuffled, validation=(X_test, problem.loss.encode(y_test, 10))
    )
    assert training.status is Status.EARLY_STOPPED
    best = min(training.epochs, key=lambda epoch: epoch.validation_loss)
    assert best.number == len(training.epochs) - 2
    solver = Stochastic(epochs=50, batch_size=100)
    again = solver.run(problem, X, shuffled, watch=lambda epoch: epoch.number == best.number)
    assert same(training, again)


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
        with pytest.raises(ValueError, match=r"one weight per row \(60\)"):
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
        ({"metric": "none"}, "metric must be 'leading', 'full' or None"),
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


DEEP64 = Network.chain([64] + [40] * 24, bias=True)


def test_a_deep_plain_network_trains_with_the_same_call(digits):
    X, y, X_test, y_test = digits
    problem = Problem(DEEP64, lift=Fenchel())
    training = Stochastic(epochs=15, batch_size=200).run(problem, X, problem.loss.encode(y))
    assert training.epochs[-1].loss < 0.3 * training.epochs[0].loss
    assert error(problem, training, X_test, y_test) < 0.08


def test_depth_length_and_budget_decide_what_is_not_given():
    assert Stochastic().preset(DEEP64, False) == Stochastic().preset(DEEP64, True) == DEEP
    assert Stochastic().preset(SMALL64, False) == Stochastic().preset(Network.paper(8), False) == USUAL
    assert Stochastic().preset(SMALL64, True) == LASTING
    sparse = Stochastic(budget=Budget(0.1))
    assert sparse.preset(SMALL64, False) == sparse.preset(SMALL64, True) == SPARSE
    assert sparse.preset(DEEP64, True) == DEEP
    mine = Stochastic(change=0.2, metric="leading", drop_inputs=0.3).preset(DEEP64, False)
    assert (mine.change, mine.metric, mine.drop_inputs) == (0.2, "leading", 0.3)
    assert (mine.momentum, mine.drop_features) == (DEEP.momentum, DEEP.drop_features)


def test_a_long_run_drops_more_of_its_inputs(digits):
    X, y, _, _ = digits
    problem = Problem(SMALL64, lift=Fenchel())

    def first_epoch(epochs, **options):
        run = Stochastic(epochs=epochs, batch_size=500, **options)
        return run.run(problem, X, problem.loss.encode(y), watch=lambda epoch: True)

    long = 1 + math.ceil(LONG / (len(X) / 1000))
    assert same(first_epoch(long), first_epoch(long, drop_inputs=LASTING.drop_inputs))
    assert same(first_epoch(2), first_epoch(2, drop_inputs=USUAL.drop_inputs))


def test_a_deep_run_resumed_equals_an_uninterrupted_one(digits):
    X, y, _, _ = digits
    problem, solver = Problem(DEEP64, lift=Fenchel()), Stochastic(epochs=3, batch_size=400)
    whole = solver.run(problem, X, problem.loss.encode(y))
    part = solver.run(problem, X, problem.loss.encode(y), watch=lambda epoch: epoch.number == 2)
    assert same(whole, solver.run(problem, X, problem.loss.encode(y), resume=part.state))
