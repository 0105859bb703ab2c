"""`tikhonet fit --memory`: files by pieces."""

import numpy as np
import pytest

from tikhonet.data.large_tables import stream_table

WORDS = ["fit", "--hidden", "6", "--max-iter", "3", "--batch-size", "100", "-o", "m"]


@pytest.fixture
def matrix(tmp_path):
    X = np.random.default_rng(0).normal(size=(1200, 5))
    y = (X[:, 0] * X[:, 1] > 0).astype(float)
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    return X, y


def test_a_file_is_fitted_by_pieces_and_what_memory_that_took_is_told(run, matrix, tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y = matrix
    names = np.array(["no", "yes"])[y.astype(int)]
    table = pyarrow.table({f"c{k}": X[:, k] for k in range(5)} | {"answer": names})
    parquet.write_table(table, tmp_path / "rows.parquet")
    document = run(*WORDS, "--data", "rows.parquet", "--label", "answer", "--memory", "2MB", "--json").document
    assert (document["rows"], document["features"], document["task"]) == (1200, 5, "classification")
    assert document["memory"]["budget"] == 2e6
    assert document["training"]["error_percent"] < 45
    assert run("predict", "m", "--data", "rows.parquet", "-o", "p.csv", "--json").document["rows"] == 1200
    out = run(*WORDS, "--data", "rows.npy", "--label", "-1", "--memory", "2MB").out
    assert "MB of 2MB, beside" in out


def test_a_table_with_gaps_and_text_is_fitted_by_pieces_and_shared_by_processes(run, tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    random = np.random.default_rng(0)
    X, colours = random.normal(size=1200), random.choice(["red", "green"], 1200)
    gaps = [None if gap else value for gap, value in zip(random.random(1200) < 0.1, X, strict=True)]
    table = pyarrow.table({"number": gaps, "colour": colours, "answer": (X > 0) ^ (colours == "red")})
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=500)
    document = run(*WORDS, "--data", "rows.parquet", "--label", "answer", "--memory", "4MB", "--json").document
    assert (document["features"], document["training"]["error_percent"] < 25) == (2, True)
    whole = stream_table(tmp_path / "rows.parquet", "answer").X
    shares = [whole[rows] for rows in (slice(0, 450), slice(450, 1200))]
    read = [value for share in shares for piece in share.pieces(100) for value in piece["number"].to_pylist()]
    assert read == gaps
    assert [len(share) for share in shares] == [450, 750]


def test_what_cannot_be_read_by_pieces_is_said(mistake, matrix, tmp_path):
    label = ["--label", "-1", "--memory"]
    assert "--memory must be at least" in mistake(*WORDS, "--data", "rows.npy", *label, "10KB")
    assert "--memory must be a number of bytes, or text such as" in mistake(
        *WORDS, "--data", "rows.npy", *label, "much"
    )
    assert "--memory: is for files" in mistake(*WORDS, "--data", "digits", "--memory", "1GB")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    assert "can only be read whole" in mistake(*WORDS, "--data", "rows.csv", "--memory", "1GB", code=1)
    columns = mistake(*WORDS, "--data", "rows.npy", "--columns", "a", "--memory", "1GB")
    assert "--columns: cannot go with --memory" in columns
    (tmp_path / "cut.npy").write_bytes((tmp_path / "rows.npy").read_bytes()[:1000])
    assert "cut.npy cannot be read" in mistake(*WORDS, "--data", "cut.npy", *label, "1GB", code=1)
