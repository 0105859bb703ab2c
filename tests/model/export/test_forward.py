"""What cannot be predicted with is refused by name."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from tests.model.export.models import KINDS, SKIPS, expected_scores, fitted, largest_error, oracle, random_forward
from tikhonet.estimators import BCDClassifier


@pytest.mark.parametrize("kind", KINDS)
def test_it_holds_all_that_the_estimator_predicts_with(kind):
    model, X = fitted(kind)
    forward = model.to_forward()
    assert largest_error(oracle(forward, X), expected_scores(model, X)) <= 1e-9
    assert forward.nonzero == pytest.approx(1 - model.sparsity_["zeros"])
    assert list(forward.classes) == getattr(model, "classes_", np.array([])).tolist()


@pytest.mark.parametrize("kind", ["paper", "regressor", "features"])
def test_zeros_and_scores_survive_a_model_file(kind, tmp_path):
    model, X = fitted(kind)
    model.save(tmp_path / "my.model")
    loaded = type(model).load(tmp_path / "my.model")
    assert loaded.sparsity_ == model.sparsity_
    assert largest_error(expected_scores(loaded, X), expected_scores(model, X)) <= 1e-12
    assert loaded.to_c("net", int8=True) == model.to_c("net", int8=True)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"shift": np.zeros(4)}, r"shift must hold finite numbers of shape \(5,\)"),
        ({"scale": np.zeros(5)}, "scale must hold positive numbers"),
        ({"low": np.full(5, 9.0)}, "low must not lie above high"),
        ({"high": np.full(5, np.nan)}, "high must hold finite numbers"),
        ({"intercept": None}, "coef and intercept must be given together"),
        ({"coef": np.ones((3, 4))}, r"coef must hold finite numbers of shape \(3, 5\)"),
        ({"classes": (1, 2)}, "classes must hold one label for each of the 3 scores"),
        ({"W": {}}, "W must hold the learned edges"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change, reason):
    with pytest.raises(ValueError, match=reason):
        replace(random_forward(SKIPS), **change)


def test_weights_that_are_not_finite_are_refused():
    forward = random_forward(SKIPS)
    W = forward.W | {(1, 0): torch.full((5, 5), float("nan"))}
    with pytest.raises(ValueError, match=r"W\[1, 0\] must hold finite numbers"):
        replace(forward, W=W)


@pytest.mark.parametrize("method", ["to_forward", "to_torch", "to_onnx", "to_csr", "to_c", "predictor"])
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
