"""A model has one way to compute scores, and what cannot be predicted with is refused by name."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from tests.model.export.models import KINDS, SKIPS, expected_scores, fitted, largest_error, oracle, random_model, rows
from tests.strategies import networks, seeds
from tikhonet.estimators import BCDClassifier
from tikhonet.model.export import to_c, to_csr, to_onnx, to_torch, torch_program
from tikhonet.model.predictor import Predictor
from tikhonet.network.activation import ClippedReLU


@pytest.mark.parametrize("kind", KINDS)
def test_it_holds_all_that_the_estimator_predicts_with(kind):
    model, X = fitted(kind)
    forward = model.exported_model()
    assert largest_error(oracle(forward, X), expected_scores(model, X)) <= 1e-9
    assert forward.nonzero == pytest.approx(1 - model.sparsity_["zeros"])
    assert list(forward.classes) == getattr(model, "classes_", np.array([])).tolist()


@pytest.mark.parametrize("kind", ["paper", "clipped", "regressor", "features"])
def test_zeros_and_scores_survive_a_model_file(kind, tmp_path):
    model, X = fitted(kind)
    model.save(tmp_path / "my.model")
    loaded = type(model).load(tmp_path / "my.model")
    assert loaded.sparsity_ == model.sparsity_
    assert largest_error(expected_scores(loaded, X), expected_scores(model, X)) <= 1e-12
    assert loaded.to_c("net", int8=True) == model.to_c("net", int8=True)


def changed(model, change):
    parts = {part: {} for part in ("scaling", "head")}
    for part in parts:
        fields = vars(getattr(model, part))
        parts[part] = replace(getattr(model, part), **{name: change[name] for name in change if name in fields})
    return replace(model, **parts, **{name: change[name] for name in change if name in ("W", "classes")})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"shift": np.zeros(4)}, r"shift must have shape \(5,\), got \(4,\)"),
        ({"coef": np.ones((3, 4))}, r"coef must have shape \(3, 5\), got \(3, 4\)"),
        ({"intercept": np.ones(2)}, r"intercept must have shape \(3,\), got \(2,\)"),
        ({"classes": (1, 2)}, "classes must hold one label for each of the 3 scores"),
        ({"W": {}}, "W must hold the learned edges"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change, reason):
    with pytest.raises(ValueError, match=reason):
        changed(random_model(SKIPS), change)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"scale": np.zeros(5)}, "scale must hold positive numbers"),
        ({"low": np.full(5, 9.0)}, "low must not lie above high"),
        ({"high": np.full(5, np.nan)}, "high must hold finite numbers"),
        ({"coef": np.full((3, 5), np.inf)}, "coef must hold finite numbers"),
        ({"classes": (1, 2, None)}, "classes must be numbers or strings, got None"),
        ({"W": random_model(SKIPS).W | {(1, 0): torch.full((5, 5), float("nan"))}}, r"W\[1, 0\] must hold finite"),
    ],
)
def test_a_model_that_no_format_could_say_is_not_exported(change, reason):
    model = changed(random_model(SKIPS), change)
    for export in (to_c, to_csr, to_onnx, to_torch, torch_program, Predictor):
        with pytest.raises(ValueError, match=reason):
            export(model)


@given(networks(), seeds, st.sampled_from([0.0, 0.2, 1.0]), st.booleans(), st.booleans())
def test_the_scores_are_those_of_the_formula(network, seed, nonzero, head, clipped):
    network = network.with_activation(ClippedReLU(0.5)) if clipped else network
    model = random_model(network, seed, nonzero=nonzero, head=head)
    X = rows(model, 7, seed).astype(float)
    assert largest_error(model.scores(X), oracle(model, X)) <= 1e-12


@pytest.mark.parametrize("method", ["exported_model", "to_torch", "to_onnx", "to_csr", "to_c", "predictor"])
def test_a_model_that_is_not_fitted_says_so(method):
    with pytest.raises(NotFittedError):
        getattr(BCDClassifier(), method)()


def test_the_energy_rule_cannot_be_exported():
    model, _ = fitted("logistic")
    model.decision = "energy"
    try:
        with pytest.raises(ValueError, match='decision must be "forward" for a model to be exported'):
            model.to_c()
    finally:
        model.decision = "forward"
