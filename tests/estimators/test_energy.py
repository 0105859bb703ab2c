import cvxpy as cp
import numpy as np
import pytest
import torch

from tests.estimators.samples import QUICK, blobs
from tikhonet import Fenchel, Network, Problem, Tikhonov
from tikhonet.estimators import BCDClassifier
from tikhonet.estimators.energy import energies


@pytest.mark.parametrize("lift", [Tikhonov(), Fenchel()])
def test_energies_are_the_inner_minima(lift):
    network = Network.chain([3, 4], bias=True)
    problem = Problem(network, lift=lift, gamma=0.5)
    W = network.random_weights(0, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    V = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    X = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    found = energies(problem, W, V, X.numpy(), 2, tol=1e-8)
    Z = (X @ W[1, 0].T + W[1, -1].T).numpy()
    for i in range(5):
        for label in range(2):
            u = cp.Variable(4, nonneg=True)
            loss = 0.5 * cp.sum_squares(V.numpy() @ u - np.eye(2)[label])
            energy = loss + 0.5 * (0.5 * cp.sum_squares(u - Z[i]))
            value = cp.Problem(cp.Minimize(energy)).solve(solver="CLARABEL")
            charge = 0.0 if lift.quadratic else 0.25 * np.square(np.minimum(Z[i], 0)).sum()
            assert found[i, label] == pytest.approx(value - charge, abs=1e-6)


@pytest.mark.parametrize("lift", ["tikhonov", "fenchel"])
def test_the_energy_rule_classifies(lift):
    X, y = blobs()
    model = BCDClassifier(decision="energy", lift=lift, **QUICK).fit(X, y)
    assert model.score(X, y) > 0.85
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)
    np.testing.assert_array_equal(model.predict_proba(X).argmax(1), model.predict(X))


def test_rows_are_judged_one_by_one(monkeypatch):
    X, y = blobs()
    model = BCDClassifier(decision="energy", **QUICK).fit(X, y)
    whole = model.decision_function(X)
    monkeypatch.setattr("tikhonet.estimators.energy.PAIRS", 30)
    np.testing.assert_allclose(model.decision_function(X), whole, atol=1e-3)
