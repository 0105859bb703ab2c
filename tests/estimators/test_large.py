"""Fits within a budget of memory: the rows are on disk, and what is learned is what a fit in memory learns."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tikhonet import BCDClassifier, BCDFeatures, BCDHasher, BCDRegressor, Checkpoint
from tikhonet.estimators.checkpoints import Stopped
from tikhonet.estimators.column_summaries import Summaries
from tikhonet.model.column import Values
from tikhonet.model.columns import Columns
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.disk_rows import DiskRows
from tikhonet.problem.memory_budget import bytes_of
from tikhonet.problem.row_store import map_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SETTINGS = {"hidden_layer_sizes": (10,), "max_iter": 4, "random_state": 0, "batch_size": 200}
BUDGET = "10MB"


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """X as a map of a file, and y."""
    X = np.random.default_rng(0).normal(size=(2500, 20))
    path = tmp_path_factory.mktemp("rows") / "X.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r"), (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)


@pytest.fixture(scope="module")
def large(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BCDClassifier(**SETTINGS, memory_budget=BUDGET).fit(*rows)


def losses(model):
    return [epoch.loss for epoch in model.history_]


def test_a_fit_on_disk_makes_the_steps_of_one_in_memory(rows, large):
    X, y = rows
    whole = BCDClassifier(**SETTINGS).fit(np.array(X), y)
    np.testing.assert_allclose(losses(large), losses(whole), rtol=1e-6)
    np.testing.assert_allclose(large.model_.scaling.scale, whole.model_.scaling.scale, rtol=1e-12)
    np.testing.assert_allclose(large.predict_proba(X), whole.predict_proba(X), atol=1e-3)
    np.testing.assert_allclose(large.feature_importances_, whole.feature_importances_, atol=0.01)
    assert large.network_.widths == whole.network_.widths == (180, 20)


def test_order_and_pieces_of_the_rows_do_not_matter_and_equal_rows_are_one_of_their_weight(rows, large):
    X, y = np.array(rows[0]), rows[1]
    order = np.random.default_rng(1).permutation(len(X))
    pieces = [(X[part], y[part]) for part in np.array_split(order, 7)]
    model = BCDClassifier(**SETTINGS, memory_budget=BUDGET)
    np.testing.assert_allclose(losses(model.fit(pieces, None)), losses(large), rtol=1e-6)
    twice = model.fit(np.r_[X, X[:50]], np.r_[y, y[:50]]).history_
    weight = 1.0 + (np.arange(len(X)) < 50)
    np.testing.assert_allclose([epoch.loss for epoch in twice], losses(model.fit(X, y, weight)), rtol=1e-6)


def test_parquet_files_data_sets_and_tables_of_arrow_are_read_by_pieces(rows, large, tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    import pyarrow.dataset as datasets

    X, y = rows
    table = pyarrow.table({f"c{k}": X[:, k] for k in range(X.shape[1])} | {"label": y})
    parquet.write_table(table, tmp_path / "X.parquet")
    model = BCDClassifier(**SETTINGS, memory_budget=BUDGET)
    for source in (parquet.ParquetFile(tmp_path / "X.parquet"), datasets.dataset(tmp_path / "X.parquet"), table):
        assert losses(model.fit(source, "label")) == losses(large)
        assert list(model.feature_names_in_[:2]) == ["c0", "c1"]
    with pytest.raises(ArgumentError, match="the name of a column of X, got 'none'"):
        model.fit(table, "none")


def test_numbers_are_learned_within_a_budget_too(rows):
    X, y = rows[0], rows[0][:, 0] * rows[0][:, 1]
    whole = BCDRegressor(**SETTINGS).fit(np.array(X), y).predict(X)
    np.testing.assert_allclose(BCDRegressor(**SETTINGS, memory_budget=1e7).fit(X, y).predict(X), whole, atol=1e-3)


@pytest.mark.parametrize("solver", ["proximal", "alg1"])
def test_full_batch_solvers_keep_their_layers_on_disk_and_find_what_they_find_in_memory(solver, rows, monkeypatch):
    X, y = rows
    settings = {"hidden_layer_sizes": (10,), "solver": solver, "max_iter": 3, "random_state": 0, "n_jobs": 1}
    whole = BCDClassifier(**settings).fit(np.array(X), y)
    made = []
    monkeypatch.setattr("tikhonet.problem.row_store.map_of", lambda size, make=map_of: made.append(size) or make(size))
    model = BCDClassifier(**settings, memory_budget=BUDGET).fit(X, y)
    assert len(made) > 4
    np.testing.assert_allclose(model.history_.objective, whole.history_.objective, rtol=1e-5)
    assert model.score(X, y) == pytest.approx(whole.score(X, y), abs=0.02)


def test_features_are_learned_within_a_budget_too(rows):
    X, y = np.array(rows[0]), rows[1]
    model = BCDFeatures(**SETTINGS | {"max_iter": 10}, memory_budget=BUDGET).fit(*rows)
    assert model.model_.head is None
    scores = [LogisticRegression().fit(some, y).score(some, y) for some in (X, model.transform(X))]
    assert scores[1] > scores[0] + 0.1


def test_what_a_budget_cannot_hold_is_refused_with_the_number_needed(rows, monkeypatch):
    monkeypatch.setattr("tikhonet.estimators.large_fit.Survey.of", lambda *_: pytest.fail("rows were read"))
    with pytest.raises(
        ArgumentError, match=r"memory_budget must be at least 1 MB for 2,500 rows .* got 0 MB; raise it"
    ):
        BCDClassifier(**SETTINGS, memory_budget="100KB").fit(*rows)
    with pytest.raises(ArgumentError, match='solver="certified", which keeps the hidden layers of all rows in memory'):
        BCDClassifier((10,), solver="certified", memory_budget=BUDGET).fit(*rows)
    with pytest.raises(ArgumentError, match="memory_budget must be None with checkpoint='states'"):
        BCDClassifier((10,), solver="alg1", checkpoint="states", memory_budget=BUDGET).fit(*rows)
    with pytest.raises(ArgumentError, match="memory_budget must be None with warm_start=True"):
        BCDClassifier((10,), warm_start=True, memory_budget=BUDGET).fit(*rows)
    with pytest.raises(ArgumentError, match="memory_budget must be None for BCDHasher"):
        BCDHasher(16, memory_budget=BUDGET).fit(np.array(rows[0]), rows[1])
    for wrong in ("a lot", "1XB", "GB", "1.2.3MB"):
        with pytest.raises(ArgumentError, match="memory_budget must be a number of bytes, or text such as"):
            bytes_of(wrong)
    assert [bytes_of(text) for text in ("1GB", "2 MiB", 500, "1.5k")] == [1e9, 2**21, 500, 1500]


def mixed_table(count):
    """A table with gaps, text, categories, truth values and dates, and labels that need most of them."""
    pandas, random = pytest.importorskip("pandas"), np.random.default_rng(0)
    numbers, colours = random.normal(size=count), np.array(["red", "green", "blue", None], object)
    table = pandas.DataFrame(
        {
            "number": np.where(random.random(count) < 0.1, np.nan, numbers),
            "colour": colours[random.integers(4, size=count)],
            "size": pandas.Categorical(random.choice(["s", "m", "l"], count)),
            "sold": random.random(count) < 0.5,
            "when": np.datetime64("2020-01-01") + random.integers(2000, size=count).astype("timedelta64[D]"),
            "code": random.integers(300, size=count).astype(str),
        }
    )
    return table, np.where((numbers > 0) ^ (table["colour"] == "red") ^ table["sold"], "yes", "no")


@pytest.mark.parametrize("count", [600, 12_000])
def test_tables_with_gaps_text_and_dates_are_read_by_pieces_as_they_are_in_memory(count, tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y = mixed_table(count)
    settings = SETTINGS | {"max_iter": 3}
    whole = BCDClassifier(**settings).fit(X, y)
    table = pyarrow.Table.from_pandas(X.assign(label=y), preserve_index=False)
    parquet.write_table(table, tmp_path / "X.parquet", row_group_size=500)
    file = parquet.ParquetFile(tmp_path / "X.parquet")
    pieces = [(X[start : start + 400], y[start : start + 400]) for start in range(0, count, 400)]
    for source, label in ((file, "label"), (X, y), (pieces, None)):
        model = BCDClassifier(**settings, memory_budget="30MB").fit(source, label)
        assert model.model_.columns == whole.model_.columns
        assert list(model.feature_names_in_) == list(X.columns)
        np.testing.assert_allclose(losses(model), losses(whole), rtol=1e-5)
        np.testing.assert_allclose(model.predict_proba(X[:200]), whole.predict_proba(X[:200]), atol=0.02)


def test_columns_of_a_stream_are_nearly_those_of_all_rows_where_their_values_are_very_many():
    random = np.random.default_rng(0)
    values = Values("x", "number", np.append(random.normal(size=100_000), np.nan))
    words = np.append(random.zipf(1.5, size=100_000).astype(str).astype(object), None)
    table, weight = [values, Values("w", "text", words)], np.append(random.random(100_000), 1.0)
    summaries = Summaries(most=500)
    for rows in np.array_split(np.arange(100_001), 101):
        summaries.add([column.take(rows) for column in table], weight[rows])
    assert sum(len(share) for _, share in summaries.parts[0]) <= 1000
    (number, category), (exact, all_words) = summaries.columns(8).columns, Columns.learn(table, weight, 8).columns
    shares = [np.mean(values.array[:-1] < edge) for edge in number.edges]
    np.testing.assert_allclose(shares, [np.mean(values.array[:-1] < edge) for edge in exact.edges], atol=0.01)
    assert abs(number.fill - exact.fill) < 0.02
    assert number.edges[0] == exact.edges[0]
    assert number.edges[-1] == exact.edges[-1]
    assert category.missing
    assert len(set(category.categories) & set(all_words.categories)) >= 60
    summaries.add([Values("x", "text", np.array(["a"], object)), table[1].take(np.arange(1))], np.ones(1))
    with pytest.raises(ArgumentError, match=r"column 'x' of X must be of one type .* got \['number', 'text'\]"):
        summaries.columns(8)


def test_heads_see_all_rows_from_disk_or_as_many_as_there_is_room_for(rows):
    X, y = rows
    for head in ("logistic", "ridge", "svm", "trained"):
        settings = SETTINGS | {"n_networks": 1, "n_bins": 0, "head": head}
        whole = BCDClassifier(**settings).fit(np.array(X), y).predict_proba(X)
        model = BCDClassifier(**settings, memory_budget="4MB").fit(X, y)
        np.testing.assert_allclose(model.predict_proba(X), whole, atol=0.05 if head == "svm" else 1e-3)


def test_pieces_that_do_not_fit_each_other_are_refused(rows):
    X, y = np.array(rows[0]), rows[1]
    model = BCDClassifier(**SETTINGS, memory_budget=BUDGET)
    with pytest.raises(ValueError, match="X has 5 features, but BCDClassifier is expecting 20 features"):
        model.fit([(X[:10], y[:10]), (X[:10, :5], y[:10])], None)
    with pytest.raises(ArgumentError, match="which can be iterated twice"):
        model.fit(iter([(X[:10], y[:10])]), None)
    with pytest.raises(ArgumentError, match="X in rows 10 to 20 have not"):
        model.fit([(X[:10], y[:10]), (X[10:20], y[:5])], None)
    with pytest.raises(ArgumentError, match="at least 2 classes with positive weight, got 1 class: 1"):
        model.fit(X, np.ones(len(X), int))
    X[2000, 3] = np.inf
    with pytest.raises(ValueError, match="contains infinity"):
        model.fit(X, y)


def test_a_large_fit_goes_on_from_its_checkpoint(rows, large, tmp_path):
    asked = iter(range(100))
    rule = Checkpoint(tmp_path, stop=lambda: next(asked) == 8)
    with pytest.raises(Stopped):
        BCDClassifier(**SETTINGS, memory_budget=BUDGET, checkpoint=rule).fit(*rows)
    model = BCDClassifier(**SETTINGS, memory_budget=BUDGET, checkpoint=tmp_path).fit(*rows)
    assert losses(model) == losses(large)
    assert (model.model_.head.coef == large.model_.head.coef).all()


def test_rows_of_a_file_are_those_of_its_array(rows):
    X = rows[0]
    disk = DiskRows(Path(X.filename), *X.shape, X.dtype, X.offset)
    some = np.array([7, 3, 2499, 3])
    assert (disk.read(some) == X[some]).all()
    assert (disk.read(slice(2490, 9999)) == X[2490:]).all()
    assert (disk.take(some).take(np.array([2, 0])).read(slice(0, 5)) == X[[2499, 7]]).all()


LIMITED = """
import resource, sys, warnings
import numpy as np
from tikhonet import BCDClassifier

