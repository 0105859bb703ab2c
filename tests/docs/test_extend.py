"""The files of docs/extend are complete, short, and do what they say."""

import re
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import invoke
from tikhonet import Activation, ConvexSet, Edge, Lift, Loss, cli
from tikhonet.data import TableFile
from tikhonet.data.dataset import LOADERS
from tikhonet.model.export import Format
from tikhonet.model.heads import HeadKind
from tikhonet.paper.experiment import EXPERIMENTS

FOLDER = Path(__file__).parents[2] / "docs" / "extend"
PAGE = (FOLDER / "index.md").read_text()
EXAMPLES = {path.stem.replace("_", " "): path.read_text() for path in sorted(FOLDER.glob("*.py"))}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Examples write into an empty folder, and what they define is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(TableFile, "formats", [*TableFile.formats])
    registries = [kind.kinds._kinds for kind in (Loss, ConvexSet, Lift, Activation, Edge, HeadKind, Format)]
    known = [(registry, dict(registry)) for registry in (LOADERS, EXPERIMENTS, *registries)]
    yield
    for registry, before in known:
        registry.clear()
        registry.update(before)


def run(name):
    """Execute an example as a module would be; its names."""
    names = {"__name__": "example"}
    exec(EXAMPLES[name], names)
    return names


def test_every_section_shows_its_file():
    sections = re.findall(r"^## An? (.+)$", PAGE, flags=re.M)
    shown = re.findall(r"literalinclude} (\w+)\.py", PAGE)
    assert [name.replace(" ", "_") for name in sections] == shown
    assert set(sections) == set(EXAMPLES)
    kinds = ["loss", "set", "lift", "activation", "edge", "schedule", "head", "experiment", "figure", "command"]
    assert {*kinds, "export format", "data format"} <= set(sections)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_short_and_runs(name):
    assert len(EXAMPLES[name].splitlines()) <= 30
    run(name)


def test_a_file_is_a_command(tmp_path, monkeypatch):
    """The file may as well lie elsewhere, in a folder that the package looks in."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "greet.py").write_text(EXAMPLES["command"])
    monkeypatch.setattr(cli, "__path__", [*cli.__path__, str(tmp_path / "more")])
    monkeypatch.delitem(sys.modules, "tikhonet.cli.greet", raising=False)
    assert "\n  greet      Greet somebody." in invoke("--help").out
    assert "tikhonet greet you" in invoke("greet", "--help").out.splitlines()[-1]
    assert invoke("greet", "you").out == "hello you\n"
    assert invoke("greet", "you", "--json").document == {"greeted": "you"}
    assert "must be somebody" in invoke("greet", "nobody").err
    assert "'greet'" in invoke("gret", "you").err


def test_the_command_line_reads_a_format_and_a_data_set_of_ones_own(tmp_path):
    run("data format")
    run("data set")
    lines = [f"{k % 7} {k % 5} {k % 2}" for k in range(60)]
    (tmp_path / "rows.txt").write_text("\n".join(lines))
    small = ["--hidden", "5", "--max-iter", 1, "--task", "classification", "-o", "m"]
    assert invoke("fit", "--data", "rows.txt", *small).code == 0
    assert "coins" in invoke("data").out
