"""What columns learn, and what becomes of values."""

import json

import numpy as np
import pytest

from tikhonet.model.column import Column, Values
from tikhonet.model.columns import Columns

ONES = np.ones(4)


def learned(values, type_="number", weight=None, bins=0, categorical=False):
    array = np.array(values, {"text": object, "date": "datetime64[us]"}.get(type_, float))
    table = [Values("v", type_, array, categorical)]
    return Columns.learn(table, np.ones(len(values)) if weight is None else np.array(weight, float), bins), table


def encoded(columns, table):
    return columns.encoding(columns.rows(table)).tolist()


def test_missing_numbers_are_the_weighted_median_and_have_an_indicator():
    columns, table = learned([1, 5, np.nan, 9], weight=[5, 1, 1, 1])
    assert encoded(columns, table) == [[1, 0], [5, 0], [1, 1], [9, 0]]
    columns, table = learned([1, 2, 3, 4])
    assert columns.encoding.bare
    assert encoded(columns, table) == [[1], [2], [3], [4]]


def test_rows_of_weight_zero_teach_nothing():
    columns, _ = learned(["a", "b", None, "c"], "text", weight=[1, 1, 0, 0])
    assert columns.columns[0].as_dict()["categories"] == ["a", "b"]
    assert not columns.columns[0].missing


def test_pieces_are_linear_between_quantiles():
    values = np.arange(17.0)
    columns, table = learned(values, bins=4)
    np.testing.assert_allclose(columns.columns[0].edges, [0, 4, 8, 12, 16])
    found = np.array(encoded(columns, table))
    np.testing.assert_allclose(found[:, 0], values)
    np.testing.assert_allclose(found[:, 1:] @ [4, 4, 4, 4], values)  # the pieces add up to the value
    assert found[5, 1:].tolist() == [1, 0.25, 0, 0]
    assert learned(np.arange(17.0) % 10, bins=4)[0].encoding.bare  # ten values are too few to be cut


def test_categories_have_codes_and_unknown_ones_none():
    columns, table = learned(["b", "a", None, "b"], "text")
    assert encoded(columns, table) == [[0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 1]]
    later = [Values("v", "text", np.array(["c", "a"], object))]
    assert columns.rows(later)[:, 0].tolist() == [-1, 0]
    assert encoded(columns, later) == [[0, 0, 0], [0, 1, 0]]


def test_numbers_as_categories_are_the_same_whole_or_not():
    columns, _ = learned([3, 1, 1, 2], categorical=True)
    assert columns.columns[0].categories == (1, 2, 3)


def test_very_many_categories_share_codes_but_for_the_most_frequent():
    names = [f"n{k}" for k in range(200)]
    weight = [2.0 if k < 64 else 1.0 for k in range(200)]
    columns, table = learned(names, "text", weight=weight)
    column, codes = columns.columns[0], columns.rows(table)[:, 0]
    assert sorted(codes[:64]) == list(range(64))
    assert set(codes[64:]) <= set(range(64, 128))
    assert column.code("never seen") >= 64


def test_dates_before_1970_leap_years_and_missing_ones():
    columns, table = learned(["1904-02-29T06:30", "2023-12-31", "1969-12-31T23:59:59", "NaT"], "date")
    rows = columns.rows(table)
    np.testing.assert_allclose(rows[0], [1904, 60, 0, 6.5])
    np.testing.assert_allclose(rows[1], [2023, 365, 6, 0])
    np.testing.assert_allclose(rows[2], [1969, 365, 2, 24 - 1 / 3600])
    assert np.isnan(rows[3]).all()
    assert columns.encoding.outputs == 5  # one indicator for all four
    assert encoded(columns, table)[3][4] == 1


@pytest.mark.parametrize(
    ("values", "type_", "bins"),
    [
        ([0.1, np.nan, 3, 4] * 5, "number", 0),
        (np.arange(30) / 7, "number", 8),
        ([1.0, 0.0, np.nan], "boolean", 0),
        (["a", None, "ü"], "text", 0),
        ([str(k) for k in range(99)], "text", 0),
        (["1904-02-29", "NaT"], "date", 4),
    ],
)
def test_columns_come_back_from_json_as_they_were(values, type_, bins):
    columns, table = learned(values, type_, bins=bins)
    again = Columns.from_list(json.loads(json.dumps(columns.as_list())))
    assert again == columns
    np.testing.assert_array_equal(again.encoding(again.rows(table)), columns.encoding(columns.rows(table)))


@pytest.mark.parametrize(
    "kept",
    [
        {"kind": "number"},
        {"kind": "number", "name": 3},
        {"kind": "number", "name": "a", "fill": "1"},
        {"kind": "number", "name": "a", "edges": [1, 1]},
        {"kind": "number", "name": "a", "edges": [[1], 2]},
        {"kind": "category", "name": "a", "categories": ["a", 1]},
        {"kind": "category", "name": "a", "categories": ["a", "a"]},
        {"kind": "category", "name": "a", "missing": 1},
        {"kind": "hashed_category", "name": "a", "buckets": 10**12},
        {"kind": "date", "name": "a", "parts": []},
        {"kind": "other", "name": "a"},
        {"kind": "number", "name": "a", "other": 1},
        ["number"],
    ],
)
def test_other_descriptions_are_refused(kept):
    with pytest.raises((ValueError, TypeError, KeyError)):
        Columns.from_list([kept])


def test_every_kind_says_what_its_numbers_are():
    assert set(Column.kinds) == {"number", "boolean", "category", "hashed_category", "date"}
    for values, type_ in (([1.0, np.nan], "number"), (["a"], "text"), (["2020-01-01"], "date"), ([1.0], "boolean")):
        (column,) = learned(values, type_)[0].columns
        assert column.meaning()
