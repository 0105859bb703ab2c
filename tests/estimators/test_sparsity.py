"""Sparse estimators: the budget that was asked for, exact zeros after saving, and words for where they come from."""

import numpy as np
import pytest

from tests.estimators.samples import QUICK, blobs, line
from tikhonet import Box, Everything, FrobeniusBall, Network, NonNegative, RowL1Ball, RowL2Ball
from tikhonet.estimators import BCDClassifier, BCDFeatures, BCDRegressor
from tikhonet.model import storage

SIZES = QUICK | {"hidden_layer_sizes": (16, 12)}


@pytest.mark.parametrize(
    ("model", "data"),
    [(BCDClassifier, blobs(features=20)), (BCDFeatures, blobs(features=20)), (BCDRegressor, line(features=20))],
    ids=["classifier", "features", "regressor"],
)
def test_the_share_asked_for_is_met_to_the_weight(model, data):
    found = model(sparsity=0.1, **SIZES).fit(*data).sparsity_
    assert found["kind"] == "budget"
    assert found["asked"] == 0.1
    assert found["over"] == "layer"
    assert found["weights"] == {"W[1,0]": 320, "W[2,1]": 192}
    assert found["nonzeros"] == {"W[1,0]": 32, "W[2,1]": 19}
    assert found["zeros"] == pytest.approx(1 - 51 / 512)


def test_a_network_without_weights_has_no_zeros():
    network = Network([4, 4], {(1, 0): "identity"})
    found = BCDClassifier(network=network).fit(*blobs(features=4)).sparsity_
    assert (found["zeros"], found["nonzeros"], found["weights"]) == (0, {}, {})


def test_zeros_and_their_kind_survive_a_file(tmp_path):
    model = BCDClassifier(sparsity=0.2, sparsity_over="row", constraint="l1", **SIZES).fit(*blobs(features=20))
    assert model.sparsity_["kind"] == "budget and set"
    model.save(tmp_path / "model")
    loaded = BCDClassifier.load(tmp_path / "model")
    assert loaded.sparsity_ == model.sparsity_
    assert {int((row != 0).sum()) for row in loaded.coefs_[1, 0]} == {4}


def test_zeros_are_those_of_the_fit_whatever_the_parameters_say_now(tmp_path):
    model = BCDClassifier(sparsity=0.2, constraint=RowL1Ball(2.0), **SIZES).fit(*blobs(features=20))
    measured = model.sparsity_
    assert measured["kind"] == "budget and set"
    model.set_params(sparsity=0.7, constraint=None, solver="proximal")
    assert model.sparsity_ == measured
    model.save(tmp_path / "model")
    assert BCDClassifier.load(tmp_path / "model").sparsity_ == measured
    model.sparsity_["nonzeros"].clear()
    assert model.sparsity_ == measured


def test_files_without_zeros_are_measured(tmp_path):
    model = BCDClassifier(sparsity=0.2, **SIZES).fit(*blobs(features=20))
    model.save(tmp_path / "model")
    header, tensors = storage.load(tmp_path / "model")
    assert header.pop("sparsity")["kind"] == "budget"
    storage.save(tmp_path / "model", header, tensors)
    assert BCDClassifier.load(tmp_path / "model").sparsity_ == model.sparsity_


@pytest.mark.parametrize(
    ("set_", "parameters"),
    [
        (RowL1Ball(2.0), {"constraint": "l1", "radius": 2.0}),
        (RowL2Ball(0.5), {"constraint": "l2", "radius": 0.5}),
        (FrobeniusBall(3.0), {"constraint": "frobenius", "radius": 3.0}),
        (NonNegative(), {"constraint": "nonnegative"}),
        (Everything(), {"constraint": None}),
    ],
    ids=str,
)
def test_sets_that_have_a_name_are_kept_by_it(set_, parameters, tmp_path):
    BCDClassifier(constraint=set_, **QUICK).fit(*blobs()).save(tmp_path / "model")
    loaded = BCDClassifier.load(tmp_path / "model").get_params()
    assert {name: loaded[name] for name in parameters} == parameters


def test_other_sets_are_left_out_of_a_file_with_a_warning(tmp_path):
    class Own(RowL1Ball):
        """Not the ball: what it does is not known."""

    for set_ in (Box(-1.0, 1.0), Own(2.0)):
        model = BCDClassifier(constraint=set_, **QUICK).fit(*blobs())
        with pytest.warns(UserWarning, match="is not kept in the model file") as caught:
            model.save(tmp_path / "model")
        assert [warning.filename for warning in caught] == [__file__]
        assert BCDClassifier.load(tmp_path / "model").constraint is None
        assert BCDClassifier.load(tmp_path / "model").sparsity_["kind"] == "set"


def test_units_are_removed_whole():
    model = BCDClassifier(sparsity=0.25, sparsity_over="units", **SIZES).fit(*blobs(features=20))
    alive = [np.any(model.coefs_[edge] != 0, axis=1).sum() for edge in ((1, 0), (2, 1))]
    assert alive == [4, 3]


def test_the_certificate_says_that_the_budget_is_met():
    model = BCDClassifier(sparsity=0.1, **SIZES).fit(*blobs(features=20))
    assert model.certificate_["budget"].holds
    assert model.certificate_["refit"].holds
    dense = BCDClassifier(**SIZES).fit(*blobs(features=20))
    assert dense.sparsity_["kind"] == "none"
    assert dense.sparsity_["asked"] is None


def test_early_stopping_and_partial_fit_keep_the_budget():
    X, y = blobs(features=20)
    model = BCDClassifier(sparsity=0.1, early_stopping=True, n_iter_no_change=2, **SIZES).fit(X, y)
    assert sum(model.sparsity_["nonzeros"].values()) == 51
    for _ in range(3):
        model.partial_fit(X, y)
        assert sum(model.sparsity_["nonzeros"].values()) == 51


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sparsity": 0.0}, "'sparsity' parameter"),
        ({"sparsity": 1.2}, "'sparsity' parameter"),
        ({"sparsity": 0.1, "sparsity_over": "column"}, "'sparsity_over' parameter"),
        ({"sparsity": 0.1, "solver": "proximal"}, 'sparsity needs solver="stochastic"'),
    ],
)
def test_what_cannot_be_asked_for_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        BCDClassifier(**settings).fit(*blobs())
