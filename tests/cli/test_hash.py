"""From rows to codes to neighbours on the command line: fit --task hash, hash, search."""

import shutil

import numpy as np
import pytest

from tikhonet.cli.search import read_codes
from tikhonet.data import load
from tikhonet.hashing import HammingIndex, evaluate, hamming, pack, unpack
from tikhonet.hashing.hasher import BCDHasher

FIT = "fit --task hash --bits 20 --hidden 30 --max-iter 4 --data digits --output"


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    from tests.cli.conftest import invoke

    path = tmp_path_factory.mktemp("hasher") / "digits.hasher"
    ran = invoke(*FIT.split(), path, "--json")
    assert ran.code == 0, ran.err
    return path, ran


@pytest.fixture
def hasher(fitted, tmp_path):
    """A copy in the current folder."""
    return shutil.copy(fitted[0], tmp_path / "small.hasher")


def test_fit_says_what_the_codes_are_like(fitted):
    document = fitted[1].document
    assert document["task"] == "hash"
    assert document["training"]["n_bits"] == 20
    assert 1 <= document["training"]["distinct"] <= document["training"]["codes"] == 1297


def test_fit_says_what_share_of_the_bits_knows_neighbours_and_what_it_was_worth(fitted):
    document = fitted[1].document
    mixture = document["training"]["mixture"]
    assert mixture["bits"] == round(20 * document["held_out"]["structure"])
    assert document["held_out"] in mixture["frontier"]


def test_evaluate_measures_labels_neighbours_and_codes(run, mistake, hasher, tmp_path):
    document = run("evaluate", hasher, "--data", "digits", "--json").document
    model = BCDHasher.load(hasher)
    train, test = (load("digits", part) for part in ("train", "test"))
    found = evaluate(model.transform(test.X), test.y, model.transform(train.X), train.y, n_bits=20)
    assert document["retrieval"]["mean_average_precision"] == found.mean_average_precision.to_dict()
    assert document["report"]["distinct"] == len(np.unique(model.transform(train.X), axis=0))
    assert 0 < document["neighbours"]["expected"] < 1
    text = run("evaluate", hasher, "--data", "digits").out
    assert all(word in text for word in ("mAP", "ball", "neighbours", "tied"))
    np.savez(tmp_path / "rows.npz", X=test.X)
    alone = run("evaluate", hasher, "--data", "rows.npz", "--json").document
    assert (alone["queries"], alone["database"]) == (50, 450)
    assert "retrieval" not in alone
    assert "--page: must end in .html" in mistake("evaluate", hasher, "--data", "digits", "--page", "x.pdf")


def test_the_page_of_a_hasher_has_codes_and_ties_beside_map_and_shows_what_is_found(run, hasher, tmp_path):
    document = run("evaluate", hasher, "--data", "digits", "--page", "page.html", "--json").document
    assert document["page"] == "page.html"
    page = (tmp_path / "page.html").read_text()
    headline = page[page.index('class="headline"') : page.index('id="figures"')]
    assert all(word in headline for word in ("label mAP", "true neighbours", "distinct codes", "tied"))
    assert f"{document['report']['distinct']:,}" in headline
    assert all(part in page for part in ("figure-balls", "figure-frontier", "query: ", "tikhonet evaluate"))
    assert page.count("query: ") == 6
    np.savez(tmp_path / "rows.npz", X=load("digits", "test").X)
    run("evaluate", hasher, "--data", "rows.npz", "--page", "rows.html")
    rows = (tmp_path / "rows.html").read_text()
    assert "label mAP" not in rows[rows.index('class="headline"') : rows.index('id="figures"')]
    assert "query: " not in rows  # rows of a file are not known to be images


def test_the_scores_of_queries_sort_what_was_found(run, mistake, hasher, tmp_path):
    run("hash", hasher, "--data", "digits", "--split", "train", "-o", "base.npz")
    run("hash", hasher, "--data", "digits", "-o", "asked.npz", "--scores")
    found = run("search", "base.npz", "asked.npz", "--k", "4", "--candidates", "40", "--json").document
    model = BCDHasher.load(hasher)
    scores = model.decision_function(load("digits", "test").X)
    index = HammingIndex(20).add(read_codes(tmp_path / "base.npz").codes)
    np.testing.assert_array_equal(found["ids"], index.search(pack(scores), 4, scores=scores, candidates=40)[1])
    assert "hash with --scores" in mistake("search", "base.npz", "base.npz", "--candidates", "9")
    assert "--output" in mistake("hash", hasher, "--data", "digits", "--scores")


