import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tikhonet.estimators.rows import canonical, fingerprint
from tikhonet.model.scaling import Scaling, spread


def some_rows(seed, rows=40):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(rows, 3)).astype(float)
    return X, rng.integers(0, 2, size=(rows, 1)).astype(float), rng.integers(0, 4, size=rows) / 7


@given(st.integers(0, 1000))
def test_permuting_rows_changes_nothing_to_the_bit(seed):
    X, Y, weight = some_rows(seed)
    order = np.random.default_rng(seed).permutation(len(X))
    for a, b in zip(
        vars(canonical(X, Y, weight)).values(),
        vars(canonical(X[order], Y[order], weight[order])).values(),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


@given(st.integers(0, 1000))
def test_weight_k_is_the_row_k_times(seed):
    X, Y, _ = some_rows(seed)
    counts = np.random.default_rng(seed).integers(0, 4, size=len(X))
    once = canonical(X, Y, counts.astype(float))
    often = canonical(X.repeat(counts, 0), Y.repeat(counts, 0), np.ones(counts.sum()))
    for a, b in zip(vars(once).values(), vars(often).values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_equal_inputs_with_other_targets_stay_apart():
    rows = canonical(np.zeros((3, 2)), np.array([[0.0], [1.0], [0.0]]), np.ones(3))
    assert sorted(zip(rows.Y[:, 0], rows.weight, strict=True)) == [(0, 2), (1, 1)]


def test_rows_merge_across_the_borders_of_chunks(monkeypatch):
    monkeypatch.setattr("tikhonet.estimators.rows.CHUNK", 2)
    rows = canonical(np.array([[1.0], [2.0]]).repeat(5, 0), np.zeros((10, 1)), np.ones(10))
    assert sorted(rows.weight) == [5, 5]


def test_fingerprints_tell_rows_apart_and_zeros_not():
    X = np.random.default_rng(0).integers(0, 50, size=(5000, 3)).astype(float)
    assert len(np.unique(fingerprint(X))) == len(np.unique(X, axis=0))
    assert len(np.unique(fingerprint(X.astype(np.float32)))) == len(np.unique(X, axis=0))
    assert fingerprint(np.array([[-0.0]])) == fingerprint(np.array([[0.0]]))


@pytest.mark.parametrize("factor", [2.0**-10, 1.0, 2.0**10])
def test_scaled_features_do_not_depend_on_units(factor):
    X = np.random.default_rng(0).normal(size=(50, 2))
    weight = np.ones(50)
    np.testing.assert_array_equal(Scaling.fit(X, weight)(X), Scaling.fit(X * [factor, 1], weight)(X * [factor, 1]))


@pytest.mark.parametrize("share", [0.01, 0.1, 0.4])
def test_what_is_mostly_zero_is_measured_by_its_other_values(share):
    """The scale of rare ones hardly depends on how rare they are, and at one half it is the deviation."""
    rows = 1000
    X = np.zeros((rows, 2))
    X[: int(share * rows), 0] = 3.0
    X[: rows // 2, 1] = 3.0
    scaling = Scaling.fit(X, np.ones(rows))
    np.testing.assert_allclose(scaling.scale, [3 * np.sqrt((1 - share) / 2), 1.5])
    twice = Scaling.fit(X[: rows // 2], np.ones(rows // 2))  # the same column without half of its zeros
    assert twice.scale[0] == pytest.approx(scaling.scale[0], rel=0.5)


def test_spread_is_the_weighted_mean_and_deviation():
    X, weight = np.random.default_rng(0).normal(size=(50, 2)) + 5, np.arange(50.0)
    mean, deviation = spread(X, weight)
    np.testing.assert_allclose(mean, np.average(X, axis=0, weights=weight))
    np.testing.assert_allclose(deviation**2, np.cov(X.T, aweights=weight, ddof=0).diagonal())


def test_constant_features_are_zero_whatever_comes_later():
    X = np.full((20, 1), 0.1)
    scaling = Scaling.fit(X, np.ones(20))
    np.testing.assert_array_equal(scaling(np.array([[0.1], [7.0], [-1e9]])), 0)


def test_outliers_stay_within_the_limit():
    X = np.r_[np.random.default_rng(0).normal(size=100), 1e150][:, None]
    scaling = Scaling.fit(X, np.ones(101))
    assert np.isfinite(scaling(X)).all()
    assert scaling(X).max() <= 5
