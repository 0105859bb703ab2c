"""Least squares on a support, all rows at once, against NumPy row by row; and the refit that it serves."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import seeds
from tikhonet import Blocks, Budget, Fenchel, Network, Problem
from tikhonet.trainer.batches import Batch
from tikhonet.trainer.sparsity.refit import RIDGE, refit_on_support
from tikhonet.trainer.sparsity.support import SupportSolver, group_rows, solve_on_support
from tikhonet.trainer.sweep import forward, targets_sweep


def row_by_row(H, B, support):
    X = np.zeros_like(B)
    for k, columns in enumerate(support):
        if columns.any():
            X[k, columns] = np.linalg.solve(H[np.ix_(columns, columns)], B[k, columns])
    return X


@given(seeds, st.integers(1, 30), st.integers(1, 20), st.floats(0, 1))
def test_both_solvers_agree_with_a_solve_for_every_row(seed, rows, width, density):
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(width + 3, width)), rng.normal(size=(rows, width))
    H, support = A.T @ A + 0.1 * np.eye(width), rng.random((rows, width)) < density
    expected = row_by_row(H, B, support)
    given_ = torch.tensor(H), torch.tensor(B), torch.tensor(support)
    np.testing.assert_allclose(solve_on_support(*given_).numpy(), expected, rtol=1e-8, atol=1e-10)
    found = SupportSolver.of(given_[0], given_[2]).direction(None, given_[1]).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    assert (found[~support] == 0).all()


@given(seeds)
def test_every_row_with_a_support_is_in_one_group_and_long_rows_pad_few(seed):
    rng = np.random.default_rng(seed)
    support = torch.tensor(rng.random((60, 80)) < rng.random((60, 1)) ** 3)
    groups = group_rows(support)
    rows = torch.cat([group.rows for group in groups]) if groups else torch.zeros(0, dtype=torch.long)
    assert sorted(rows.tolist()) == support.any(1).nonzero().flatten().tolist()
    for group in groups:
        sizes = support[group.rows].sum(1)
        assert int(sizes.max()) == group.columns.shape[1] <= 1.3 * int(sizes.min()) + 8
        assert torch.equal((~group.padding).sum(1), sizes)


def test_the_refit_is_the_ridge_regression_on_the_support_towards_the_targets():
    """One layer, all samples in one batch, in NumPy, row by row."""
    problem = Problem(Network.chain([6, 4]), lift=Fenchel())
    generator = torch.Generator().manual_seed(0)
    X, noise = (torch.randn(40, k, generator=generator, dtype=torch.float64) for k in (6, 2))
    W = problem.network.random_weights(1, dtype=torch.float64)
    V = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    targets = problem.network.features(X, W) @ V.T + 0.1 * noise
    budget = Budget(0.34, "row")
    found, refit = refit_on_support(problem, lambda: [Batch(X, targets)], Blocks({}, V, W), budget, None, damping=30.0)
    here = forward(problem, X, W, {})
    grad_Z = targets_sweep(problem, V, W, here, problem.loss.slope(targets, here.A[1] @ V.T), 30.0)[1].numpy()
    A, old = X.numpy(), W[1, 0].numpy()
    T = A @ old.T - grad_Z
    H = A.T @ A
    H += RIDGE * np.mean(np.diag(H)) * np.eye(6)
    linear = T.T @ A + RIDGE * np.mean(np.diag(A.T @ A)) * old
    size = np.abs(old) * np.sqrt(np.mean(A**2, axis=0))
    support = size >= np.sort(size, axis=1)[:, [-2]]
    np.testing.assert_allclose(found[1, 0].numpy(), row_by_row(H, linear, support), rtol=1e-9, atol=1e-12)
    assert refit.residual < 1e-12
    assert refit.kept
    assert refit.after == pytest.approx(
        float(problem.loss.value(targets, problem.network.features(X, found) @ V.T, None).sum())
    )


def test_a_refit_that_raises_the_loss_is_not_kept():
    """With V = 0 nothing pulls, and restricted weights have the loss of any others: an equal loss counts as kept."""
    problem = Problem(Network.chain([3, 2]), lift=Fenchel())
    X, targets = torch.rand(9, 3, dtype=torch.float64), torch.zeros(9, 1, dtype=torch.float64)
    W = problem.network.random_weights(0, dtype=torch.float64)
    blocks = Blocks({}, torch.zeros(1, 2, dtype=torch.float64), W)
    _, refit = refit_on_support(problem, lambda: [Batch(X, targets)], blocks, Budget(0.5), None, damping=30.0)
    assert refit.before == refit.after == 0.0
    assert refit.kept
    worse = type(refit)(0.0, before=1.0, after=2.0)
    assert not worse.kept
