"""Several networks in one model: the mean of their scores, in files, exports and streams like one network."""

import numpy as np
import pytest
import torch

from tests.estimators.samples import QUICK, blobs
from tikhonet import BCDClassifier
from tikhonet.descent.result import Status
from tikhonet.network.errors import ArgumentError

X, Y = blobs()


def test_the_scores_are_the_mean_of_a_network_with_pieces_and_one_without():
    both = BCDClassifier(n_networks=2, **QUICK).fit(X, Y)
    model, pieces, inputs = both.model_, both.model_.encoding.pieces, both.model_.inputs
    assert both.network_.widths == (inputs, 32)
    assert model.W[1, 0][:16, -len(pieces) :].any()
    assert not model.W[1, 0][16:, -len(pieces) :].any()
    first = BCDClassifier(n_bins=8, **QUICK).fit(X, Y)
    np.testing.assert_array_equal(model.W[1, 0][:16], first.model_.W[1, 0])
    other = model.head.coef[:, 16:] @ model.features(X)[:, 16:].T * 2
    wanted = (first.model_.sharpness * first.model_.scores(X) + other.T) / 2
    centred = both.decision_function(X) - wanted  # the intercept of the second network alone
    np.testing.assert_allclose(centred, centred[:1].repeat(len(X), 0), atol=1e-9)


def test_networks_of_the_same_inputs_begin_with_other_weights():
    model = BCDClassifier(n_networks=3, n_bins=0, **QUICK).fit(X, Y).model_
    assert (model.W[1, 0][:16] != model.W[1, 0][16:32]).any()
    assert model.encoding is None


def test_two_networks_are_the_default_of_tables_that_are_not_tiny():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(320, 3))
    y = table[:, 0] > 0
    assert BCDClassifier(**QUICK).fit(table, y).network_.widths == (27, 32)
    few = BCDClassifier(**QUICK).fit(table, y, sample_weight=np.arange(320) < 290)  # rows of weight 0 are none
    assert few.network_.widths == (3, 16)
    assert few.model_.columns is None
    for one in ({"constraint": "l1"}, {"head": "svm"}, {"n_bins": 4}, {"n_networks": 1}, {"warm_start": True}):
        assert BCDClassifier(**one, **QUICK).fit(table, y).network_.widths[1:] == (16,)


def test_files_exports_and_streams_take_it_for_one_network(tmp_path):
    model = BCDClassifier(n_networks=2, **QUICK).fit(X, Y)
    model.save(tmp_path / "my.model")
    loaded = BCDClassifier.load(tmp_path / "my.model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(model.to_torch()(torch.from_numpy(X)).detach(), model.decision_function(X), atol=1e-9)
    assert model.partial_fit(X, Y).score(X, Y) > 0.9
    assert loaded.partial_fit(X, Y).score(X, Y) > 0.9


def test_a_network_that_was_interrupted_is_left_out():
    seen = []

    def third(epoch):
        seen.append(epoch)
        return len(seen) > 3

    first = BCDClassifier(n_networks=2, callbacks=third, **QUICK).fit(X, Y)
    assert first.status_ is Status.INTERRUPTED
    assert len(seen) == 4
    assert first.network_.widths[1:] == (16,)
    assert first.predict(X).shape == Y.shape


@pytest.mark.parametrize("other", [{"skip": True}, {"warm_start": True}, {"constraint": "l1"}, {"decision": "energy"}])
def test_what_has_no_blocks_is_refused(other):
    with pytest.raises(ArgumentError, match="n_networks must be 1 with"):
        BCDClassifier(n_networks=2, **other, **QUICK).fit(X, Y)
