import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import average_precision_score

from tests.hashing import slow
from tikhonet.hashing import (
    codes as codes_module,
)
from tikhonet.hashing import (
    evaluate,
    hamming,
    pack,
)
from tikhonet.hashing import (
    relevance as relevance_module,
)
from tikhonet.hashing import (
    retrieval as retrieval_module,
)
from tikhonet.hashing.codes import code_report
from tikhonet.hashing.relevance import share_a_label


def random_codes(rows, n_bits, seed):
    return pack(np.random.default_rng(seed).random((rows, n_bits)) < 0.5)


@pytest.fixture
def small():
    rng = np.random.default_rng(3)
    return random_codes(12, 20, 0), rng.integers(0, 3, 12), random_codes(40, 20, 1), rng.integers(0, 3, 40)


@given(st.integers(0, 10**6))
def test_every_measure_is_the_mean_of_its_slow_definition(seed):
    rng = np.random.default_rng(seed)
    queries, base = random_codes(4, 8, seed), random_codes(6, 8, seed + 1)
    y, z = rng.integers(0, 2, 4), np.array([0, 1, *rng.integers(0, 2, 4)])
    found = evaluate(queries, y, base, z, radius=3, at=[2, 5])
    distances, relevant = hamming(queries, base), y[:, None] == z

    def mean(measure):
        rows = [
            slow.over_orders(d, r, lambda ranking, r=r: measure(ranking, r.sum()))
            for d, r in zip(distances, relevant, strict=True)
        ]
        return np.mean(rows, axis=0)

    def check(tied, expected):
        np.testing.assert_allclose([tied.expected, tied.lower, tied.upper], expected, atol=1e-12)

    check(found.mean_average_precision, mean(lambda ranking, total: slow.average_precision(ranking, 6, total)))
    for k in (2, 5):
        check(
            found.mean_average_precision_at[k],
            mean(lambda ranking, total, k=k: slow.average_precision(ranking, k, total)),
        )
        check(found.precision_at[k], mean(lambda ranking, total, k=k: slow.precision(ranking, k)))
    for radius in range(9):
        ball = distances <= radius
        hits = (ball & relevant).sum(1)
        precision = np.where(ball.any(1), hits / np.maximum(ball.sum(1), 1), 0).mean()
        assert found.curve.precision[radius] == pytest.approx(precision)
        assert found.curve.recall[radius] == pytest.approx((hits / relevant.sum(1)).mean())
        assert found.curve.pooled_precision[radius] == pytest.approx(hits.sum() / max(1, ball.sum()))
        assert found.curve.pooled_recall[radius] == pytest.approx(hits.sum() / relevant.sum())
    assert found.precision_within == found.curve.precision[3]
    assert found.recall_within == found.curve.recall[3]
    assert found.empty_balls == (~(distances <= 3).any(1)).mean()


def test_without_ties_map_is_scikit_learns():
    staircase = np.tril(np.ones((64, 64)), -1)  # code i has i ones: distances to zero are 0 .. 63
    rng = np.random.default_rng(0)
    order = rng.permutation(64)
    y = rng.integers(0, 4, 64)
    queries = pack(np.zeros((4, 64)))
    found = evaluate(queries, np.arange(4), pack(staircase)[order], y[order]).mean_average_precision
    distances = staircase.sum(1)[order]
    expected = np.mean([average_precision_score(y[order] == label, -distances) for label in range(4)])
    assert [found.expected, found.lower, found.upper] == pytest.approx([expected] * 3)


def test_perfect_codes_score_one_and_constant_codes_show_their_ties():
    y = np.arange(30) % 3
    perfect = pack(np.repeat(np.eye(3)[y], 8, axis=1))
    found = evaluate(perfect, y, perfect, y)
    assert (found.mean_average_precision.lower, found.precision_within, found.recall_within) == (1, 1, 1)
    constant = np.zeros_like(perfect)
    tied = evaluate(constant, y, constant, y).mean_average_precision
    assert tied.lower < 0.3 < tied.expected < 0.5 < tied.upper == 1


def test_an_empty_ball_counts_as_precision_zero_and_is_reported():
    queries, base = pack(np.array([[0] * 8, [1] * 8])), pack(np.array([[0] * 8, [1, 1, 1] + [0] * 5]))
    found = evaluate(queries, [0, 0], base, [0, 0])
    assert (found.precision_within, found.recall_within, found.empty_balls) == (0.5, 0.25, 0.5)
    assert "50.0% of the balls empty" in str(found)


