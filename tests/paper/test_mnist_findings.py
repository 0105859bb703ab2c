"""Verdicts follow from the records: change a figure, and the verdict changes."""

from dataclasses import replace
from typing import NamedTuple

import pytest

from tests.paper.tiny import MNIST
from tikhonet.paper.comparison import Finding
from tikhonet.paper.experiment import load_records


class Judged(NamedTuple):
    """The two sides of a claim."""

    literal: Finding
    library: Finding


@pytest.fixture(scope="module")
def records(output):
    return load_records(output)


def judged(records, words, **changes):
    """The claim with these words, after the given fields of some methods were changed."""

    def changed(record):
        return replace(record, **changes[record.method]) if record.method in changes else record

    found = MNIST.findings(MNIST.compare([changed(record) for record in records]))
    return Judged(*next(claim.findings for claim in found if words in claim.words))


def with_check(records, method, key, holds):
    record = next(record for record in records if record.method == method)
    return [check | {"holds": holds} if check["key"] == key else check for check in record.checks]


def test_lowest_error_is_judged_against_the_best_sgd_solver(records):
    rivals = {"adam": {"error": 10.0}, "sgd": {"error": 12.0}}
    low, high, near = ({"stochastic": {"error": error}} for error in (1.0, 40.0, 9.9))
    assert judged(records, "lowest test error", **rivals, **low).library.holds is True
    assert judged(records, "lowest test error", **rivals, **high).library.holds is False
    assert judged(records, "lowest test error", **rivals, **near).library.holds is None


def test_a_diverged_run_has_no_verdict_on_its_error(records):
    assert judged(records, "lowest test error", stochastic={"error": None}).library.holds is None


def test_sparseness_is_judged_by_exact_zeros_without_V(records):
    sparse = {"W1": 2.0, "W2": 2.0, "W3": 3.0, "V": 100.0}
    dense = {"W1": 60.0, "W2": 20.0, "W3": 30.0, "V": 0.0}
    assert judged(records, "nonzero weights", **{"stochastic-s": {"nonzero": sparse}}).library.holds is True
    assert judged(records, "nonzero weights", **{"stochastic-s": {"nonzero": dense}}).library.holds is False


def test_speed_is_judged_by_the_median_sgd_solver(records):
    rivals = {"adam": {"seconds": 100.0}, "sgd": {"seconds": 100.0}}
    fast, slow = ({"stochastic": {"seconds": seconds}} for seconds in (10.0, 90.0))
    assert judged(records, "times faster", **rivals, **fast).library.holds is True
    assert judged(records, "times faster", **rivals, **slow).library.holds is False


def test_a_point_is_stationary_by_its_certificate_only(records):
    names = "proximal", "proximal-s"
    yes, no = (
        {name: {"checks": with_check(records, name, "stationary", holds)} for name in names} for holds in (True, False)
    )
    assert judged(records, "stationary point", **yes).library.holds is True
    assert judged(records, "stationary point", **no).library.holds is None


def test_a_schedule_that_has_run_out_short_of_a_stationary_point_fails_the_theorem(records):
    late = {name: {"passes": 90} for name in ("alg1", "alg1-s")}
    assert judged(records, "stationary point", **late).literal.holds is False
    assert judged(records, "stationary point").literal.holds is None


def test_a_rise_of_f_fails_the_claim_of_descent(records):
    risen = {"alg1": {"checks": with_check(records, "alg1", "descent", False)}}
    assert judged(records, "monotonically").literal.holds is True
    assert judged(records, "monotonically", **risen).literal.holds is False
