import csv
import io
import sys

import numpy as np
import pytest

from tikhonet.cli.outputs import Answer, csv_text
from tikhonet.data import load
from tikhonet.estimators import BCDClassifier


@pytest.fixture
def expected(model):
    return BCDClassifier.load(model).predict(load("digits", "test").X)


def read(path):
    match path.suffix:
        case ".npy":
            return np.load(path)
        case ".npz":
            return np.load(path)["prediction"]
        case ".csv":
            return np.array([int(row["prediction"]) for row in csv.DictReader(path.read_text().splitlines())])
    pyarrow = pytest.importorskip("pyarrow.parquet")
    return pyarrow.read_table(path)["prediction"].to_numpy()


@pytest.mark.parametrize("name", ["p.csv", "p.npy", "p.npz", "p.parquet"])
def test_predictions_are_the_estimators_in_every_format(run, model, expected, tmp_path, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    run("predict", model, "--data", "digits", "-o", name)
    np.testing.assert_array_equal(read(tmp_path / name), expected)


def test_without_an_output_csv_is_printed(run, model, expected):
    rows = list(csv.reader(io.StringIO(run("predict", model, "--data", "digits").out)))
    assert rows[0] == ["prediction"]
    assert [int(row[0]) for row in rows[1:]] == expected.tolist()


def test_json_holds_the_predictions_where_no_file_does(run, model, expected):
    assert run("predict", model, "--data", "digits", "--json").document["prediction"] == expected.tolist()
    assert "prediction" not in run("predict", model, "--data", "digits", "--json", "-o", "p.csv").document


def test_probabilities_and_features_are_columns(run, model, tmp_path):
    run("predict", model, "--data", "digits", "--proba", "-o", "p.npz")
    held = np.load(tmp_path / "p.npz")
    assert held["probability"].shape == (500, 10)
    assert held["classes"].tolist() == list("0123456789")
    header = run("predict", model, "--data", "digits", "--proba").out.splitlines()[0]
    assert header.startswith("prediction,probability of 0,")
    run("predict", model, "--data", "digits", "--features", "--split", "train", "-o", "f.npy")
    assert np.load(tmp_path / "f.npy").shape == (1297, 30)


def test_columns_are_found_by_name_in_any_order(run, iris, tmp_path):
    run("fit", "--data", "iris.csv", "--label", "kind", "--hidden", "20", "--max-iter", 5, "-o", "m")
    in_order = run("predict", "m", "--data", "iris.csv", "--label", "kind").out
    rows = list(csv.reader(iris.read_text().splitlines()))
    shuffled = [[row[k] for k in (4, 2, 0, 3, 1)] for row in rows]
    (tmp_path / "other.csv").write_text("\n".join(map(",".join, shuffled)))
    assert run("predict", "m", "--data", "other.csv", "--label", "kind").out == in_order
    (tmp_path / "less.csv").write_text("sepal length,sepal width,petal length,petal widht\n1,2,3,4\n")
    line = run("predict", "m", "--data", "less.csv", code=1).err
    assert "no column 'petal width'" in line
    assert "did you mean 'petal widht'?" in line


def test_a_file_of_another_width_is_refused_with_a_hint(mistake, model, tmp_path):
    np.save(tmp_path / "wide.npy", np.ones((3, 65)))
    np.save(tmp_path / "slim.npy", np.ones((3, 5)))
    wide = mistake("predict", model, "--data", "wide.npy", code=1)
    assert "wide.npy has 65 columns" in wide
    assert "--label" in wide
    assert "the model takes 64" in mistake("predict", model, "--data", "slim.npy", code=1)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["-o", "p.txt"], ".csv"),
        (["-o", "p.npy", "--proba"], ".npz"),
        (["-o", "nowhere/p.csv"], "nowhere"),
        (["--features", "--proba"], "--proba"),
    ],
)
def test_outputs_that_cannot_be_are_refused_at_once(mistake, model, words, named):
    assert named in mistake("predict", model, "--data", "digits", *words)


LABELS = ["=1+1", "\x1b[2Jcat"]


@pytest.fixture
def hostile(run, tmp_path):
    """A classifier of two classes, one a formula, the other a command to a terminal."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    np.savez(tmp_path / "rows.npz", X=X, y=np.array(LABELS)[(X[:, 0] > 0).astype(int)])
    run("fit", "--data", "rows.npz", "--hidden", "5", "--max-iter", 20, "--head", "ridge", "-o", "m")


@pytest.mark.usefixtures("hostile")
def test_labels_are_no_formulas_for_a_spreadsheet(run, tmp_path):
    run("predict", "m", "--data", "rows.npz", "-o", "p.csv")
    cells = {row["prediction"] for row in csv.DictReader((tmp_path / "p.csv").read_text().splitlines())}
    assert cells == {"'=1+1", LABELS[1]}
    assert set(run("predict", "m", "--data", "rows.npz", "--json").document["prediction"]) == set(LABELS)


@pytest.mark.parametrize("label", ["@SUM(A1)", "+cmd|x", "-2+3", "\t=1"])
def test_all_beginnings_of_formulas_are_quoted(label):
    assert csv_text({"prediction": np.array([label])}) == f"prediction\n'{label}\n"


@pytest.mark.parametrize("label", ["-", "+", "-1", "+1.5e-3", "a=b", "x"])
def test_other_labels_are_written_as_they_are(label):
    assert csv_text({"prediction": np.array([label])}) == f"prediction\n{label}\n"


@pytest.mark.usefixtures("hostile")
def test_labels_do_not_command_a_terminal(run, monkeypatch):
    shown = run("evaluate", "m", "--data", "rows.npz").out
    assert "\x1b[2J" not in shown
    assert "\\x1b[2Jcat" in shown

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdout", Terminal())
    Answer({}, "prediction\n\x1b[2Jcat\tdog").show(as_json=False)
    assert sys.stdout.getvalue() == "prediction\n\\x1b[2Jcat\tdog\n"


def test_messages_do_not_command_a_terminal(mistake, model, tmp_path):
    (tmp_path / "\x1b[2J.npy").touch()
    said = mistake("predict", model, "--data", "\x1b[2J.npy", code=1)
    assert "\x1b" not in said
    assert "\\x1b[2J.npy" in said
