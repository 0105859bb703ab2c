"""Columns of any kind in the user's own files."""

import gzip

import numpy as np
import pandas as pd
import pytest

from tikhonet.data import DataError, read_table
from tikhonet.data.tables import Wanted

TEXT = "size,city,when,kind\n1.5,rome,2024-01-31,a\n,oslo,,b\nNA,,2024-02-01 06:30,a\n"


def test_csv_columns_are_numbers_dates_or_text_and_empty_cells_are_missing(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(TEXT)
    table = read_table(path, "kind", wanted=Wanted())
    assert table.y.tolist() == ["a", "b", "a"]
    np.testing.assert_array_equal(table.X["size"], [1.5, np.nan, np.nan])
    assert table.X["city"].tolist() == ["rome", "oslo", None]
    assert np.isnat(table.X["when"]).tolist() == [False, True, False]
    assert table.X[1:].shape == (2, 3)
    with pytest.raises(DataError, match="must be a finite number"):
        read_table(path, "kind")  # where numbers are asked for


def test_tabs_packed_files_and_decimal_commas(tmp_path):
    (tmp_path / "rows.tsv").write_text("a b\tc\n1\t2\n3\t4\n")
    assert read_table(tmp_path / "rows.tsv", wanted=Wanted()).feature_names == ("a b", "c")
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    assert read_table(tmp_path / "rows.csv.gz", "kind", wanted=Wanted()).X["city"][1] == "oslo"
    (tmp_path / "rows.csv").write_text("a;b\n1,5;-2\n,25;1e3\n")
    assert read_table(tmp_path / "rows.csv", wanted=Wanted()).X.tolist() == [[1.5, -2], [0.25, 1000]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.tsv", "a\tb\n1,5\t2\n3\t-4,25\n"),
        ("rows.csv", 'a,b\n"1,5",2\n3,"-4,25"\n'),
        ("rows.csv", "weight, kg;b\n1,5;2\n3;-4,25\n"),
        ("rows.csv", "1,5;2\n3;-4,25\n"),
    ],
)
def test_decimal_commas_are_understood_whatever_stands_between_cells(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert read_table(tmp_path / name, wanted=Wanted()).X.tolist() == [[1.5, 2], [3, -4.25]]


def test_thousands_are_not_taken_for_decimals(tmp_path):
    (tmp_path / "rows.csv").write_text('a,b\n"1,500",2\n"2,750",3\n')
    with pytest.raises(DataError, match="got '1,500', which may be decimals or thousands"):
        read_table(tmp_path / "rows.csv", wanted=Wanted())


def test_a_few_words_among_numbers_are_an_error_unless_they_are_names(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,2\n2,three\n4,4\n")
    with pytest.raises(DataError, match=r"row 2 \(line 3\), column 'b' must be a finite number .* got 'three'"):
        read_table(path, wanted=Wanted())
    assert read_table(path, wanted=Wanted(text=("b",))).X["b"].tolist() == ["2", "three", "4"]
    assert read_table(path, wanted=Wanted(drop=("b",))).X.tolist() == [[1], [2], [4]]
    assert read_table(path, wanted=Wanted(only=("a",))).feature_names == ("a",)
    with pytest.raises(DataError, match="no column named 'z'; its columns are a, b"):
        read_table(path, wanted=Wanted(drop=("z",)))


def test_parquet_columns_are_read_as_they_are(tmp_path):
    frame = pd.DataFrame({"a": [1.0, None], "c": pd.Categorical(["x", None]), "y": [0, 1]})
    frame.to_parquet(tmp_path / "rows.parquet")
    table = read_table(tmp_path / "rows.parquet", "y", wanted=Wanted())
    assert table.X["c"].tolist() == ["x", None]
    np.testing.assert_array_equal(table.X["a"], [1, np.nan])
