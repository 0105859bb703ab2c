"""Data, weights, batches and validation as they come: what the trainer takes, and what it refuses before it works."""

import math

import pytest
import torch

from tests.trainer.runs import same
from tikhonet import BlockDescent, Fenchel, Network, Problem, RowL1Ball, Softmax, Squared, Status, Stochastic

FIVE = Problem(Network.chain([5, 6, 4], bias=True), lift=Fenchel())


@pytest.fixture
def rows():
    generator = torch.Generator().manual_seed(0)
    return torch.rand(300, 5, generator=generator), Squared().encode(torch.randint(0, 3, (300,), generator=generator))


def test_a_run_may_go_on_with_larger_batches(rows):
    part = Stochastic(epochs=10, batch_size=10).run(FIVE, *rows)
    whole = Stochastic(epochs=20, batch_size=100).run(FIVE, *rows, resume=part.state)
    assert len(whole.epochs) == 20
    assert whole.epochs[-1].loss < part.epochs[-1].loss


def test_a_state_of_another_run_is_refused(rows):
    X, targets = rows
    state = Stochastic(epochs=1).run(FIVE, X, targets).state
    with pytest.raises(ValueError, match=r"same network"):
        Stochastic().run(Problem(Network.chain([5, 6], bias=True), lift=Fenchel()), X, targets, resume=state)
    with pytest.raises(ValueError, match=r"with 2 targets in torch.float32, got one with 3"):
        Stochastic().run(FIVE, X, targets[:, :2], resume=state)


def test_batches_may_grow(rows):
    X, targets = rows
    training = Stochastic(epochs=3).run(FIVE, [(X[:2], targets[:2]), (X[2:], targets[2:])])
    assert training.status is Status.FINISHED


def test_batches_without_weight_are_left_out(rows):
    X, targets = rows
    weight = torch.zeros(300)
    weight[0] = 1.0
    for loss in (Squared(), Softmax()):
        problem = Problem(FIVE.network, loss, Fenchel())
        training = Stochastic(epochs=2, batch_size=50).run(problem, X, (targets > 0).float(), weight=weight)
        assert training.status is Status.FINISHED
        assert bool(training.blocks.V.isfinite().all())


@pytest.mark.parametrize("bad", [math.nan, -1.0])
def test_bad_weights_are_refused_wherever_they_are(rows, bad):
    X, targets = rows
    weight = torch.ones(300)
    weight[299] = bad
    with pytest.raises(ValueError, match="weight must be finite, non-negative"):
        Stochastic(epochs=1, batch_size=50).run(FIVE, X, targets, weight=weight)
    batches = [(X[:150], targets[:150], weight[:150]), (X[150:], targets[150:], weight[150:])]
    with pytest.raises(ValueError, match="weight of batch 1 of epoch 1 must be finite, non-negative"):
        Stochastic(epochs=1).run(FIVE, batches)


@pytest.mark.parametrize("second", [(5, 2), (4, 3)], ids=["columns of targets", "columns of X"])
def test_batches_of_another_shape_are_refused_by_their_number(rows, second):
    X, targets = rows
    width, outputs = second
    with pytest.raises(ValueError, match=r"of batch 1 of epoch 1 must have shape \(150, "):
        Stochastic(epochs=1).run(FIVE, [(X[:150], targets[:150]), (X[150:, :width], targets[150:, :outputs])])


def test_what_batches_cannot_have_is_refused(rows):
    X, targets = rows
    for settings, options in (({}, {"weight": torch.ones(300)}), ({"polish": BlockDescent()}, {})):
        with pytest.raises(ValueError, match="an iterable of batches holds its targets and weights itself"):
            Stochastic(**settings).run(FIVE, [(X, targets)], **options)
    with pytest.raises(ValueError, match="targets must be given with an array X"):
        Stochastic().run(FIVE, X)


def test_validation_data_are_checked_before_any_work(rows):
    X, targets = rows
    poisoned = X.clone()
    poisoned[3, 1] = math.nan
    for validation, message in (
        ((poisoned, targets), "validation: X must be finite"),
        ((X[:0], targets[:0]), "validation: X must have shape"),
        ((X, targets[:, :2]), "validation: targets must have 3 columns"),
        ((X, targets[:, 0]), "validation: targets must have shape"),
    ):
        with pytest.raises(ValueError, match=message):
            Stochastic(epochs=1).run(FIVE, X, targets, validation=validation)
    arrays = X.numpy(), targets.numpy()
    one, other = (Stochastic(epochs=2).run(FIVE, *rows, validation=part) for part in (rows, arrays))
    assert same(one, other)


@pytest.mark.parametrize("widths", [[5, 1, 1], [5, 2, 2, 2], [5, 1, 5, 5]], ids=str)
def test_layers_that_start_silent_stay_harmless(rows, widths):
    problem = Problem(Network.chain(widths, bias=True), lift=Fenchel())
    for seed in range(12):
        training = Stochastic(epochs=2, batch_size=50).run(problem, *rows, seed=seed)
        assert max(float(matrix.abs().max()) for matrix in training.blocks.W.values()) < 1e6


def test_inputs_in_any_units_give_finite_weights(rows):
    X, targets = rows
    for factor in (0.0, 1e20):
        blocks = Stochastic(epochs=2, batch_size=50).run(FIVE, factor * X, targets).blocks
        assert all(bool(matrix.isfinite().all()) for matrix in (blocks.V, *blocks.W.values()))


def test_the_last_classifier_is_the_best_of_its_set(rows):
    X, targets = rows
    set_ = RowL1Ball(0.1)
    problem = Problem(FIVE.network, lift=Fenchel(), V_set=set_)
    blocks = Stochastic(epochs=3, batch_size=50).run(problem, X, targets).blocks
    assert set_.contains(blocks.V)
    features = FIVE.network.features(X, blocks.W)
    pull = (targets - features @ blocks.V.T).T @ features
    best = set_.project(blocks.V + 1e-4 * pull / float(features.square().sum()))
    gain = ((targets - features @ blocks.V.T).square().sum() - (targets - features @ best.T).square().sum()).item()
    assert gain < 1e-6 * float(targets.square().sum())
