import dataclasses
import math

import pytest
import torch

from tests.strategies import LIFTS
from tikhonet import BlockDescent, Network, NonNegative, Power, Problem, Proximal, RowL1Ball, Terms, certify
from tikhonet.descent.certificates import check_bounded, check_descent, check_feasible, fit_rate
from tikhonet.descent.result import BlockStep, History
from tikhonet.descent.stationarity import Stationarity, measure_stationarity


def run(schedule, **settings):
    problem = Problem(Network.chain([3, 3]), gamma=1.0, ridge_V=0.5, ridge_W=0.5, W_set=RowL1Ball())
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(6, 3, generator=generator, dtype=torch.float64)
    targets = problem.loss.encode(torch.tensor([0, 1, 0, 1, 0, 1])).double()
    return BlockDescent(schedule, **settings).run(problem, X, targets)


def history_of(residuals):
    history = History(Terms(1.0, {}), 1e-6)
    history.stationarity = {t: Stationarity({"U": value}, {"U": value}, 1.0) for t, value in enumerate(residuals)}
    return history


def test_standing_still_is_never_called_stationary():
    certificate = certify(run(Power(2), max_iter=200))
    assert not certificate.stationary
    assert certificate["schedule"].holds is False


def test_a_converged_run_has_every_check_in_its_favour():
    certificate = certify(run(Proximal(0.1), max_iter=200, inner_tol=1e-8))
    assert all(check.holds for check in certificate.checks[:-1]), certificate
    assert certificate.stationary
    assert certificate.rate.kind == "linear"
    assert certificate.rate.high < 1


def test_the_table_names_every_claim():
    text = str(certify(run(Proximal(), max_iter=2)))
    for word in ("feasible", "falls at every block step", "promised", "stationary", "schedule", "rate"):
        assert word in text


@pytest.mark.parametrize("spoil", ["U", "V", "W"])
def test_an_infeasible_block_is_named(spoil):
    result = run(Proximal(), max_iter=2)
    blocks = result.blocks
    U, V, W = dict(blocks.U), blocks.V, dict(blocks.W)
    if spoil == "U":
        U[1] = U[1] - 5
    if spoil == "V":
        V = V * math.nan
    if spoil == "W":
        W[1, 0] = W[1, 0] + 5
    check = check_feasible(result.problem, dataclasses.replace(blocks, U=U, V=V, W=W))
    assert check.holds is False
    assert f"worst: {spoil}" in check.figure


def test_blocks_that_a_ridge_or_a_ball_holds_are_proven_bounded_and_no_others():
    result = run(Proximal(), max_iter=3)
    assert certify(result)["bounded"].holds
    free = dataclasses.replace(result.problem, ridge_W=0.0, W_set=NonNegative())
    check = check_bounded(free, result.history)
    assert check.holds is None
    assert "W[1,0]" in check.figure
    last = result.history.norms[result.history.iterations]
    assert last["W[1,0]"] == pytest.approx(float(result.blocks.W[1, 0].norm()))
    assert f"{last['W[1,0]']:.3g}" in check.figure or f"{last['V']:.3g}" in check.figure
    biased = Problem(Network.chain([3, 3], bias=True), ridge_V=1.0, ridge_W=1.0)
    assert biased.unbounded() == ["W[1,-1]"]


def test_a_certificate_says_what_it_does_not_claim():
    certificate = certify(run(Proximal(), max_iter=2))
    assert {"convergence", "minimum", "network", "other_rows"} <= set(certificate.not_claimed)
    assert all(reason in str(certificate) for reason in certificate.not_claimed.values())


def test_a_rise_and_a_missed_promise_are_found():
    history = History(Terms(2.0, {}), 1e-6)
    history.steps = [BlockStep(1, "U", Terms(1.9, {}), decrease=0.1, promised=0.2)]
    falls, promised = check_descent(history, torch.float64)
    assert falls.holds
    assert promised.holds is False
    history.steps.append(BlockStep(1, "V", Terms(2.0, {}), decrease=-0.1))
    assert check_descent(history, torch.float64)[0].holds is False


def test_slack_and_rounding_are_all_that_is_forgiven():
    history = History(Terms(2.0, {}), 1e-6)
    history.steps = [BlockStep(1, "U", Terms(1.9, {}), decrease=0.1, promised=0.2, slack=0.11)]
    assert check_descent(history, torch.float64)[1].holds
    history.steps = [BlockStep(1, "U", Terms(1.0, {}), decrease=-1e-8)]
    assert check_descent(history, torch.float32)[0].holds
    assert check_descent(history, torch.float64)[0].holds is False


def test_the_rate_of_a_geometric_sequence_is_found():
    rate = fit_rate(history_of([0.9**t for t in range(40)]))
    assert rate.kind == "linear"
    assert rate.value == pytest.approx(0.9, rel=1e-6)
    assert rate.low <= rate.value <= rate.high


def test_the_rate_of_a_power_law_is_called_sublinear():
    rate = fit_rate(history_of([1.0, *(t**-1.5 for t in range(1, 60))]))
    assert rate.kind == "sublinear"
    assert rate.value == pytest.approx(-1.5, rel=1e-6)


def test_the_interval_covers_the_true_rate_under_noise():
    noise = torch.randn(80, generator=torch.Generator().manual_seed(0))
    rate = fit_rate(history_of([0.95**t * math.exp(0.1 * float(noise[t])) for t in range(80)]))
    assert rate.low < 0.95 < rate.high
    assert rate.high - rate.low > 1e-4


def test_too_few_points_give_no_rate():
    assert fit_rate(history_of([0.5**t for t in range(9)])) is None


@pytest.mark.parametrize("lift", LIFTS)
def test_certificates_are_float64_whatever_the_run_was(lift):
    problem = Problem(Network.chain([3, 2]), lift=lift)
    X = torch.rand(5, 3, generator=torch.Generator().manual_seed(1))
    targets = problem.loss.encode(torch.tensor([0, 1, 0, 1, 1]))
    result = BlockDescent(max_iter=3).run(problem, X, targets)
    blocks = result.blocks
    exact = dataclasses.replace(
        blocks,
        U={n: layer.double() for n, layer in blocks.U.items()},
        V=blocks.V.double(),
        W={edge: matrix.double() for edge, matrix in blocks.W.items()},
    )
    samples = dataclasses.replace(result.samples, X=X.double(), targets=targets.double())
    found, expected = certify(result).stationarity, measure_stationarity(problem, exact, samples)
    assert dataclasses.replace(found, rounding=0.0) == dataclasses.replace(expected, rounding=0.0)
