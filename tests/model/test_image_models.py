"""Models of images: files, the exported module, and formats that know products alone."""

import json

import numpy as np
import pytest
import torch

from tests.strategies import normal
from tikhonet import AvgPool2d, Conv2d, GlobalAverage, Network
from tikhonet.model.export import to_csr, to_onnx, to_torch
from tikhonet.model.heads import Head
from tikhonet.model.model import Model
from tikhonet.model.model_file import model_from_tensors, model_tensors, network_from_header, network_header
from tikhonet.model.reading import ModelFormatError
from tikhonet.model.scaling import Scaling

NETWORK = Network.sequential((2, 6, 6), Conv2d(4, 3, padding=1, groups=2), AvgPool2d(2), Conv2d(3, 2), GlobalAverage())


@pytest.fixture(scope="module")
def model() -> Model:
    W = {pair: normal(*NETWORK.shape(pair), seed=k) for k, pair in enumerate(NETWORK.learned)}
    ones = np.ones(72)
    head = Head(normal(3, 3).numpy(), normal(3, seed=1).numpy())
    return Model(Scaling(0.1 * ones, 2 * ones, -3 * ones, 3 * ones), NETWORK, W, head=head)


def test_a_file_keeps_shapes_and_the_parameters_of_edges(model):
    header = network_header(NETWORK)
    assert header["widths"] == [[2, 6, 6], [4, 6, 6], [4, 3, 3], [3, 2, 2], 3]
    assert json.loads(json.dumps(header)) == header
    assert network_from_header(header) == NETWORK
    assert network_header(Network.chain([3, 2], bias=True))["edges"] == [[1, -1, "bias"], [1, 0, "dense"]]
    again = model_from_tensors(NETWORK, model_tensors(model))
    X = normal(5, 72).numpy()
    assert np.array_equal(again.scores(X), model.scores(X))


@pytest.mark.parametrize("widths", [[[2, 6], 3], [[2, 6, 2**31], 3], [[2, 6, True], 3], [[2**20, 2**6, 2**6], 3]])
def test_a_file_with_odd_shapes_is_refused(widths):
    with pytest.raises(ModelFormatError, match="widths must be integers below"):
        network_from_header({"widths": widths, "edges": [[1, 0, "dense"]]})


def test_the_exported_module_is_made_of_convolutions_and_has_the_scores(model):
    X, module = normal(5, 72), to_torch(model)
    np.testing.assert_allclose(module(X).detach(), model.scores(X.numpy()), atol=1e-12)
    assert torch.equal(module(X.view(5, 2, 6, 6)), module(X))
    assert sum(isinstance(part, torch.nn.Conv2d) for part in module.modules()) == 2
    assert sum(isinstance(part, torch.nn.AvgPool2d) for part in module.modules()) == 1


def test_onnx_has_convolutions_and_the_scores(model):
    reference = pytest.importorskip("onnx.reference")
    made, X = to_onnx(model), normal(5, 72).numpy().astype(np.float32)
    operators = [node.op_type for node in made.graph.node]
    assert [operators.count(name) for name in ("Conv", "AveragePool", "GlobalAveragePool", "MatMul")] == [2, 1, 1, 1]
    (found,) = reference.ReferenceEvaluator(made).run(None, {"x": X})
    np.testing.assert_allclose(found, model.scores(X.astype(np.float64)), rtol=1e-5, atol=1e-5)


def test_onnx_of_skips_strides_and_dilations_has_the_scores():
    reference = pytest.importorskip("onnx.reference")
    shapes = [(2, 9, 8), (4, 5, 4), (4, 5, 4), (4, 5, 4), (4, 2, 2), 6]
    edges = {
        (1, 0): Conv2d(4, 3, stride=2, padding=1, groups=2),
        (2, 1): Conv2d(4, 3, padding=2, dilation=2),
        (3, 2): Conv2d(4, (3, 1), padding=(2, 0), dilation=(2, 1)),
        (3, 1): "identity",
        (3, 0): Conv2d(4, 1, stride=2),
        (4, 3): AvgPool2d(2, stride=(3, 2)),
        (5, 4): "dense",
        (5, 1): "dense",
    }
    network = Network(shapes, edges, bias=[1, 2, 3, 5])
    W = {pair: normal(*network.shape(pair), seed=k) / 4 for k, pair in enumerate(network.learned)}
    ones = np.ones(144)
    head = Head(normal(3, 6).numpy(), normal(3, seed=1).numpy())
    model = Model(Scaling(0.1 * ones, 2 * ones, -3 * ones, 3 * ones), network, W, head=head)
    X = normal(7, 144).numpy().astype(np.float32)
    (found,) = reference.ReferenceEvaluator(to_onnx(model)).run(None, {"x": X})
    np.testing.assert_allclose(found, model.scores(X.astype(np.float64)), rtol=1e-5, atol=1e-5)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": X})[0], found, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        np.testing.assert_allclose(found, to_torch(model)(torch.from_numpy(X)), rtol=1e-5, atol=1e-5)


def test_formats_that_know_products_alone_have_the_scores(model):
    X = normal(5, 72).numpy()
    np.testing.assert_allclose(to_csr(model).scores(X), model.scores(X), rtol=1e-5, atol=1e-5)