def test_codes_are_the_estimators_and_keep_their_length(run, hasher, tmp_path):
    run("hash", hasher, "--data", "digits", "-o", "codes.npz")
    held = read_codes(tmp_path / "codes.npz")
    np.testing.assert_array_equal(held.codes, BCDHasher.load(hasher).transform(load("digits", "test").X))
    assert unpack(held.codes, 20).shape == (500, 20)
    assert held.n_bits == 20


def test_codes_that_a_npy_would_make_longer_are_refused_before_any_row_is_read(mistake, hasher):
    line = mistake("hash", hasher, "--data", "nothing.csv", "-o", "codes.npy")
    assert "--output" in line
    assert "must end in .npz for codes of 20 bits, got codes.npy" in line


def test_without_an_output_hex_is_printed_and_json_holds_it(run, hasher):
    lines = run("hash", hasher, "--data", "digits").out.split()
    codes = BCDHasher.load(hasher).transform(load("digits", "test").X)
    assert [bytes.fromhex(line) for line in lines] == [row.tobytes() for row in codes]
    document = run("hash", hasher, "--data", "digits", "--json").document
    assert document["codes"] == lines
    assert document["report"]["codes"] == document["rows"] == 500
    assert "codes" not in run("hash", hasher, "--data", "digits", "--json", "-o", "c.npz").document


def test_search_goes_on_from_the_codes(run, hasher, tmp_path):
    run("hash", hasher, "--data", "digits", "--split", "train", "-o", "base.npz")
    run("hash", hasher, "--data", "digits", "-o", "queries.npz")
    run("search", "base.npz", "queries.npz", "--k", 3, "-o", "near.npz")
    base, queries = (read_codes(tmp_path / name).codes for name in ("base.npz", "queries.npz"))
    expected = np.argsort(hamming(queries, base), axis=1, kind="stable")[:, :3]
    with np.load(tmp_path / "near.npz") as near:
        np.testing.assert_array_equal(near["ids"], expected)


def test_rows_of_a_file_are_hashed_with_their_label_left_out(run, iris, tmp_path):
    words = "fit --task hash --bits 8 --hidden 10 --max-iter 3 --data iris.csv --label kind -o m"
    run(*words.split())
    run("hash", "m", "--data", "iris.csv", "--label", "kind", "-o", "codes.npy")
    assert np.load(tmp_path / "codes.npy").shape == (150, 1)


def test_embeddings_without_labels_are_learned_hashed_and_evaluated(run, mistake, tmp_path):
    np.save(tmp_path / "base.npy", load("digits", "train").X)
    ran = run(
        "fit", "--task", "hash", "--bits", "16", "--hidden", "20", "--max-iter", "2", "--data", "base.npy", "-o", "m"
    )
    assert "distinct codes of 16 bits (entropy" in ran.out
    document = run("evaluate", "m", "--data", "base.npy", "--json").document
    assert "retrieval" not in document
    assert document["report"]["distinct"] > 500
    assert "--label" in mistake("fit", "--task", "classification", "--data", "base.npy", "-o", "m")


def test_the_neighbours_of_a_table_with_words_are_those_of_its_encoded_rows(run, tmp_path):
    digits, sites = load("digits", "train"), np.array(["north", "south", "east"])
    lines = [
        f"{sites[n % 3]},{','.join(map(str, row))},{y}"
        for n, (row, y) in enumerate(zip(digits.X, digits.y, strict=True))
    ]
    names = ",".join(f"p{n}" for n in range(64))
    (tmp_path / "table.csv").write_text("\n".join([f"site,{names},digit", *lines]) + "\n")
    run(
        "fit", "--task", "hash", "--bits", "16", "--max-iter", "2", "--data", "table.csv", "--label", "digit", "-o", "m"
    )
    document = run("evaluate", "m", "--data", "table.csv", "--json").document
    assert document["retrieval"]["mean_average_precision"]["expected"] > 0.5
    assert 0 < document["neighbours"]["expected"] < 1


