"""A budget of nonzeros: met to the weight in every network, with every set, however the run ends."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import SETS, make_samples, problems, seeds
from tests.trainer.runs import SMALL64
from tikhonet import BlockDescent, Box, Budget, Fenchel, Network, NonNegative, Problem, RowL1Ball, Status, Stochastic
from tikhonet.network.graph import BIAS
from tikhonet.trainer.sparsity.scopes import RowScope, Scope, free_layers, number
from tikhonet.trainer.sparsity.zeros import check_sparsity

OVERS = ["row", "layer", "network", "units"]


def nonzeros(W):
    return sum(int(matrix.count_nonzero()) for (_, m), matrix in W.items() if m != BIAS)


def train(digits, budget, network=SMALL64, epochs=8, **settings):
    X, y, *_ = digits
    problem = Problem(network, lift=Fenchel(), W_set=settings.pop("W_set", Problem(network).W_set))
    run = {name: settings.pop(name) for name in ("watch", "resume", "validation") if name in settings}
    solver = Stochastic(epochs=epochs, batch_size=100, change=0.9, budget=budget, **settings)
    return solver.run(problem, X, problem.loss.encode(y), **run)


def test_the_density_falls_from_one_to_the_share_by_the_cubic_and_stays():
    budget = Budget(0.02, frozen=0.5)
    assert budget.density(0.0) == 1.0
    assert budget.density(0.25) == pytest.approx(0.02 + 0.98 * 0.125)
    assert budget.density(0.5) == budget.density(0.9) == 0.02
    assert Budget(0.3, frozen=0.0).density(0.0) == 0.3


@given(st.integers(1, 10**7), st.integers(1, 100))
def test_a_share_is_rounded_down_but_to_no_less_than_one(total, percent):
    assert number(total, percent / 100) == max(1, total * percent // 100)


@pytest.mark.parametrize("over", OVERS[:3])
def test_the_weights_kept_are_those_with_the_largest_signal(over):
    network = Network([5, 4, 3], {(1, 0): "learned", (2, 1): "learned", (2, 0): "learned"}, bias=[1])
    W = network.random_weights(3)
    power = {m: torch.rand(width) for m, width in enumerate(network.widths)}
    support = Budget(0.4, over).choose(network, W, torch.ones(2, 3), power)
    assert bool(support[1, BIAS].all())
    size = {edge: (W[edge].abs() * power[edge[1]].sqrt()).numpy() for edge in network.penalised}
    if over == "row":
        groups = [[(edge, k)] for edge in size for k in range(len(size[edge]))]
    elif over == "layer":
        groups = [[(edge, slice(None)) for edge in size if edge[0] == n] for n in (1, 2)]
    else:
        groups = [[(edge, slice(None)) for edge in size]]
    for group in groups:
        sizes = np.concatenate([size[edge][rows].ravel() for edge, rows in group])
        kept = np.concatenate([support[edge].numpy()[rows].ravel() for edge, rows in group])
        count = int(0.4 * len(sizes) + 1e-9)
        assert kept.sum() == max(1, count)
        assert sizes[kept].min() >= sizes[~kept].max()


def test_the_units_kept_hand_most_signal_on():
    network = Network.chain([4, 6, 3])
    W = network.random_weights(1)
    power = {0: torch.ones(4), 1: torch.rand(6), 2: torch.ones(3)}
    support = Budget(0.5, "units").choose(network, W, torch.ones(2, 3), power)
    onward = power[1].sqrt() * W[2, 1].norm(dim=0)
    alive = support[1, 0].any(1)
    assert int(alive.sum()) == 3
    assert bool(support[1, 0][alive].all())
    assert not bool(support[2, 1][:, ~alive].any())
    assert float(onward[alive].min()) > float(onward[~alive].max())


@pytest.mark.filterwarnings("ignore:share=")
@given(problems() | problems(images=True), seeds, st.sampled_from(OVERS), st.floats(0.05, 1.0))
@settings(max_examples=40)
def test_any_network_and_set_ends_feasible_within_its_budget(problem, seed, over, share):
    network = problem.network
    if not network.penalised or (over == "units" and not free_layers(network)):
        return
    samples = make_samples(problem, seed, rows=23, weighted=True)
    solver = Stochastic(epochs=8, batch_size=8, budget=Budget(share, over))
    training = solver.run(problem, samples.X, samples.targets, weight=samples.weight, seed=seed, dtype=torch.float64)
    sparsity = training.sparsity
    assert sparsity.used <= sparsity.allowed
    assert training.blocks.V.isfinite().all()
    for edge, matrix in training.blocks.W.items():
        assert problem.edge_set(edge).contains(matrix), edge


@pytest.mark.parametrize("over", OVERS)
@pytest.mark.parametrize("set_", [Problem(SMALL64).W_set, RowL1Ball(1.0), RowL1Ball(0.1)], ids=str)
def test_the_budget_is_met_to_the_weight_and_certified(digits, over, set_):
    training = train(digits, Budget(0.1, over), W_set=set_)
    sparsity = training.sparsity
    assert sparsity.kind == ("budget and set" if isinstance(set_, RowL1Ball) else "budget")
    assert all(check.holds for check in check_sparsity(sparsity))
    W = training.blocks.W
    assert all(set_.contains(matrix) for (_, m), matrix in W.items() if m != BIAS)
    assert nonzeros(W) == sum(sparsity.nonzeros.values())
    if over == "row":
        assert set((W[1, 0] != 0).sum(1).tolist()) == {6}
        assert set((W[2, 1] != 0).sum(1).tolist()) == {3}
    elif over == "layer":
        assert sparsity.nonzeros == {(1, 0): 192, (2, 1): 90}
    elif over == "network":
        assert nonzeros(W) == 282
    else:
        assert int((W[1, 0] != 0).any(1).sum()) == int((W[2, 1] != 0).any(1).sum()) == 3
    if over != "units":
        assert bool((W[1, BIAS] != 0).all())


def test_a_sparse_network_still_learns(digits):
    X_test, y_test = digits[2:]
    training = train(digits, Budget(0.1), Network.paper(64), epochs=20)
    scores = training.problem.network.features(X_test, training.blocks.W) @ training.blocks.V.T
    assert float((scores.argmax(1) != y_test).float().mean()) < 0.08
    assert training.sparsity.share <= 0.1


@pytest.mark.filterwarnings("ignore:share=")
def test_one_weight_in_all_is_a_budget_too(digits):
    training = train(digits, Budget(1e-9, "network"), epochs=4)
    assert nonzeros(training.blocks.W) == 1
    assert bool(training.blocks.V.isfinite().all())


def test_a_budget_of_everything_changes_no_count(digits):
    assert train(digits, Budget(1.0), epochs=2).sparsity.share == 1.0


def test_a_run_that_is_stopped_early_has_its_budget_too(digits):
    training = train(digits, Budget(0.1, frozen=0.9), watch=lambda epoch: epoch.number == 2)
    assert training.status is Status.INTERRUPTED
    assert training.epochs[-1].density > 0.1
    assert nonzeros(training.blocks.W) == 282
    assert training.sparsity.refit.after < training.sparsity.refit.before


def test_a_run_of_fewer_steps_than_the_schedule_needs_has_its_budget(digits):
    X, y, *_ = digits
    problem = Problem(SMALL64, lift=Fenchel())
    training = Stochastic(epochs=1, batch_size=2000, budget=Budget(0.1)).run(problem, X, problem.loss.encode(y))
    assert training.state.step == 1
    assert nonzeros(training.blocks.W) == 282


def test_what_the_user_sees_in_mid_run_has_the_zeros_of_its_support(digits):
    half = train(digits, Budget(0.1), watch=lambda epoch: epoch.number == 4).state
    assert 0.1 < half.density < 1
    for edge, matrix in half.average.W.items():
        assert bool((matrix[~half.support[edge]] == 0).all())
        assert bool((half.W[edge][~half.support[edge]] == 0).all())


def test_the_support_stays_once_it_is_frozen(digits):
    supports = []
    part = train(digits, Budget(0.1, frozen=0.5), epochs=10, watch=lambda epoch: epoch.number == 6)
    supports.append(part.state.support)
    whole = train(digits, Budget(0.1, frozen=0.5), epochs=10, resume=part.state)
    supports.append(whole.state.support)
    assert all(torch.equal(supports[0][edge], supports[1][edge]) for edge in supports[0])


def test_a_resumed_run_equals_an_uninterrupted_one(digits):
    whole = train(digits, Budget(0.05))
    part = train(digits, Budget(0.05), watch=lambda epoch: epoch.number == 5)
    rest = train(digits, Budget(0.05), resume=part.state)
    assert all(torch.equal(whole.blocks.W[edge], rest.blocks.W[edge]) for edge in whole.blocks.W)


def test_early_stopping_takes_no_epoch_from_before_the_budget(digits):
    X_test, y_test = digits[2:]
    loss = Problem(SMALL64).loss
    training = train(
        digits, Budget(0.03, frozen=0.5), epochs=12, patience=3, validation=(X_test, loss.encode(y_test, 10))
    )
    assert nonzeros(training.blocks.W) == training.sparsity.allowed
    assert training.epochs[-1].density == 0.03


def test_a_batch_with_nan_leaves_a_model_within_its_budget(digits):
    X, y, *_ = digits
    problem = Problem(SMALL64, lift=Fenchel())
    batches = list(zip(X.split(200), problem.loss.encode(y).split(200), strict=True))
    batches[3] = (torch.full_like(batches[3][0], math.nan), batches[3][1])
    training = Stochastic(epochs=2, budget=Budget(0.1)).run(problem, batches)
    assert training.status is Status.NONFINITE
    assert nonzeros(training.blocks.W) <= training.sparsity.allowed


@given(seeds)
def test_shrinking_into_a_ball_keeps_the_number_of_nonzeros(seed):
    M = torch.randn(6, 9, generator=torch.Generator().manual_seed(seed)) * (torch.arange(9) < 4)
    for set_ in (set_ for set_ in SETS if "Ball" in str(set_)):
        inside = set_.shrink(M)
        assert set_.contains(inside)
        assert torch.equal(inside != 0, M != 0)
    assert bool((NonNegative().shrink(M) >= 0).all())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"share": 0.0}, r"share must lie in \(0, 1\], got 0.0"),
        ({"share": 1.5}, r"share must lie in \(0, 1\], got 1.5"),
        ({"share": math.nan}, r"share must lie in \(0, 1\]"),
        ({"share": 0.1, "over": "column"}, "over must be 'row' or 'layer' or 'network' or 'units', got 'column'"),
        ({"share": 0.1, "frozen": 1.0}, r"frozen must lie in \[0, 1\)"),
    ],
)
def test_bad_budgets_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Budget(**settings)


def test_what_a_budget_cannot_do_is_refused_before_any_work(digits):
    with pytest.raises(ValueError, match="polish and budget cannot go together"):
        Stochastic(budget=Budget(0.1), polish=BlockDescent())
    with pytest.raises(ValueError, match=r"the set of W\[1, 0\] must hold zero for a budget"):
        train(digits, Budget(0.1), W_set=Box(0.1, 1.0))
    only = Network([64, 64], {(1, 0): "identity"}, bias=True)
    with pytest.raises(ValueError, match="needs a hidden layer without identity sources"):
        train(digits, Budget(0.1, "units"), only)


def test_runs_without_a_budget_say_where_their_zeros_come_from(digits):
    assert train(digits, None, epochs=1).sparsity.kind == "none"
    emergent = train(digits, None, epochs=2, W_set=RowL1Ball(0.5)).sparsity
    assert emergent.kind == "set"
    assert emergent.share < 1
    assert emergent.as_dict()["asked"] is None
    assert check_sparsity(emergent) == ()


def test_the_refit_of_weighted_rows_solves_its_least_squares(digits):
    X, y, _, _ = digits
    problem = Problem(Network.chain([64, 50, 50], bias=True), lift=Fenchel())
    weight = torch.rand(len(X), generator=torch.Generator().manual_seed(0))
    solver = Stochastic(epochs=2, batch_size=200, budget=Budget(0.1))
    training = solver.run(problem, X, problem.loss.encode(y), weight=weight)
    assert training.sparsity.refit.residual <= 1e-12


def test_a_new_scope_is_one_class(digits):
    class Half(RowScope):
        """Every row keeps half of what was asked for."""

        name = "half a row"

        def choose(self, network, W, V, power, share):
            return super().choose(network, W, V, power, share / 2)

        def allowed(self, network, share):
            return super().allowed(network, share / 2)

    try:
        training = train(digits, Budget(0.1, "half a row"))
        assert set((training.blocks.W[1, 0] != 0).sum(1).tolist()) == {3}
        assert check_sparsity(training.sparsity)[0].holds
    finally:
        del Scope.kinds._kinds["half a row"]


@pytest.mark.parametrize(
    ("over", "least"), [("row", "0.1"), ("layer", "0.01"), ("network", "0.0025"), ("units", "0.1")]
)
def test_a_share_that_rounding_cannot_meet_is_said_before_training(over, least):
    """One weight of each row, layer or network stays, and one unit of each layer."""
    network = Network([10, 10, 10, 10, 10], {(n, n - 1): "learned" for n in range(1, 5)})
    with pytest.warns(UserWarning, match=rf'share=0.001 cannot be met.* {least} over "{over}"'):
        Budget(0.001, over).check(Problem(network))
    met = Budget(Scope.kinds[over]().least(network), over)
    met.check(Problem(network))
    assert met.allowed(network) <= met.share * Budget(1.0, over).allowed(network) * (1 + 1e-9)


def test_the_least_share_is_met_in_layers_of_any_sizes():
    network = Network.chain([3, 2, 40, 7])
    for scope in (kind() for kind in Scope.kinds.values()):
        least, total = scope.least(network), scope.allowed(network, 1.0)
        assert scope.allowed(network, least) <= least * total * (1 + 1e-9)
        below = 0.99 * least
        assert scope.allowed(network, below) > below * total
