from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.decomposition import PCA

from tikhonet.hashing import evaluate, unpack
from tikhonet.paper.baselines.classical_hashes import ITQ, PrincipalComponents, RandomProjections
from tikhonet.paper.baselines.discrete_hash import DiscreteHash

METHODS = [RandomProjections, PrincipalComponents, ITQ]


def test_principal_components_are_scikit_learns(splits):
    X = splits[0].X.astype(np.float64)
    method = PrincipalComponents(12).fit(X)
    components = PCA(12, svd_solver="full").fit(X).components_
    np.testing.assert_allclose(np.abs(method.P.numpy().T @ components.T), np.eye(12), atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_bits_are_the_signs_of_centred_projections(method, splits):
    train, test = splits
    fitted = method(16).fit(train.X, train.y, seed=1)
    scores = (test.X - train.X.mean(0)) @ fitted.P.numpy()
    clear = np.abs(scores) > 1e-5
    np.testing.assert_array_equal(unpack(fitted.codes(test.X), 16)[clear], (scores > 0)[clear])


def test_itq_turns_the_components_and_never_raises_its_loss(splits):
    X = splits[0].X
    method = ITQ(16).fit(X, seed=2)
    plain = PrincipalComponents(16).fit(X)
    losses = method.losses_
    assert all(after <= before + 1e-6 for before, after in pairwise(losses))
    assert losses[-1] < 0.95 * losses[0]
    torch.testing.assert_close(method.P.T @ method.P, torch.eye(16), atol=1e-4, rtol=0)
    torch.testing.assert_close(method.P @ method.P.T, plain.P @ plain.P.T, atol=1e-4, rtol=0)


def test_itq_is_better_than_random_directions_and_those_better_than_chance(splits):
    train, test = splits
    found = {}
    for method in METHODS:
        fitted = method(32).fit(train.X, train.y)
        result = evaluate(fitted.codes(test.X), test.y, fitted.codes(train.X), train.y)
        found[method] = result.mean_average_precision.expected
    assert found[ITQ] > found[RandomProjections] > 0.3
    assert found[ITQ] > found[PrincipalComponents] > 0.2


@pytest.mark.parametrize("method", METHODS)
def test_the_seed_fixes_the_codes(method, splits):
    X = splits[0].X[:300]
    first, again = (method(24).fit(X, seed=5).codes(X) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    fixed = X.copy()
    fixed.flags.writeable = False
    np.testing.assert_array_equal(method(24).fit(fixed, seed=5).codes(fixed), first)
    np.testing.assert_array_equal(method(24).fit(torch.tensor(X), seed=5).codes(torch.tensor(X)), first)


def test_only_the_seed_moves_random_directions(splits):
    X = splits[0].X[:300]
    assert not np.array_equal(RandomProjections(24).fit(X, seed=1).codes(X), RandomProjections(24).fit(X).codes(X))


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (lambda X: PrincipalComponents(65).fit(X), r"n_bits must be at most the number of features \(64\)"),
        (lambda X: RandomProjections(7), "n_bits must be"),
        (lambda X: ITQ(16, iterations=0), "iterations must be at least 1"),
        (lambda X: RandomProjections(16).codes(X), "RandomProjections must be fitted"),
        (lambda X: RandomProjections(16).fit(X).codes(X[:, :3]), "X must have 64 columns, as in fit, got 3"),
        (lambda X: RandomProjections(16).fit(X[0]), "Expected 2D array, got 1D"),
        (lambda X: RandomProjections(16).fit(X * np.inf), "Input X contains infinity"),
        (lambda X: RandomProjections(16).fit(csr_array(X)), "Sparse data was passed for X, but dense data is required"),
        (lambda X: RandomProjections(16).fit(X + 1j), "Complex data not supported"),
        (lambda X: RandomProjections(16).fit(torch.tensor(X) + 1j), "Complex data not supported"),
        (
            lambda X: DiscreteHash(16).fit(X, [None] + ["a", "b"] * 24 + ["a"]),
            "at least 2 classes and no None",
        ),
    ],
)
def test_mistakes_are_named(action, said, splits):
    with pytest.raises((ValueError, TypeError), match=said):
        action(splits[0].X[:50] + 1)
