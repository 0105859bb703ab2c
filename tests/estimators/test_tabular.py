"""Tables as they are: every kind of column, missing values, frames of three libraries, the same bits from all."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tests.estimators.samples import QUICK
from tikhonet import BCDClassifier, BCDRegressor
from tikhonet.estimators import BCDFeatures
from tikhonet.hashing import BCDHasher
from tikhonet.network.errors import ArgumentError

ROWS = 160


def records(seed=0):
    """A column of every kind as lists of Python's objects, None where a value is missing, and classes."""
    rng = np.random.default_rng(seed)
    start = dt.datetime(1950, 3, 1)
    table = {
        "size": rng.normal(size=ROWS).tolist(),
        "gap": [None if rng.random() < 0.2 else float(rng.normal()) for _ in range(ROWS)],
        "count": [None if k % 23 == 0 else int(k) for k in rng.integers(0, 9, ROWS)],
        "city": [None if k == 0 else "abcdefgh"[k] for k in rng.integers(0, 8, ROWS)],
        "open": [None if k == 2 else bool(k) for k in rng.choice([0, 1, 2], ROWS, p=[0.5, 0.4, 0.1])],
        "when": [None if k % 9 == 0 else start + dt.timedelta(hours=int(k)) for k in rng.integers(0, 700_000, ROWS)],
        "empty": [None] * ROWS,
    }
    pairs = zip(table["city"], table["gap"], strict=True)
    y = np.array([(city or "z") < "e" or gap is None for city, gap in pairs])
    return table, y.astype(int)


def in_pandas(table):
    return pd.DataFrame(table)


def in_polars(table):
    return pl.DataFrame(table)


def in_arrow(table):
    arrow = pa.table(table)
    place = arrow.column_names.index("city")
    return arrow.set_column(place, "city", arrow["city"].combine_chunks().dictionary_encode())


def in_pandas_types(table):
    frame = pd.DataFrame(table).convert_dtypes()
    return frame.assign(city=frame["city"].astype("category"), when=pd.Series(table["when"]).dt.tz_localize("UTC"))


def in_objects(table):
    return np.array([list(column) for column in table.values()], dtype=object).T


FRAMES = [in_pandas, in_pandas_types, in_polars, in_arrow, in_objects]


def test_every_library_gives_the_same_bits():
    table, y = records()
    found = []
    for frame in FRAMES:
        X = frame(table)
        model = BCDClassifier(**QUICK).fit(X, y, sample_weight=np.arange(ROWS) % 3)
        found.append(model.predict_proba(X))
        np.testing.assert_array_equal(found[0], found[-1])
    assert ((found[0].argmax(1) == y)[np.arange(ROWS) % 3 > 0]).mean() > 0.9  # which needs category and indicator


@pytest.mark.parametrize("Model", [BCDRegressor, BCDFeatures, BCDHasher])
def test_all_estimators_take_a_table(Model):
    table, y = records()
    model = Model(**QUICK).fit(in_polars(table), y)
    assert np.isfinite(model.transform(in_pandas(table))).all()


def test_columns_are_found_by_their_names():
    table, y = records()
    X = in_pandas(table)
    model = BCDClassifier(**QUICK).fit(X, y)
    other = X[X.columns[::-1]].assign(unused=1)
    np.testing.assert_array_equal(model.predict_proba(other), model.predict_proba(X))
    with pytest.raises(ArgumentError, match="these are missing: 'gap', 'city'"):
        model.predict(X.drop(columns=["gap", "city"]))


def test_a_column_of_two_types_is_named():
    table, y = records()
    for odd, got in (("three", "float and str"), ({}, "dict and float")):
        mixed = in_pandas(table | {"size": [odd, *table["size"][1:]]})
        with pytest.raises(ArgumentError, match=f"column 'size' of X must hold numbers.* got {got}"):
            BCDClassifier(**QUICK).fit(mixed, y)
    model = BCDClassifier(**QUICK).fit(in_pandas(table), y)
    with pytest.raises(ArgumentError, match="column 'gap' of X must hold number or boolean as in fit, got text"):
        model.predict(in_pandas(table | {"gap": ["a"] * ROWS}))
    with pytest.raises(ArgumentError, match="column 'city' of X must hold text as in fit, got numbers"):
        model.predict(in_pandas(table | {"city": [1.0] * ROWS}))
    with pytest.raises(ArgumentError, match="column 'size' of X must hold numbers up to"):
        model.predict(in_pandas(table | {"size": [np.inf] * ROWS}))


