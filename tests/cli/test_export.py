"""Exported files predict what the model predicts; sizes are those of the files."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from tikhonet.estimators import BCDClassifier
from tikhonet.model.export import CSRModel


@pytest.fixture
def digits():
    from tikhonet.data import load

    return load("digits", "test").X


def test_c_is_a_pair_of_files_of_the_size_that_was_told(run, model):
    told = {entry["format"]: entry for entry in run("size", model, "--json").document["formats"]}
    for flags, name in (([], "c, float32"), (["--int8"], "c, int8")):
        document = run("export", model, "--format", "c", *flags, "-o", "net.c", "--json").document
        assert (document["flash"], document["ram"]) == (told[name]["flash"], told[name]["ram"])
        assert f"#define NET_FLASH_BYTES {document['flash']} " in Path("net.h").read_text()
        assert '#include "net.h"' in Path("net.c").read_text()
    assert told["c, int8"]["flash"] < told["c, float32"]["flash"]
    assert "net_predict(x, scores)" in run("export", model, "--format", "c", "-o", "net.c").out


def test_onnx_torch_and_csr_predict_the_same(run, model, digits):
    import onnxruntime
    import torch

    expected = BCDClassifier.load(model).predict(digits)
    told = {entry["format"]: entry["flash"] for entry in run("size", model, "--json").document["formats"]}
    for name, ending in (("onnx", "onnx"), ("torch", "pt2"), ("csr", "npz")):
        document = run("export", model, "--format", name, "-o", f"net.{ending}", "--json").document
        assert document["bytes"] == Path(f"net.{ending}").stat().st_size
        assert document["bytes"] == pytest.approx(told[name], abs=64)  # archives hold times and names
    session = onnxruntime.InferenceSession("net.onnx", providers=["CPUExecutionProvider"])
    assert np.array_equal(session.run(["label"], {"x": digits.astype(np.float32)})[0], expected)
    scores = torch.export.load("net.pt2").module()(torch.from_numpy(digits).float())
    assert np.array_equal(scores.numpy().argmax(1), expected)
    assert np.array_equal(CSRModel.load("net.npz").predict(digits), expected)


def test_sizes_are_a_table(run, model):
    out = run("size", model).out
    assert re.search(r"c, int8 .* [0-9,]+ .* [0-9,]+ ", out)
    assert "and the runtime's own" in out
    assert f"{Path(model).stat().st_size:,} bytes" in out


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--format", "d", "-o", "net.c"], ["--format", "c, csr, onnx, torch", "'d'"]),
        (["--format", "onx", "-o", "net.onnx"], ["did you mean 'onnx'?"]),
        (["--format", "c", "-o", "net.onnx"], ["--output", "must end in .c"]),
        (["--format", "c", "-o", "2 nets.c"], ["--output", "'2 nets'", "'model_2_nets' would do"]),
        (["--format", "c", "-o", "no/where.c"], ["--output", "make it first"]),
        (["--format", "onnx", "--int8", "-o", "net.onnx"], ["--int8", "is for --format c"]),
        (["--format", "onnx"], ["--output"]),
        (["-o", "net.c"], ["--format"]),
    ],
)
def test_a_wrong_word_is_named(mistake, model, words, parts):
    line = mistake("export", model, *words)
    assert all(part in line for part in parts), line
    assert sorted(os.listdir()) == ["small.model"]


def test_a_file_that_is_no_model_is_named(mistake, tmp_path):
    (tmp_path / "notes.txt").write_text("not a model")
    assert "notes.txt" in mistake("size", "notes.txt", code=1)
    assert "notes.txt" in mistake("export", "notes.txt", "--format", "c", "-o", "net.c", code=1)


def test_a_full_disk_is_one_line(mistake, model, monkeypatch):
    import errno

    def fsync(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    assert "No space left" in mistake("export", model, "--format", "csr", "-o", "net.npz", code=1)
    assert not Path("net.npz").exists()


def test_the_energy_rule_cannot_be_exported(mistake, model):
    from tikhonet.model import storage

    header, tensors = storage.load(model)
    header["parameters"]["decision"] = "energy"
    storage.save(model, json.loads(json.dumps(header)), tensors)
    assert "decision" in mistake("export", model, "--format", "c", "-o", "net.c", code=1)
