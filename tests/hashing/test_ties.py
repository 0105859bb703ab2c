"""Closed forms against every order of tied items."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from tests.hashing import slow
from tikhonet.hashing.ties import Counts, Tied, average_precision, count_by, precision_at

BINS = 9


def counts_of(distances, relevant):
    rows = [np.bincount(d, minlength=BINS) for d in distances]
    hits = [np.bincount(d[r], minlength=BINS) for d, r in zip(distances, relevant, strict=True)]
    return Counts(np.array(rows), np.array(hits))


def assert_is(found, expected):
    values = [found.expected[0], found.lower[0], found.upper[0]]
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)


@st.composite
def rankings(draw):
    size = draw(st.integers(1, 6))
    distances = np.array(draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)))
    relevant = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    relevant[draw(st.integers(0, size - 1))] = True
    return distances, relevant, draw(st.integers(1, size))


@given(rankings())
def test_average_precision_is_that_of_all_orders(case):
    distances, relevant, k = case
    counts, total = counts_of([distances], [relevant]), int(relevant.sum())
    for cut in (None, k):
        places = len(distances) if cut is None else cut
        expected = slow.over_orders(
            distances, relevant, lambda ranking, n=places: slow.average_precision(ranking, n, total)
        )
        assert_is(average_precision(counts, cut), expected)


@given(rankings())
def test_precision_at_k_is_that_of_all_orders(case):
    distances, relevant, k = case
    expected = slow.over_orders(distances, relevant, lambda ranking: slow.precision(ranking, k))
    assert_is(precision_at(counts_of([distances], [relevant]), k), expected)


@given(st.integers(0, 10**6))
def test_without_ties_all_three_are_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, BINS + 1))
    distances, relevant = rng.permutation(BINS)[:size], rng.random(size) < 0.5
    relevant[0] = True
    found = average_precision(counts_of([distances], [relevant]))
    assert_is(found, [average_precision_score(relevant, -distances)] * 3)


def test_all_items_in_one_tie_have_the_mean_over_random_orders():
    relevant = np.arange(50) < 20
    found = average_precision(counts_of([np.zeros(50, int)], [relevant]))
    rng = np.random.default_rng(0)
    drawn = [slow.average_precision(rng.permutation(relevant), 50, 20) for _ in range(4000)]
    assert found.expected[0] == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / 4000**0.5)
    assert found.upper[0] == 1
    assert found.lower[0] == pytest.approx(np.mean(np.arange(1, 21) / np.arange(31, 51)))


def test_long_ties_lose_no_digits():
    from fractions import Fraction

    n, r, N, R = 3000, 1200, 2000, 700
    items, hits = np.zeros((1, BINS), int), np.zeros((1, BINS), int)
    items[0, :2], hits[0, :2] = (N, n), (R, r)
    step = Fraction(r - 1, n - 1)
    inside = sum(Fraction(r, n) * (R + 1 + (i - 1) * step) / (N + i) for i in range(1, n + 1))
    first = sum(Fraction(R, N) * (1 + (i - 1) * Fraction(R - 1, N - 1)) / i for i in range(1, N + 1))
    exact = float((first + inside) / (R + r))
    assert average_precision(Counts(items, hits)).expected[0] == pytest.approx(exact, rel=1e-13)


def test_a_query_without_relevant_items_has_no_average_precision_and_precision_zero():
    counts = counts_of([np.array([0, 1]), np.array([0, 1])], [np.array([False, False]), np.array([True, False])])
    np.testing.assert_array_equal(np.isnan(average_precision(counts).expected), [True, False])
    np.testing.assert_array_equal(precision_at(counts, 2).upper, [0, 0.5])


def test_printing_shows_the_value_and_both_bounds():
    assert str(Tied(0.25, 0.2, 0.3)) == "0.2500 (0.2000 to 0.3000 by the order of ties)"
    assert Tied(0.25, 0.2, 0.3).to_dict() == {"expected": 0.25, "lower": 0.2, "upper": 0.3}


def test_counts_of_real_distances_have_one_place_for_each_different_distance():
    distances = np.array([[0.5, 0.25, 0.5, 2.0]])
    counts, none = count_by(distances, np.array([[True, False, False, True]]), np.zeros((1, 4), bool))
    assert counts.items.tolist() == [[1, 2, 1, 0]]
    assert counts.relevant.tolist() == [[0, 1, 1, 0]]
    assert none.all_relevant.tolist() == [0]
    # the tied pair holds the relevant one first or second: (1/2 + 2/4) / 2 or (1/3 + 2/4) / 2
    assert average_precision(counts).expected[0] == pytest.approx(((1 / 2 + 1 / 3) / 2 + 2 / 4) / 2)
