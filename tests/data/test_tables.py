"""The user's files: each kind is read to the same table, each mistake is one line naming the place."""

import gzip
import sys

import numpy as np
import pytest

from tests.data.miniature import GZIPPED, IDX, IMAGES, LABELS, put
from tikhonet.data import DataError, Table, TableFile, read_table
from tikhonet.data.large_tables import stream_table
from tikhonet.data.tables import Wanted, default_names

ROWS = np.array([[1.5, -2.0, 3.0], [4.0, 5.25, 6.0]])


def write(tmp_path, text, name="table.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_npy_is_read_with_and_without_a_label_column(tmp_path):
    np.save(tmp_path / "a.npy", ROWS)
    plain = read_table(tmp_path / "a.npy")
    np.testing.assert_array_equal(plain.X, ROWS)
    assert plain.y is None
    assert plain.feature_names == ("x0", "x1", "x2")
    labelled = read_table(tmp_path / "a.npy", label=-1)
    np.testing.assert_array_equal(labelled.X, ROWS[:, :2])
    np.testing.assert_array_equal(labelled.y, [3, 6])
    assert labelled.y.dtype == np.int64


def test_npy_of_images_becomes_rows(tmp_path):
    np.save(tmp_path / "a.npy", IMAGES["train"])
    table = read_table(tmp_path / "a.npy")
    assert table.X.shape == (6, 784)
    assert table.X.dtype == np.float32


def test_npz_takes_its_arrays_by_name(tmp_path):
    np.savez(tmp_path / "a.npz", X=ROWS, y=["cat", "dog"])
    assert list(read_table(tmp_path / "a.npz").y) == ["cat", "dog"]
    np.savez(tmp_path / "b.npz", features=ROWS, target=[[1], [0]])
    np.testing.assert_array_equal(read_table(tmp_path / "b.npz", label="target").y, [1, 0])
    with pytest.raises(DataError, match=r"must hold an array X .* got features, target"):
        read_table(tmp_path / "b.npz")
    with pytest.raises(DataError, match="no array 'labels' of labels; it holds features, target"):
        read_table(tmp_path / "b.npz", label="labels")


def test_npz_may_have_several_labels_a_row(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=ROWS, y=[[True, False, True], [False, True, True]])
    np.testing.assert_array_equal(read_table(path).y, [[1, 0, 1], [0, 1, 1]])
    np.savez(path, X=ROWS, y=[[0, 1], [1, np.nan]])
    with pytest.raises(DataError, match="row 2, column 'y' must be a finite number, got nan"):
        read_table(path)
    for wrong in (np.zeros((3, 2)), np.zeros((2, 0)), np.zeros((2, 1, 1)), np.array(3)):
        np.savez(path, X=ROWS, y=wrong)
        with pytest.raises(DataError, match="the labels y must be 2 values, or rows of them, got shape"):
            read_table(path)


def test_no_pickle_is_ever_opened(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}]), allow_pickle=True)
    np.savez(tmp_path / "a.npz", X=np.array([[{}]], object), allow_pickle=True)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(DataError, match=f"{name} cannot be read: .*allow_pickle"):
            read_table(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    [
        "a,b,kind\n1.5,-2,cat\n4,5.25,dog\n",
        "a;b;kind\r\n1.5;-2;cat\r\n\r\n4;5.25;dog",
        "\ufeffa\tb\tkind\n1.5\t-2\tcat\n4\t5.25\tdog\n",
        '"a", "b", "kind"\n1.5, -2, "cat"\n4, 5.25, "dog"\n',
    ],
    ids=["comma", "semicolon", "tab", "quoted"],
)
@pytest.mark.parametrize("label", ["kind", 2, -1])
def test_csv_with_a_header_and_text_labels(tmp_path, text, label):
    table = read_table(write(tmp_path, text), label)
    np.testing.assert_array_equal(table.X, ROWS[:, :2])
    assert list(table.y) == ["cat", "dog"]
    assert table.feature_names == ("a", "b")
    assert table.label_name == "kind"


