"""Sparse estimators: the budget that was asked for, exact zeros after saving, and words for where they come from."""

import numpy as np
import pytest

from tests.estimators.samples import QUICK, blobs, line
from tikhonet.estimators import BCDClassifier, BCDFeatures, BCDRegressor

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


def test_zeros_and_their_kind_survive_a_file(tmp_path):
    model = BCDClassifier(sparsity=0.2, sparsity_over="row", constraint="l1", **SIZES).fit(*blobs(features=20))
    assert model.sparsity_["kind"] == "budget and set"
    model.save(tmp_path / "model")
    loaded = BCDClassifier.load(tmp_path / "model")
    assert loaded.sparsity_ == model.sparsity_
    assert {int((row != 0).sum()) for row in loaded.coefs_[1, 0]} == {4}


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
