"""`monotonic_cst`: predictions that rise or fall with columns, for every row."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

from tikhonet import BCDClassifier, BCDRegressor, Conv2d, Network
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.sets import Signed

pytestmark = pytest.mark.filterwarnings("ignore::tikhonet.estimators.stopping.StoppedShort")
CST = [1, -1, 0, 0]
ULPS = 4 * np.finfo(float).eps


def table(rows=400, seed=0):
    """Noisy numbers that rise with the first column and fall with the second, of which some are missing."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 4))
    y = np.tanh(2 * X[:, 0]) - np.exp(X[:, 1] / 2) * (1.2 + np.sin(X[:, 2])) + X[:, 3] ** 2 / 2
    y += random.normal(size=rows) * 0.7
    X[random.random(X.shape) < 0.03] = np.nan
    return X, y


def least_rise(predict, seed=1, rows=2000):
    """The least change of predictions where one column moves in its direction, by little or by much."""
    random = np.random.default_rng(seed)
    X = 2 * random.normal(size=(rows, 4))
    X[:, 3][random.random(rows) < 0.1] = np.nan
    changes = []
    for column in (0, 1):
        moved = X.copy()
        moved[:, column] += CST[column] * 10.0 ** random.uniform(-17, 1, rows)
        changes.append(predict(moved) - predict(X))
    return float(np.min(changes))


@pytest.mark.parametrize(
    "options",
    [
        {"n_networks": 2},
        {"n_networks": 1, "n_bins": 8, "hidden_layer_sizes": (30, 20), "loss": "huber"},
        {"n_networks": 1, "n_bins": 0, "head": "trained"},
        {"loss": "poisson", "n_networks": 1, "activation": "clipped_relu"},
    ],
)
def test_numbers_rise_and_fall_with_their_columns(options, tmp_path):
    X, y = table()
    y = np.maximum(np.round(y), 0) if options.get("loss") == "poisson" else y
    model = BCDRegressor(monotonic_cst=CST, max_iter=15, random_state=0, **options).fit(X, y)
    assert np.ptp(model.predict(X)) > 0
    unit = np.abs(model.predict(X)).max()
    assert least_rise(model.predict) >= -ULPS * unit
    model.save(tmp_path / "my.model")
    loaded = BCDRegressor.load(tmp_path / "my.model")
    assert loaded.monotonic_cst == CST
    assert least_rise(loaded.predict, seed=2) >= -ULPS * unit


@pytest.mark.parametrize(
    "options", [{"n_networks": 2}, {"n_networks": 1, "loss": "logistic", "hidden_layer_sizes": (30, 20)}]
)
def test_probabilities_of_the_second_class_rise_and_fall_with_their_columns(options):
    X, y = table()
    model = BCDClassifier(monotonic_cst=CST, max_iter=15, random_state=0, **options).fit(X, np.where(y > 0, "b", "a"))
    assert np.ptp(model.decision_function(X)) > 1
    assert least_rise(model.decision_function) >= -ULPS * np.abs(model.decision_function(X)).max()
    assert least_rise(lambda X: model.predict_proba(X)[:, 1]) >= -ULPS
    assert least_rise(lambda X: (model.predict(X) == "b").astype(int)) == 0


def test_without_it_they_do_not():
    X, y = table()
    assert least_rise(BCDRegressor(max_iter=15, random_state=0).fit(X, y).predict) < -1e-3


def test_columns_are_named_by_a_dict_and_the_weights_of_other_columns_have_both_signs():
    X, y = table()
    frame = pd.DataFrame(X, columns=list("abcd")).assign(e=np.where(X[:, 2] > 0, "x", "y"))
    options = {"n_bins": 4, "n_networks": 1, "max_iter": 5, "random_state": 0}
    named = BCDRegressor(monotonic_cst={"b": -1, "a": 1}, **options).fit(frame, y)
    assert np.array_equal(
        named.predict(frame), BCDRegressor(monotonic_cst=[*CST, 0], **options).fit(frame, y).predict(frame)
    )
    W = named.coefs_[1, 0]
    turns = np.where(np.arange(len(W)) % 2, -1, 1)
    assert (W[:, :2] * np.outer(turns, [1, -1]) >= 0).all()
    assert set(np.sign(W[:, 2:4]).ravel()) >= {-1, 1}
    assert (named.model_.head.coef * turns >= 0).all()