def test_csv_without_a_header_loses_no_row(tmp_path):
    path = write(tmp_path, "1.5,-2,cat\n4,5.25,dog\n")
    assert len(read_table(path, 2).X) == 2
    assert len(read_table(path, 2, header=False).X) == 2
    assert read_table(path, "cat", header=True).feature_names == ("1.5", "-2")


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ("3 4", np.int64),
        ("3.0 4", np.int64),
        ("3.5 4", np.float64),
        ("3 x", np.str_),
        ("07 7", np.str_),
        ("0 -1", np.int64),
        ("00.5 1", np.float64),
    ],
)
def test_csv_labels_are_whole_real_or_text(tmp_path, labels, kind):
    first, second = labels.split()
    table = read_table(write(tmp_path, f"1,{first}\n2,{second}\n"), 1)
    assert table.y.dtype.type == kind


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a,b\n1,2\n3,four\n", r"row 2 \(line 3\), column 'b' must be a finite number, got 'four'"),
        ("a,b\n1,2\n\n3,\n", r"row 2 \(line 4\), column 'b' must be a finite number, got an empty cell"),
        ("1,2\nnan,3\n", r"row 2 \(line 2\), column 'x0' must be a finite number, got 'nan'"),
        ("1,2\n1,-inf\n", "column 'x1' must be a finite number, got '-inf'"),
        ("a,b\n1,2,3\n", r"row 1 \(line 2\) must have 2 cells like the first, got 3"),
        ("a,b\n", "holds a header but no rows"),
        ("", "is empty"),
        ('a,b\n1,"2\n', "is not valid CSV"),
    ],
)
def test_a_wrong_csv_cell_is_named(tmp_path, text, where):
    with pytest.raises(DataError, match=where) as caught:
        read_table(write(tmp_path, text))
    assert "table.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_csv_numbers_whose_sum_overflows_are_fine(tmp_path):
    assert read_table(write(tmp_path, "1e308,1e308\n")).X.tolist() == [[1e308, 1e308]]


def test_a_wrong_label_is_named_with_the_columns_there_are(tmp_path):
    path = write(tmp_path, "a,b,d\n1,2,3\n")
    with pytest.raises(DataError, match=r"no column named 'c'; its columns are a, b, d$"):
        read_table(path, "c")
    with pytest.raises(DataError, match="3 columns, so the label's index cannot be 3"):
        read_table(path, 3)
    with pytest.raises(DataError, match="is the label and must not be empty"):
        read_table(write(tmp_path, "a,b\n1,\n"), "b")


@pytest.mark.parametrize("label", [None, "a", "b", 0])
def test_columns_of_one_name_are_refused(tmp_path, label):
    with pytest.raises(DataError, match=r"table.csv: columns must have different names, got 'b' twice; rename one"):
        read_table(write(tmp_path, "a,b,b\n1,2,3\n"), label)
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table([[1.0]] * 3, names=["b", "b", "b"]), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="must have different names, got 'b' 3 times"):
        read_table(tmp_path / "a.parquet", label)


def test_a_table_knows_whether_its_names_were_read(tmp_path):
    with_names, without = write(tmp_path, "x0,x1\n1,2\n", "a.csv"), write(tmp_path, "1,2\n", "b.csv")
    assert read_table(with_names).feature_names == read_table(without).feature_names
    assert [read_table(path).named for path in (with_names, without)] == [True, False]
    assert [read_table(path, 1).named for path in (with_names, without)] == [True, False]
    np.save(tmp_path / "c.npy", ROWS)
    assert not read_table(tmp_path / "c.npy").named


def test_names_that_look_like_numbers_are_asked_for_and_never_a_row(tmp_path):
    path = write(tmp_path, "0,1,label\n5,6,0\n7,8,1\n")
    with pytest.raises(DataError, match=r"row 1 must have a number as its label .* got 'label'; .* --header"):
        read_table(path, -1)
    with pytest.raises(DataError, match=r"no column named 'label'; its columns are x0, x1, x2; .* --header"):
        read_table(path, "label")
    with pytest.raises(DataError, match=r"column 'x2' must be a finite number, got 'label'; .* --header"):
        read_table(path)
    table = read_table(path, -1, header=True)
    assert table.y.tolist() == [0, 1]
    assert table.feature_names == ("0", "1")
    with pytest.raises(DataError, match=r"begins with 0, 1, 2, .* --header or --no-header"):
        read_table(write(tmp_path, "0,1,2\n5,6,0\n7,8,1\n"))
    assert len(read_table(tmp_path / "table.csv", header=False).X) == 3


