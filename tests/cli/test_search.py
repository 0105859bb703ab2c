import csv
import sys

import numpy as np
import pytest

from tikhonet.cli.outputs import save_arrays
from tikhonet.cli.search import read_codes
from tikhonet.hashing import HammingIndex, pack


@pytest.fixture
def files(tmp_path):
    """A database of 50 codes of 20 bits and 4 queries, as packed codes."""
    rng = np.random.default_rng(0)
    base, queries = (rng.standard_normal((rows, 20)) for rows in (50, 4))
    np.save(tmp_path / "base.npy", pack(base))
    np.save(tmp_path / "queries.npy", pack(queries))
    return base, queries


def rows_of(text):
    return [tuple(map(int, row.values())) for row in csv.DictReader(text.splitlines())]


def expected_rows(base, queries, k=None, radius=None):
    index = HammingIndex(20, "numpy").add(pack(base))
    if k:
        distances, ids = index.search(pack(queries), k)
        return [(q, ids[q, j], distances[q, j]) for q in range(len(queries)) for j in range(k)]
    limits, distances, ids = index.within(pack(queries), radius)
    return [(q, ids[j], distances[j]) for q in range(len(queries)) for j in range(limits[q], limits[q + 1])]


def test_the_nearest_are_printed_as_csv(run, files):
    out = run("search", "base.npy", "queries.npy", "--k", 3).out
    assert out.splitlines()[0] == "query,id,distance"
    assert rows_of(out) == expected_rows(*files, k=3)
    assert rows_of(run("search", "base.npy", "queries.npy").out) == expected_rows(*files, k=10)


@pytest.mark.parametrize("kind", ["flat", "numpy"])
def test_a_radius_is_inclusive(run, files, kind):
    base, queries = files
    rows = rows_of(run("search", "base.npy", "queries.npy", "--radius", 6, "--index", kind).out)
    assert rows == expected_rows(base, queries, radius=6)
    assert max(row[2] for row in rows) == 6


def test_results_go_into_files(run, files, tmp_path):
    ran = run("search", "base.npy", "queries.npy", "--k", 2, "-o", "found.npz")
    assert "8 neighbours" in ran.out
    held = np.load(tmp_path / "found.npz")
    expected = HammingIndex(20, "numpy").add(pack(files[0])).search(pack(files[1]), 2)
    np.testing.assert_array_equal(held["distances"], expected[0])
    np.testing.assert_array_equal(held["ids"], expected[1])
    run("search", "base.npy", "queries.npy", "--radius", 5, "-o", "found.npz")
    held = np.load(tmp_path / "found.npz")
    assert held["limits"][-1] == len(held["ids"])
    run("search", "base.npy", "queries.npy", "--k", 2, "-o", "found.csv")
    assert rows_of((tmp_path / "found.csv").read_text()) == expected_rows(*files, k=2)


@pytest.mark.parametrize("how", [("--k", 2), ("--radius", 6)])
def test_json_has_one_list_a_query(run, files, how):
    document = run("search", "base.npy", "queries.npy", *how, "--json").document
    option = how[0].removeprefix("--")
    rows = [(q, i, d) for q in range(4) for i, d in zip(document["ids"][q], document["distances"][q], strict=True)]
    assert rows == expected_rows(*files, **{option: how[1]})
    assert (document["codes"], document["n_bits"], document["rows"], document["index"]) == (50, 24, 4, "flat")
    assert document["found"] == len(rows)


def test_signs_scores_and_bits_are_packed(run, files, tmp_path):
    base, queries = files
    expected = run("search", "base.npy", "queries.npy").out
    np.save(tmp_path / "scores.npy", base.astype(np.float32))
    np.savez(tmp_path / "bits.npz", codes=queries > 0)
    document = run("search", "scores.npy", "bits.npz", "--json").document
    assert document["n_bits"] == 20
    assert run("search", "scores.npy", "bits.npz").out == expected


def test_an_npz_has_ids_of_its_own(run, files, tmp_path):
    np.savez(tmp_path / "base.npz", codes=pack(files[0]), ids=np.arange(50) * 2 + 100, n_bits=20)
    plain, own = (rows_of(run("search", name, "queries.npy", "--k", 3).out) for name in ("base.npy", "base.npz"))
    assert own == [(q, 2 * i + 100, d) for q, i, d in plain]


@pytest.mark.parametrize("kind", ["flat", "hash", "ivf"])
def test_a_saved_index_is_a_database(run, files, tmp_path, kind):
    index = HammingIndex(20, kind, **({"lists": 3, "probes": 3} if kind == "ivf" else {}))
    index.fit(pack(files[0])).add(pack(files[0])).save(tmp_path / "saved.index")
    document = run("search", "saved.index", "queries.npy", "--radius", 2, "--json").document
    assert document["index"] == kind
    exact = run("search", "saved.index", "queries.npy", "--radius", 2, "--json", "--index", "numpy").document
    assert document["ids"] == exact["ids"]