def test_what_training_never_saw_is_defined():
    table, y = records()
    model = BCDClassifier(**QUICK).fit(in_pandas(table), y)
    unknown = model.predict_proba(in_pandas(table | {"city": ["nowhere"] * ROWS}))
    other = model.predict_proba(in_pandas(table | {"city": ["elsewhere"] * ROWS}))
    np.testing.assert_array_equal(unknown, other)
    mean = model.model_.scaling.shift[0]
    np.testing.assert_allclose(
        model.predict_proba(in_pandas(table | {"size": [None] * ROWS})),
        model.predict_proba(in_pandas(table | {"size": [mean] * ROWS})),
    )
    rows = np.random.default_rng(0).normal(size=(80, 3))
    plain = BCDClassifier(**QUICK).fit(rows, rows[:, 0] > 0)
    assert plain.model_.columns is None
    assert np.isfinite(plain.predict_proba(np.full((1, 3), np.nan))).all()


@pytest.mark.parametrize("chosen", [["b"], [1], [False, True, False], np.array([-2])])
def test_categorical_features_by_names_places_or_a_mask(chosen):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=120), "b": rng.integers(0, 5, 120), "c": rng.normal(size=120)})
    y = X["b"].isin([0, 2, 4])
    model = BCDClassifier(categorical_features=chosen, **QUICK).fit(X, y)
    assert [column.kind for column in model.model_.columns.columns] == ["number", "category", "number"]
    assert model.score(X, y) == 1
    named = [name for name in np.ravel(chosen) if not isinstance(name, str)]
    if named:
        array = BCDClassifier(categorical_features=chosen, **QUICK).fit(X.to_numpy(), y)
        np.testing.assert_array_equal(array.predict_proba(X.to_numpy()), model.predict_proba(X))
    with pytest.raises(ArgumentError, match="categorical_features must be"):
        BCDClassifier(categorical_features=["no such"], **QUICK).fit(X, y)


def test_weights_count_rows_and_zeros_remove_them_with_missing_values():
    table, y = records()
    counts = np.random.default_rng(1).integers(0, 3, ROWS)
    X = in_pandas(table)
    once = BCDClassifier(**QUICK).fit(X, y, sample_weight=counts)
    often = BCDClassifier(**QUICK).fit(X.loc[X.index.repeat(counts)], y.repeat(counts))
    np.testing.assert_array_equal(once.predict_proba(X), often.predict_proba(X))
    order = np.random.default_rng(2).permutation(ROWS)
    again = BCDClassifier(**QUICK).fit(X.iloc[order], y[order], sample_weight=counts[order])
    np.testing.assert_array_equal(once.predict_proba(X), again.predict_proba(X))


def test_a_table_of_one_category_and_one_of_ten_thousand():
    rng = np.random.default_rng(0)
    names = [f"user {k}" for k in rng.permutation(10_000)]
    X = pl.DataFrame({"one": ["same"] * 10_000, "user": names, "size": rng.normal(size=10_000)})
    model = BCDClassifier(n_networks=1, **QUICK).fit(X, X["size"].to_numpy() > 0)
    assert model.network_.widths[0] == 1 + 64 + 64 + 1  # the one, the frequent, those that share, the size
    assert model.score(X, X["size"].to_numpy() > 0) > 0.95


def test_streams_and_warm_starts_keep_the_columns_of_their_first_rows(tmp_path):
    table, y = records()
    X = in_pandas(table)
    stream = BCDClassifier(**QUICK).partial_fit(X[:110], y[:110], classes=[0, 1])
    stream.partial_fit(in_polars(table)[110:], y[110:])
    assert stream.score(X, y) > 0.5
    warm = BCDClassifier(warm_start=True, **QUICK).fit(X, y)
    columns = warm.model_.columns
    assert warm.fit(X[:100].assign(city="b"), y[:100]).model_.columns is columns
    assert warm.fit(X[["size", "gap"]], y).model_.columns is not columns
    warm.save(tmp_path / "my.model")
    assert BCDClassifier.load(tmp_path / "my.model").partial_fit(X[["gap", "size"]], y).score(X, y) > 0.5


def test_validation_rows_may_come_in_another_order_of_columns():
    table, y = records()
    X = in_pandas(table)
    model = BCDClassifier(**QUICK).fit(X, y, X_val=X[X.columns[::-1]], y_val=y)
    assert model.score(X, y) > 0.9
