"""An experiment is one class: defined anywhere, it is known, run, resumed and shown like those of the library."""

import csv
import re
import runpy
from pathlib import Path

import pytest

from tikhonet.paper import experiment_files
from tikhonet.paper.experiment import EXPERIMENTS, experiment_names, find_experiment, load_records

Coins = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "extend" / "experiment.py"))["Coins"]
"""The experiment of the documents: two coins, thrown a hundred times each."""


@pytest.fixture(scope="module", autouse=True)
def forgotten():
    yield
    EXPERIMENTS.pop("throws")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The run of the experiment by its name alone, from the command line."""
    from tests.cli.conftest import invoke

    folder = tmp_path_factory.mktemp("throws")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        ran = invoke("reproduce", "throws", "--trials", "0,1", "--output", "out", "--json")
    assert ran.code == 0, ran.err
    return folder / "out", ran.document


def test_its_definition_makes_it_known():
    assert isinstance(find_experiment("throws"), Coins)
    assert experiment_names() == [*experiment_files(), "throws"]
    assert {"hashing", "mnist", "rivals", "sparse"} <= set(experiment_names())
    with pytest.raises(ValueError, match=r"must be one of .*hashing, .*, throws, got 'dice'"):
        find_experiment("dice")


def test_reproduce_runs_it_and_the_page_shows_it(made):
    folder, document = made
    assert set(document["results"]) == {"fair", "magic"}
    assert document["records"] == len(load_records(folder)) == 4
    page = (folder / "report.html").read_text()
    assert re.findall(r'<section id="(\w+)"', page) == ["claims", "figures", "results", "redo"]
    for words in ("Are the coins fair?", "bought from a magician", "The magician&#39;s coin shows heads.", "holds"):
        assert words in page
    assert '<figure id="figure-heads">' in page


def test_its_figure_comes_as_png_and_pdf_and_its_trials_as_csv(made):
    folder, document = made
    assert sorted(path.name for path in (folder / "figures").iterdir()) == ["figure_heads.pdf", "figure_heads.png"]
    with (folder / "tables" / "trials.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    means = {row["method"]: 0.0 for row in rows}
    for row in rows:
        means[row["method"]] += float(row["score"]) / 2
    assert means == pytest.approx({row["title"]: row["score"] for row in document["results"].values()})


def test_classes_without_a_name_are_bases_and_are_not_registered():
    class Base(Coins):
        pass

    assert type(find_experiment("throws")) is Coins
