"""What scikit-learn users rely on beyond its own checks."""

import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import InvalidParameterError

from tests.estimators.samples import QUICK, blobs, line
from tikhonet import Fenchel, Network, RowL1Ball, Softmax
from tikhonet.estimators import BCDClassifier, BCDFeatures, BCDRegressor
from tikhonet.hashing import BCDHasher


def test_constructors_only_store_and_clone_keeps_objects():
    network = Network.chain([4, 8], bias=True)
    model = BCDClassifier(network=network, loss=Softmax(), lift=Fenchel(), constraint=RowL1Ball(2.0))
    assert clone(model).get_params() == model.get_params() | {"network": network}
    assert BCDClassifier((30, 20)).hidden_layer_sizes == (30, 20)


def test_string_and_integer_labels_come_back_as_they_are():
    X, y = blobs()
    words = np.array(["ant", "bee", "cow"])[y]
    model = BCDClassifier(**QUICK).fit(X, words)
    assert list(model.classes_) == ["ant", "bee", "cow"]
    np.testing.assert_array_equal(
        model.predict(X), np.array(["ant", "bee", "cow"])[BCDClassifier(**QUICK).fit(X, y).predict(X)]
    )
    assert BCDClassifier(**QUICK).fit(X, y * 5 - 3).predict(X).dtype == y.dtype


def test_decision_function_and_probabilities_agree():
    X, y = blobs()
    for labels, shape in ((y, (120, 3)), (y > 0, (120,))):
        model = BCDClassifier(**QUICK).fit(X, labels)
        scores, probabilities = model.decision_function(X), model.predict_proba(X)
        assert scores.shape == shape
        np.testing.assert_allclose(probabilities.sum(1), 1)
        np.testing.assert_array_equal(model.classes_[probabilities.argmax(1)], model.predict(X))
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(1)
        np.testing.assert_array_equal(model.classes_[best], model.predict(X))
        np.testing.assert_allclose(model.predict_log_proba(X), np.log(probabilities))


def test_several_targets_keep_their_shape():
    X, Y = line(outputs=3)
    assert BCDRegressor(**QUICK).fit(X, Y).predict(X).shape == Y.shape
    assert BCDRegressor(**QUICK).fit(X, Y[:, :1]).predict(X).shape == (150, 1)
    assert BCDRegressor(**QUICK).fit(X, Y[:, 0]).predict(X).shape == (150,)


@pytest.mark.parametrize(("frame", "kind"), [(pd.DataFrame, "pandas"), (pl.DataFrame, "polars")])
def test_frames_go_in_and_come_out_with_names(frame, kind):
    X, y = blobs()
    table = frame({f"x{j}": X[:, j] for j in range(4)})
    features = BCDFeatures(**QUICK).set_output(transform=kind).fit(table, y)
    assert list(features.feature_names_in_) == ["x0", "x1", "x2", "x3"]
    out = features.transform(table)
    assert isinstance(out, frame)
    assert list(out.columns) == list(features.get_feature_names_out()) == [f"bcdfeatures{i}" for i in range(16)]


def test_grid_search_pipelines_and_pickles():
    X, y = blobs()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), BCDClassifier(**QUICK)),
        {"bcdclassifier__hidden_layer_sizes": [(4,), (8,)]},
        cv=2,
    ).fit(X, y)
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(X), search.predict_proba(X))
    chain = make_pipeline(BCDFeatures(**QUICK), LogisticRegression(max_iter=1000)).fit(X, y)
    assert chain.score(X, y) > 0.8


def test_sample_weights_are_routed():
    X, y = blobs()
    weight = np.ones(len(y))
    with config_context(enable_metadata_routing=True):
        model = BCDClassifier(**QUICK).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scores = cross_validate(model, X, y, cv=2, params={"sample_weight": weight})
    assert np.isfinite(scores["test_score"]).all()


