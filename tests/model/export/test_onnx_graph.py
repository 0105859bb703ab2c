"""onnxruntime says what the estimator says, for any number of rows."""

import sys

import numpy as np
import pytest

from tests.model.export.models import (
    KINDS,
    NETWORKS,
    SKIPS,
    expected_scores,
    fitted,
    largest_error,
    oracle,
    random_model,
    rows,
)
from tikhonet.model.export import to_onnx

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")


def run(model, X):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"x": X.astype(np.float32)}), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_fitted_models_give_the_same(kind):
    model, X = fitted(kind)
    X = X.astype(np.float32)
    found = run(model.to_onnx(), X)
    name = {"regressor": "prediction", "features": "features"}.get(kind, "scores")
    assert largest_error(found[name], expected_scores(model, X)) <= 1e-5
    if name == "scores":
        assert list(found) == ["label", "probabilities", "scores"]
        assert np.array_equal(found["label"].astype(model.classes_.dtype), model.predict(X))
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("nonzero", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_form_of_network_gives_the_same_scores(name, nonzero):
    forward = random_model(NETWORKS[name], nonzero=nonzero)
    X = rows(forward)
    assert largest_error(run(to_onnx(forward), X)["prediction"], oracle(forward, X)) <= 1e-5


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_any_number_of_rows_is_taken(count):
    forward = random_model(SKIPS)
    assert run(to_onnx(forward), rows(forward, 1000)[:count])["prediction"].shape == (count, 3)


@pytest.mark.parametrize("classes", [(1, 5, 7), (0.5, 1.5, 2.5), ("a", "b", "é")])
def test_labels_keep_their_type(classes):
    forward = random_model(SKIPS, classes=classes)
    X = rows(forward)
    assert run(to_onnx(forward), X)["label"].tolist() == [classes[k] for k in oracle(forward, X).argmax(1)]


def test_sparse_matrices_make_small_files():
    from tikhonet import Network

    dense, sparse = (to_onnx(random_model(Network.paper(100), nonzero=share)).ByteSize() for share in (1.0, 0.02))
    assert sparse < dense / 8


def test_the_file_holds_the_model(tmp_path):
    import onnx

    model = to_onnx(random_model(SKIPS), tmp_path / "net.onnx")
    assert onnx.load(tmp_path / "net.onnx") == model


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'tikhonet\[onnx\]'"):
        to_onnx(random_model(SKIPS))
