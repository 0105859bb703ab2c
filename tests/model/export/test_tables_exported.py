"""Exported models of tables: missing values, categories and pieces go into every format, with their names."""

import json
import subprocess

import numpy as np
import pytest
import torch

from tests.estimators.test_tabular import ROWS, in_pandas, records
from tests.model.export.compiling import STRICT, needs_gcc, run_c
from tikhonet import BCDClassifier
from tikhonet.model.export import CSRModel, torch_program
from tikhonet.network.extras import require


@pytest.fixture(scope="module")
def table():
    """A model of a table with every kind of column, and rows with missing values and unknown categories."""
    columns, y = records()
    columns["id"] = [f"id {k}" for k in range(ROWS)]
    columns["odd *//* ?\n name"] = columns.pop("size")
    model = BCDClassifier((30,), max_iter=60, random_state=0).fit(in_pandas(columns), y)
    X = in_pandas(columns | {"city": ["new", *columns["city"][1:]], "id": ["another", *columns["id"][1:]]})
    X.iloc[1] = None
    rows = model.numbers(X).astype(np.float32)
    return model, rows, model.model_.scores(rows.astype(float))


def test_torch_has_the_whole_table(table):
    model, rows, scores = table
    found = model.to_torch()(torch.from_numpy(rows)).detach().numpy()
    np.testing.assert_allclose(found, scores, atol=1e-9)
    with pytest.raises(ValueError, match="x must have 11 columns"):
        model.to_torch()(torch.zeros(1, 3))


def test_a_torch_program_has_the_whole_table(table, tmp_path):
    model, rows, scores = table
    path = tmp_path / "my.pt2"
    path.write_bytes(torch_program(model.model_))
    np.testing.assert_allclose(torch.export.load(path).module()(torch.from_numpy(rows)).numpy(), scores, atol=1e-5)


def test_onnx_has_the_whole_table_and_describes_it(table):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    require("onnx")
    model, rows, _ = table
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString(), providers=["CPUExecutionProvider"])
    probabilities = session.run(["probabilities"], {"x": rows})[0]
    logits = model.model_.sharpness * model.model_.scores(rows.astype(float))
    np.testing.assert_allclose(probabilities, np.exp(logits) / np.exp(logits).sum(1, keepdims=True), atol=1e-5)
    columns = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    assert columns == model.model_.columns.as_list()


def test_csr_files_and_predictors_have_the_whole_table(table, tmp_path):
    model, rows, scores = table
    model.to_csr().save(tmp_path / "my.npz")
    np.testing.assert_allclose(CSRModel.load(tmp_path / "my.npz").scores(rows), scores, atol=1e-5)
    for kernel in ("dense", "csr"):
        predict = model.predictor(kernel)
        np.testing.assert_allclose(predict(rows), scores, atol=1e-5)
        np.testing.assert_allclose(predict(rows[1]), scores[1], atol=1e-5)
    with pytest.raises(ValueError, match="got infinity"):
        predict(np.full(11, np.inf))


@needs_gcc
@pytest.mark.parametrize("int8", [False, True])
def test_c_has_the_whole_table(table, int8, tmp_path):
    model, rows, scores = table
    found, best = run_c(model.to_c("net", int8=int8), model.model_, rows, tmp_path)
    np.testing.assert_allclose(found, scores, atol=0.1 if int8 else 1e-5)
    assert np.array_equal(best, found.argmax(1))


@needs_gcc
def test_the_native_kernel_has_the_whole_table(table):
    model, rows, scores = table
    np.testing.assert_allclose(model.predictor("native")(rows), scores, atol=1e-5)


@needs_gcc
def test_c_describes_the_table_and_tests_itself(table, tmp_path):
    model, _, _ = table
    made = model.to_c("net")
    assert " * x[2] city: a category: 0 = b, 1 = c" in made.header
    assert " * x[4] to x[7] when: year" in made.header
    made.save(tmp_path)
    main = tmp_path / "main.c"
    main.write_text('#include "net.h"\nint main(void) { return net_self_test(); }\n')
    program = [tmp_path / "test"]

    def tested():
        subprocess.run(["gcc", *STRICT, "-DNET_SELF_TEST", "-o", *program, tmp_path / "net.c", main], check=True)
        return subprocess.run(program, check=False).returncode

    assert tested() == 1
    source = made.source.replace("net_inverse[i]", "(1.1f * net_inverse[i])")
    (tmp_path / "net.c").write_text(source)
    assert tested() == 0
