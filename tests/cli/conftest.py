"""Commands are run in this process, in an empty folder; a small model of the digits is trained once."""

import json
import shutil
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner

from tikhonet.cli.app import app


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def document(self):
        return json.loads(self.out)


def invoke(*words):
    result = CliRunner().invoke(app, [str(word) for word in words], prog_name="tikhonet")
    return Ran(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command that must succeed, unless another exit code is expected."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIKHONET_DATA", raising=False)

    def go(*words, code=0):
        ran = invoke(*words)
        assert ran.code == code, f"exit code {ran.code}: {ran.err or ran.out}"
        return ran

    return go


@pytest.fixture
def mistake(run):
    """Run a command that must fail with one line on stderr; the line."""

    def go(*words, code=2):
        ran = run(*words, code=code)
        assert ran.out == ""
        assert ran.err.count("\n") == 1, ran.err
        assert "Traceback" not in ran.err
        assert ran.err.startswith("tikhonet: ")
        assert "unexpected" not in ran.err
        return ran.err

    return go


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "digits.model"
    ran = invoke("fit", "--data", "digits", "--hidden", "30", "--max-iter", 5, "--constraint", "l1", "--output", path)
    assert ran.code == 0, ran.err
    return path


@pytest.fixture
def model(trained, tmp_path):
    """A copy in the current folder."""
    return shutil.copy(trained, tmp_path / "small.model")


@pytest.fixture
def iris(tmp_path):
    """A table with names and text labels."""
    from sklearn.datasets import load_iris

    data = load_iris()
    path = tmp_path / "iris.csv"
    names = ["sepal length", "sepal width", "petal length", "petal width", "kind"]
    rows = [
        ",".join([*map(str, row), data.target_names[label]]) for row, label in zip(data.data, data.target, strict=True)
    ]
    path.write_text("\n".join([",".join(names), *rows]) + "\n")
    return path