def test_a_hasher_learns_from_several_labels_a_row_and_a_classifier_does_not(run, mistake, model):
    data = load("digits", "train")
    np.savez("rows.npz", X=data.X, y=np.column_stack([data.y % 2, data.y > 4]))
    words = "fit --task hash --bits 8 --hidden 20 --max-iter 6 --data rows.npz -o m"
    run(*words.split())
    run("hash", "m", "--data", "rows.npz", "-o", "codes.npy")
    distances = hamming(*[np.load("codes.npy")] * 2)
    odd, high = (data.y % 2)[:, None], (data.y > 4)[:, None]
    differ = (odd != odd.T) * 1 + (high != high.T)
    near, middle, far = (distances[differ == labels].mean() for labels in range(3))
    assert near < middle < far
    rows = ["--data", "rows.npz"]
    for words in (["fit", "--task", "classification", "-o", "n"], ["evaluate", model], ["certify", model]):
        assert "rows.npz must be 1 a row, got 2" in mistake(*words, *rows, code=1)
    assert "2 labels a row; use --task hash or --task regression" in mistake("fit", "-o", "n", *rows)


def test_options_of_other_tasks_are_refused(mistake):
    small = ["--data", "digits", "-o", "m"]
    assert "--bits" in mistake("fit", "--bits", 16, *small)
    assert "is for hash" in mistake("fit", "--codes", "classes", "--task", "regression", *small)
    assert "--head" in mistake("fit", "--task", "hash", "--head", "svm", *small)
    assert "auto, open or a number, got 'hello'" in mistake("fit", "--task", "hash", "--structure", "hello", *small)
    assert "--loss" in mistake("fit", "--task", "hash", "--loss", "huber", *small)
    assert "--bits must be" in mistake("fit", "--task", "hash", "--bits", 4, *small).replace("'", "")


def test_models_and_outputs_that_do_not_fit_are_refused_with_a_remedy(mistake, hasher, model):
    assert "fit --task hash" in mistake("hash", model, "--data", "digits", code=1)
    assert "use tikhonet hash" in mistake("predict", hasher, "--data", "digits", code=1)
    assert "is for hashers" in mistake("evaluate", model, "--data", "digits", "--database", "digits")
    assert ".npy or .npz" in mistake("hash", hasher, "--data", "digits", "-o", "codes.csv")


def test_a_hasher_can_be_described_and_certified(run, hasher):
    assert run("info", hasher, "--json").document["estimator"] == "BCDHasher"
    assert run("certify", hasher, "--json").document["passed"]
    assert run("certify", hasher, "--data", "digits", "--json").document["passed"]


def test_queries_that_labels_cannot_be_measured_by_are_counted_and_said(run, hasher, tmp_path):
    rows = load("digits", "test")
    np.savez(tmp_path / "base.npz", X=rows.X[100:], y=rows.y[100:])
    strange = np.where(np.arange(60) < 21, 77, rows.y[:60])
    np.savez(tmp_path / "some.npz", X=rows.X[:60], y=strange)
    np.savez(tmp_path / "none.npz", X=rows.X[:60], y=rows.y[:60] + 50)
    ran = run("evaluate", hasher, "--data", "some.npz", "--database", "base.npz")
    assert "21 queries have labels that no code has" in " ".join(ran.out.split())
    assert "trained on the queries too" in " ".join(ran.out.split())
    document = run("evaluate", hasher, "--data", "some.npz", "--database", "base.npz", "--json").document
    assert document["retrieval"]["without_relevant"] == 21
    nothing = run("evaluate", hasher, "--data", "none.npz", "--database", "base.npz", "--json").document
    assert "none of the queries' is in the database" in nothing["without_labels"]
    assert "retrieval" not in nothing
    assert 0 < nothing["neighbours"]["expected"] < 1


def test_codes_of_numbers_are_measured_by_neighbours_alone(run, tmp_path):
    X = load("digits", "train").X[:200]
    np.savez(tmp_path / "rows.npz", X=X, y=X.mean(1) + 0.123)
    words = "fit --task hash --bits 8 --hidden 20 --max-iter 20 --data rows.npz -o m"
    run(*words.split())
    document = run("evaluate", "m", "--data", "rows.npz", "--json").document
    assert "they are numbers" in document["without_labels"]
    assert 0 < document["neighbours"]["expected"] <= 1


def test_the_units_of_neighbours_are_said_and_go_by_the_names_of_columns(run, tmp_path):
    X = load("digits", "train").X[:300, 20:24]
    for names, units in (("a0,a1,a2,a3", "given"), ("age,height,weight,size", "spread")):
        lines = [",".join(map(str, row)) for row in X]
        (tmp_path / "rows.csv").write_text("\n".join([names, *lines]) + "\n")
        words = "fit --task hash --bits 8 --hidden 20 --max-iter 20 --data rows.csv -o m"
        said = " ".join(run(*words.split()).out.split())
        assert f"neighbours in units {'as given' if units == 'given' else 'of each'}" in said
        assert run("evaluate", "m", "--data", "rows.csv", "--json").document["neighbours"]["units"] == units