def test_the_radius_is_inclusive():
    base = pack(np.array([[1, 1] + [0] * 6, [1, 1, 1] + [0] * 5]))
    zero = np.zeros((1, 1), np.uint8)
    assert evaluate(zero, [0], base, [0, 0], radius=2).recall_within == 0.5
    assert evaluate(zero, [0], base, [0, 0], radius=3).recall_within == 1


def test_queries_with_nothing_relevant_are_reported_and_left_out_of_map(small):
    queries, y, base, z = small
    found = evaluate(queries, np.where(np.arange(12) < 2, 99, y), base, z)
    rest = evaluate(queries[2:], y[2:], base, z)
    assert found.without_relevant == 2
    assert found.mean_average_precision == rest.mean_average_precision
    assert found.recall_within == rest.recall_within
    assert found.precision_within == pytest.approx(rest.precision_within * 10 / 12)
    assert "2 queries have nothing relevant" in str(found)


def test_labels_indicators_a_matrix_and_a_function_say_the_same(small):
    queries, y, base, z = small
    expected = evaluate(queries, y, base, z)
    assert evaluate(queries, np.eye(3)[y], base, np.eye(3, dtype=bool)[z]) == expected
    assert evaluate(queries, None, base, None, similar=y[:, None] == z) == expected
    assert evaluate(queries, y, base, z, similar=lambda a, b: a[:, None] == b) == expected
    assert evaluate(queries, ["abc"[label] for label in y], base, [*map("abc".__getitem__, z)]) == expected


def test_one_shared_label_is_enough():
    indicator = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0]])
    expected = [[True, True, False, False], [True, True, True, False], [False, True, True, False], [False] * 4]
    np.testing.assert_array_equal(share_a_label(indicator, indicator), expected)


def test_neither_padding_nor_blocks_change_anything(small, monkeypatch):
    queries, y, base, z = small
    whole = evaluate(queries, y, base, z, n_bits=20)
    monkeypatch.setattr(codes_module, "BLOCK", 100)
    assert evaluate(queries, y, base, z, n_bits=20) == whole
    wide = evaluate(queries, y, base, z)
    assert len(whole.curve.recall) == 21
    assert wide.mean_average_precision == whole.mean_average_precision
    assert wide.curve.recall[:21] == whole.curve.recall


def test_the_cuts_are_those_that_fit_unless_they_are_asked_for(small):
    queries, y, base, z = small
    assert evaluate(queries, y, base, z).precision_at == {}
    assert list(evaluate(queries, y, np.tile(base, (3, 1)), np.tile(z, 3)).precision_at) == [100]
    assert list(evaluate(queries, y, base, z, at=[40, 1]).precision_at) == [40, 1]


def test_the_result_is_plain_json_and_readable(small):
    found = evaluate(*small, at=[10])
    document = json.loads(json.dumps(found.to_dict()))
    assert document == found.to_dict()
    assert document["precision_at"]["10"]["lower"] == found.precision_at[10].lower
    text = str(found)
    assert text.count("by the order of ties") == 3
    assert "precision@10" in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"at": [41]}, "at must hold whole numbers from 1 to 40"),
        ({"at": [0]}, "at must hold"),
        ({"radius": -1}, "radius must be a whole number from 0 to 24"),
        ({"radius": 2.0}, "radius must be a whole number"),
        ({"at": [2.5]}, "at must hold whole numbers"),
        ({"query_labels": np.array(["a", None] * 6), "base_labels": np.array(["a"] * 40)}, "got None or NaN"),
        ({"radius": 25}, "radius must be"),
        ({"n_bits": 32}, "4 bytes a code"),
        ({"query_labels": np.zeros(11)}, "query_labels must hold one label for each of the 12 codes, got 11"),
        ({"base_labels": None}, "base_labels must hold one label for each of the 40 codes, got nothing"),
        ({"query_labels": np.full(12, 7)}, "nothing is relevant to any query"),
        ({"query_labels": ["a"] * 12}, "both be text or both numbers"),
        ({"query_labels": np.zeros((12, 2))}, "both be vectors"),
        ({"query_labels": np.full((12, 2), 2), "base_labels": np.ones((40, 2))}, "zeros and ones"),
        ({"query_labels": np.full(12, np.nan)}, "got NaN"),
        ({"similar": np.ones((12, 39), bool)}, r"similar must be a boolean matrix of shape \(12, 40\)"),
        ({"similar": np.ones((12, 40))}, "got float64"),
        ({"similar": lambda a, b: np.ones(3, bool)}, "similar must return a boolean matrix"),
        ({"query_codes": np.zeros((12, 4), np.uint8)}, "one length, got 4 and 3 bytes"),
        ({"query_codes": np.zeros((0, 3), np.uint8), "query_labels": []}, "must not be empty, got 0 queries"),
    ],
)
def test_wrong_arguments_are_named(small, change, said):
    names = ("query_codes", "query_labels", "base_codes", "base_labels")
    arguments = dict(zip(names, small, strict=True)) | change
    positional = [arguments.pop(name) for name in names]
    with pytest.raises(ValueError, match=said):
        evaluate(*positional, **arguments)


