"""A format is one class: defined anywhere, it is known to Python and to the command line."""

from typing import ClassVar

import numpy as np
import pytest

from tests.model.export.models import SKIPS, fitted, oracle, random_model, rows
from tikhonet.model.export import CSRModel, Export, Format, formats, sizes


@pytest.fixture
def text_format():
    class Text(Format):
        """The head as text."""

        name, ending = "text", ".txt"
        beside: ClassVar = {"labels": ".labels"}

        def make(self, model, name="model", weights="float32"):
            content = "\n".join(f"{name}: {row}" for row in model.head.coef.tolist()).encode()
            return Export(content, len(content), ram=8, beside={"labels": repr(model.classes).encode()})

    yield Text
    del Format.kinds._kinds["text"]


def test_the_formats_of_this_package_are_found():
    endings = {name: format_.ending for name, format_ in formats().items()}
    assert endings == {"c": ".c", "csr": ".npz", "onnx": ".onnx", "torch": ".pt2"}


@pytest.mark.usefixtures("text_format")
def test_a_format_from_outside_is_written_from_python(tmp_path):
    model = random_model(SKIPS, classes=("a", "b", "c"))
    made = formats()["text"].write(model, tmp_path / "net.txt")
    assert (tmp_path / "net.txt").read_bytes() == made.content
    assert (tmp_path / "net.txt").read_text().startswith(f"net: {model.head.coef[0].tolist()}")
    assert (tmp_path / "net.labels").read_text() == "('a', 'b', 'c')"
    assert [(size.flash, size.ram) for size in sizes(model) if size.format == "text"] == [(len(made.content) + 6, 8)]


@pytest.mark.usefixtures("text_format")
def test_a_format_from_outside_is_known_to_the_command_line(tmp_path, monkeypatch):
    from tests.cli.conftest import invoke

    monkeypatch.chdir(tmp_path)
    model, _ = fitted("logistic")
    model.save("my.model")
    ran = invoke("export", "my.model", "--format", "text", "-o", "net.txt", "--json")
    assert ran.code == 0, ran.err
    assert ran.document["bytes"] == (tmp_path / "net.txt").stat().st_size
    assert (tmp_path / "net.labels").exists()
    assert "text" in invoke("size", "my.model").out
    assert "text" in invoke("export", "my.model", "--format", "txet", "-o", "net.txt").err


def test_every_format_writes_its_files_and_says_its_size(tmp_path):
    model = random_model(SKIPS, classes=(1, 2, 3))
    for format_ in formats().values():
        made = format_.write(model, tmp_path / f"net{format_.ending}")
        assert (tmp_path / f"net{format_.ending}").read_bytes() == made.content
        assert made.flash > 0
        assert made.ram > 0
    assert [size.format for size in sizes(model)] == ["c, int8", "c, float32", "csr", "onnx", "torch"]
    X = rows(model)
    assert np.array_equal(CSRModel.load(tmp_path / "net.npz").predict(X), oracle(model, X).argmax(1) + 1)


def test_another_ending_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(ValueError, match=r"path must end in \.npz for the format csr, got .*net\.zip"):
        formats()["csr"].write(random_model(SKIPS), tmp_path / "net.zip")
    assert not list(tmp_path.iterdir())


def test_an_unknown_format_is_refused_by_name():
    with pytest.raises(ValueError, match=r"format must be one of 'c', .*got 'pickle'"):
        Format.kinds["pickle"]


def test_a_format_whose_package_is_missing_has_no_size(monkeypatch):
    monkeypatch.setattr("tikhonet.model.export.format.find_spec", lambda name: None)
    assert "onnx" not in [size.format for size in sizes(random_model(SKIPS))]
