import numpy as np
import pytest

from tikhonet.data import load
from tikhonet.estimators import BCDClassifier


def test_the_error_and_the_confusion_matrix_are_those_of_the_predictions(run, model):
    document = run("evaluate", model, "--data", "digits", "--json").document
    test = load("digits", "test")
    predicted = BCDClassifier.load(model).predict(test.X)
    assert document["wrong"] == int((predicted != test.y).sum())
    assert document["error_percent"] == pytest.approx(100 * np.mean(predicted != test.y))
    matrix = np.array(document["confusion"])
    assert matrix.sum() == 500
    assert np.trace(matrix) == 500 - document["wrong"]
    assert "of 500 wrong" in run("evaluate", model, "--data", "digits").out


def test_labels_that_the_model_does_not_know_count_as_wrong(run, mistake, model, tmp_path):
    data = load("digits", "test")
    np.savez(tmp_path / "some.npz", X=data.X[:20], y=np.r_[data.y[:19], 77])
    np.savez(tmp_path / "none.npz", X=data.X[:20], y=np.full(20, 77))
    assert run("evaluate", model, "--data", "some.npz", "--json").document["unknown_labels"] == 1
    assert "none of its labels" in mistake("evaluate", model, "--data", "none.npz", code=1)


def test_columns_are_found_by_name_even_where_they_are_called_as_columns_without_one(run, tmp_path):
    X = np.random.default_rng(0).normal(size=(120, 3))
    for name, order in (("there.csv", (0, 1, 2)), ("back.csv", (2, 1, 0))):
        lines = [",".join([*(f"x{k}" for k in order), "y"])]
        lines += [",".join([*(str(row[k]) for k in order), str(int(row[0] > 0))]) for row in X]
        (tmp_path / name).write_text("\n".join(lines))
    run("fit", "--data", "there.csv", "--label", "y", "--hidden", "8", "-o", "m")
    there, back = (
        run("evaluate", "m", "--data", f, "--label", "y", "--json").document for f in ("there.csv", "back.csv")
    )
    assert there["wrong"] < 10
    assert back["confusion"] == there["confusion"]


@pytest.fixture
def versions(run, tmp_path):
    """A model with the classes "1.0", "2" and "beta", and a file that has the first two alone."""
    X = np.random.default_rng(0).normal(size=(90, 2))
    names = np.array(["1.0", "2", "beta"])[np.arange(90) % 3]
    rows = [f"{a},{b},{name}" for (a, b), name in zip(X, names, strict=True)]
    (tmp_path / "all.csv").write_text("\n".join(["a,b,y", *rows]))
    (tmp_path / "two.csv").write_text("\n".join(["a,b,y", *(row for row in rows if not row.endswith("beta"))]))
    words = ["--task", "classification", "--hidden", "5", "--max-iter", 2, "--head", "ridge", "-o", "m"]
    run("fit", "--data", "all.csv", "--label", "y", *words)


@pytest.mark.usefixtures("versions")
def test_text_classes_meet_labels_that_look_like_numbers(run):
    document = run("evaluate", "m", "--data", "two.csv", "--label", "y", "--json").document
    assert document["unknown_labels"] == 0
    assert [sum(row) for row in document["confusion"]] == [30, 30, 0]
    assert run("certify", "m", "--data", "two.csv", "--label", "y", "--json").document["passed"]


def test_text_labels_do_not_meet_classes_that_are_numbers(mistake, model, tmp_path):
    data = load("digits", "test")
    np.savez(tmp_path / "some.npz", X=data.X[:2], y=["7", "cat"])
    for command in ("evaluate", "certify"):
        said = mistake(command, model, "--data", "some.npz", code=1)
        assert "the labels of some.npz must be numbers, got 'cat' in row 2" in said


def test_a_file_without_labels_is_refused(mistake, model, tmp_path):
    np.save(tmp_path / "rows.npy", np.ones((3, 64)))
    assert "--label" in mistake("evaluate", model, "--data", "rows.npy")


@pytest.fixture
def houses(tmp_path):
    """Prices that follow the size, a class that follows the price, and a column of chance; one name is hostile."""
    rng = np.random.default_rng(0)
    size, chance = rng.uniform(30, 200, 300), rng.normal(size=300)
    price = 3 * size + rng.normal(scale=20, size=300)
    rows = [f"{a:.1f},{b:.2f},{c:.1f},{'dear' if c > 350 else 'cheap'}" for a, b, c in np.c_[size, chance, price]]
    (tmp_path / "houses.csv").write_text("\n".join(["size,<i>$chance$,price,is", *rows]))


@pytest.mark.usefixtures("houses")
@pytest.mark.parametrize(
    ("label", "other", "parts"),
    [
        (
            "is",
            "price",
            ["figure-confusion", "figure-calibration", "log loss", "dear taken for cheap"],
        ),
        ("price", "is", ["figure-predicted", "figure-residuals", "R2", "How far off"]),
    ],
)
def test_a_page_shows_the_mistakes_and_what_columns_are_worth(run, tmp_path, label, other, parts):
    run("fit", "--data", "houses.csv", "--label", label, "--drop", other, "--hidden", "10", "-o", "m")
    document = run("evaluate", "m", "--data", "houses.csv", "--page", "page.html", "--json").document
    worth = document["importances"]
    assert list(worth) == ["size", "<i>$chance$"]
    assert worth["size"] > 5 * abs(worth["<i>$chance$"])
    page = (tmp_path / "page.html").read_text()
    assert all(part in page for part in [*parts, "figure-importances", "tikhonet evaluate m --data houses.csv"])
    assert "<i>" not in page
    assert "&lt;i&gt;$chance$" in page
    assert "http" not in page.replace("http://www.w3.org", "")  # names of XML, which nobody fetches


def test_a_page_must_end_as_pages_do(mistake, model):
    assert "--page: must end in .html" in mistake("evaluate", model, "--data", "digits", "--page", "page.pdf")
