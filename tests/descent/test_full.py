import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planted import plant
from tests.strategies import LIFTS, SCHEDULES, make_samples, problems, seeds
from tests.threads import Ranks
from tikhonet import (
    BlockDescent,
    Constant,
    Custom,
    Everything,
    Fenchel,
    Network,
    Power,
    Problem,
    Proximal,
    RowL1Ball,
    Samples,
    Softmax,
    Squared,
    Status,
    certify,
    initial_blocks,
)
from tikhonet.descent.block_steps import block_steps
from tikhonet.descent.full import LEAST_FALL, LONGEST
from tikhonet.descent.linear import WeightSums

SQUARED, FREE = Squared(), Everything()


def small(lift=LIFTS[0], loss=SQUARED, W_set=FREE, network=None):
    """A problem on six samples with ridges, on which block descent converges within seconds."""
    problem = Problem(network or Network.paper(3), loss, lift, gamma=1.0, ridge_V=0.5, ridge_W=0.5, W_set=W_set)
    X = torch.rand(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.1
    return problem, X, loss.encode(torch.tensor([0, 1, 0, 1, 0, 1])).double()


def same(first, second):
    blocks = zip(
        [*first.U.values(), first.V, *first.W.values()], [*second.U.values(), second.V, *second.W.values()], strict=True
    )
    return all(torch.equal(a, b) for a, b in blocks)


@given(problems(), st.sampled_from(SCHEDULES), seeds, st.booleans())
def test_every_block_step_keeps_its_promises_and_every_block_its_set(problem, schedule, seed, weighted):
    samples = make_samples(problem, seed, weighted=weighted)
    solver = BlockDescent(schedule, max_iter=4, inner_tol=1e-9, chunk_rows=3)
    result = solver.run(problem, samples.X, samples.targets, weight=samples.weight, seed=seed)
    certificate = certify(result)
    assert certificate["feasible"].holds, certificate
    assert certificate["descent"].holds, certificate
    assert certificate["promise"].holds, certificate


@given(problems(), seeds)
@settings(max_examples=15)
def test_the_objective_never_rises_even_with_loose_inner_solves_and_extrapolation(problem, seed):
    samples = make_samples(problem, seed)
    solver = BlockDescent(Proximal(0.1), max_iter=8, inner_tol=1e-2, extrapolate=True)
    steps = solver.run(problem, samples.X, samples.targets, seed=seed).history.steps
    assert all(step.decrease >= -1e-12 * (1 + step.terms.total) for step in steps)


@given(problems(), seeds)
@settings(max_examples=15)
def test_an_extrapolation_lowers_f_by_a_share_of_its_square_and_is_no_longer_than_the_last_change(problem, seed):
    samples, weight = make_samples(problem, seed), 0.1
    solver = BlockDescent(Proximal(weight), max_iter=12, inner_tol=1e-9, extrapolate=True, chunk_rows=3)
    result = solver.run(problem, samples.X, samples.targets, seed=seed)
    assert certify(result)["promise"].holds, certify(result)
    taken, iterations = 0.0, {}
    for step in result.history.steps:
        if step.block == "extrapolation":
            assert step.decrease >= LEAST_FALL * 0.5 * weight * step.distance**2
            assert step.distance <= LONGEST * (taken + iterations.get(step.iteration, 0.0)) * (1 + 1e-9)
            taken = step.distance
        else:
            iterations[step.iteration] = iterations.get(step.iteration, 0.0) + step.distance


@given(problems(), st.sampled_from(SCHEDULES), seeds)
@settings(max_examples=10)
def test_the_recorded_objective_is_that_of_the_blocks(problem, schedule, seed):
    samples = make_samples(problem, seed, weighted=True)
    result = BlockDescent(schedule, max_iter=3).run(
        problem, samples.X, samples.targets, weight=samples.weight, seed=seed
    )
    fresh = problem.objective(result.blocks, samples)
    recorded = result.history.steps[-1].terms
    assert recorded.total == pytest.approx(fresh.total, rel=1e-12, abs=1e-12)
    assert recorded.lift.keys() == fresh.lift.keys()


@pytest.mark.parametrize("schedule", [Power(2), Proximal()], ids=str)
@pytest.mark.parametrize("W_set", [Everything(), RowL1Ball(1.0)])
def test_in_float32_f_comes_from_the_sums_of_the_w_step_as_from_the_samples(schedule, W_set, monkeypatch):
    problem = Problem(Network.paper(3), W_set=W_set)
    exact = make_samples(problem, 0, rows=60, weighted=True)
    X, targets, weight = exact.X.float(), exact.targets.float(), exact.weight.float()
    solver, asked = BlockDescent(schedule, max_iter=3), []
    lifts = WeightSums.lifts
    monkeypatch.setattr(WeightSums, "lifts", lambda sums, W: asked.append(lifts(sums, W)) or asked[-1])
    fast = solver.run(problem, X, targets, weight=weight)
    assert [found.keys() for found in asked] == 6 * [{1, 2, 3}]  # after each u-step and each W-step
    monkeypatch.setattr(WeightSums, "lifts", lambda sums, W: {})
    plain = solver.run(problem, X, targets, weight=weight)
    assert same(fast.blocks, plain.blocks)
    assert fast.history.objective == pytest.approx(plain.history.objective, rel=2e-6)
    assert certify(fast)["descent"].holds
    assert certify(fast)["promise"].holds


@pytest.mark.parametrize("lift", LIFTS)
@pytest.mark.parametrize("loss", [Squared(), Softmax()])
@pytest.mark.parametrize("W_set", [Everything(), RowL1Ball(1.0)])
def test_proximal_descent_reaches_a_stationary_point_where_the_papers_schedule_stands_still(lift, loss, W_set):
    problem, X, targets = small(lift, loss, W_set, Network.chain([3, 3]))
    converged = BlockDescent(Proximal(0.1), max_iter=200, tol=1e-14).run(problem, X, targets)
    assert converged.status is Status.STATIONARY
    assert certify(converged).stationarity.total <= 1e-6
    literal = BlockDescent(Power(2), max_iter=200, tol=1e-14).run(problem, X, targets)
    assert literal.status is Status.SCHEDULE_EXHAUSTED
    assert certify(literal).stationarity.total > 0.1
    assert not certify(literal).stationary


@pytest.mark.parametrize("lift", LIFTS)
def test_extrapolation_reaches_a_stationary_point_of_the_papers_network_with_skips_in_fewer_iterations(lift):
    problem, X, targets = small(lift)
    plain = BlockDescent(Proximal(0.1), max_iter=250, tol=1e-14, check_every=10).run(problem, X, targets)
    fast = BlockDescent(Proximal(0.1), max_iter=250, tol=1e-14, extrapolate=True).run(problem, X, targets)
    assert fast.status is Status.STATIONARY
    assert certify(fast).stationarity.total <= 1e-6
    assert plain.history.stationarity[plain.history.iterations].total > certify(fast).stationarity.total


@pytest.mark.parametrize("lift", LIFTS)
@pytest.mark.parametrize("network", [Network.chain([3, 4, 2]), Network.paper(3), Network.chain([2, 3], bias=True)])
def test_a_planted_network_is_a_stationary_point_with_objective_zero(lift, network):
    problem = Problem(network, lift=lift, gamma=0.5)
    planted, targets = plant(problem, rows=9, outputs=2, seed=0)
    result = BlockDescent(Proximal(), max_iter=3, tol=1e-10).run(problem, planted.U[0], targets, start=planted)
    assert result.status is Status.STATIONARY
    assert result.history.objective[-1] <= 1e-20
    torch.testing.assert_close(result.blocks.V, planted.V)


@pytest.mark.parametrize("lift", LIFTS)
def test_the_least_value_of_planted_data_is_approached(lift):
    problem = Problem(Network.chain([3, 4]), lift=lift, gamma=1.0)
    planted, targets = plant(problem, rows=12, outputs=2, seed=1)
    solver = BlockDescent(Proximal(0.01), max_iter=150, extrapolate=True, inner_tol=1e-6)
    result = solver.run(problem, planted.U[0], targets)
    assert result.history.objective[-1] < 1e-5 * result.history.objective[0]


@given(problems(), seeds, st.sampled_from([1, 2, 5]))
@settings(max_examples=15)
def test_chunked_equals_whole(problem, seed, chunk_rows):
    samples = make_samples(problem, seed, rows=6)
    runs = [
        BlockDescent(Proximal(0.5), max_iter=2, inner_tol=1e-13, chunk_rows=rows).run(
            problem, samples.X, samples.targets, seed=seed
        )
        for rows in (chunk_rows, 100)
    ]
    first, second = (run.history.objective for run in runs)
    assert first == pytest.approx(second, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("schedule", [Power(2), Constant(0.5), Proximal()])
@pytest.mark.parametrize("lift", LIFTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_same_seed_gives_the_same_bits_twice(schedule, lift, dtype):
    problem, X, targets = small(lift)
    X, targets = X.to(dtype), targets.to(dtype)
    solver = BlockDescent(schedule, max_iter=5)
    first, second = (solver.run(problem, X, targets, seed=3).blocks for _ in range(2))
    other = solver.run(problem, X, targets, seed=4).blocks
    assert first.V.dtype == dtype
    assert same(first, second)
    assert not same(first, other)


@given(problems(), seeds)
@settings(max_examples=10)
def test_weight_two_is_the_row_twice(problem, seed):
    samples = make_samples(problem, seed, rows=5)
    twice = torch.tensor([0, 0, 1, 2, 3, 4, 4])
    weight = torch.tensor([2.0, 1, 1, 1, 2], dtype=torch.float64)
    solver = BlockDescent(Proximal(0.3), max_iter=2, inner_tol=1e-12, initial_features="forward", tol=1e-14)
    weighted = solver.run(problem, samples.X, samples.targets, weight=weight)
    repeated = solver.run(problem, samples.X[twice], samples.targets[twice])
    assert weighted.history.objective == pytest.approx(repeated.history.objective, rel=1e-8, abs=1e-9)


def test_a_run_continued_from_its_blocks_is_the_same_run():
    problem, X, targets = small()
    whole = BlockDescent(max_iter=6).run(problem, X, targets)
    part = BlockDescent(max_iter=3).run(problem, X, targets)
    rest = BlockDescent(max_iter=3).run(problem, X, targets, start=part.blocks)
    assert same(whole.blocks, rest.blocks)


def test_reduce_sees_every_sum_so_that_two_halves_make_the_whole():
    """Two runs in lock step, each with half of the rows, whose sums are added: the classic all-reduce."""
    problem, X, targets = small()
    whole = BlockDescent(max_iter=2, inner_tol=1e-13, chunk_rows=3).run(problem, X, targets)

    def half(rank, reduce):
        rows = slice(3 * rank, 3 * rank + 3)
        start = initial_blocks(problem, whole.samples)
        start = dataclasses.replace(start, U={m: layer[rows] for m, layer in start.U.items()})
        solver = BlockDescent(max_iter=2, inner_tol=1e-13, chunk_rows=3)
        return solver.run(problem, X[rows], targets[rows], start=start, reduce=reduce)

    for result in Ranks().run(half):
        torch.testing.assert_close(result.blocks.V, whole.blocks.V, rtol=1e-9, atol=1e-9)
        assert result.history.objective == pytest.approx(whole.history.objective, rel=1e-9)


def test_a_step_with_theta_zero_moves_nothing():
    problem, X, targets = small()
    start = initial_blocks(problem, Samples(X, targets))
    result = BlockDescent(Custom(lambda t: 0.0), max_iter=1).run(problem, X, targets, start=start)
    assert same(result.blocks, start)
    assert result.status is Status.SCHEDULE_EXHAUSTED


def test_max_iter_is_told_as_such():
    problem, X, targets = small()
    result = BlockDescent(Constant(0.5), max_iter=2).run(problem, X, targets)
    assert result.status is Status.MAX_ITER
    assert "start=result.blocks" in result.message


def test_watch_sees_every_iteration():
    problem, X, targets = small()
    seen = []
    BlockDescent(max_iter=3).run(problem, X, targets, watch=lambda history: seen.append(history.iterations))
    assert seen == [1, 2, 3]


def test_short_steps_begin_their_sub_problems_at_the_last_minimisers():
    problem, X, targets = small(W_set=RowL1Ball(0.5))
    result = BlockDescent(Power(2), max_iter=40).run(problem, X, targets)
    for block in ("U", "W"):
        steps = [step.inner_steps for step in result.history.steps if step.block == block]
        assert max(steps[:2]) > 1
        assert max(steps[-10:]) == 1
    assert all(step.relative <= 1e-3 for step in result.history.steps)


def test_blocks_come_in_the_order_of_alg_1():
    problem = small()[0]
    samples = make_samples(problem, 0, rows=6)
    blocks = initial_blocks(problem, samples)
    labels = [move.label for move in block_steps(problem, blocks, samples, 0.5, 0.25, 1e-3, {})]
    assert labels == ["U", "V", "W"]


@pytest.mark.parametrize("block", ["U", "V", "W"])
def test_overflow_ends_as_nonfinite_with_block_layer_and_iteration_and_the_last_good_blocks(block, monkeypatch):
    import tikhonet.descent.block_steps as full

    problem, X, targets = small()
    name = {"U": "update_features", "V": "update_classifier", "W": "update_weights"}[block]
    original, calls = getattr(full, name), []

    def spoiled(*args, **kwargs):
        solution = original(*args, **kwargs)
        calls.append(solution)
        if len(calls) == 2:
            tensor = {"U": lambda p: p[2], "V": lambda p: p, "W": lambda p: p[2, 1]}[block](solution.point)
            tensor[0, 0] = math.nan
            return dataclasses.replace(solution, residual=math.nan)
        return solution

    good = BlockDescent(max_iter=1).run(problem, X, targets)
    monkeypatch.setattr(full, name, spoiled)
    result = BlockDescent(max_iter=5).run(problem, X, targets)
    assert result.status is Status.NONFINITE
    assert f"block {block}" in result.message
    assert "iteration 2" in result.message
    if block != "V":
        assert "layer 2" in result.message
    tensors = [*result.blocks.U.values(), result.blocks.V, *result.blocks.W.values()]
    assert all(bool(tensor.isfinite().all()) for tensor in tensors)
    if block == "U":
        assert same(result.blocks, good.blocks)


def test_data_too_large_for_float32_end_as_nonfinite_not_as_a_model():
    problem, X, targets = small()
    result = BlockDescent(max_iter=3).run(problem, 1e25 * X.float(), targets.float())
    assert result.status is Status.NONFINITE
    assert result.blocks.V.isfinite().all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_iter": 0}, "max_iter must be at least 1"),
        ({"check_every": 0}, "check_every must be at least 1"),
        ({"tol": 0.0}, "tol must lie strictly between 0 and 1"),
        ({"inner_tol": 2.0}, "inner_tol must lie strictly between 0 and 1"),
        ({"initial_features": "zero"}, "initial_features must be 'random' or 'forward'"),
        ({"schedule": Power(2), "extrapolate": True}, "extrapolate needs a schedule of full steps such as Proximal"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        BlockDescent(**settings)


def test_bad_data_and_bad_starts_are_refused_before_any_work():
    problem, X, targets = small()
    solver, good = BlockDescent(max_iter=1), initial_blocks(problem, make_samples(problem, 0, rows=6))
    with pytest.raises(ValueError, match=r"X must be finite.*row 2"):
        solver.run(problem, X.index_fill(0, torch.tensor([2]), math.nan), targets)
    with pytest.raises(ValueError, match="X must have 3 columns"):
        solver.run(problem, X[:, :2], targets)
    with pytest.raises(ValueError, match="one row per sample"):
        solver.run(problem, X, targets[:3])
    with pytest.raises(ValueError, match=r"theta must lie in \[0, 1\]"):
        BlockDescent(Custom(lambda t: 2.0), max_iter=1).run(problem, X, targets)
    with pytest.raises(ValueError, match=r"start\.U\[1\] must have shape \(6, 3\)"):
        solver.run(problem, X, targets, start=dataclasses.replace(good, U={0: X}))
    with pytest.raises(ValueError, match=r"start\.U\[2\] must be finite and lie in"):
        solver.run(problem, X, targets, start=dataclasses.replace(good, U=good.U | {2: good.U[2] - 10}))
    with pytest.raises(ValueError, match=r"start\.V must have shape \(2, 3\)"):
        solver.run(problem, X, targets, start=good)
    ball = dataclasses.replace(problem, W_set=RowL1Ball(1e-3))
    fitting = dataclasses.replace(good, V=torch.zeros(2, 3, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"start\.W\[1, 0\] must be finite and in its set"):
        solver.run(ball, X, targets, start=fitting)


def test_forward_start_has_no_lift_gap_under_the_tight_lift():
    problem = small(Fenchel())[0]
    samples = make_samples(problem, 0, rows=6)
    start = initial_blocks(problem, samples, features="forward")
    # Products of other numbers of rows may round otherwise, by an ulp, of which the lift has the square.
    assert all(value <= 1e-28 for value in problem.objective(start, samples).lift.values())


def test_an_interruption_in_the_callback_leaves_the_iterations_before_it():
    problem, X, targets = small()

    def interrupt(history):
        if history.iterations == 3:
            raise KeyboardInterrupt

    result = BlockDescent(max_iter=10).run(problem, X, targets, watch=interrupt)
    assert result.status is Status.INTERRUPTED
    assert "start=result.blocks" in result.message
    assert same(result.blocks, BlockDescent(max_iter=3).run(problem, X, targets).blocks)


def test_arrays_and_tensors_with_gradients_are_taken_as_they_are():
    problem, X, targets = small()
    plain = BlockDescent(max_iter=2).run(problem, X, targets)
    assert same(plain.blocks, BlockDescent(max_iter=2).run(problem, X.numpy(), targets.numpy()).blocks)
    assert same(plain.blocks, BlockDescent(max_iter=2).run(problem, X.clone().requires_grad_(), targets).blocks)


def test_a_start_of_another_type_is_refused():
    problem, X, targets = small()
    blocks = BlockDescent(max_iter=1).run(problem, X, targets).blocks
    with pytest.raises(ValueError, match=r"start must have X's type .*float32.*got torch.float64"):
        BlockDescent(max_iter=1).run(problem, X.float(), targets.float(), start=blocks)
    blocks.U[1][0, 0] = torch.inf
    with pytest.raises(ValueError, match=r"start.U\[1\] must be finite and lie in"):
        BlockDescent(max_iter=1).run(problem, X, targets, start=blocks)