@pytest.mark.parametrize("word", ["nan", "NaN", "n/a", "N/A", "inf", "null", "<NA>"])
def test_a_missing_label_is_named_with_its_row(tmp_path, word):
    for others in ("1.5", "cat"):
        path = write(tmp_path, f"a,y\n1,{others}\n2,{word}\n3,{others}\n")
        with pytest.raises(DataError, match=r"row 2 \(line 3\), column 'y' is the label and must not be missing"):
            read_table(path, "y")
    np.savez(tmp_path / "a.npz", X=ROWS, y=["cat", word])
    with pytest.raises(DataError, match="row 2: the labels y must not be missing or infinite"):
        read_table(tmp_path / "a.npz")


def test_words_that_are_classes_of_many_tables_are_not_missing(tmp_path):
    assert read_table(write(tmp_path, "a,y\n1,NA\n2,none\n"), "y").y.tolist() == ["NA", "none"]


def test_a_table_of_labels_alone_is_refused(tmp_path):
    with pytest.raises(DataError, match="must have columns of numbers besides the label 'y', got none"):
        read_table(write(tmp_path, "y\n0\n1\n"), "y")


def test_labels_stay_as_they_are_written_where_that_is_asked_for(tmp_path):
    path = write(tmp_path, "a,y\n1,1.0\n2,2\n")
    assert read_table(path, "y", text_labels=True).y.tolist() == ["1.0", "2"]


def test_csv_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes("größe,b\n1,2\n".encode("latin-1"))
    with pytest.raises(DataError, match="must be text in UTF-8"):
        read_table(tmp_path / "a.csv")


def test_idx_images_take_the_labels_beside_them(tmp_path):
    put(tmp_path / "raw", IDX)
    put(tmp_path / "packed", GZIPPED, ".gz")
    for path in ("raw/train-images-idx3-ubyte", "packed/train-images-idx3-ubyte.gz"):
        table = read_table(tmp_path / path)
        np.testing.assert_array_equal(table.X, IMAGES["train"].reshape(-1, 784))
        np.testing.assert_array_equal(table.y, LABELS["train"])
    (tmp_path / "raw" / "train-labels-idx1-ubyte").unlink()
    assert read_table(tmp_path / "raw" / "train-images-idx3-ubyte").y is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (IDX["train-images-idx3-ubyte"][:-1], "declares 4,720 bytes but has 4,719"),
        (gzip.compress(IDX["train-images-idx3-ubyte"])[:-9], "cannot be read"),
        (b"\0\0\x08\x03\0", "is cut off"),
        (b"\0\0\x08\x04" + b"\xff" * 16, "declares"),
        (b"text", "is not an IDX file"),
        (b"", "is not an IDX file"),
    ],
)
def test_a_damaged_idx_file_is_refused(tmp_path, content, reason):
    (tmp_path / "a.idx").write_bytes(content)
    with pytest.raises(DataError, match=reason):
        read_table(tmp_path / "a.idx")


def test_parquet_is_read_by_pyarrow(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"a": [1.5, 4.0], "kind": ["cat", "dog"], "b": [-2, 5]}), path)
    table = read_table(path, "kind")
    np.testing.assert_array_equal(table.X, [[1.5, -2], [4, 5]])
    assert list(table.y) == ["cat", "dog"]
    assert table.feature_names == ("a", "b")
    with pytest.raises(DataError, match="column 'kind' must hold numbers, got string"):
        read_table(path)
    parquet.write_table(pyarrow.table({"a": [1.5, None]}), path)
    with pytest.raises(DataError, match="row 2, column 'a' must be a finite number"):
        read_table(path)
    path.write_bytes(b"PAR1 damaged")
    with pytest.raises(DataError, match=r"a.parquet cannot be read"):
        read_table(path)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("wanted", [None, Wanted()])
