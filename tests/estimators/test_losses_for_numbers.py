"""Quantiles, counts and outliers: the losses of the regressor, against scikit-learn's, in files and exports."""

import numpy as np
import pytest
import torch
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import PoissonRegressor, QuantileRegressor, Ridge
from sklearn.metrics import mean_absolute_error, mean_pinball_loss, mean_poisson_deviance

from tests.estimators.samples import QUICK, line
from tests.model.export.compiling import needs_gcc, run_c
from tikhonet import BCDRegressor, Poisson, load
from tikhonet.model.export.csr import CSRModel
from tikhonet.model.head_data import HeadData
from tikhonet.model.heads import Ridge as RidgeHead
from tikhonet.model.loss_head import LossHead
from tikhonet.problem.losses import Quantile, Squared


def table(rows, seed):
    """Inputs, a number with heavy tails that grow with the first input, and a count."""
    X, signal = make_friedman1(rows, n_features=6, random_state=seed)
    rng = np.random.default_rng(seed)
    return X, signal + rng.standard_t(3, size=rows) * (0.5 + 2 * X[:, 0]), rng.poisson(np.exp(signal / 8 - 1))


TRAIN, TEST = table(600, 0), table(2000, 1)


@pytest.mark.parametrize("quantile", [0.1, 0.9])
def test_the_pinball_loss_is_below_that_of_linear_quantiles_and_of_trees(quantile):
    (X, y, _), (X_test, y_test, _) = TRAIN, TEST
    ours = BCDRegressor(loss="quantile", quantile=quantile, random_state=0).fit(X, y).predict(X_test)
    others = (
        QuantileRegressor(quantile=quantile, alpha=0),
        HistGradientBoostingRegressor(loss="quantile", quantile=quantile, random_state=0),
    )
    loss = mean_pinball_loss(y_test, ours, alpha=quantile)
    assert loss < min(mean_pinball_loss(y_test, other.fit(X, y).predict(X_test), alpha=quantile) for other in others)
    assert abs(np.mean(y_test <= ours) - quantile) < 0.12


def test_counts_have_positive_predictions_of_less_deviance_than_those_of_linear_models_and_of_trees():
    (X, _, y), (X_test, _, y_test) = TRAIN, TEST
    ours = BCDRegressor(loss="poisson", eval_metric="mae", random_state=0).fit(X, y).predict(X_test)
    assert (ours > 0).all()
    others = PoissonRegressor(alpha=1e-3), HistGradientBoostingRegressor(loss="poisson", random_state=0)
    deviances = [mean_poisson_deviance(y_test, other.fit(X, y).predict(X_test)) for other in others]
    assert mean_poisson_deviance(y_test, ours) < min(deviances)


def test_outliers_pull_less_with_the_huber_loss():
    (X, y, _), (X_test, y_test, _) = TRAIN, TEST
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.05, 300.0, y)
    errors = [
        mean_absolute_error(y_test, BCDRegressor(loss=loss, random_state=0).fit(X, y).predict(X_test))
        for loss in ("huber", "squared")
    ]
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.parametrize("loss", ["poisson", Poisson(), "quantile"])
def test_files_and_exports_predict_the_same(loss, tmp_path):
    X, y = TRAIN[0][:200], np.stack([TRAIN[2][:200], 1 + TRAIN[2][:200]], 1)
    model = BCDRegressor(loss=loss, quantile=0.8, **QUICK).fit(X, y)
    wanted = model.predict(X)
    model.save(tmp_path / "a.model")
    again = load(tmp_path / "a.model")
    np.testing.assert_array_equal(again.predict(X), wanted)
    assert again.quantile == 0.8
    close = {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose(model.to_torch()(torch.from_numpy(X)).detach(), wanted, **close)
    model.to_csr().save(tmp_path / "a.npz")
    np.testing.assert_allclose(CSRModel.load(tmp_path / "a.npz").predict(X), wanted, **close)
    np.testing.assert_allclose(model.predictor()(X), wanted, **close)
    reference = pytest.importorskip("onnx.reference")
    found = reference.ReferenceEvaluator(model.to_onnx()).run(["prediction"], {"x": X.astype(np.float32)})[0]
    np.testing.assert_allclose(found, wanted, **close)


@needs_gcc
def test_exported_c_gives_counts(tmp_path):
    X, _, y = TRAIN
    model = BCDRegressor(loss="poisson", n_bins=0, **QUICK).fit(X[:200], y[:200])
    scores, _ = run_c(model.to_c(), model.model_, X[:50], tmp_path)
    np.testing.assert_allclose(scores[:, 0], model.predict(X[:50]), rtol=1e-4)


def test_a_stream_of_counts_is_learned():
    X, _, y = TRAIN
    model = BCDRegressor(loss="poisson", random_state=0)
    for part in np.split(np.arange(600), 6):
        model.partial_fit(X[part], y[part])
    assert mean_poisson_deviance(y, model.predict(X)) < 0.8 * mean_poisson_deviance(y, np.full(600, y.mean()))


def test_a_head_of_squares_is_the_ridge_regression_and_one_of_quantiles_leaves_their_share_below():
    rng = np.random.default_rng(0)
    F, Y, weight = rng.normal(size=(400, 5)), rng.normal(size=(400, 2)), rng.random(400)
    data = HeadData(lambda: F, Y, weight)
    found, wanted = (kind(np.zeros((2, 5))).fit(data, 0.01) for kind in (LossHead, RidgeHead))
    np.testing.assert_allclose(found.coef, wanted.coef, atol=1e-4)
    np.testing.assert_allclose(found.intercept, wanted.intercept, atol=1e-4)
    head = LossHead(np.zeros((2, 5)), trained_by=Quantile(0.8)).fit(data, 1e-6)
    np.testing.assert_allclose(weight @ (head(F) >= Y) / weight.sum(), 0.8, atol=0.02)
    assert Squared().sharpened() == Squared()


def test_what_a_loss_cannot_do_is_said():
    X, y = line()
    with pytest.raises(ValueError, match="y must not be negative"):
        BCDRegressor(loss="poisson").fit(X, y)
    with pytest.raises(ValueError, match='head must be "ridge" or "trained"'):
        BCDRegressor(loss="poisson", head=Ridge()).fit(X, np.abs(y))
    with pytest.raises(ValueError, match="'quantile' parameter"):
        BCDRegressor(loss="quantile", quantile=1.0).fit(X, y)
