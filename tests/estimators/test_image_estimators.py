"""Estimators of images: arrays in their shape, networks by name, one scale for each channel."""

import math

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch.utils.data import DataLoader, TensorDataset

import tikhonet
from tests.trainer.test_images import stripes
from tikhonet import BCDClassifier, BCDFeatures, BCDHasher, BCDRegressor, Conv2d, GlobalAverage, Network
from tikhonet.model.scaling import Scaling
from tikhonet.network.errors import ArgumentError

NETWORK = Network.sequential((1, 6, 6), Conv2d(8, 3), Conv2d(8, 2, stride=2), GlobalAverage())
QUICK = {"max_iter": 15, "batch_size": 40, "random_state": 0}


def images(rows=240, seed=0):
    X, Y = stripes(rows, seed)
    return X.numpy().reshape(rows, 1, 6, 6), Y.argmax(1).numpy()


@pytest.fixture(scope="module")
def model():
    return BCDClassifier(network=NETWORK, **QUICK).fit(*images())


def test_images_and_their_rows_give_one_model_to_the_bit(model):
    X, y = images()
    rows = X.reshape(len(X), -1)
    again = BCDClassifier(network=NETWORK, input_shape=(1, 6, 6), **QUICK).fit(rows, y, X_val=None)
    for given in (X, X[:, 0], rows):  # grey images need no channel
        np.testing.assert_array_equal(again.decision_function(given), model.decision_function(X))
    assert model.score(*images(seed=1)) > 0.9
    assert model.n_features_in_ == 36


def test_a_model_file_keeps_networks_and_their_names(model, tmp_path):
    X, y = images()
    for one in (model, BCDClassifier(network="small-conv", input_shape=(1, 12, 3), **QUICK)):
        one = one if one is model else clone(one).fit(X.reshape(-1, 1, 12, 3), y)
        one.save(tmp_path / "m")
        loaded = tikhonet.load(tmp_path / "m")
        assert loaded.network == one.network
        assert tuple(loaded.input_shape or ()) == tuple(one.input_shape or ())
        shaped = X.reshape(-1, *one.network_.shapes[0])
        np.testing.assert_array_equal(loaded.predict_proba(shaped), one.predict_proba(shaped))
        loaded.partial_fit(shaped, y)


def test_partial_fit_takes_images():
    X, y = images()
    stream = BCDClassifier(network=NETWORK, random_state=0)
    for k in range(0, 240, 60):
        stream.partial_fit(X[k : k + 60], y[k : k + 60], classes=[0, 1])
    assert stream.score(X, y) > 0.6


def test_pixels_of_a_channel_share_one_scale():
    X = np.random.default_rng(0).normal(size=(50, 2, 3, 3)) * np.array([1e200, 3.0])[:, None, None] + 7
    X[:, 0, 0, 0] = 7.0  # a pixel that never changes is scaled like its neighbours
    scaling = Scaling.fit(X.reshape(50, 18), np.ones(50), (2, 3, 3))
    for name in ("shift", "scale", "low", "high"):
        assert len(np.unique(getattr(scaling, name).reshape(2, 9), axis=1).T) == 1
    np.testing.assert_allclose(scaling.shift[::9], X.mean((0, 2, 3)))
    np.testing.assert_allclose(scaling.scale[::9], (X * [[[1e-200]], [[1]]]).std((0, 2, 3)) * [1e200, 1])
    dark = Scaling.fit(np.zeros((5, 18)), np.ones(5), (2, 3, 3))
    assert not dark.varies.any()
    assert dark.with_more(X.reshape(50, 18), np.ones(50), 5.0, (2, 3, 3)).varies.all()


@pytest.mark.parametrize(
    ("parameters", "shape", "argument"),
    [
        ({}, (30, 1, 6, 6), "network"),
        ({"network": NETWORK}, (30, 6, 6, 1), "X"),
        ({"network": NETWORK, "input_shape": (1, 4, 9)}, (30, 36), "input_shape"),
        ({"network": "small-conv", "input_shape": (6, 6)}, (30, 36), "input_shape"),
        ({"network": "small-conv"}, (30, 35), "input_shape"),
        ({"network": "no-such"}, (30, 36), "network"),
        ({"network": NETWORK}, (30, 1, 7, 7), "X"),
        ({"network": NETWORK}, (30, 49), "network"),
        ({"network": "small-conv"}, (30, 28, 28, 1), "X"),
        ({"network": "small-conv"}, (30, 9, 9, 3), "X"),
        ({"network": "small-conv", "input_shape": (2, 6, 6)}, (30, 36), "input_shape"),
        ({"network": "small-conv", "n_bins": 4}, (30, 36), "X"),
    ],
)
def test_a_shape_that_does_not_fit_is_refused_by_name(parameters, shape, argument):
    with pytest.raises(ArgumentError) as caught:
        BCDClassifier(**parameters).fit(np.arange(math.prod(shape), dtype=float).reshape(shape), np.arange(30) % 2)
    assert caught.value.argument == argument


