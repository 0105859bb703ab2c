import math

import pytest

from tests.strategies import SCHEDULES
from tikhonet import Constant, Custom, Power, Proximal
from tikhonet.descent.schedules import After, LinearWeight, Restarted


def test_power_gives_the_papers_theta_and_weight():
    schedule = Power(2)
    assert [schedule.theta(t) for t in (1, 2, 10)] == [1.0, 0.25, 0.01]
    assert schedule.rho(2) == 0.75**2


def test_theta_one_at_the_start_means_no_proximal_term():
    assert Power(2).rho(1) == 0.0


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0])
@pytest.mark.parametrize("t", [2, 7])
def test_tail_is_the_sum_it_stands_for(p, t):
    # The head summed as written, the rest between the integrals of 1/x^p and of 1/(x^p - 1) <= 1.0001/x^p.
    end = 20_000
    head = math.fsum(1 / (k**p - 1) for k in range(t, end))
    rest = (end - 0.5) ** (1 - p) / (p - 1)
    assert Power(p).tail(t) == pytest.approx(head + rest, rel=1e-5)


def test_tail_of_the_square_telescopes():
    assert Power(2).tail(5) == pytest.approx((1 / 4 + 1 / 5) / 2, rel=1e-12)


@pytest.mark.parametrize("schedule", [Power(1.0), Power(0.5), Constant(0.3), Proximal()])
def test_schedules_that_never_run_out_have_an_infinite_tail(schedule):
    assert schedule.tail(5) == math.inf
    assert schedule.reach(1000) > 1


def test_reach_of_the_papers_schedule_falls_below_one_percent_at_ninety():
    assert Power(2).reach(80) > 0.01 > Power(2).reach(95)


def test_a_users_schedule_has_an_unknown_tail_but_a_known_reach():
    schedule = Custom(lambda t: 1 / t**2)
    assert math.isnan(schedule.tail(3))
    assert schedule.reach(50) == Power(2).reach(50)


def test_promised_decrease_is_rho_over_theta_for_alg_1_and_half_the_weight_for_proximal():
    assert Power(2).promised_decrease(2, 3.0) == pytest.approx(0.75**2 / 0.25 * 9)
    assert Proximal(0.2).promised_decrease(7, 3.0) == pytest.approx(0.9)
    assert Custom(lambda t: 0.0).promised_decrease(1, 0.0) == 0.0


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_known_schedules_pass_their_check(schedule):
    schedule.check(50)


@pytest.mark.parametrize("value", [1.5, -0.1, math.nan])
def test_theta_outside_the_unit_interval_is_refused_with_its_t(value):
    with pytest.raises(ValueError, match=r"theta must lie in \[0, 1\].* at t = 3"):
        Custom(lambda t: value if t == 3 else 0.5).check(10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Power(0), "p must be positive"),
        (lambda: Constant(0), r"value must lie in \(0, 1\]"),
        (lambda: Constant(1.1), r"value must lie in \(0, 1\]"),
        (lambda: Proximal(0), "weight must be positive"),
        (lambda: Proximal(math.inf), "weight must be positive"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_table_of_steps_ends_with_the_schedule():
    table = [t**-0.5 for t in range(1, 4)]
    schedule = Custom(table)
    schedule.check(20)
    assert [schedule.theta(t) for t in (1, 3, 4)] == [table[0], table[2], 0.0]
    assert schedule.reach(1) == pytest.approx(table[1] + table[2])
    assert schedule.reach(3) == 0


@pytest.mark.parametrize("schedule", [Constant(0.3), Proximal(2.0)])
def test_the_reach_of_constant_steps_is_their_sum(schedule):
    assert schedule.reach(7) == pytest.approx(sum(schedule.theta(t) for t in range(8, 71)))


def test_lemma_2_is_true_of_the_weight_one_less_theta():
    schedule, theta, distance = LinearWeight(2), 1 / 9, 0.7
    assert schedule.theta(3) == pytest.approx(theta)
    assert schedule.promised_decrease(3, distance) == pytest.approx((1 - theta) / theta * distance**2)


def test_a_restarted_schedule_begins_again_and_never_runs_out():
    schedule = Restarted(Power(2), 3)
    assert [schedule.theta(t) for t in range(1, 8)] == [1, 1 / 4, 1 / 9, 1, 1 / 4, 1 / 9, 1]
    assert schedule.rho(2) == schedule.rho(5) == Power(2).rho(2)
    assert schedule.tail(5) == math.inf
    assert not schedule.exhausted(1000)


def test_the_rest_of_a_schedule_is_that_schedule_further_on():
    rest, whole = After(Proximal(0.3), 7), Proximal(0.3)
    assert rest.promised_decrease(2, 1.5) == whole.promised_decrease(9, 1.5)
    rest, whole = After(Power(2), 7), Power(2)
    assert (rest.theta(2), rest.rho(2), rest.tail(2)) == (whole.theta(9), whole.rho(9), whole.tail(9))
    assert After(Power(2), 90).exhausted(5)
