"""Importances of columns: total effects with known values, folded over inputs, in files, beside permutation."""

import pickle

import numpy as np
import pytest
from sklearn.feature_selection import SelectFromModel
from sklearn.inspection import permutation_importance

from tests.estimators.samples import QUICK, blobs
from tikhonet import BCDClassifier, BCDFeatures, BCDRegressor, load


def test_shares_of_a_sum_of_independent_columns_are_those_of_its_variance():
    X = np.random.default_rng(0).normal(size=(2000, 3))
    model = BCDRegressor(random_state=0, n_bins=0).fit(X, 2 * X[:, 0] + X[:, 1])
    np.testing.assert_allclose(model.feature_importances_, [0.8, 0.2, 0.0], atol=0.04)


def test_all_inputs_of_a_column_count_as_one():
    rng = np.random.default_rng(0)
    kinds, number, noise = rng.integers(5, size=400), rng.normal(size=400), rng.normal(size=400)
    y = np.isin(kinds, [1, 3]) ^ (np.abs(number) > 2)
    X = np.array([(f"kind {k}", *values) for k, *values in zip(kinds, number, noise, strict=True)], dtype=object)
    model = BCDClassifier(random_state=0).fit(X, y)
    assert model.feature_importances_.shape == (3,)
    assert model.feature_importances_.argmax() == 0
    assert model.feature_importances_.argmin() == 2
    assert model.feature_importances_.sum() == pytest.approx(1)
    found = permutation_importance(model, X[:100], y[:100], n_repeats=2, random_state=0)
    assert found.importances_mean.argmax() == 0


def test_files_keep_importances_and_pickles_those_that_were_asked_for(tmp_path):
    X, y = blobs()
    model = BCDClassifier(**QUICK).fit(X, y)
    with pytest.raises(AttributeError, match="needs training rows"):
        _ = pickle.loads(pickle.dumps(model)).feature_importances_
    model.save(tmp_path / "a.model")
    np.testing.assert_array_equal(load(tmp_path / "a.model").feature_importances_, model.feature_importances_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).feature_importances_, model.feature_importances_)
    assert SelectFromModel(BCDClassifier(**QUICK), max_features=2, threshold=-np.inf).fit_transform(X, y).shape[1] == 2
    assert not hasattr(BCDFeatures(**QUICK).fit(X, y), "feature_importances_")


def test_constant_inputs_have_no_importance():
    with pytest.warns(UserWarning, match="constant"):
        model = BCDRegressor(**QUICK).fit(np.ones((50, 2)), np.arange(50.0))
    assert model.feature_importances_.tolist() == [0, 0]
