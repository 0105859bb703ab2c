import pytest
import torch

from tikhonet import Network, Problem, Status
from tikhonet.network.initial import initial_weights
from tikhonet.paper.baselines.backprop import Backprop
from tikhonet.paper.baselines.pruning import Pruning


def test_the_scores_are_those_of_the_forward_pass(digits):
    X, _ = digits
    network = Network.chain([64, 9, 5], bias=True)
    problem, W = Problem(network), network.random_weights(0)
    V = torch.randn(3, 5)
    torch.testing.assert_close(Backprop().scores(problem, X, V, W), network.features(X, W) @ V.T)


def test_the_same_seed_gives_the_same_bits_with_dropout(digits):
    X, y = digits
    problem = Problem(Network.chain([64, 20]))
    solver = Backprop(epochs=1, drop_inputs=0.1, drop_features=0.2)
    first, second = (solver.run(problem, X, problem.loss.encode(y), seed=4).blocks.V for _ in range(2))
    assert torch.equal(first, second)


def test_it_starts_from_the_weights_given_and_leaves_them_alone(digits):
    X, y = digits
    problem = Problem(Network.chain([64, 20]))
    start = problem.network.random_weights(5)
    kept = start[1, 0].clone()
    training = Backprop("SGD", 1e-12, epochs=1).run(problem, X, problem.loss.encode(y), start=start)
    torch.testing.assert_close(training.blocks.W[1, 0], kept)
    assert torch.equal(start[1, 0], kept)


@pytest.mark.parametrize("initial", ["gaussian", "looks-linear"])
def test_it_starts_from_the_initialisation_named(digits, initial):
    X, y = digits
    problem = Problem(Network.chain([64] + [20] * 5))
    training = Backprop("SGD", 1e-12, epochs=1, initial=initial, initial_scale=1.0).run(
        problem, X, problem.loss.encode(y), seed=3
    )
    expected = initial_weights(problem.network, initial, 3)
    for edge, matrix in training.blocks.W.items():
        torch.testing.assert_close(matrix, expected[edge])


@pytest.mark.parametrize("pruning", [None, Pruning(0.5, begin=0.0, end=0.0)], ids=["dense", "pruned"])
def test_a_run_that_diverges_at_once_returns_its_start(digits, pruning):
    X, y = digits
    problem = Problem(Network.chain([64, 20], bias=True))
    start = problem.network.random_weights(5)
    solver = Backprop("SGD", 1e12, epochs=3, pruning=pruning)
    seen = []
    training = solver.run(
        problem, X, problem.loss.encode(y), start=start, watch=lambda epoch, blocks: seen.append(blocks)
    )
    assert training.status is Status.NONFINITE
    assert "epoch 1; a rate below 1e+12 may help" in training.message
    assert len(training.epochs) == len(seen) == 1
    for blocks in (training.blocks, *seen):
        assert bool(blocks.V.isfinite().all())
        assert all(torch.equal(matrix, start[edge]) for edge, matrix in blocks.W.items())


def test_a_run_that_diverges_later_returns_the_last_finite_epoch(digits):
    X, y = digits[0][:50], digits[1][:50]
    # A linear regression, whose V grows by a factor at every step, of which an epoch has one.
    problem = Problem(Network([64, 64], {(1, 0): "identity"}))
    seen = []
    training = Backprop("SGD", 10.0, epochs=100, batch_size=50, schedule="constant").run(
        problem, X, problem.loss.encode(y, 10), watch=lambda epoch, blocks: seen.append(blocks.V)
    )
    assert training.status is Status.NONFINITE
    assert 3 <= len(training.epochs) < 100
    assert bool(training.blocks.V.isfinite().all())
    assert torch.equal(training.blocks.V, seen[-2])
    assert not torch.equal(training.blocks.V, seen[-3])


@pytest.mark.parametrize("pruning", [None, Pruning(0.5, begin=0.2, end=0.2)], ids=["dense", "pruned"])
def test_what_is_watched_stays_as_it_was(digits, pruning):
    X, y = digits
    problem = Problem(Network.chain([64, 20]))
    seen, now = [], []

    def watch(epoch, blocks):
        seen.append(blocks)
        now.append((blocks.V.clone(), blocks.W[1, 0].clone()))

    training = Backprop(epochs=3, pruning=pruning).run(problem, X, problem.loss.encode(y), watch=watch)
    for blocks, (V, matrix) in zip(seen, now, strict=True):
        assert torch.equal(blocks.V, V)
        assert torch.equal(blocks.W[1, 0], matrix)
    assert not torch.equal(now[0][0], now[1][0])
    assert torch.equal(training.blocks.V, now[-1][0])


def test_targets_of_another_type_are_taken_in_that_of_the_inputs(digits):
    X, y = digits
    problem = Problem(Network.chain([64, 5]))
    training = Backprop(epochs=1).run(problem, X.double(), problem.loss.encode(y).float())
    assert training.blocks.V.dtype == torch.float64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, T: (X[:, :3], T), "X must have 64 columns, the width of the network's input, got 3"),
        (lambda X, T: (X, T[:, 0]), r"targets must have shape \(samples, outputs\), got \(1797,\)"),
        (lambda X, T: (X, T[:5]), r"targets must have one row per sample \(1797\), got 5"),
        (lambda X, T: (X.index_fill(0, torch.tensor(7), torch.nan), T), "X must be finite, got NaN .* in row 7"),
        (lambda X, T: (X, T.index_fill(0, torch.tensor(9), torch.inf)), "targets must be finite, got NaN .* in row 9"),
    ],
    ids=["columns", "vector", "rows", "NaN in X", "infinite targets"],
)
def test_samples_that_do_not_fit_are_refused(digits, change, message):
    X, y = digits
    problem = Problem(Network.chain([64, 5]))
    with pytest.raises(ValueError, match=message):
        Backprop(epochs=1).run(problem, *change(X, problem.loss.encode(y)))


def test_weights_to_start_from_that_do_not_fit_are_refused(digits):
    X, y = digits
    problem = Problem(Network.chain([64, 5]))
    with pytest.raises(ValueError, match=r"W\[1, 0\] must have shape \(5, 64\), got \(6, 64\)"):
        Backprop(epochs=1).run(problem, X, problem.loss.encode(y), start={(1, 0): torch.zeros(6, 64)})


@pytest.mark.parametrize(
    "settings",
    [
        {"solver": "Adamax"},
        {"rate": 0.0},
        {"schedule": "steps"},
        {"decay": -1.0},
        {"initial": "he"},
        {"epochs": 0},
        {"batch_size": 0},
    ],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must be"):
        Backprop(**settings)
