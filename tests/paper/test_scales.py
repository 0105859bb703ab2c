"""Axes hold their values, ticks lie on them, labels do not overlap."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tikhonet.paper.scales import Scale, short, spread

values = st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=20)


@given(values, st.booleans())
def test_every_value_lies_on_the_axis(numbers, log):
    scale = Scale.around(numbers, 50, 400, log=log)
    assert all(50 - 1e-6 <= scale(value) <= 400 + 1e-6 for value in numbers)


@given(values, st.booleans())
def test_ticks_are_few_increasing_and_on_the_axis(numbers, log):
    scale = Scale.around(numbers, 50, 400, log=log)
    ticks = scale.ticks()
    assert len(ticks) <= 8
    assert ticks == sorted(set(ticks))
    assert all(scale.low * (1 - 1e-9) <= tick <= scale.high * (1 + 1e-9) for tick in ticks)


@pytest.mark.parametrize("log", [True, False])
def test_a_single_value_stands_at_the_start_of_its_axis(log):
    scale = Scale(1, 1, 50, 400, log=log)
    assert scale(1) == 50
    assert scale.ticks()[0] == 1


def test_diverged_values_do_not_stretch_the_axis():
    assert Scale.around([1.0, math.nan, math.inf, 2.0], 0, 1).high == pytest.approx(2.08)


@given(st.lists(st.floats(0, 300), min_size=1, max_size=12))
def test_labels_keep_their_order_and_their_distance(wanted):
    placed = spread(wanted, 14, 0, 300)
    order = sorted(range(len(wanted)), key=lambda k: wanted[k])
    steps = [placed[b] - placed[a] for a, b in pairwise(order)]
    assert all(step >= 14 - 1e-6 for step in steps)
    assert all(-1e-6 <= place <= 300 + 1e-6 for place in placed)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (4.0, "4"), (3.456, "3.46"), (12.34, "12.3"), (1234.5, "1,234"), (0.0201, "0.0201"), (1e-4, "10⁻⁴")],
)
def test_numbers_read_well(value, text):
    assert short(value) == text
    assert short(math.nan) == "n/a"
