"""Step lengths, guards and annealing as one object."""

from dataclasses import replace

import pytest

from tikhonet.trainer.pace import Pace, follow
from tikhonet.trainer.recipe import DEEP, LONG, SPARSE, USUAL

PACE = Pace(USUAL, total=100, size=1.0, depth=3, averaging=0.98)


FIRST = USUAL.first / PACE.depth


def test_steps_fall_harmonically_and_linearly_to_two_percent():
    assert PACE.rate(0, 1.0) == pytest.approx(FIRST)
    assert PACE.rate(50, 1.0) == pytest.approx(0.51 * FIRST / 2)
    assert PACE.rate(100, 0.5) == pytest.approx(0.5 * 0.02 * FIRST / 3)
    assert replace(PACE, total=10**9).rate(10**6, 1.0) == pytest.approx(50e-6 * FIRST, rel=2e-3)


def test_the_changes_of_all_layers_add_up_and_noisy_steps_shorten_sooner():
    assert replace(PACE, depth=12).rate(0, 1.0) == pytest.approx(FIRST / 4)
    assert replace(PACE, depth=1).rate(0, 1.0) == PACE.largest
    assert replace(PACE, preset=DEEP, depth=48).rate(0, 1.0) == pytest.approx(DEEP.first / 48)
    small = replace(PACE, size=0.25)
    assert small.rate(0, 1.0) == PACE.rate(0, 1.0)
    assert small.rate(25, 1.0) == pytest.approx((1 - 0.98 / 4) * FIRST / 2)


def test_a_first_step_that_is_given_means_the_same_per_sample_and_falls_linearly():
    given = replace(PACE, preset=replace(USUAL, change=0.4))
    assert given.rate(0, 1.0) == 0.4
    assert given.rate(50, 1.0) == pytest.approx(0.51 * 0.4)
    assert replace(given, depth=12).rate(0, 1.0) == pytest.approx(0.2)
    assert replace(given, preset=replace(DEEP, change=0.4), depth=12).rate(0, 1.0) == pytest.approx(0.1)
    assert replace(given, total=int(4 * LONG)).rate(0, 1.0) == pytest.approx(0.2)
    assert replace(given, size=0.25).rate(0, 1.0) == pytest.approx(0.2)
    assert replace(given, size=9.0, total=20).rate(0, 1.0) == pytest.approx(0.6)
    half = replace(given, size=0.5)
    assert half.momentum**2 == pytest.approx(given.momentum) == pytest.approx(PACE.momentum)
    assert replace(PACE, size=0.5).momentum == USUAL.momentum


def test_running_sums_remember_the_same_per_sample():
    assert replace(PACE, size=0.5).beta ** 2 == pytest.approx(PACE.beta) == pytest.approx(0.94)


def test_the_average_is_short_at_first_and_gone_at_the_end():
    assert PACE.kept(1) == pytest.approx(0.1 * 0.99)
    assert replace(PACE, total=10**9).kept(10**6) == pytest.approx(0.98, rel=1e-2)
    assert PACE.kept(100) == PACE.kept(101) == 0.0


def test_statistics_are_renewed_at_first_always_and_then_by_rows():
    assert all(PACE.renews(t, PACE.gram_every) for t in range(5))
    assert [t for t in range(5, 30) if PACE.renews(t, PACE.gram_every)] == [6, 12, 18, 24]
    assert [t for t in range(5, 12) if replace(PACE, size=3.0).renews(t, PACE.gram_every)] == [6, 8, 10]
    assert all(replace(PACE, size=20.0).renews(t, PACE.classifier_every) for t in range(20))


def test_a_step_changes_the_signal_by_its_rate():
    assert PACE.length(0.3, signal=4.0, change=1.0, peak=0.25) == pytest.approx(0.6)
    assert PACE.length(0.3, signal=4.0, change=16.0, peak=4.0) == pytest.approx(0.15)


def test_a_sudden_large_change_counts_at_once_and_a_small_one_does_not():
    assert PACE.counted(change=1.0, latest=0.01, share=1.0) == 1.0
    assert PACE.counted(change=1.0, latest=16.0, share=1.0) == 16.0
    assert PACE.counted(change=1.0, latest=16.0, share=0.5) == 8.0
    assert follow(follow(0.0, 1.0, 0.05), 1.0, 0.05) == pytest.approx(1 - 0.95**2)


def test_guards_tell_chance_from_a_rise():
    assert PACE.falls(1.0, 1.1)
    assert not PACE.falls(1.0, 1.11)
    assert not PACE.falls(1.0, float("nan"))
    assert not PACE.retreats(2.0, best=1.0, first=1.0)
    assert PACE.retreats(2.06, best=1.0, first=1.0)
    assert PACE.retreats(float("nan"), best=1.0, first=1.0)
    assert PACE.is_good(20, 1.05, best=1.0)
    assert not PACE.is_good(21, 1.0, best=1.0)
    assert not PACE.is_good(20, 1.06, best=1.0)
    assert [t for t in range(12) if PACE.checks(t)] == [0, 5, 10]


@pytest.mark.parametrize(("preset", "power"), [(USUAL, 0.5), (SPARSE, 1.0)])
def test_steps_of_small_batches_get_shorter_sooner_and_those_of_budgets_most_of_all(preset, power):
    many, few = (replace(PACE, preset=preset, total=10**6, size=size) for size in (1.0, 0.01))
    half = round(preset.horizon)
    assert many.rate(half, 1.0) == pytest.approx(many.rate(0, 1.0) / 2, rel=1e-3)
    assert few.rate(half // 10, 1.0) == pytest.approx(few.rate(0, 1.0) / (1 + 0.1 / 0.01**power), rel=1e-3)


def test_the_last_fit_of_images_looks_at_batches_enough_for_its_features():
    assert PACE.refit_every(50, 10) == 1
    images = replace(PACE, refit_rows=100, size=0.25)
    assert [images.refit_every(batches, 128) for batches in (1, 100, 200)] == [1, 1, 3]
