"""The tables of README and docs are what the records give, and no mean hides that its trials differ in kind."""

import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
sys.path.append(str(DOCS))

import blocks  # noqa: E402
import experiment_tables  # noqa: E402
import tables  # noqa: E402, F401


def trial(error, threads=1, version="0.1.0", seed=0):
    versions = {"tikhonet": version, "torch": "2.13.0+cpu"}
    return {"error": error, "seed": seed, "hardware": {"threads": threads}, "versions": versions}


@pytest.mark.parametrize("path", blocks.documents(), ids=lambda path: path.name)
def test_every_table_of_a_document_is_what_the_records_give(path):
    text = path.read_text(encoding="utf-8")
    assert blocks.fill(text) == text, "run `make tables`"


def test_every_table_stands_in_a_document():
    shown = {name for path in blocks.documents() for _, name, _ in blocks.BLOCK.findall(path.read_text("utf-8"))}
    assert shown == set(blocks.TABLES)


def test_a_block_is_filled_and_the_rest_left_alone(monkeypatch):
    monkeypatch.setitem(blocks.TABLES, "one", lambda: "| 1 |")
    assert blocks.fill("a\n<!-- table: one -->\nold\n<!-- end -->\nb") == (
        "a\n<!-- table: one -->\n| 1 |\n<!-- end -->\nb"
    )


@pytest.mark.parametrize("other", [{"threads": 2}, {"version": "0.2.0"}])
def test_no_mean_is_taken_of_trials_with_other_threads_or_versions(other):
    with pytest.raises(ValueError, match=r"must share threads and versions, got .* and "):
        blocks.conditions([trial(1.0), trial(1.0, **other)])


def test_rows_that_differ_in_their_conditions_are_named_under_the_table():
    rows = {"ours": [trial(1.0)], "theirs": [trial(2.0)], "new": [trial(3.0, threads=2), trial(3.0, threads=2)]}
    text = blocks.basis("somewhere", rows)
    assert "1 to 2 trials each, 1 thread, tikhonet 0.1.0" in text
    assert "; new: 2 threads, tikhonet 0.1.0" in text


def test_a_mean_has_its_standard_error_and_a_difference_is_paired_by_seed():
    assert blocks.mean([1.0, 2.0, 3.0]) == "2.00 ± 0.58"
    assert blocks.mean([1.0]) == "1.00"
    ours, theirs = (
        [trial(e, seed=s) for s, e in enumerate((1.0, 2.0))],
        [trial(e, seed=s) for s, e in ((1, 2.5), (0, 1.4))],
    )
    assert blocks.paired(ours, theirs).startswith("-0.45 ± 0.05 points over 2 seeds")


def test_trials_of_the_literal_recipe_are_compared_after_as_many_iterations(monkeypatch):
    def run(number, **errors):
        course = [{"iteration": int(at[1:]), "objective": 1.0, "gradient": 2.0, "error": e} for at, e in errors.items()]
        return trial(0.0) | {"method": "alg1", "title": "Alg. 1", "trial": number, "course": course}

    untrained = {"method": "untrained-all", "title": "Untrained network"}
    still = [trial(error) | untrained | {"trial": place} for place, error in ((0, 4.0), (2, 4.5))]
    ended = [run(0, t1=5.0, t10=6.0, t90=9.0), *still]
    found = {"literal-mnist": ended, "literal-mnist-10": [run(2, t1=7.0, t10=7.0), run(1, t1=6.0)]}
    monkeypatch.setattr(experiment_tables, "records", found.get)
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in experiment_tables.literal_mnist_10().split("\n")
    ]
    assert [row[1] for row in rows[2:4]] == ["0", "2"]
    assert rows[4] == ["Alg. 1, mean", "", "", "", "6.00 ± 1.00", "6.50 ± 0.50", "2.25 ± 0.25"]
    assert rows[5][4] == "4.25 ± 0.25"
