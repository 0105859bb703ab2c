"""Estimators of images: arrays in their shape, networks by name, one scale for each channel."""

import numpy as np
import pytest
from sklearn.base import clone

import tikhonet
from tests.trainer.test_images import stripes
from tikhonet import BCDClassifier, Conv2d, GlobalAverage, Network
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
        ({"network": NETWORK}, (30, 1, 7, 7), "network"),
    ],
)
def test_a_shape_that_does_not_fit_is_refused_by_name(parameters, shape, argument):
    with pytest.raises(ArgumentError) as caught:
        BCDClassifier(**parameters).fit(np.ones(shape), np.arange(30) % 2)
    assert caught.value.argument == argument


def test_validation_rows_may_be_images():
    (X, y), (X_val, y_val) = images(), images(60, 1)
    model = BCDClassifier(network=NETWORK, **QUICK).fit(X, y, X_val=X_val, y_val=y_val)
    assert model.score(X_val, y_val) > 0.8
