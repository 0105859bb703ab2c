"""A table of one's own on the command line: columns of any kind, the label remembered, no option without effect."""

import numpy as np
import pytest


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    cities, ages = rng.choice(["rome", "oslo", ""], 300), rng.integers(18, 90, 300)
    rows = [
        f"{k},{age},{city},{'yes' if (city == 'oslo') or age > 70 else 'no'}"
        for k, (age, city) in enumerate(zip(ages, cities, strict=True))
    ]
    (tmp_path / "people.csv").write_text("\n".join(["id,age,city,buys", *rows]) + "\n")
    return "people.csv"


FIT = ["--hidden", "20", "--seed", "0"]


def test_a_table_of_words_and_gaps_is_fitted_evaluated_and_predicted(run, people, tmp_path):
    fitted = run("fit", "--data", people, "--label", "buys", "--drop", "id", *FIT, "--json", "-o", "m").document
    assert fitted["features"] == 2
    assert fitted["training"]["error_percent"] < 10
    assert 0 <= fitted["held_out"]["error_percent"] < 30
    found = run("evaluate", "m", "--data", people, "--json").document  # the model knows its label
    assert found["error_percent"] == fitted["training"]["error_percent"]
    assert found["auc"] > 0.9
    assert {"log_loss", "f1", "calibration_error"} <= set(found)
    (tmp_path / "new.csv").write_text("city,age\nnowhere,30\n,80\n")
    assert len(run("predict", "m", "--data", "new.csv", "--json").document["prediction"]) == 2
    columns = run("info", "m", "--json").document["columns"]
    assert [column["kind"] for column in columns] == ["number", "category"]
    assert "city: a category: 0 = oslo, 1 = rome" in run("info", "m").out


def test_columns_can_be_chosen_and_be_categories(run, people):
    words = ["fit", "--data", people, "--label", "buys", "--columns", "age,city", "--categorical", "age"]
    run(*words, *FIT, "-o", "m")
    columns = run("info", "m", "--json").document["columns"]
    assert [column["kind"] for column in columns] == ["hashed_category", "category"]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--label", "buys", "--radius", "2"], ["--radius", "--constraint"]),
        (["--label", "buys", "--sparsity-over", "row"], ["--sparsity-over", "no effect without --sparsity"]),
        (["--label", "buys", "--quantile", "0.9"], ["--quantile", "is for regression"]),
        (["--label", "age", "--drop", "id"], ["--task", "different whole numbers"]),
        (["--label", "buys", "--drop", "id,buys"], ["--drop", "names the label's column 'buys'"]),
        (["--label", "part", "--task", "classification"], ["--task", "must be regression", "0.5"]),
    ],
)
def test_an_option_that_cannot_be_meant_is_an_error(mistake, people, tmp_path, words, parts):
    if "part" in words:
        (tmp_path / people).write_text("a,part\n1,0.5\n2,1\n")
    line = mistake("fit", "--data", people, *words, "-o", "m")
    assert all(part in line for part in parts), line


def test_columns_are_for_files(mistake):
    assert "--drop" in mistake("fit", "--data", "digits", "--drop", "a", "-o", "m")
