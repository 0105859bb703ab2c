import cvxpy as cp
import numpy as np
import pytest
import torch

from tests.estimators.samples import QUICK, blobs
from tikhonet import Fenchel, Network, Problem, Tikhonov
from tikhonet.estimators import BCDClassifier
from tikhonet.estimators.energy import energies
from tikhonet.model import storage


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


def test_probabilities_of_energies_need_a_fit_that_measured_them(tmp_path):
    X, y = blobs()
    model = BCDClassifier(**QUICK).fit(X, y)
    model.save(tmp_path / "model")
    for forward in (model, BCDClassifier.load(tmp_path / "model")):
        forward.set_params(decision="energy").save(tmp_path / "model")
        assert forward.score(X, y) > 0.85
        for method in (forward.predict_proba, forward.predict_log_proba):
            with pytest.raises(ValueError, match='fit with decision="energy" for its probabilities'):
                method(X)
    np.testing.assert_array_equal(BCDClassifier.load(tmp_path / "model").predict(X), model.predict(X))
    energy = BCDClassifier(decision="energy", **QUICK).fit(X, y).set_params(decision="forward")
    np.testing.assert_array_equal(energy.predict_proba(X), model.set_params(decision="forward").predict_proba(X))
    expected = energy.set_params(decision="energy").predict_proba(X)
    energy.set_params(decision="forward").save(tmp_path / "model")
    np.testing.assert_array_equal(
        BCDClassifier.load(tmp_path / "model").set_params(decision="energy").predict_proba(X), expected
    )


def test_files_that_call_unmeasured_energies_certain_are_not_believed(tmp_path):
    X, y = blobs()
    BCDClassifier(**QUICK).fit(X, y).save(tmp_path / "model")
    header, tensors = storage.load(tmp_path / "model")
    header["fitted"]["sharpness"]["energy"] = 1.0
    storage.save(tmp_path / "model", header, tensors)
    with pytest.raises(ValueError, match='fit with decision="energy"'):
        BCDClassifier.load(tmp_path / "model").set_params(decision="energy").predict_proba(X)
