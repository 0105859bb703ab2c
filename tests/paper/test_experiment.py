"""An experiment is one class: defined anywhere, it is known, run, resumed and shown like those of the library."""

import csv
import random
import re

import pytest

from tikhonet.paper import experiment_files
from tikhonet.paper.comparison import Claim, Finding
from tikhonet.paper.experiment import EXPERIMENTS, Experiment, Method, experiment_names, find_experiment, load_records
from tikhonet.paper.figures import Axis, Dots


class Coins(Experiment):
    """Two coins, thrown a hundred times each."""

    name = "coins"
    title = "Are the coins fair?"
    lead = "One of them was bought from a magician."

    def methods(self, size, data, epochs=None):
        return [Method("fair", "A fair coin"), Method("magic", "The magician's coin", "printed")]

    def trial(self, method, data, seed, watch):
        throws = random.Random(f"{method.name} {seed}").choices([0, 1], [1, 9 if method.name == "magic" else 1], k=100)
        return {"seconds": 0.1, "passes": 1, "score": sum(throws) / 100}

    def findings(self, results):
        heads = results.rows["magic"].score
        return [Claim("The magician's coin shows heads.", (Finding(f"{heads:.0%} of the throws.", heads > 0.7),))]

    def figures(self, results):
        rows = [row.values(row.scores) for row in results.rows.values()]
        return [Dots(name="heads", title="Heads", x=Axis("share of heads"), rows=rows)]


@pytest.fixture(scope="module", autouse=True)
def forgotten():
    yield
    EXPERIMENTS.pop("coins")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The run of the experiment by its name alone, from the command line."""
    from tests.cli.conftest import invoke

    folder = tmp_path_factory.mktemp("coins")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        ran = invoke("reproduce", "coins", "--trials", "0,1", "--output", "out", "--json")
    assert ran.code == 0, ran.err
    return folder / "out", ran.document


def test_its_definition_makes_it_known():
    assert isinstance(find_experiment("coins"), Coins)
    assert experiment_names() == [*experiment_files(), "coins"]
    assert {"hashing", "mnist", "rivals", "sparse"} <= set(experiment_names())
    with pytest.raises(ValueError, match=r"must be one of .*hashing, .*, coins, got 'dice'"):
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

    assert type(find_experiment("coins")) is Coins