def test_labels_and_relevance_come_in_other_containers(small):
    queries, y, base, z = small
    expected = evaluate(queries, y, base, z, at=[5])
    assert evaluate(queries, y[:, None], base, z[:, None], at=5) == expected
    assert evaluate(queries, y.astype(object), base, z.astype(object), at=np.array([5])) == expected
    similar = y[:, None] == z
    for given_ in (similar.tolist(), sparse.csr_array(similar)):
        assert evaluate(queries, None, base, None, at=[5], similar=given_) == expected
    one_hot = [sparse.csr_array(np.eye(3)[labels]) for labels in (y, z)]
    assert evaluate(queries, one_hot[0], base, one_hot[1], at=[5]) == expected
    json.dumps(evaluate(queries, y, base, z, radius=np.int64(2), at=np.array([5])).to_dict())


def test_a_column_of_zeros_and_ones_is_two_classes(small):
    queries, y, base, z = small
    found = evaluate(queries, (y > 0)[:, None].astype(int), base, (z > 0)[:, None].astype(int))
    assert found == evaluate(queries, y > 0, base, z > 0)
    assert found.without_relevant == 0


@pytest.mark.parametrize("kind", [set, frozenset, list, tuple, lambda labels: dict.fromkeys(labels, 1)])
def test_sets_of_labels_are_refused_with_the_remedy(small, kind):
    queries, y, base, z = small
    several = [kind([label] if label else [0, 1]) for label in z]
    for arguments in ((queries, y, base, several), (base, several, queries, y)):
        with pytest.raises(
            ValueError, match=r"_labels must hold one label a row, or an indicator .*MultiLabelBinarizer"
        ):
            evaluate(*arguments)
    pairs = [kind([label, 7]) for label in z]
    with pytest.raises(ValueError, match="MultiLabelBinarizer"):
        evaluate(base, pairs, base, pairs)


def test_labels_as_objects_are_compared_as_they_are(small):
    queries, y, base, z = small
    expected = evaluate(queries, y, base, z)
    assert evaluate(queries, y.astype(object), base, z) == expected
    assert evaluate(queries, y, base, z.astype(object)) == expected
    days = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[D]")
    assert evaluate(queries, days[y], base, days[z]) == expected
    mixed = np.array([1, "a", "b"], object)
    with pytest.raises(ValueError, match="must both be text or both numbers, got object and object with some of each"):
        evaluate(queries, mixed[y], base, mixed[z])


def test_blocks_of_queries_change_nothing_but_rounding(small, monkeypatch):
    queries, y, base, z = small
    whole = evaluate(queries, np.where(y == 0, 99, y), base, z, at=[5, 20]).to_dict()
    sizes = []

    def counted(part, *others, count=retrieval_module.count):
        sizes.append(len(part))
        return count(part, *others)

    monkeypatch.setattr(retrieval_module, "count", counted)
    monkeypatch.setattr(retrieval_module, "PLACES", 5 * 25)
    parts = evaluate(queries, np.where(y == 0, 99, y), base, z, at=[5, 20]).to_dict()
    assert sizes == [5, 5, 2]
    for name, value in whole.items():
        if isinstance(value, dict):
            for key, numbers in value.items():
                assert parts[name][key] == pytest.approx(numbers, abs=1e-12)
        else:
            assert parts[name] == pytest.approx(value, abs=1e-12)


def test_indicators_of_the_database_are_converted_once(small, monkeypatch):
    queries, y, base, z = small
    monkeypatch.setattr(codes_module, "BLOCK", 40)  # a query at a time
    seen = []

    def shared(queries, base, share=relevance_module.share_a_label):
        seen.append(base)
        return share(queries, base)

    monkeypatch.setattr(relevance_module, "share_a_label", shared)
    evaluate(queries, np.eye(3)[y], base, np.eye(3)[z])
    assert len(seen) == 12
    assert all(labels is seen[0] and labels.dtype == np.float32 for labels in seen)


def test_a_retrieval_says_how_many_codes_there_are_and_how_many_neighbours_are_tied():
    codes, y = pack(np.random.default_rng(0).normal(size=(40, 8))), np.arange(40) % 2
    found = evaluate(codes[:5], y[:5], codes, y)
    assert found.codes == code_report(codes, 8)
    assert found.to_dict()["codes"]["distinct"] == found.codes.distinct
    assert found.codes.ties in str(found)
