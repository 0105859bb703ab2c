"""The samples, and the sums over them: chunked, weighted, reduced once, and checked on arrival."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import normal, seeds
from tikhonet import Samples
from tikhonet.problem.samples import rows_of


def make(rows=7, seed=0, **settings):
    return Samples(normal(rows, 3, seed=seed), normal(rows, 2, seed=seed + 1), **settings)


@given(st.integers(1, 12), st.integers(1, 15))
def test_chunks_cover_every_row_once_and_in_order(rows, chunk_rows):
    chunks = list(make(rows, chunk_rows=chunk_rows).chunks())
    assert [row for chunk in chunks for row in range(chunk.start, chunk.stop)] == list(range(rows))
    assert all(chunk.stop - chunk.start == chunk_rows for chunk in chunks[:-1])


@given(seeds, st.integers(1, 9))
def test_a_sum_over_chunks_is_the_sum_over_all(seed, chunk_rows):
    samples = make(seed=seed, chunk_rows=chunk_rows)
    gram = samples.sum(lambda rows: samples.X[rows].T @ samples.X[rows])
    torch.testing.assert_close(gram, samples.X.T @ samples.X, rtol=1e-13, atol=1e-13)


def test_sums_are_accumulated_in_float64():
    ones = torch.ones(3, 1)
    samples = Samples(ones, ones, chunk_rows=1)
    parts = iter([2.0**24, 1.0, 1.0])
    total = samples.sum(lambda rows: torch.tensor(next(parts), dtype=torch.float32))
    assert total.dtype == torch.float64
    assert float(total) == 2**24 + 2


def test_a_sum_leaves_what_its_term_returns_as_it_was():
    stored = torch.ones(2, dtype=torch.float64)
    assert make(3, chunk_rows=1).sum(lambda rows: stored).tolist() == [3.0, 3.0]
    assert stored.tolist() == [1.0, 1.0]


@given(seeds, st.integers(1, 9), st.booleans())
def test_a_weighted_sum_is_the_sum_of_weight_times_value(seed, chunk_rows, weighted):
    weight = normal(7, seed=seed + 2).abs() if weighted else None
    samples = make(seed=seed, weight=weight, chunk_rows=chunk_rows)
    values = samples.X[:, 0]
    expected = sum(float(v) * (float(weight[i]) if weighted else 1.0) for i, v in enumerate(values))
    assert samples.weighted_sum(lambda rows: values[rows]) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_weigh_multiplies_each_row_by_its_own_weight():
    samples = make(4, weight=torch.tensor([1.0, 2.0, 0.0, 3.0], dtype=torch.float64))
    M = torch.ones(2, 3, dtype=torch.float64)
    assert samples.weigh(M, slice(1, 3)).tolist() == [[2.0] * 3, [0.0] * 3]
    assert make(4).weigh(M, slice(1, 3)) is M


@pytest.mark.parametrize("chunk_rows", [1, 3, 100])
def test_reduce_is_applied_exactly_once_a_sum(chunk_rows):
    calls = []

    def reduce(total):
        calls.append(total)
        return 10 * total

    samples = make(chunk_rows=chunk_rows, reduce=reduce)
    assert samples.sum(lambda rows: samples.X[rows].new_tensor(rows.stop - rows.start)) == 70
    assert len(calls) == 1
    assert samples.weighted_sum(lambda rows: torch.ones(rows.stop - rows.start)) == 70
    assert len(calls) == 2


def test_a_constant_is_computed_once_a_key():
    samples, calls = make(), []

    def compute():
        calls.append(None)
        return torch.tensor(float(len(calls)))

    first = samples.constant("gram", compute)
    assert samples.constant("gram", compute) is first
    assert len(calls) == 1
    assert float(samples.constant(("gram", 1), compute)) == 2


def test_constants_are_not_shared_between_samples():
    samples = make()
    samples.constant("gram", lambda: torch.tensor(1.0))
    others = make(), replace(samples, weight=torch.ones(7, dtype=torch.float64)), replace(samples, chunk_rows=1)
    for number, other in enumerate(others, 2):
        assert float(other.constant("gram", lambda number=number: torch.tensor(float(number)))) == number


def test_rows_of_takes_the_same_rows_of_every_layer_and_converts_only_if_told():
    U = {0: torch.arange(6.0).reshape(3, 2), 1: torch.arange(3.0).reshape(3, 1)}
    some = rows_of(U, slice(1, 3))
    assert {m: layer.tolist() for m, layer in some.items()} == {0: [[2.0, 3.0], [4.0, 5.0]], 1: [[1.0], [2.0]]}
    assert some[0].dtype == torch.float32
    assert rows_of(U, slice(0, 1), torch.float64)[1].dtype == torch.float64


def test_len_is_the_number_of_rows():
    assert len(make(5)) == 5


# Errors


X, T = torch.ones(4, 3), torch.ones(4, 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"X": torch.ones(4)}, r"X must have shape \(samples, inputs\), neither 0, got \(4,\)"),
        ({"X": torch.ones(0, 3), "targets": torch.ones(0, 2)}, r"X must have shape .*, got \(0, 3\)"),
        ({"X": torch.ones(4, 0)}, r"X must have shape .*, got \(4, 0\)"),
        ({"X": X.long()}, "X must be of a floating-point type, got torch.int64"),
        ({"targets": torch.ones(3, 2)}, r"targets must have one row per sample \(4\), got 3"),
        ({"targets": T.long()}, r"targets must have X's type and device .*, got torch.int64 .*use targets.to\(X\)"),
        ({"targets": T.double()}, "targets must have X's type and device .*, got torch.float64"),
        ({"targets": T.to("meta")}, r"targets must have X's type and device \(torch.float32 on cpu\), got .* on meta"),
        ({"weight": torch.ones(4).double()}, r"weight must have X's type and device .*use weight.to\(X\)"),
        ({"weight": torch.ones(3)}, r"weight must hold one number per sample \(4,\), got \(3,\)"),
        ({"weight": torch.ones(4, 1)}, r"weight must hold one number per sample \(4,\), got \(4, 1\)"),
        ({"weight": torch.tensor(1.0)}, r"weight must hold one number per sample \(4,\), got \(\)"),
        ({"targets": torch.tensor(1.0)}, r"targets must have one row per sample \(4\)"),
        ({"weight": torch.zeros(4)}, "weight must be non-negative and not all zero"),
        ({"weight": torch.tensor([1.0, 1.0, -1.0, 1.0])}, "weight must be non-negative and not all zero"),
        ({"chunk_rows": 0}, "chunk_rows must be at least 1, got 0"),
    ],
)
def test_bad_samples_are_an_error_that_names_the_argument(arguments, words):
    with pytest.raises(ValueError, match=words):
        Samples(**({"X": X, "targets": T} | arguments))


@pytest.mark.parametrize("chunk_rows", [1, 3, 100])
@pytest.mark.parametrize("name", ["X", "targets", "weight"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_finite_are_an_error_that_names_their_first_row(name, value, chunk_rows):
    arguments = {"X": torch.ones(7, 3), "targets": torch.ones(7, 2), "weight": torch.ones(7)}
    arguments[name][4:6] = value
    with pytest.raises(ValueError, match=f"{name} must be finite, got NaN or infinity first in row 4"):
        Samples(**arguments, chunk_rows=chunk_rows)
