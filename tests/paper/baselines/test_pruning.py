import pytest
import torch

from tikhonet import Fenchel, Network, Problem
from tikhonet.network.graph import BIAS
from tikhonet.paper.baselines.backprop import Backprop
from tikhonet.paper.baselines.pruning import PrunedWeights, Pruning

GRADUAL = {"begin": 0.1, "end": 0.7}


def train(digits, pruning, epochs=8, network=None):
    X, y = digits
    problem = Problem(network or Network.paper(64), lift=Fenchel())
    solver = Backprop("Adam", 3e-3, epochs=epochs, batch_size=64, pruning=pruning)
    training = solver.run(problem, X[:1300], problem.loss.encode(y[:1300]))
    scores = problem.network.features(X[1300:], training.blocks.W) @ training.blocks.V.T
    return training, float((scores.argmax(1) != y[1300:]).float().mean())


@pytest.mark.parametrize("schedule", [{}, GRADUAL], ids=["one-shot", "gradual"])
@pytest.mark.parametrize("over", ["layer", "network"])
def test_exactly_the_share_is_left_and_it_still_learns(digits, schedule, over):
    training, error = train(digits, Pruning(0.1, over=over, **schedule))
    left = [int(matrix.count_nonzero()) for matrix in training.blocks.W.values()]
    assert sum(left) == (3 * 409 if over == "layer" else 1228)
    assert error < 0.3
    assert training.epochs[-1].loss < training.epochs[0].loss


@pytest.mark.parametrize("end", [0.0, 0.5])
def test_pruning_may_begin_with_the_run(digits, end):
    training, _ = train(digits, Pruning(0.1, begin=0.0, end=end), 2, Network.chain([64, 20]))
    assert int(training.blocks.W[1, 0].count_nonzero()) == 128


def test_biases_are_neither_pruned_nor_counted(digits):
    training, _ = train(digits, Pruning(0.05), 2, Network.chain([64, 20, 10], bias=True))
    W = training.blocks.W
    assert int(W[1, BIAS].count_nonzero()) > 10
    assert sum(int(W[edge].count_nonzero()) for edge in ((1, 0), (2, 1))) == int(0.05 * (64 * 20 + 200))


def test_the_smallest_weights_go_and_stay_away():
    W = {(1, 0): torch.arange(1.0, 13.0).view(3, 4) * torch.tensor([1.0, -1.0, 1.0, -1.0])}
    pruned = PrunedWeights(Pruning(0.25, begin=0.5, end=0.5), W, steps=4)
    pruned.advance()
    assert int(pruned.weights()[1, 0].count_nonzero()) == 12
    pruned.advance()
    assert pruned.weights()[1, 0].abs().flatten().sort().values.tolist() == [0.0] * 9 + [10.0, 11.0, 12.0]
    with torch.no_grad():
        pruned.parameters[0].add_(100.0)
    assert int(pruned.weights()[1, 0].count_nonzero()) == 3


def test_the_share_kept_falls_by_the_cubic():
    gradual = Pruning(0.2, begin=0.2, end=0.6)
    assert gradual.kept(0.1) == gradual.kept(0.2) == 1.0
    assert gradual.kept(0.4) == pytest.approx(0.2 + 0.8 / 8)
    assert gradual.kept(0.6) == gradual.kept(1.0) == 0.2


def test_one_shot_pruning_anneals_the_rate_twice():
    solver = Backprop(pruning=Pruning(0.1, begin=0.6, end=0.6))
    assert solver.annealed(0.0) == solver.annealed(0.6) == 1.0
    assert solver.annealed(0.599) == pytest.approx(0.0, abs=1e-4)
    assert solver.annealed(1.0) == pytest.approx(0.0)
    assert Backprop(pruning=Pruning(0.1, **GRADUAL)).annealed(0.5) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"share": 0.0}, r"share must lie in \(0, 1\], got 0.0"),
        ({"share": 0.1, "begin": 0.8, "end": 0.2}, "begin and end must satisfy"),
        ({"share": 0.1, "over": "row"}, "over must be one of layer, network, got 'row'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Pruning(**settings)
