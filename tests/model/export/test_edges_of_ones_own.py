"""An edge of one's own, with a parameter, goes through files and every format and kernel by its `export` alone."""

import shutil
from dataclasses import dataclass
from io import BytesIO
from typing import ClassVar

import numpy as np
import pytest
import torch

from tests.model.export.compiling import needs_gcc, run_c
from tests.model.export.models import largest_error, random_model, rows
from tikhonet import Network
from tikhonet.model.export import CSRModel, to_c, to_csr, to_onnx, to_torch, torch_program
from tikhonet.model.model_file import model_from_tensors, model_tensors, network_from_header, network_header
from tikhonet.model.predictor import Predictor
from tikhonet.network.edges import Dense, Edge


@dataclass(frozen=True)
class Roll(Edge):
    """The source's units moved on by so many places."""

    places: int = 1

    name: ClassVar[str] = "roll"
    learned: ClassVar[bool] = False
    penalised: ClassVar[bool] = False
    shape: ClassVar[tuple[int, int]] = (0, 0)

    def apply(self, U, W, out=None):
        return U.roll(self.places, 1) if out is None else out.add_(U.roll(self.places, 1))

    def adjoint(self, R, W, out=None, alpha=1.0):
        return R.roll(-self.places, 1) * alpha if out is None else out.add_(R.roll(-self.places, 1), alpha=alpha)

    def feeds(self, W):
        return torch.tensor(True)

    def onward(self, W):
        return torch.tensor(1.0)

    def select(self, W, rows, columns):
        return Dense().join(len(columns), len(rows)), self.export(W).matrix[rows][:, columns]

    def term(self, n, m):
        return f"rolled u{m}"


@pytest.fixture
def model():
    edges = {(1, 0): "dense", (2, 0): Roll(places=2), (2, 1): "dense", (3, 2): Roll(), (3, 1): "identity"}
    return random_model(Network([5, 5, 5, 5], edges, bias=[1]))


@pytest.fixture
def expected(model):
    """The scores in float64, by the edges' own products."""
    scaled = torch.from_numpy(model.scaling(rows(model).astype(float)))
    features = model.network.features(scaled, {pair: matrix.double() for pair, matrix in model.W.items()})
    return features.numpy() @ model.head.coef.T + model.head.intercept


def test_model_and_file_compute_the_same(model, expected):
    again = model_from_tensors(network_from_header(network_header(model.network)), model_tensors(model))
    assert again.network == model.network
    assert again.network.edges[2, 0].places == 2
    for found in (model, again):
        assert largest_error(found.scores(rows(model).astype(float)), expected) <= 1e-12


@pytest.mark.parametrize("kernel", ["dense", "csr", "native"])
def test_every_kernel_computes_the_same(kernel, model, expected):
    if kernel == "native" and not shutil.which("cc"):
        pytest.skip("needs cc")
    assert largest_error(Predictor(model, kernel)(rows(model)), expected) <= 1e-5


def test_sparse_rows_compute_the_same(model, expected, tmp_path):
    to_csr(model).save(tmp_path / "net.npz")
    assert largest_error(CSRModel.load(tmp_path / "net.npz").scores(rows(model)), expected) <= 1e-5


def test_torch_computes_the_same(model, expected):
    X = torch.from_numpy(rows(model))
    assert largest_error(to_torch(model)(X).detach().numpy(), expected) <= 1e-12
    assert largest_error(torch.export.load(BytesIO(torch_program(model))).module()(X).numpy(), expected) <= 1e-5


def test_onnx_computes_the_same(model, expected):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    assert largest_error(np.asarray(session.run(None, {"x": rows(model)})[0]), expected) <= 1e-5


@needs_gcc
@pytest.mark.parametrize("int8", [False, True])
def test_c_computes_the_same(int8, model, expected, tmp_path):
    scores, _ = run_c(to_c(model, "net", int8=int8), model, rows(model), tmp_path)
    assert largest_error(scores, expected) <= (0.02 if int8 else 1e-5)