warnings.simplefilter("ignore")
X, y = np.lib.format.open_memmap(sys.argv[1]), np.arange(80_000) % 2

model = BCDClassifier((10,), max_iter=1, n_jobs=1, random_state=0, batch_size=500, dropout=0, n_networks=1)
# Labels that can be learned: the head's steps let SciPy's BLAS take its buffer now; later it would wait without end.
model.set_params(memory_budget="24MB").fit(np.array(X[:5000]), X[:5000, 0] > 0)
pages = int(open("/proc/self/statm").read().split()[0])
most = int(pages * resource.getpagesize() + 1.1 * 24e6)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
model.fit(X, y)
print(model.n_iter_)
try:
    np.array(X)
except MemoryError:
    print("no room")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="addresses are limited and counted by Linux")
def test_a_limit_of_the_system_under_which_no_copy_of_the_rows_can_be_made_is_enough_for_a_fit(tmp_path):
    """64 MB of rows within 24 MB and a tenth."""
    np.save(tmp_path / "X.npy", np.random.default_rng(0).normal(size=(80_000, 100)))
    # Threads that begin late would take addresses for stacks and heaps of their own.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    words = [sys.executable, "-c", LIMITED, tmp_path / "X.npy"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=100)
    assert ran.stdout.split("\n")[:2] == ["1", "no room"], ran.stderr