def test_html_names_the_estimator():
    assert "BCDClassifier" in BCDClassifier()._repr_html_()


@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_sparse_input_is_the_same_as_dense(make):
    X, y = blobs()
    X[X < 0] = 0
    model = BCDClassifier(**QUICK).fit(make(X), y)
    np.testing.assert_array_equal(model.predict_proba(make(X)), BCDClassifier(**QUICK).fit(X, y).predict_proba(X))


@pytest.mark.parametrize("rows", [2, 3])
def test_a_handful_of_rows_is_enough(rows):
    X = np.arange(rows, dtype=float)[:, None]
    assert BCDClassifier(**QUICK).fit(X, X[:, 0] > 0).score(X, X[:, 0] > 0) == 1
    assert np.isfinite(BCDRegressor(**QUICK).fit(X, X[:, 0]).predict(X)).all()


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"solver": "adam"}, ["solver", "stochastic", "proximal", "alg1", "adam"]),
        ({"head": "forest"}, ["head", "svm", "logistic", "forest"]),
        ({"hidden_layer_sizes": 0}, ["hidden_layer_sizes", "0"]),
        ({"validation_fraction": 1.5}, ["validation_fraction", "1.5"]),
        ({"dtype": "int8"}, ["dtype", "float32", "int8"]),
        ({"n_jobs": 0}, ["n_jobs", "0"]),
    ],
)
def test_bad_parameters_are_named_with_what_is_allowed_and_what_came(parameters, words):
    with pytest.raises(InvalidParameterError) as error:
        BCDClassifier(**parameters).fit(*blobs())
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize("Model", [BCDClassifier, BCDRegressor, BCDFeatures, BCDHasher])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"hidden_layer_sizes": ("a",)}, "hidden_layer_sizes must be whole numbers of at least 1, got ('a',)"),
        ({"hidden_layer_sizes": [[20, 3]]}, "hidden_layer_sizes must be whole numbers of at least 1, got [[20, 3]]"),
        ({"hidden_layer_sizes": (20.7,)}, "hidden_layer_sizes must be whole numbers of at least 1, got (20.7,)"),
        ({"hidden_layer_sizes": (np.inf,)}, "hidden_layer_sizes must be whole numbers of at least 1, got (inf,)"),
        ({"hidden_layer_sizes": ()}, "hidden_layer_sizes must be whole numbers of at least 1, got ()"),
        ({"hidden_layer_sizes": (0,)}, "hidden_layer_sizes must be whole numbers of at least 1, got (0,)"),
        ({"dropout": (0.1, 0.2, 0.3)}, "dropout must be a number or a pair (inputs, last features) from 0 to below 1"),
        ({"dropout": (0.1, 1.5)}, "from 0 to below 1, got (0.1, 1.5)"),
        ({"callbacks": ["a"]}, "callbacks must be callable, each of them, got 'a'"),
        ({"device": "abacus"}, "device must be a device of this machine (cpu"),
    ],
)
def test_bad_values_are_refused_before_training(Model, parameters, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Model(**parameters).fit(*blobs())


def test_whole_numbers_of_any_kind_are_widths():
    for sizes in (5, np.int64(5), (5.0,), np.array([5])):
        assert BCDClassifier(sizes, random_state=0).fit(*blobs()).network_.widths == (4, 5)


def test_a_device_that_is_gone_is_named_by_predictions():
    model = BCDClassifier(**QUICK).fit(*blobs()).set_params(device="abacus")
    with pytest.raises(ValueError, match=r"device must be a device of this machine .*, got 'abacus'"):
        model.predict(blobs()[0])


@pytest.mark.parametrize("Model", [BCDClassifier, BCDRegressor])
def test_bad_validation_data_are_named(Model):
    X, y = blobs()
    with pytest.raises(ValueError, match="y_val must go with X_val, got None"):
        Model().fit(X, y, X_val=X)
    with pytest.raises(ValueError, match="X_val must go with y_val, got None"):
        Model().fit(X, y, y_val=y)
    with pytest.raises(ValueError, match=r"X_val must have as many features as X \(4\), got shape \(120, 3\)"):
        Model().fit(X, y, X_val=X[:, 1:], y_val=y)


@pytest.mark.parametrize("Model", [BCDClassifier, BCDRegressor])
def test_validation_data_that_are_not_finite_or_not_as_long_are_named(Model):
    X, y = blobs()
    hole = np.where(np.arange(480).reshape(120, 4) == 7, np.inf, X)
    with pytest.raises(ValueError, match="Input X_val contains infinity"):
        Model().fit(X, y, X_val=hole, y_val=y)
    with pytest.raises(ValueError, match="Input y_val contains infinity"):
        Model().fit(X, y, X_val=X, y_val=hole[:, 3])
    with pytest.raises(ValueError, match="X_val and y_val must have the same number of rows, got 120 and 119"):
        Model().fit(X, y, X_val=X, y_val=y[1:])
    Model(**QUICK).fit(X, y, X_val=scipy.sparse.csr_array(X), y_val=y.tolist())


@pytest.mark.parametrize("weights", [{0: np.nan}, {0: np.inf}, {1: -1.0}, {0: 0, 1: 0, 2: 0}])
def test_weights_of_classes_that_are_none_are_named(weights):
    X, y = blobs()
    with pytest.raises(
        ValueError, match="class_weight must hold finite weights of at least 0, not 0 for all rows, got"
    ):
        BCDClassifier(class_weight=weights).fit(X, y)


def test_balanced_weights_take_calls_without_rows_of_all_classes():
    X, y = blobs()
    model = BCDClassifier(class_weight="balanced", **QUICK).fit(X, y)
    assert model.partial_fit(X[y < 2], y[y < 2]).score(X, y) > 0.85


@pytest.mark.parametrize("Model", [BCDClassifier, BCDRegressor, BCDFeatures, BCDHasher])
def test_weights_that_are_all_zero_are_named(Model):
    X, y = blobs()
    with pytest.raises(ValueError, match=r"(?i)sample.weights? must .* at least one"):
        Model().fit(X, y, np.zeros(len(y)))


def test_log_probabilities_are_finite():
    X, y = blobs(classes=2)
    far = X + 40 * (2 * y[:, None] - 1) * (X[y == 1].mean(0) - X[y == 0].mean(0))
    model = BCDClassifier(head="trained", **QUICK).fit(X, y)
    model._classes.sharpness["forward"] = 1e5
    assert (model.predict_proba(far) == 0).any()
    assert np.isfinite(model.predict_log_proba(far)).all()


def test_one_class_is_named_as_it_is_written():
    X, y = blobs()
    with pytest.raises(ValueError, match=r"got 1 class: 0$"):
        BCDClassifier().fit(X, np.zeros(len(X), int))
    with pytest.raises(ValueError, match=r"classes must hold at least 2 labels, got \[0\]"):
        BCDClassifier().partial_fit(X, 0 * y, classes=[0])


def test_bad_input_is_named():
    X, y = blobs()
    with pytest.raises(ValueError, match=r"network must take as many inputs as X has features \(4\), got 7"):
        BCDClassifier(network=Network.chain([7, 3])).fit(X, y)
    with pytest.raises(ValueError, match="at least 2 classes"):
        BCDClassifier().fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="classes must hold all class labels at the first call"):
        BCDClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="y_val must hold the classes"):
        BCDClassifier(**QUICK).fit(X, y, X_val=X, y_val=y + 1)
    with pytest.raises(ValueError, match="one column of classes"):
        BCDFeatures(target="classes").fit(X, np.c_[y, y])
    with pytest.raises(ValueError, match=r"y_val must have as many columns as y \(1\), got 2"):
        BCDRegressor().fit(X, y, X_val=X, y_val=np.c_[y, y])
