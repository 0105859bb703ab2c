from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from tests.strategies import normal, seeds
from tikhonet.hashing.code_training import code_objective, update_codes, update_regression


def case(seed, rows=6, bits=5, labels=3):
    B = normal(rows, bits, seed=seed).sign()
    P, Y = normal(rows, bits, seed=seed + 1), normal(rows, labels, seed=seed + 2)
    weight = 0.1 + normal(rows, seed=seed + 3).square()
    return B, P, Y, normal(bits, labels, seed=seed + 4), weight


def slow(B, P, Y, G, weight, alpha, ridge):
    """The docstring's h, sample by sample."""
    value = 0.5 * alpha * ridge * float((G**2).sum())
    for b, p, y, w in zip(B.numpy(), P.numpy(), Y.numpy(), weight.numpy(), strict=True):
        value += 0.5 * w * (np.sum((b - p) ** 2) + alpha * np.sum((y - G.numpy().T @ b) ** 2))
    return value


@given(seeds)
@settings(max_examples=20)
def test_the_objective_is_the_written_one(seed):
    B, P, Y, G, weight = case(seed)
    found = sum(code_objective(B, P, Y, G, weight, alpha=0.7, ridge=0.3))
    assert found == pytest.approx(slow(B, P, Y, G, weight, 0.7, 0.3), rel=1e-12)


@given(seeds)
@settings(max_examples=20)
def test_the_regression_is_ridge_regression_and_minimises_the_objective(seed):
    B, P, Y, _, weight = case(seed)
    G = update_regression(B, Y, weight, 0.3)
    w = np.diag(weight.numpy())
    expected = np.linalg.solve(B.numpy().T @ w @ B.numpy() + 0.3 * np.eye(5), B.numpy().T @ w @ Y.numpy())
    np.testing.assert_allclose(G.numpy(), expected, rtol=1e-8, atol=1e-10)
    moved = G + 1e-3 * normal(*G.shape)
    assert slow(B, P, Y, moved, weight, 0.7, 0.3) > slow(B, P, Y, G, weight, 0.7, 0.3)


@given(seeds)
@settings(max_examples=20)
def test_a_single_bit_is_set_to_its_minimiser_given_the_others(seed):
    B, P, Y, G, weight = case(seed, bits=1)
    found = update_codes(B, P, Y, G, 0.7)
    for row in range(len(B)):
        one = slice(row, row + 1)
        values = {b: slow(torch.tensor([[b]]).double(), P[one], Y[one], G, weight[one], 0.7, 0.0) for b in (-1.0, 1.0)}
        assert float(found[row]) == min(values, key=values.get)


@given(seeds)
@settings(max_examples=20)
def test_every_bit_of_a_pass_lowers_the_objective_or_stays(seed):
    """A pass equals its bits one by one, each of which does not raise h for any sample."""
    B, P, Y, G, weight = case(seed)
    whole, point = update_codes(B, P, Y, G, 2.0), B
    for bit in range(5):
        best = point.clone()
        for row in range(len(B)):
            one = slice(row, row + 1)
            options = []
            for b in (float(point[row, bit]), -float(point[row, bit])):
                code = point[one].clone()
                code[0, bit] = b
                options.append((slow(code, P[one], Y[one], G, weight[one], 2.0, 0.0), b))
            best[row, bit] = min(options, key=lambda pair: pair[0])[1]
        point = best
    assert torch.equal(whole, point)


def test_passes_end_where_no_single_bit_helps_and_never_below_the_best_of_all_codes():
    B, P, Y, G, weight = case(0, rows=4, bits=6)
    for _ in range(20):
        B = update_codes(B, P, Y, G, 3.0)
    assert torch.equal(B, update_codes(B, P, Y, G, 3.0))
    for row in range(4):
        one = slice(row, row + 1)
        every = [
            slow(torch.tensor([code]), P[one], Y[one], G, weight[one], 3.0, 0.0)
            for code in product([-1.0, 1.0], repeat=6)
        ]
        assert slow(B[one], P[one], Y[one], G, weight[one], 3.0, 0.0) >= min(every) - 1e-12


def test_a_tie_leaves_the_bit_alone():
    B = torch.tensor([[1.0], [-1.0]]).double()
    zero = torch.zeros(2, 1).double()
    assert torch.equal(update_codes(B, zero, zero, zero[:1], 1.0), B)


def test_sums_over_two_parts_of_the_rows_are_those_over_all():
    """Each sum of a part is completed by the other part's, in the order in which they come."""
    B, P, Y, G, weight = case(3, rows=10)
    parts = slice(0, 4), slice(4, 10)
    sums = {part: [] for part in range(2)}
    for part, rows in enumerate(parts):
        update_regression(
            B[rows], Y[rows], weight[rows], 0.3, lambda total, part=part: sums[part].append(total.clone()) or total
        )
        code_objective(
            B[rows],
            P[rows],
            Y[rows],
            G,
            weight[rows],
            alpha=0.7,
            ridge=0.3,
            reduce=lambda total, part=part: sums[part].append(total.clone()) or total,
        )
    whole = []
    update_regression(B, Y, weight, 0.3, lambda total: whole.append(total.clone()) or total)
    code_objective(B, P, Y, G, weight, alpha=0.7, ridge=0.3, reduce=lambda total: whole.append(total.clone()) or total)
    assert len(whole) == len(sums[0]) == 4
    for one, other, both in zip(sums[0], sums[1], whole, strict=True):
        torch.testing.assert_close(one + other, both)
