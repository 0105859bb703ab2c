"""What epochs are judged by: metrics, several validation sets, what callbacks and plots see of them."""

import matplotlib
import numpy as np
import pytest
from scipy.special import softmax
from sklearn import metrics

from tests.estimators.samples import QUICK, blobs, line, rings
from tikhonet import BCDClassifier, BCDRegressor
from tikhonet.estimators.eval_metrics import EvalMetric, metric_names
from tikhonet.trainer.training import best_epoch

matplotlib.use("Agg")

REFERENCES = {
    "accuracy": lambda y, p, w: metrics.accuracy_score(y, p.argmax(1), sample_weight=w),
    "log_loss": lambda y, p, w: metrics.log_loss(y, p, sample_weight=w, labels=np.arange(p.shape[1])),
    "auc": lambda y, p, w: np.mean([metrics.roc_auc_score(y == k, p[:, k], sample_weight=w) for k in set(y)]),
    "r2": lambda y, p, w: metrics.r2_score(y, p, sample_weight=w),
    "mae": lambda y, p, w: metrics.mean_absolute_error(y, p, sample_weight=w),
    "rmse": lambda y, p, w: metrics.root_mean_squared_error(y, p, sample_weight=w),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_metrics_are_those_of_scikit_learn(name):
    rng = np.random.default_rng(0)
    if EvalMetric.kinds[name].for_classes:
        y, predicted = rng.integers(3, size=50), softmax(rng.normal(size=(50, 3)), axis=1)
    else:
        y, predicted = rng.normal(size=(2, 50, 2))
    weight = rng.random(50)
    assert EvalMetric.kinds[name]()(y, predicted, weight) == pytest.approx(REFERENCES[name](y, predicted, weight))


@pytest.mark.parametrize("name", metric_names(classes=True))
def test_the_best_epoch_of_a_classifier_is_the_one_with_the_best_metric(name):
    X, y = rings(300)
    y = np.where(np.random.default_rng(0).random(300) < 0.2, 1 - y, y)
    seen = []
    model = BCDClassifier(eval_metric=name, callbacks=seen.append, **QUICK).fit(X, y)
    found = [epoch.metric for epoch in model.history_]
    assert best_epoch(model.history_).metric == (max if EvalMetric.kinds[name].larger else min)(found)
    assert [epoch.metric for epoch in seen][: len(found)] == found


def test_a_metric_of_a_regressor_is_in_the_units_of_y():
    X, y = line(300)
    model = BCDRegressor(eval_metric="mae", n_networks=1, **QUICK).fit(X, 1000 + 50 * y, X_val=X, y_val=1000 + 50 * y)
    assert 0.2 < best_epoch(model.history_).metric / np.abs(model.predict(X) - 1000 - 50 * y).mean() < 5


def test_a_function_sees_labels_probabilities_and_weights():
    X, y = blobs(200)
    names, given = np.array(["a", "b", "c"])[y], []

    def own(y, predicted, sample_weight):
        given.append((set(y), predicted.shape, predicted.sum(1), sample_weight))
        return -len(given)

    model = BCDClassifier(eval_metric=own, class_weight={"a": 2, "b": 1, "c": 1}, **QUICK).fit(X, names)
    assert best_epoch(model.history_).number == 1
    labels, shape, sums, weight = given[0]
    assert labels == {"a", "b", "c"}
    assert shape == (30, 3)
    np.testing.assert_allclose(sums, 1)
    assert len(np.unique(weight)) == 2
    with pytest.raises(ValueError, match="eval_metric must return a number"):
        BCDRegressor(eval_metric=lambda y, predicted: "good", **QUICK).fit(*line())


def test_the_last_of_several_sets_decides_and_the_others_are_recorded():
    X, y = rings(400)
    train, other, judge = ((X[part], y[part]) for part in (slice(200), slice(200, 300), slice(300, 400)))
    model = BCDClassifier(eval_metric="log_loss", **QUICK).fit(*train, eval_set=[train, other, judge])
    alone = BCDClassifier(eval_metric="log_loss", **QUICK).fit(*train, X_val=judge[0], y_val=judge[1])
    np.testing.assert_array_equal(model.predict_proba(X), alone.predict_proba(X))
    assert all(len(epoch.validation) == 3 for epoch in model.history_)
    axes = model.plot()
    assert [ax.get_ylabel() for ax in axes] == ["loss", "log_loss"]
    assert [len(ax.lines) for ax in axes] == [5, 4]  # training, three sets, the best epoch
    assert [ax.get_ylabel() for ax in alone.set_params(eval_metric=None).fit(*train).plot()] == ["loss", "error"]


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ({"eval_set": []}, "must be a list of pairs"),
        ({"eval_set": [1]}, "must be a list of pairs"),
        ({"eval_set": [(line()[0][:, :2], line()[1])]}, r"eval_set\[0\]\[0\] must have as many features as X \(5\)"),
        ({"eval_set": [line(), (line()[0], [1])]}, r"eval_set\[1\]\[0\] and .* same number of rows, got 150 and 1"),
        ({"eval_set": [line()], "X_val": line()[0]}, "got both; make them the last of eval_set"),
        ({"eval_set": [line(outputs=2)]}, r"eval_set\[0\]\[1\] must have as many columns as y \(1\), got 2"),
    ],
)
def test_sets_that_do_not_fit_are_named(sets, message):
    with pytest.raises(ValueError, match=message):
        BCDRegressor(**QUICK).fit(*line(), **sets)


def test_metrics_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="a str among"):
        BCDRegressor(eval_metric="accuracy").fit(*line())
    with pytest.raises(ValueError, match='needs solver="stochastic"'):
        BCDClassifier(eval_metric="auc", solver="proximal").fit(*blobs())
    X, y = rings(100)
    with pytest.raises(ValueError, match="needs validation rows of at least two classes"):
        BCDClassifier(eval_metric="auc").fit(X, y, X_val=X[:1], y_val=y[:1])