@pytest.mark.filterwarnings("ignore:.* stopped short")
@pytest.mark.parametrize("shape", [(1, 12, 3), (2, 6, 3), (4, 3, 3), (12, 3)])
def test_a_network_by_name_takes_images_in_their_own_shape(shape, tmp_path):
    X, y = images()
    X, full = X.reshape(-1, *shape), (1,) * (3 - len(shape)) + shape
    model = BCDClassifier(network="small-conv", max_iter=1, random_state=0).fit(X, y, X_val=X[:20], y_val=y[:20])
    assert model.network_.shapes[0] == full
    assert model.input_shape is None
    model.save(tmp_path / "m")
    loaded, rows = tikhonet.load(tmp_path / "m"), X.reshape(len(X), -1)
    for given in (X, rows, X.reshape(-1, *full)):
        np.testing.assert_array_equal(loaded.decision_function(given), model.decision_function(X))
    for one in (model, loaded):
        assert one.partial_fit(X, y).partial_fit(rows, y).network_.shapes[0] == full
    assert model.set_params(warm_start=True).fit(rows, y).network_.shapes[0] == full
    other = images()[0]
    assert model.set_params(warm_start=False).fit(other, y).network_.shapes[0] == (1, 6, 6)
    with pytest.raises(ArgumentError, match=r"must hold images of shape \(1, 6, 6\) .* got shape \(240, 3, 6, 6\)"):
        model.predict(np.repeat(other, 3, axis=1))
    with pytest.raises(ValueError, match="0 sample"):
        model.predict(other[:0])


@pytest.mark.filterwarnings("ignore:.* stopped short")
def test_every_way_to_fit_takes_images_in_their_own_shape():
    X, y = images()
    X, quick = X.reshape(-1, 2, 6, 3), {"network": "small-conv", "max_iter": 1, "random_state": 0}
    loader = DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(y)), batch_size=40)
    fits = (
        BCDClassifier(**quick).fit(loader, X_val=X[:9], y_val=y[:9]),
        BCDClassifier(**quick).fit(loader, X_val=loader),
        BCDRegressor(**quick).fit(X, y.astype(float)),
        BCDFeatures(**quick).fit(X, y),
        BCDHasher(16, **quick).fit(X, y),
        BCDClassifier(**quick, memory_budget="500MB").fit(X, y),
        BCDClassifier(**quick, memory_budget="500MB").fit([(X[:100], y[:100]), (X[100:], y[100:])]),
    )
    for fitted in fits:
        assert fitted.network_.shapes[0] == (2, 6, 3)
        assert len(fitted.transform(X)) == len(X)


def test_a_budget_of_memory_takes_images_as_their_rows():
    X, y = images()
    model = BCDClassifier(network=NETWORK, **QUICK, memory_budget="500MB")
    one, two = (clone(model).fit(given, y) for given in (X, X.reshape(-1, 36)))
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


@pytest.mark.parametrize("network", ["small-conv", NETWORK])
@pytest.mark.parametrize("budget", [None, "500MB"])
def test_a_pixel_that_is_missing_is_refused_in_training_and_the_mean_later(network, budget):
    X, y = images()
    model = BCDClassifier(network=network, **QUICK, memory_budget=budget).fit(X, y)
    gaps = X.copy()
    gaps[7, 0, 2, 3] = gaps[90, 0, 0, 0] = np.nan
    with pytest.raises(ArgumentError, match=r"a number in each pixel .* got none in row 7, column 15; replace"):
        clone(model).fit(gaps, y)
    filled = np.where(np.isnan(gaps), model.model_.scaling.shift.reshape(1, 6, 6), gaps)
    np.testing.assert_array_equal(model.predict_proba(gaps), model.predict_proba(filled))


@pytest.mark.filterwarnings("ignore:.* stopped short")
def test_images_are_read_as_rows_where_input_shape_says_so():
    X, y = images(320)
    by_shape = BCDClassifier(input_shape=np.array((1, 6, 6)), max_iter=2, random_state=0).fit(X, y)
    by_rows = BCDClassifier(max_iter=2, random_state=0).fit(X.reshape(-1, 36), y)
    assert by_shape.network_.widths[0] > 36  # pieces of the numbers are inputs too
    np.testing.assert_array_equal(by_shape.predict_proba(X), by_rows.predict_proba(X.reshape(-1, 36)))


def test_validation_rows_may_be_images():
    (X, y), (X_val, y_val) = images(), images(60, 1)
    model = BCDClassifier(network=NETWORK, **QUICK).fit(X, y, X_val=X_val, y_val=y_val)
    assert model.score(X_val, y_val) > 0.8
