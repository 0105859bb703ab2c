"""The README's commands, paths and example are true."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tikhonet.cli.app import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()


def blocks(language, document=README):
    found = re.findall(r"^```(\w*)\n(.*?)^```$", document, flags=re.S | re.M)
    return [text for name, text in found if name == language]


def test_the_readme_opens_with_the_two_set_up_commands():
    first = blocks("")[0].splitlines()
    assert [line.split("#")[0].strip() for line in first] == ["make demo", "make test"]


def test_every_make_command_in_the_documents_is_a_target():
    targets = set(re.findall(r"^([a-z]+):", MAKEFILE, flags=re.M))
    for document in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        named = set(re.findall(r"(?:^|`)make ([a-z]+)", (ROOT / document).read_text(), flags=re.M))
        assert named <= targets, f"{document}: {named - targets}"
    assert {"demo", "test", "lint", "bench"} <= targets


def test_ci_runs_the_readmes_test_command():
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_the_readme_is_short():
    assert len(README.splitlines()) < 100


def test_every_path_in_the_readme_and_in_the_tree_exists():
    tree = next(block for block in blocks("", CONTRIBUTING) if "tikhonet/network/" in block)
    paths = [line.split()[0] for line in tree.splitlines() if line.strip()]
    paths += re.findall(r"\]\(([^)#]+)\)", README) + re.findall(r"python ([\w/]+\.py)", README)
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert not missing


def test_every_package_is_in_the_tree():
    tree = next(block for block in blocks("", CONTRIBUTING) if "tikhonet/network/" in block)
    packages = {path.parent.name for path in (ROOT / "tikhonet").glob("*/__init__.py")}
    assert set(re.findall(r"^tikhonet/(\w+)/", tree, flags=re.M)) == packages


def test_the_readmes_example_runs(tmp_path, capsys, monkeypatch):
    script = tmp_path / "example.py"
    monkeypatch.chdir(tmp_path)
    script.write_text("\n".join(blocks("python")))
    runpy.run_path(str(script))
    assert "Status." in capsys.readouterr().out


def test_the_shell_reads_the_digits_as_the_example_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(blocks("python")[0], {})
    words = ["evaluate", "digits.tikhonet", "--data", "digits", "--json"]
    result = CliRunner().invoke(app, words, prog_name="tikhonet")
    assert json.loads(result.stdout)["error_percent"] < 5


@pytest.mark.slow
def test_the_demo_names_a_page_that_exists(tmp_path):
    command = re.search(r"^demo:.*\n\t\$\(RUN\) (.+) --output demo$", MAKEFILE, flags=re.M)[1]
    arguments = [sys.executable, *command.split(), "--output", str(tmp_path / "demo")]
    printed = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    named = re.search(r"page\s+(\S+)", printed)[1]
    assert "claim" in Path(named).read_text().lower()
