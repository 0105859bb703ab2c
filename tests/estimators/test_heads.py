import re

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.cross_decomposition import PLSRegression
from sklearn.linear_model import (
    BayesianRidge,
    Lasso,
    LassoLars,
    LogisticRegression,
    Ridge,
    RidgeClassifier,
    SGDRegressor,
    TweedieRegressor,
)
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVC, LinearSVC

from tests.estimators.samples import QUICK, blobs, line
from tikhonet.estimators import BCDClassifier, BCDRegressor
from tikhonet.model.head_data import HeadData, cross_entropy, sharpness
from tikhonet.model.heads import SVM, Logistic
from tikhonet.model.heads import Ridge as RidgeHead

NO_V = np.zeros((0, 0))
HEADS = ["logistic", "svm", "ridge", "trained", LinearSVC(C=0.1), RidgeClassifier(), LogisticRegression(C=3.0)]


def head_data(X, y, weight=None):
    return HeadData(lambda: X, np.asarray(y, float).reshape(len(X), -1), np.ones(len(X)) if weight is None else weight)


@pytest.mark.parametrize("head", HEADS, ids=str)
@pytest.mark.parametrize("classes", [2, 3])
def test_every_head_classifies_and_gives_probabilities(head, classes):
    X, y = blobs(classes=classes)
    model = BCDClassifier(head=head, **QUICK).fit(X, y)
    assert model.score(X, y) > 0.85
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)


@pytest.mark.parametrize("head", ["ridge", "trained", Lasso(alpha=1e-4)], ids=str)
def test_every_head_predicts_numbers(head):
    X, y = line()
    assert BCDRegressor(head=head, **QUICK).fit(X, y).score(X, y) > 0.7


@pytest.mark.parametrize(("head", "classes"), [(SVC(), 2), (SVC(kernel="linear"), 3), (SVC(kernel="linear"), 4)])
def test_a_classifier_without_a_row_for_each_class_is_refused(head, classes):
    words = rf"head must have one row of coef_ for each class, got {re.escape(str(head))}; use LinearSVC"
    with pytest.raises(ValueError, match=words):
        BCDClassifier(head=head, **QUICK).fit(*blobs(classes=classes))


def test_a_regressor_that_is_not_linear_is_refused():
    with pytest.raises(
        ValueError, match=r"head must have one row of coef_ for each target, .* got KNeighborsRegressor\(\); use"
    ):
        BCDRegressor(head=KNeighborsRegressor(), **QUICK).fit(*line())


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("head", [PLSRegression(2), TweedieRegressor(power=0, link="log")], ids=str)
def test_a_regressor_whose_predictions_are_not_its_coefficients_is_refused(head, outputs):
    if outputs == 2 and isinstance(head, TweedieRegressor):
        pytest.skip("it takes one target only")
    words = rf"head must have one row of coef_ for each target, and predict by it, got {re.escape(str(head))}"
    with pytest.raises(ValueError, match=words):
        BCDRegressor(head=head, **QUICK).fit(*line(outputs=outputs))


@pytest.mark.parametrize("head", [LassoLars(alpha=1e-4), SGDRegressor(random_state=0), BayesianRidge()], ids=str)
def test_regressors_of_one_target_get_a_vector(head):
    X, y = line()
    model = BCDRegressor(head=head, **QUICK).fit(X, y)
    assert model.score(X, y) > 0.7
    assert model.predict(X).shape == y.shape


def test_a_head_without_intercept_is_saved_with_one_for_each_target(tmp_path):
    X, Y = line(outputs=2)
    model = BCDRegressor(head=Ridge(fit_intercept=False), **QUICK).fit(X, Y)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(BCDRegressor.load(tmp_path / "model").predict(X), model.predict(X))


def test_ridge_is_the_minimiser():
    X, y = line()
    weight = np.random.default_rng(0).random(len(y))
    head = RidgeHead(NO_V).fit(head_data(X, y, weight), 1e-3)
    share = weight / weight.sum()
    centred = X - share @ X
    level = 1e-3 * np.trace((centred * share[:, None]).T @ centred)
    residual = share * (head(X)[:, 0] - y)
    np.testing.assert_allclose(residual.sum(), 0, atol=1e-9)
    np.testing.assert_allclose(residual @ X + level * head.coef[0], 0, atol=1e-7)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_svm_is_linear_svc(classes):
    X, y = blobs(classes=classes)
    data = head_data(X, y)
    head = SVM(NO_V, classes).fit(data, 1.0)
    reference = LinearSVC(C=1.0, tol=1e-8, max_iter=100000, intercept_scaling=1e3).fit(X / data.norm, y)
    scores = head(X)[:, 1] - head(X)[:, 0] if classes == 2 else head(X)
    np.testing.assert_allclose(scores, reference.decision_function(X / data.norm), atol=2e-2)


def test_a_strength_is_chosen_on_the_rows_to_judge_by():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 40)), rng.integers(0, 2, 300)  # nothing to learn: the more regularised, the better
    data = head_data(X, y)
    assert Logistic(NO_V, 2).choose(data.take(slice(200)), data.take(slice(200, None)), 300.0) == 0.3
    y = (X[:, 0] > 0).astype(int)  # everything to learn
    data = head_data(X, y)
    assert Logistic(NO_V, 2).choose(data.take(slice(200)), data.take(slice(200, None)), 300.0) > 10


def test_a_class_without_rows_is_never_predicted():
    X, y = blobs()
    head = Logistic(NO_V, 4).fit(head_data(X[y < 2], y[y < 2]), 1.0)
    assert set(head(X).argmax(1)) == {0, 1}


def test_sharpness_is_the_minimiser_and_has_no_units():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(2000, 3))
    labels = np.array([rng.choice(3, p=p) for p in np.exp(log_softmax(4 * scores, axis=1))])
    data = head_data(scores, labels)
    s = sharpness(scores, data)
    assert s == pytest.approx(4, rel=0.1)
    assert sharpness(1000 * scores, data) == pytest.approx(s / 1000, rel=1e-3)
    assert cross_entropy(s * scores, data) <= min(cross_entropy(t * s * scores, data) for t in (0.9, 1.1))


def test_a_few_rows_that_are_all_right_are_no_certainty():
    scores = np.eye(3)
    assert np.exp(log_softmax(sharpness(scores, head_data(scores, np.arange(3))) * scores, axis=1)).max() < 0.95


def test_probabilities_are_honest_where_classes_overlap():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    y = (rng.random(1500) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
    probability = BCDClassifier(random_state=0).fit(X[:1000], y[:1000]).predict_proba(X[1000:])[:, 1]
    bins = np.digitize(probability, [0.2, 0.4, 0.6, 0.8])
    gaps = [abs(probability[bins == b].mean() - y[1000:][bins == b].mean()) for b in range(5)]
    assert np.average(gaps, weights=np.bincount(bins, minlength=5)) < 0.08
