"""Units in which rows are near to each other: as given, or of each column's own spread."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tikhonet.hashing import BCDHasher, neighbour_recall
from tikhonet.hashing.neighbours import alike

SMALL = {"hidden_layer_sizes": (32,), "n_bits": 32, "random_state": 0}


def found(hasher, X, base=1000):
    """The share of the ten nearest rows, as given, that come first."""
    codes = hasher.transform(X)
    return neighbour_recall(codes[base:], X[base:], codes[:base], X[:base], k=10).expected


@pytest.fixture(scope="module")
def gaussian():
    """Principal components of embeddings: spreads from 1 down to 1/64."""
    return np.random.default_rng(0).normal(size=(1200, 64)) / np.arange(1, 65)


@pytest.fixture(scope="module")
def digits():
    """The digits, and the same ones turned onto their principal axes: all distances are the same."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[:1200]
    X = X[order] - X[order].mean(0)
    return X, X @ np.linalg.svd(X[:1000], full_matrices=False)[2].T, y[order]


def test_rows_as_given_keep_their_distances(gaussian):
    hasher = BCDHasher(**SMALL).fit(gaussian[:1000])
    assert hasher.mixture_.units == "given"
    assert found(hasher, gaussian) > 0.15 > 2 * found(BCDHasher(**SMALL, units="spread").fit(gaussian[:1000]), gaussian)


@pytest.mark.parametrize("options", [{"structure": 0.5}, {"structure": "open"}])
def test_a_rotation_leaves_the_neighbours_that_are_found_alone(digits, options):
    X, rotated, y = digits
    y = y[:1000] if options["structure"] == 0.5 else None

    def mean(rows):
        hashers = (BCDHasher(**SMALL | options | {"random_state": seed}).fit(rows[:1000], y) for seed in range(3))
        return np.mean([found(hasher, rows) for hasher in hashers])

    assert mean(rotated) > mean(X) - 0.03


def test_the_units_of_a_column_play_no_part_where_its_spread_is_the_unit(gaussian):
    options = SMALL | {"units": "spread", "structure": 0.5}
    X = gaussian[:300, :8]
    factors = 2.0 ** np.arange(-4, 4)
    codes = [BCDHasher(**options).fit(rows, X[:, 0] > 0).transform(rows) for rows in (X, X * factors)]
    np.testing.assert_array_equal(*codes)


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_rows_as_given_may_have_any_unit_and_constant_columns(gaussian, factor):
    X = np.hstack([gaussian[:300, :8], np.ones((300, 1))])
    for structure, y in ((0.5, X[:, 0] > 0), ("auto", None)):
        options = SMALL | {"structure": structure}
        codes, scaled = (BCDHasher(**options).fit(rows, y).transform(rows) for rows in (X, factor * X))
        assert (np.unpackbits(codes ^ scaled) != 0).mean() < 0.01


def test_columns_are_of_one_kind_where_their_names_differ_by_numbers_alone(gaussian):
    pandas = pytest.importorskip("pandas")
    assert alike(["x0", "x1", "x22"])
    assert alike(["1x1", "1x2"])
    assert not alike(["age", "height"])
    X, y = gaussian[:100, :2], gaussian[:100, 0] > 0
    for names, units in ((["emb_0", "emb_1"], "given"), (["age", "height"], "spread")):
        hasher = BCDHasher(**SMALL, structure=0.5).fit(pandas.DataFrame(X, columns=names), y)
        assert hasher.mixture_.units == units


def test_a_fit_that_goes_on_keeps_the_units_of_its_codes(gaussian, tmp_path):
    X, y = gaussian[:300, :8], gaussian[:300, 0] > 0
    hasher = BCDHasher(**SMALL, structure=0.5, warm_start=True).fit(X, y)
    before = hasher.transform(X)
    hasher.set_params(units="spread").fit(X, y)
    assert hasher.mixture_.units == "given"
    assert (np.unpackbits(before) != np.unpackbits(hasher.transform(X))).mean() < 0.1
    hasher.save(tmp_path / "my.hasher")
    assert BCDHasher.load(tmp_path / "my.hasher").mixture_.units == "given"
