"""A fit that is killed at any point, and called again, ends with the bits of one that was left alone."""

import json
import sys

import pytest

from tests.faults.forked import printed

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")


def kill(*numbers):
    *mistakes, ends = printed("tests.faults.kills", *numbers)
    assert not mistakes, "\n".join(mistakes)
    return json.loads(ends)


def test_fits_that_are_killed_six_times_end_with_the_same_bits():
    assert sum(kill(6, 1).values()) == 6


def test_a_fit_of_two_ranks_that_loses_one_after_the_other_ends_with_the_same_bits():
    assert sum(kill(3, 4, 2).values()) == 3


@pytest.mark.slow
def test_fits_of_two_ranks_that_lose_a_hundred_end_with_the_same_bits():
    assert sum(kill(100, 0, 2).values()) == 100


@pytest.mark.slow
def test_fits_that_are_killed_two_hundred_times_end_with_the_same_bits():
    """In every phase of a checkpoint that is written, between two of them, and by a timer."""
    ends = kill(200, 0)
    assert sum(ends.values()) == 200
    phases = {f"{when} {what}" for when in ("before", "after") for what in ("a sync", "the renaming", "a removal")}
    assert {*phases, "within a write", "after a step's end", "by a timer"} <= set(ends)
