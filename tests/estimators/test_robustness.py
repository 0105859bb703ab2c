"""Point by point: units, order, names of classes, and awkward data leave the accuracy where it was."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import balanced_accuracy_score

from tests.estimators.samples import QUICK, blobs, line, rings
from tikhonet.estimators import BCDClassifier, BCDFeatures, BCDRegressor


@pytest.mark.parametrize("exponents", [(-3, 3), (3, -3), (3, 0)])
def test_units_of_features_do_not_matter(exponents):
    X, y = rings()
    factors = 10.0 ** np.array(exponents)
    before, after = BCDClassifier(random_state=0).fit(X, y), BCDClassifier(random_state=0).fit(X * factors, y)
    assert before.score(X, y) > 0.9
    np.testing.assert_allclose(after.predict_proba(X * factors), before.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize("factor", [3.7, 4.0, 1e5])
def test_units_of_real_data_change_rounding_only(factor):
    X, y = load_breast_cancer(return_X_y=True)
    settings = {"hidden_layer_sizes": (20,), "random_state": 0, "max_iter": 30}
    before, after = BCDClassifier(**settings).fit(X, y), BCDClassifier(**settings).fit(factor * X, y)
    # One number of X rounds to its neighbour in float32, and sixty epochs of long steps make 1e-3 of it.
    np.testing.assert_allclose(after.predict_proba(factor * X), before.predict_proba(X), atol=2e-3)


def test_units_of_targets_do_not_matter():
    X, y = line()
    before, after = BCDRegressor(**QUICK).fit(X, y), BCDRegressor(**QUICK).fit(X, 1024 * y)
    np.testing.assert_allclose(after.predict(X), 1024 * before.predict(X), rtol=1e-9)


@pytest.mark.parametrize("Model", [BCDClassifier, BCDRegressor, BCDFeatures])
def test_permuting_rows_changes_nothing_to_the_bit(Model):
    X, y = blobs()
    order = np.random.default_rng(0).permutation(len(y))
    before, after = Model(**QUICK).fit(X, y), Model(**QUICK).fit(X[order], y[order])
    np.testing.assert_array_equal(before.transform(X), after.transform(X))


@pytest.mark.parametrize("Model", [BCDClassifier, BCDRegressor])
def test_weight_two_is_the_row_twice_to_the_bit(Model):
    X, y = blobs()
    counts = np.random.default_rng(0).integers(0, 3, size=len(y))
    weighted = Model(**QUICK).fit(X, y, sample_weight=counts)
    repeated = Model(**QUICK).fit(X.repeat(counts, 0), y.repeat(counts))
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))


def test_relabelling_classes_permutes_the_probabilities():
    X, y = blobs()
    names = np.array([2, 0, 1])
    before, after = BCDClassifier(**QUICK).fit(X, y), BCDClassifier(**QUICK).fit(X, names[y])
    np.testing.assert_allclose(after.predict_proba(X)[:, names], before.predict_proba(X), atol=0.02)


def test_constant_and_duplicate_columns_do_no_harm():
    X, y = rings()
    wide = np.c_[X, np.full(len(X), 3.0), X, np.zeros(len(X))]
    model = BCDClassifier(random_state=0).fit(wide, y)
    assert model.score(wide, y) > 0.9
    with pytest.warns(UserWarning, match="all features of X are constant, so that every row gets the same prediction"):
        constant = BCDRegressor(**QUICK).fit(np.ones((30, 2)), np.arange(30))
    assert constant.predict(np.ones((1, 2))) == pytest.approx(14.5)


def test_heavy_imbalance_is_learned_with_balanced_weights():
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(size=(990, 2)), rng.normal(size=(10, 2)) + 4]
    y = np.r_[np.zeros(990), np.ones(10)]
    model = BCDClassifier(class_weight="balanced", random_state=0).fit(X, y)
    assert balanced_accuracy_score(y, model.predict(X)) > 0.95
    assert BCDClassifier(random_state=0).fit(X, y).score(X, y) > 0.99


def test_a_class_weight_moves_the_decision():
    X, y = blobs(classes=2, features=2)
    X += np.random.default_rng(0).normal(size=X.shape) * 4
    shares = [
        np.mean(BCDClassifier(class_weight={0: w, 1: 1}, **QUICK).fit(X, y).predict(X) == 0) for w in (0.01, 1, 100)
    ]
    assert shares[0] < shares[1] < shares[2]


def test_more_features_than_rows():
    X, y = blobs(rows=40, features=300)
    assert BCDClassifier(random_state=0).fit(X, y).score(*blobs(rows=40, features=300)) == 1


def test_one_feature():
    X = np.linspace(-1, 1, 200)[:, None]
    assert BCDClassifier(random_state=0).fit(X, np.abs(X[:, 0]) > 0.5).score(X, np.abs(X[:, 0]) > 0.5) > 0.95
    assert BCDRegressor(random_state=0).fit(X, X[:, 0] ** 2).score(X, X[:, 0] ** 2) > 0.95


def test_two_hundred_classes():
    rng = np.random.default_rng(0)
    centres, y = rng.normal(size=(200, 20)), np.arange(1000) % 200
    X = centres[y] + 0.05 * rng.normal(size=(1000, 20))
    model = BCDClassifier(head="ridge", random_state=0).fit(X, y)
    assert model.predict_proba(X).shape == (1000, 200)
    assert model.score(X, y) > 0.9


def test_a_circle_is_learned():
    X, y = rings(600)
    assert BCDClassifier(random_state=0).fit(X[:400], y[:400]).score(X[400:], y[400:]) > 0.93
