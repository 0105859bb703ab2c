"""Several labels a row: learned, judged, saved and exported like classes."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import log_loss

from tests.estimators.samples import QUICK, blobs
from tests.model.export.compiling import needs_gcc, run_c
from tikhonet import BCDClassifier, load


def table(rows=400):
    X, Y = make_multilabel_classification(rows + 400, n_features=10, n_classes=3, random_state=0)
    return X[:rows], Y[:rows], X[rows:], Y[rows:]


def test_labels_are_predicted_better_than_by_their_shares():
    X, Y, X_test, Y_test = table()
    model = BCDClassifier(random_state=0).fit(X, Y)
    P = model.predict_proba(X_test)
    assert P.shape == Y_test.shape
    np.testing.assert_array_equal(model.predict(X_test), P > 0.5)
    np.testing.assert_allclose(model.predict_log_proba(X_test), np.log(P))
    np.testing.assert_array_equal(model.decision_function(X_test) > 0, P > 0.5)
    for k in range(3):
        assert log_loss(Y_test[:, k], P[:, k]) < 0.75 * log_loss(Y_test[:, k], np.full(400, Y[:, k].mean()))
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.feature_importances_.shape == (10,)


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
@pytest.mark.parametrize("metric", ["accuracy", "log_loss", "auc"])
def test_metrics_are_those_of_all_pairs_of_row_and_label(loss, metric):
    X, Y, X_test, Y_test = table(200)
    model = BCDClassifier(loss=loss, eval_metric=metric, **QUICK).fit(X, csr_array(Y), eval_set=[(X_test, Y_test)])
    best = max(epoch.metric * (-1 if metric == "log_loss" else 1) for epoch in model.history_)
    assert best > {"accuracy": 0.7, "log_loss": -0.6, "auc": 0.75}[metric]
    assert np.isnan(model.history_[0].validation_error)


def test_files_and_exports_give_the_same_probabilities(tmp_path):
    X, Y, _, _ = table(120)
    model = BCDClassifier(**QUICK).fit(X, Y)
    wanted = model.predict_proba(X)
    model.save(tmp_path / "a.model")
    again = load(tmp_path / "a.model")
    np.testing.assert_array_equal(again.predict_proba(X), wanted)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_allclose(model.to_torch()(torch.from_numpy(X)).detach(), wanted, atol=1e-5)
    np.testing.assert_allclose(model.to_csr().predict(X), wanted, atol=1e-4)


@needs_gcc
def test_exported_c_gives_probabilities(tmp_path):
    X, Y, _, _ = table(120)
    model = BCDClassifier(**QUICK).fit(X, Y)
    scores, _ = run_c(model.to_c(), model.model_, X[:20], tmp_path)
    np.testing.assert_allclose(scores, model.predict_proba(X[:20]), atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": "svm"}, 'head must be "logistic" where rows have several labels'),
        ({"loss": "softmax"}, "is for one class a row"),
        ({"class_weight": "balanced"}, "class_weight must be None"),
        ({"decision": "energy"}, 'decision must be "forward"'),
    ],
)
def test_what_is_for_one_class_a_row_is_refused(options, message):
    X, Y, _, _ = table(100)
    with pytest.raises(ValueError, match=message):
        BCDClassifier(**options, **QUICK).fit(X, Y)


def test_streams_have_one_class_a_row():
    X, Y, _, _ = table(100)
    model = BCDClassifier(**QUICK).fit(X, Y)
    with pytest.raises(ValueError, match="one class a row"):
        model.partial_fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="y should be a 1d array"):
        BCDClassifier(**QUICK).partial_fit(*blobs()[:1], np.eye(3)[blobs()[1]], classes=[0, 1, 2])