def test_a_small_database_is_given_whole_where_no_k_is_asked_for(run, files, tmp_path):
    np.save(tmp_path / "small.npy", pack(files[0][:3]))
    assert len(rows_of(run("search", "small.npy", "queries.npy").out)) == 3 * 4


def test_queries_with_more_bits_than_the_database_are_refused(mistake, files, tmp_path):
    HammingIndex(20).add(pack(files[0])).save(tmp_path / "saved.index")
    np.save(tmp_path / "queries.npy", np.full((2, 3), 255, np.uint8))
    assert "queries.npy must end in zeros after bit 20" in mistake("search", "saved.index", "queries.npy", code=1)


def test_what_an_approximate_index_misses_is_left_out(run, tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "base.npy", rng.integers(0, 256, (60, 8), dtype=np.uint8))
    document = run("search", "base.npy", "base.npy", "--k", 40, "--index", "hash", "--json").document
    assert all(row[0] == q for q, row in enumerate(document["ids"]))
    assert document["found"] == sum(map(len, document["ids"])) < 60 * 40
    assert len(rows_of(run("search", "base.npy", "base.npy", "--k", 40, "--index", "hash").out)) == document["found"]


def test_codes_that_were_saved_are_read_again(tmp_path):
    codes = pack(np.random.default_rng(0).standard_normal((5, 20)))
    for name, n_bits in (("c.npy", 24), ("c.npz", 20)):
        save_arrays(tmp_path / name, {"codes": codes, "n_bits": np.array(20)})
        held = read_codes(tmp_path / name)
        np.testing.assert_array_equal(held.codes, codes)
        assert held.n_bits == n_bits


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        (["base.npy", "nothing.npy"], 1, ["nothing.npy does not exist"]),
        (["nothing.npy", "queries.npy"], 1, ["nothing.npy does not exist"]),
        (["nothing", "queries.npy"], 1, ["nothing does not exist"]),
        (["base.npy", "wide.npy"], 1, ["wide.npy must have 3 bytes a code (24 bits), got 4"]),
        (["base.npy", "damaged.npz"], 1, ["damaged.npz cannot be read"]),
        (["damaged.index", "queries.npy"], 1, ["damaged.index is not a tikhonet model file"]),
        (["base.npy", "text.txt"], 1, ["text.txt is of an unknown kind", ".npy and .npz"]),
        (["base.npy", "other.npz"], 1, ["other.npz holds X", "`codes`"]),
        (["base.npy", "nan.npy"], 1, ["nan.npy holds no codes", "NaN"]),
        (["twice.npz", "queries.npy"], 1, ["twice.npz: ids must be new, each once, got 7 again"]),
        (["base.npy", "flat.npy"], 1, ["flat.npy holds no codes", "uint8 matrix"]),
        (["base.npy", "padded.npz"], 1, ["padded.npz holds no codes", "end in zeros after bit 12"]),
        (["base.npy", "half.npz"], 1, ["half.npz holds no codes: n_bits must be a whole number", "got 16.5"]),
        (["base.npy", "queries.npy", "--k", 51], 2, ["--k", "from 1 to 50", "51"]),
        (["base.npy", "queries.npy", "--k", 0], 2, ["--k", "equal to 1"]),
        (["base.npy", "queries.npy", "--radius", 25], 2, ["--radius", "24", "25"]),
        (["base.npy", "queries.npy", "--radius", 2, "--k", 2], 2, ["--k", "give one"]),
        (["base.npy", "queries.npy", "--index", "flot"], 2, ["--index", "did you mean 'flat'?"]),
        (["base.npy", "queries.npy", "-o", "x.npy"], 2, ["--output", ".npz or .csv"]),
        (["base.npy", "queries.npy", "-o", "x.txt"], 2, ["--output", "must end in .csv, .npz, .parquet, got x.txt"]),
    ],
)
def test_a_mistake_is_one_line(mistake, files, tmp_path, words, code, parts):
    np.save(tmp_path / "wide.npy", np.zeros((2, 4), np.uint8))
    np.save(tmp_path / "nan.npy", np.full((2, 20), np.nan))
    np.savez(tmp_path / "other.npz", X=np.zeros((2, 20)))
    np.savez(tmp_path / "half.npz", codes=np.zeros((2, 2), np.uint8), n_bits=16.5)
    np.savez(tmp_path / "padded.npz", codes=np.full((2, 2), 255, np.uint8), n_bits=12)
    np.save(tmp_path / "flat.npy", np.uint8(3))
    np.savez(tmp_path / "twice.npz", codes=np.zeros((2, 3), np.uint8), ids=[7, 7])
    (tmp_path / "damaged.npz").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "damaged.index").write_bytes(b"x" * 200)
    (tmp_path / "text.txt").write_text("0 1")
    line = mistake("search", *words, code=code)
    assert all(part in line for part in parts), line


def test_without_faiss_the_extra_is_named(mistake, run, files, monkeypatch):
    expected = run("search", "base.npy", "queries.npy").out
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert run("search", "base.npy", "queries.npy").out == expected
    assert "tikhonet[search]" in mistake("search", "base.npy", "queries.npy", "--index", "hash", code=1)
