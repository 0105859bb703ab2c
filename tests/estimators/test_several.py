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
    alone = [BCDClassifier(n_bins=bins, **QUICK).fit(X, Y) for bins in (8, 0)]
    assert both.network_.widths[1:] == (32,)
    wanted = np.mean([model.model_.sharpness * model.model_.scores(X) for model in alone], 0)
    np.testing.assert_allclose(both.decision_function(X), wanted, atol=1e-9)


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
