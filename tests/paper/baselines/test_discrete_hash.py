from itertools import pairwise, product

import numpy as np
import pytest
import torch

from tikhonet.hashing import evaluate
from tikhonet.paper.baselines.classical_hashes import ITQ
from tikhonet.paper.baselines.discrete_hash import DiscreteHash, cholesky, improve_bits


def random_step(rows=6, n_bits=5, classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    W = torch.randn(n_bits, classes, generator=generator)
    Y = torch.nn.functional.one_hot(torch.arange(rows) % classes).float()
    F = torch.randn(rows, n_bits, generator=generator)
    B = torch.where(torch.rand(rows, n_bits, generator=generator) < 0.5, -1.0, 1.0)
    return B, Y, W, F


def cost(B, Y, W, F, nu):
    return float((Y - B @ W).square().sum() + nu * (B - F).square().sum())


@pytest.mark.parametrize("seed", range(5))
def test_no_single_bit_can_be_improved_after_the_bits_step(seed):
    B, Y, W, F = random_step(seed=seed)
    better = improve_bits(B, W @ W.T, Y @ W.T + 0.1 * F)
    reached = cost(better, Y, W, F, 0.1)
    assert reached <= cost(B, Y, W, F, 0.1)
    for row, bit in product(range(6), range(5)):
        flipped = better.clone()
        flipped[row, bit] *= -1
        assert cost(flipped, Y, W, F, 0.1) >= reached - 1e-4


def test_with_orthogonal_rows_of_w_the_bits_step_is_the_global_minimum():
    B, Y, _, F = random_step()
    W = torch.eye(5)[:, :3] * 2
    found = cost(improve_bits(B, W @ W.T, Y @ W.T + 0.1 * F), Y, W, F, 0.1)
    least = sum(
        min(cost(torch.tensor([signs]), Y[i : i + 1], W, F[i : i + 1], 0.1) for signs in product((-1.0, 1.0), repeat=5))
        for i in range(6)
    )
    assert found == pytest.approx(least, rel=1e-5)


def test_a_bit_of_no_consequence_stays():
    B = torch.tensor([[1.0, -1.0]])
    assert torch.equal(improve_bits(B, torch.zeros(2, 2), torch.zeros(1, 2)), B)


def test_w_and_p_are_least_squares():
    method = DiscreteHash(8, ridge=2.0)
    B, Y, _, _ = random_step(rows=20, n_bits=8)
    augmented = np.vstack([B.numpy(), 2**0.5 * np.eye(8)])
    expected = np.linalg.lstsq(augmented, np.vstack([Y.numpy(), np.zeros((8, 3))]), rcond=None)[0]
    np.testing.assert_allclose(method.classify(B, Y), expected, atol=1e-5)
    Phi = torch.randn(20, 6, generator=torch.Generator().manual_seed(1))
    expected = np.linalg.lstsq(Phi.numpy(), B.numpy(), rcond=None)[0]
    np.testing.assert_allclose(method.regress(Phi, B, cholesky(Phi)), expected, atol=1e-4)


def test_the_objective_never_rises(splits):
    train, _ = splits
    losses = DiscreteHash(24, nu=0.1, anchors=200).fit(train.X, train.y, seed=3).losses_
    assert len(losses) == 5
    assert all(after <= before * (1 + 1e-5) for before, after in pairwise(losses))
    assert losses[-1] < 0.9 * losses[0]


def test_it_is_far_better_than_itq_on_the_digits(splits):
    train, test = splits
    scores = []
    for method in (DiscreteHash(32), ITQ(32)):
        method.fit(train.X, train.y)
        found = evaluate(method.codes(test.X), test.y, method.codes(train.X), train.y)
        scores.append(found.mean_average_precision.expected)
    assert scores[0] > 0.97 > 0.8 > scores[1]


def test_an_indicator_matrix_does_as_labels_do(splits):
    X, y = splits[0].X[:200], splits[0].y[:200]
    by_labels, by_matrix = (DiscreteHash(16).fit(X, labels, seed=1).codes(X) for labels in (y, np.eye(10)[y]))
    np.testing.assert_array_equal(by_labels, by_matrix)


def test_equal_rows_are_no_problem():
    X, y = np.ones((20, 3)), np.arange(20) % 2
    assert DiscreteHash(8).fit(X, y).codes(X).shape == (20, 1)


@pytest.mark.parametrize(
    ("settings", "y", "said"),
    [
        ({"anchors": 0}, None, "anchors must be positive"),
        ({"nu": float("inf")}, None, "nu must be positive and finite"),
        ({"iterations": 0}, None, "iterations must be at least 1"),
        ({}, None, "y must hold a label for each of the 4 rows, got none"),
        ({}, [1, 2], "got 2"),
        ({}, [1, 1, 1, 1], "at least 2 classes"),
        ({}, [1, 2, np.nan, 2], "Input y contains NaN"),
        ({}, [[0, 2]] * 4, "indicator matrix of 0 and 1"),
    ],
)
def test_mistakes_are_named(settings, y, said):
    with pytest.raises(ValueError, match=said):
        DiscreteHash(8, **settings).fit(np.eye(4), y)
