"""`partial_fit` after a fit, after a model file and after changed parameters; fits that fail."""

import copy
import pickle

import numpy as np
import pytest

from tests.estimators.samples import QUICK, blobs, line, rings
from tikhonet.estimators import BCDClassifier, BCDFeatures, BCDRegressor
from tikhonet.estimators import rows as rows_module
from tikhonet.estimators.rows import Memory, Rows, canonical, in_order
from tikhonet.hashing import BCDHasher

MODELS = {
    "logistic": lambda: BCDClassifier(random_state=0),
    "trained": lambda: BCDClassifier(head="trained", random_state=0),
    "energy": lambda: BCDClassifier((20,), decision="energy", random_state=0),
    "sparse": lambda: BCDClassifier(sparsity=0.2, random_state=0),
    "regressor": lambda: BCDRegressor(random_state=0),
}


def data(name):
    return line(200) if name == "regressor" else rings(400)


@pytest.mark.parametrize("name", MODELS)
def test_one_row_more_does_no_harm_after_a_fit(name):
    X, y = data(name)
    model = MODELS[name]().fit(X[:150], y[:150])
    before = model.score(X[150:], y[150:])
    assert before > 0.8
    model.partial_fit(X[:1], y[:1])
    assert model.score(X[150:], y[150:]) > before - 0.1


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("rows", [1, 40])
def test_a_few_rows_leave_a_loaded_model_as_it_is(name, rows, tmp_path):
    X, y = data(name)
    MODELS[name]().fit(X[:150], y[:150]).save(tmp_path / "model")
    loaded = type(MODELS[name]()).load(tmp_path / "model")
    before = loaded.predict(X)
    for start in range(2):
        loaded.partial_fit(X[start : start + rows], y[start : start + rows])
    np.testing.assert_array_equal(loaded.predict(X), before)


def test_a_loaded_model_makes_way_for_one_that_is_better(tmp_path):
    X, y = rings(600)
    BCDClassifier(random_state=0).fit(X[:60], y[:60]).save(tmp_path / "model")
    loaded = BCDClassifier.load(tmp_path / "model")
    before = loaded.score(X[400:], y[400:])
    for _ in range(5):
        loaded.partial_fit(X[60:400], y[60:400])
    assert loaded.score(X[400:], y[400:]) > before + 0.02


def test_a_good_model_stays_where_new_rows_make_no_better_one(tmp_path):
    X, y = rings(900)
    BCDClassifier(n_networks=1, random_state=0).fit(X[:600], y[:600]).save(tmp_path / "model")
    loaded = BCDClassifier.load(tmp_path / "model")
    before = loaded.predict_proba(X)
    wrong = np.random.default_rng(0).permutation(y[600:750])
    np.testing.assert_array_equal(loaded.partial_fit(X[600:750], wrong).predict_proba(X), before)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_pickles_of_a_fit_hold_no_rows_and_those_of_a_stream_do(duplicate):
    X, y = rings()
    model = BCDClassifier(**QUICK).fit(X, y)
    assert model._fitted.memory.rows is not None
    assert duplicate(model)._fitted.memory.rows is None
    assert not duplicate(model)._fitted.memory.whole
    model.partial_fit(X, y)
    one, other = duplicate(model).partial_fit(X[:5], y[:5]), model.partial_fit(X[:5], y[:5])
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_the_rows_remembered_are_a_uniform_sample_of_fit_and_stream(monkeypatch):
    monkeypatch.setattr(rows_module, "MEMORY", 200)
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(3000, 2)), np.repeat([0.0, 1.0], [2000, 1000])[:, None]
    parts = [in_order(canonical(X[part], Y[part], np.ones(len(X[part])))) for part in (slice(2000), slice(2000, None))]
    rows = Memory.after_fit(None, parts[0], 1.0).with_rows(parts[1])
    assert len(rows) == 200
    assert rows.Y.mean() == pytest.approx(1 / 3, abs=0.1)


def test_partial_fit_names_what_does_not_fit_the_last_fit():
    X, Y = line(outputs=2)
    model = BCDRegressor(n_bins=0, **QUICK).fit(X, Y)
    with pytest.raises(ValueError, match=r"y must have as many columns as in the last fit \(2\), got 1; use fit"):
        model.partial_fit(X, Y[:, 0])
    model.set_params(hidden_layer_sizes=(30,))
    with pytest.raises(ValueError, match=r"hidden_layer_sizes, network and skip .* \(5, 16\), got \(5, 30\); use fit"):
        model.partial_fit(X, Y)


def test_one_column_and_another_type_are_taken_as_they_were():
    X, y = line()
    model = BCDRegressor(**QUICK).fit(X, y).partial_fit(X, y[:, None])
    assert model.predict(X).shape == (150,)
    for dtype in ("float64", "float32"):
        model.set_params(dtype=dtype).partial_fit(X, y)
        assert model.coefs_[1, 0].dtype == dtype
        assert model.score(X, y) > 0.9


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["stochastic", "proximal", "alg1"])
def test_warm_start_takes_another_number_of_targets(solver):
    X, Y = line(outputs=3)
    model = BCDRegressor(solver=solver, warm_start=True, max_iter=30, **QUICK).fit(X, Y[:, 0])
    assert model.fit(X, Y).predict(X).shape == Y.shape
    assert model.score(X, Y) > 0.5


@pytest.mark.parametrize("Model", [BCDClassifier, BCDRegressor, BCDFeatures, BCDHasher])
def test_a_fit_that_fails_leaves_the_last_one_whole(Model):
    X, y = blobs()
    model = Model(**QUICK).fit(X, y)
    before = dict(vars(model))
    wrong = {"sample_weight": -np.ones(len(y))}
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X[:, :2], np.c_[y, y] if Model is BCDRegressor else y + 1, **wrong)
    assert vars(model) == before


def test_a_refit_that_fails_on_its_validation_data_keeps_the_classes():
    X, y = blobs()
    model = BCDClassifier(**QUICK).fit(X, y)
    with pytest.raises(ValueError, match="y_val must hold the classes"):
        model.fit(X, np.array(["a", "b", "c"])[y], X_val=X, y_val=y)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])


def test_order_has_nothing_to_do_with_rounding():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3)).astype(np.float32)
    Y, weight = np.arange(500.0)[:, None], np.ones(500)
    near = np.nextafter(X, np.float32(9))
    for other in (near, X.astype(np.float64)):
        np.testing.assert_array_equal(in_order(Rows(other, Y, weight)).Y, in_order(Rows(X, Y, weight)).Y)
    close = Rows(1e-7 * rng.permutation(500)[:, None], Y, weight)
    assert (np.diff(in_order(close).X[:, 0]) > 0).all()