def test_data_that_are_monotone_are_learned_as_well_as_without():
    (X, y), (X_test, y_test) = table(800), table(3000, seed=5)
    plain, bound = (BCDRegressor(monotonic_cst=cst, random_state=0).fit(X, y) for cst in (None, CST))
    assert r2_score(y_test, bound.predict(X_test)) >= r2_score(y_test, plain.predict(X_test)) - 0.02


def test_signs_of_zero_change_nothing():
    X, y = table(150)
    first, second = (BCDRegressor(monotonic_cst=cst, max_iter=3, random_state=0).fit(X, y) for cst in (None, [0] * 4))
    assert np.array_equal(first.predict(X), second.predict(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"monotonic_cst": [1, 0]}, "shape"),
        ({"monotonic_cst": [2, 0, 0, 0]}, "-1, 0"),
        ({"monotonic_cst": {"a": 1}}, "feature names"),
        ({"solver": "proximal"}, "solver"),
        ({"sparsity": 0.1}, "sparsity"),
        ({"constraint": "l1"}, "constraint"),
        ({"skip": True}, "skip"),
        ({"network": Network.sequential((1, 2, 2), Conv2d(2, 1), 3)}, "network"),
        ({"head": "svm"}, "head"),
        ({"decision": "energy"}, "decision"),
    ],
)
def test_what_it_does_not_cover_is_refused(options, message):
    X, y = table(100)
    with pytest.raises(ArgumentError, match=message) as caught:
        BCDClassifier(**{"monotonic_cst": CST} | options).fit(np.nan_to_num(X), y > 0)
    assert caught.value.argument == "monotonic_cst"


def test_other_targets_dates_and_partial_fit_are_refused():
    X, y = table(100)
    dated = pd.DataFrame({"a": X[:, 0], "b": pd.date_range("2024-01-01", periods=100)})
    for call in (
        lambda: BCDClassifier(monotonic_cst=CST).fit(X, np.digitize(y, [-1, 0])),
        lambda: BCDClassifier(monotonic_cst=CST).fit(X, np.column_stack([y > 0, y > 1])),
        lambda: BCDRegressor(monotonic_cst=CST).fit(X, np.column_stack([y, y])),
        lambda: BCDRegressor(monotonic_cst=[0, 1]).fit(dated, y),
        lambda: BCDRegressor(monotonic_cst=CST).partial_fit(X, y),
    ):
        with pytest.raises(ArgumentError) as caught:
            call()
        assert caught.value.argument == "monotonic_cst"


def test_signs_hold_within_a_memory_budget_too():
    X, y = table(300)
    model = BCDRegressor(monotonic_cst=CST, memory_budget="1GB", random_state=0).fit(X, y)
    assert least_rise(model.predict) >= -ULPS * np.abs(model.predict(X)).max()
    assert r2_score(y, model.predict(X)) > 0.5


def test_the_set_of_signs_keeps_what_has_them_and_makes_the_rest_zero():
    M = torch.tensor([[-1.0, 2.0, -3.0], [4.0, -5.0, 6.0]])
    signs = Signed(torch.tensor([[1, 1, 0], [-1, -1, 0]]))
    assert signs.project(M).tolist() == [[0.0, 2.0, -3.0], [0.0, -5.0, 6.0]]
    assert signs.violation(M) == 4
    assert signs.contains(signs.project(M))
    with pytest.raises(ValueError, match="shape"):
        signs.check((3, 2), "V")


def test_a_unit_that_is_nearly_dead_does_not_stop_the_heads_descent():
    random = np.random.default_rng(0)
    X = np.sort(random.uniform(0, 10, 900))[:, None]
    y = 3 * np.sqrt(X[:, 0]) + random.gamma(1.0, 0.15 * X[:, 0] + 0.2)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    free, rising = (BCDRegressor(monotonic_cst=cst, random_state=0).fit(X, y) for cst in (None, [1]))
    assert rising.score(X_test, y_test) > free.score(X_test, y_test) - 0.02
