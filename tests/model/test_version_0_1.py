"""Files that version 0.1 wrote load, and say what they said then."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tikhonet import Network
from tikhonet.estimators import BCDClassifier, BCDFeatures, BCDRegressor
from tikhonet.hashing.hasher import BCDHasher
from tikhonet.model import storage
from tikhonet.model.export import CSRModel
from tikhonet.model.model_file import network_from_header, weights_from_tensors
from tikhonet.network.activation import ReLU

FOLDER = Path(__file__).with_name("version_0_1")
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
X = np.array(EXPECTED["X"])


@pytest.mark.parametrize(
    ("name", "estimator", "method"),
    [
        ("classifier", BCDClassifier, "predict_proba"),
        ("regressor", BCDRegressor, "predict"),
        ("features", BCDFeatures, "transform"),
        ("hasher", BCDHasher, "transform"),
    ],
)
def test_an_estimator_predicts_what_it_predicted(name, estimator, method, tmp_path):
    loaded = estimator.load(FOLDER / f"{name}.tikhonet")
    np.testing.assert_allclose(getattr(loaded, method)(X), EXPECTED[name], rtol=1e-12)
    loaded.save(tmp_path / "again")
    again = estimator.load(tmp_path / "again")
    np.testing.assert_array_equal(getattr(again, method)(X), getattr(loaded, method)(X))


def test_classes_are_those_of_then():
    assert BCDClassifier.load(FOLDER / "classifier.tikhonet").classes_.tolist() == ["jamais", "non", "oui", "peut-être"]


def test_sparse_rows_have_the_scores_of_then():
    np.testing.assert_allclose(CSRModel.load(FOLDER / "classifier.npz").scores(X), EXPECTED["csr"], rtol=1e-5)


def test_a_network_has_its_edges_and_the_activation_of_then():
    header, tensors = storage.load(FOLDER / "network.tikhonet")
    network = network_from_header(header["network"])
    edges = {(1, 0): "identity", (2, 1): "dense", (2, 0): "dense"}
    assert network == Network([3, 3, 4], edges, bias=[2], activation=ReLU())
    found = network.features(torch.tensor([[1.0, -2.0, 3.0]]), weights_from_tensors(network, tensors))
    np.testing.assert_allclose(found.numpy(), EXPECTED["network"], rtol=1e-6)