def test_a_parquet_column_of_lists_counts_as_many_columns(tmp_path, fixed, wanted):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path, X = tmp_path / "a.parquet", np.arange(12, dtype=np.float32).reshape(4, 3) / 2
    kind = pyarrow.list_(pyarrow.float32(), 3 if fixed else -1)
    lists = pyarrow.chunked_array([X[:2].tolist(), X[2:].tolist()], kind)
    parquet.write_table(pyarrow.table({"emb": lists, "label": ["a", "b", "a", "b"], "b": [1, 2, 3, 4]}), path)
    table = read_table(path, "label", wanted=wanted)
    np.testing.assert_array_equal(table.X, np.column_stack([X, [1, 2, 3, 4]]))
    assert table.feature_names == ("emb0", "emb1", "emb2", "b")
    assert list(table.y) == ["a", "b", "a", "b"]


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([[1.0, 2.0], [3.0]], "row 2: column 'emb' must hold lists of one length, here 2 numbers, got 1"),
        ([[1.0, 2.0], None], "row 2: column 'emb' .* got no list"),
        ([[1.0, None], [3.0, 4.0]], "row 1, column 'emb1' must be a finite number"),
        ([["a"], ["b"]], "column 'emb' must hold numbers, got list"),
    ],
)
def test_lists_that_are_no_rows_of_numbers_are_refused(tmp_path, lists, message):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"emb": lists}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "a.parquet")


def test_names_of_numbers_in_lists_must_not_be_those_of_columns(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"emb": [[1.0, 2.0]], "emb1": [1.0]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="got 'emb1' twice"):
        read_table(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="column 'emb' holds lists, which cannot be read by pieces"):
        stream_table(tmp_path / "a.parquet")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").touch()
    with pytest.raises(DataError, match=r"pip install 'tikhonet\[data\]', or save it as .csv"):
        read_table(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("name", "content"), [("a.npy", b""), ("a.npy", b"\x93NUMPY\x01\0"), ("a.npz", b"PK\x03\x04"), ("a.npz", b"x")]
)
def test_a_damaged_numpy_file_is_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=f"{name} cannot be read"):
        read_table(tmp_path / name)


def test_numbers_that_are_none_are_refused(tmp_path):
    np.save(tmp_path / "text.npy", np.array([["a"]]))
    with pytest.raises(DataError, match="must hold real numbers, got dtype <U1"):
        read_table(tmp_path / "text.npy")
    np.save(tmp_path / "nan.npy", np.array([[0.0, np.nan]]))
    with pytest.raises(DataError, match="row 1, column 'x1' must be a finite number, got nan"):
        read_table(tmp_path / "nan.npy")
    np.save(tmp_path / "none.npy", np.empty((0, 3)))
    with pytest.raises(DataError, match="holds no rows"):
        read_table(tmp_path / "none.npy")


def test_a_missing_file_a_folder_and_an_unknown_kind_are_named(tmp_path):
    with pytest.raises(DataError, match=r"nothing.csv does not exist; name a file: .npy"):
        read_table(tmp_path / "nothing.csv")
    with pytest.raises(DataError, match="is a folder"):
        read_table(tmp_path)
    (tmp_path / "a.xlsx").touch()
    with pytest.raises(DataError, match=r"a.xlsx is of an unknown kind; it must be .npy"):
        read_table(tmp_path / "a.xlsx")


def test_a_format_is_one_class(tmp_path, monkeypatch):
    """Its definition is enough for the library and the command line."""
    monkeypatch.setattr(TableFile, "formats", [*TableFile.formats])

    class SpacedFile(TableFile):
        kind = ".txt"

        def read(self):
            rows = np.loadtxt(self.path, ndmin=2)
            names = default_names(rows.shape[1])
            self.check_finite(rows, names)
            place = self.label_place(names)
            return Table(np.delete(rows, place, 1), rows[:, place], tuple(names[:place]))

    path = write(tmp_path, "1 2 0\n3 4 1\n", "rows.txt")
    table = read_table(path, label=-1)
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(table.y, [0, 1])
    with pytest.raises(DataError, match=r"rows.txt, row 1, column 'x1' must be a finite number, got nan"):
        read_table(write(tmp_path, "1 nan 0", "rows.txt"), label=-1)
    with pytest.raises(DataError, match=r"rows.txt cannot be read: could not convert string 'a'"):
        read_table(write(tmp_path, "1 a 0", "rows.txt"), label=-1)
    with pytest.raises(DataError, match=r"or .txt"):
        read_table(tmp_path / "nothing")


def test_a_name_with_idx_and_a_known_ending_is_told_by_its_ending(tmp_path):
    assert read_table(write(tmp_path, "a,b\n1,2\n", "idx.csv")).feature_names == ("a", "b")
