import hashlib
from pathlib import Path

import pytest
import torch

from tikhonet import Box, RowL1Ball
from tikhonet.data import load
from tikhonet.estimators import BCDClassifier
from tikhonet.model import storage


def results(document):
    return {check["claim"]: check["holds"] for check in document["checks"]}


def test_a_sound_model_passes(run, model):
    document = run("certify", model, "--json").document
    assert document["passed"]
    assert list(results(document).values()) == [True, True, True]
    assert hashlib.sha256(Path(model).read_bytes()).hexdigest() in document["checks"][0]["figure"]


def test_stationarity_is_reported_and_fails_only_when_asked_for(run, model):
    claim = "the point is stationary"
    assert results(run("certify", model, "--data", "digits", "--json").document)[claim] is None
    assert results(run("certify", model, "--data", "digits", "--stationary", 1e9, "--json").document)[claim] is True
    strict = run("certify", model, "--data", "digits", "--stationary", 0, "--json", code=1).document
    assert results(strict)[claim] is False
    assert not strict["passed"]


def test_what_is_not_claimed_of_a_trainers_run_is_said_in_text_and_json(run, model):
    missing = run("certify", model, "--json").document["not_claimed"]
    assert {"convergence", "descent", "gradient_free", "step_length", "network"} <= set(missing)
    text = " ".join(run("certify", model).out.split())
    assert "not claimed" in text
    assert "step length" in text
    data = load("digits")
    assert BCDClassifier((4,), max_iter=60).fit(data.X, data.y).certificate_.not_claimed == missing


def test_weights_outside_their_set_fail(run, model):
    header, tensors = storage.load(model)
    tensors["W.1.0"] *= 100
    storage.save(model, header, tensors)
    document = run("certify", model, "--json", code=1).document
    assert results(document)["the weights are in their set"] is False
    assert "FAIL" in run("certify", model, code=1).out


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-10], lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]), lambda raw: b""]
)
def test_a_damaged_file_fails_the_first_check(run, mistake, model, damage):
    Path(model).write_bytes(damage(Path(model).read_bytes()))
    document = run("certify", model, "--json", code=1).document
    assert results(document) == {"the file is as it was saved": False}
    assert "small.model" in mistake("predict", model, "--data", "digits", code=1)


def test_the_residual_of_v_is_the_gradient_of_the_lifted_objective(run, tmp_path):
    """By automatic differentiation, at the features of the forward pass, with the ridge of the proximal solver."""
    words = ["--hidden", "8", "--solver", "proximal", "--max-iter", 2, "--dtype", "float64", "-o", "m"]
    run("fit", "--data", "digits", *words)
    checks = run("certify", "m", "--data", "digits", "--json").document["checks"]
    figure = next(check["figure"] for check in checks if check["key"] == "stationary")
    estimator, data = BCDClassifier.load(tmp_path / "m"), load("digits")
    features = torch.from_numpy(estimator.transform(data.X.astype(float)))
    targets = estimator._loss().encode(torch.from_numpy(data.y), 10).double()
    V = estimator.model_.V.clone().requires_grad_()
    value = estimator._loss().rows(targets, features @ V.T).sum() + 0.02 * len(data) / 2 * V.square().sum()
    (gradient,) = torch.autograd.grad(value, V)
    assert f"V {float(gradient.norm()):.3g}," in figure


def test_the_loss_of_the_network_itself_is_measured_too(run, model):
    checks = {check["key"]: check for check in run("certify", model, "--data", "digits", "--json").document["checks"]}
    assert checks["network"]["holds"] is None
    assert checks["gap"]["holds"] is True
    assert "of L = " in checks["network"]["figure"]


def test_a_certified_fit_ends_stationary_and_learns(run, mistake, tmp_path):
    """On the rows of the fit, all of them: with the defaults some are held out, and are not stationary for."""
    data, options = load("digits"), {"solver": "certified", "random_state": 0, "dtype": "float64"}
    model = BCDClassifier((10,), early_stopping=False, **options).fit(data.X, data.y)
    assert model.certificate_["stationary"].holds
    assert model.score(data.X, data.y) > 0.9
    model.save(tmp_path / "c")
    document = run("certify", "c", "--data", "digits", "--json").document
    assert set(document["not_claimed"]) == {"convergence", "minimum", "kinks", "other_rows"}
    network = next(check for check in document["checks"] if check["key"] == "network")
    assert float(network["figure"].split(" would take ")[1].split()[0]) < 1e-4
    words = ["fit", "--data", "digits", "--solver", "certified", "--constraint", "l1", "-o", "m"]
    assert "constraint" in mistake(*words)


def test_stationarity_needs_rows(mistake, model):
    assert "--data" in mistake("certify", model, "--stationary", 0.1)


def test_a_set_that_was_an_object_is_measured_by_its_name(run, tmp_path):
    data = load("digits")
    for name, set_ in (("object", RowL1Ball(1.5)), ("word", "l1")):
        model = BCDClassifier((8,), constraint=set_, radius=1.5, random_state=0, max_iter=60).fit(data.X, data.y)
        model.save(tmp_path / name)
    found, expected = (run("certify", name, "--data", "digits", "--json").document for name in ("object", "word"))
    assert found["checks"][1:] == expected["checks"][1:]
    assert "RowL1Ball(radius=1.5)" in found["checks"][2]["figure"]


def test_stationarity_is_not_measured_without_a_set_that_is_lost(run, tmp_path):
    data = load("digits")
    model = BCDClassifier((8,), constraint=Box(-1.0, 1.0), random_state=0, max_iter=60).fit(data.X, data.y)
    with pytest.warns(UserWarning, match="is not kept"):
        model.save(tmp_path / "m")
    checks = run("certify", "m", "--data", "digits", "--json").document["checks"]
    assert [check["holds"] for check in checks[2:]] == [None, None]
    assert "its constraint was an object" in checks[3]["figure"]
