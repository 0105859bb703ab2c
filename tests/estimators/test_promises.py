"""Promises of a fit that version 0.1 did not keep: weights, streams, sizes, messages, threads."""

import os
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from tests.estimators.samples import QUICK, blobs, line
from tikhonet.estimators import BCDClassifier, BCDRegressor, solvers
from tikhonet.estimators.solvers import SMALL_WORK, threads
from tikhonet.network.errors import ArgumentError

DIGITS = load_digits(return_X_y=True)


@pytest.mark.parametrize("factor", [1e-195, 1e-6, 1 / 500, 1e195])
@pytest.mark.parametrize("head", ["logistic", "svm", "ridge"])
def test_only_ratios_of_weights_matter(factor, head):
    X, y = DIGITS[0][:500], DIGITS[1][:500]
    settings = {"hidden_layer_sizes": (30,), "random_state": 0, "max_iter": 10, "head": head}
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, other = (BCDClassifier(**settings).fit(X, y, w) for w in (weight, factor * weight))
    np.testing.assert_allclose(other.predict_proba(X), one.predict_proba(X), atol=2e-3)


def test_ratios_of_weights_between_calls_matter():
    X, y = blobs(300)
    flipped = (y + 1) % 3
    shares = []
    for weight in (1e-3, 1e3):
        model = BCDClassifier(**QUICK)
        for _ in range(3):
            model.partial_fit(X, y, classes=[0, 1, 2])
            model.partial_fit(X, flipped, sample_weight=np.full(len(y), weight))
        shares.append(model.score(X, y))
    assert shares[0] > 0.8
    assert shares[1] < 0.2


def streamed(first, rows=1200, size=200):
    X, y = DIGITS
    model = BCDClassifier((50,), random_state=0)
    model.partial_fit(X[:first], y[:first], classes=np.arange(10))
    for _ in range(3):
        for start in range(first, rows, size):
            model.partial_fit(X[start : start + size], y[start : start + size])
    return model.score(X[rows:], y[rows:])


def test_a_stream_that_begins_with_one_row_is_as_good_as_any():
    wanted = streamed(200)
    assert wanted > 0.8
    for first in (1, 30):
        assert streamed(first) > wanted - 0.02


def test_rows_that_come_one_by_one_are_learned():
    X, y = DIGITS
    few = np.flatnonzero(y < 3)
    model = BCDClassifier((20,), random_state=0)
    for row in few[:130]:
        model.partial_fit(X[[row]], y[[row]], classes=[0, 1, 2])
    assert model.score(X[few[130:]], y[few[130:]]) > 0.85


def test_numbers_that_come_one_by_one_are_learned():
    X, y = line(300)
    model = BCDRegressor(**QUICK).partial_fit(X[:1], y[:1])
    for start in range(1, 200, 50):
        model.partial_fit(X[start : start + 50], y[start : start + 50])
    assert model.score(X[200:], y[200:]) > 0.8


def test_a_feature_that_begins_to_vary_late_is_learned():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    X[:300, 2] = 5.0
    X[300:, 2] += 5.0
    y = ((X[:, 0] + 4 * (X[:, 2] - 5.0)) > 0).astype(int)
    model = BCDClassifier((30,), random_state=0).partial_fit(X[:300], y[:300], classes=[0, 1])
    assert model.model_.scaling.low[2] == model.model_.scaling.high[2] == pytest.approx(5)
    for _ in range(5):
        for start in range(300, 1000, 100):
            model.partial_fit(X[start : start + 100], y[start : start + 100])
    assert model.model_.scaling.low[2] < model.model_.scaling.high[2]
    assert model.score(X[1000:], y[1000:]) > 0.9


def test_the_scaling_of_a_feature_that_wakes_is_that_of_all_rows():
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=400), np.where(np.arange(400) < 300, 2.0, rng.normal(size=400))]
    y = rng.integers(0, 2, 400)
    model = BCDClassifier(**QUICK).partial_fit(X[:300], y[:300], classes=[0, 1]).partial_fit(X[300:], y[300:])
    assert model.model_.scaling.shift[1] == pytest.approx(X[:, 1].mean())
    assert model.model_.scaling.scale[1] == pytest.approx(X[:, 1].std())
    rows = model._fitted.memory.rows
    assert sorted(rows.X[:, 1]) == pytest.approx(sorted(model.model_.scaling(X)[:, 1]), abs=1e-6)


def named(argument, words, call):
    with pytest.raises(ArgumentError, match=words) as caught:
        call()
    assert caught.value.argument == argument
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_a_fit_too_large_for_memory_is_refused_in_one_line():
    X, y = blobs()
    words = r"hidden_layer_sizes must leave room in memory, got layers of widths \(100000000,\), .* GB of .* GB; use"
    named("hidden_layer_sizes", words, lambda: BCDClassifier((10**8,)).fit(X, y))
    named("hidden_layer_sizes", words, lambda: BCDClassifier((10**8,)).partial_fit(X, y, classes=[0, 1, 2]))
    rows = np.arange(150_000.0)
    named("y", "y must leave room in memory, got 150000 targets", lambda: BCDClassifier((8,)).fit(rows[:, None], rows))


def test_a_device_without_numbers_is_refused():
    named("device", "device must be a device of this machine", lambda: BCDClassifier(device="meta").fit(*blobs()))


def test_large_numbers_are_not_called_nan():
    X, y = blobs()
    named("X", r"X must hold numbers up to 1e\+305, got .*e\+30[78];", lambda: BCDClassifier().fit(1e307 * X, y))
    X, y = line()
    named("y", r"y must hold numbers up to 1e\+305, got", lambda: BCDRegressor().fit(X, y / np.abs(y).max() * 1e308))


def test_weights_beyond_any_sum_are_named_with_a_remedy():
    words = r"sample_weight must have its largest number between 1e-200 and 1e\+200, got 1e\+300; only ratios matter"
    X, y = blobs()
    named("sample_weight", words, lambda: BCDClassifier().fit(X, y, np.full(len(y), 1e300)))
    weight = np.where(np.arange(len(y)) < 60, 1e100, 1e-100)
    model = BCDClassifier(**QUICK).fit(X, y, weight)
    np.testing.assert_array_equal(model.predict(X), BCDClassifier(**QUICK).fit(X[:60], y[:60]).predict(X))


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_wrong_head_is_found_before_training(method):
    X, y = blobs()
    seen = []
    model = BCDClassifier(head=SVC(), callbacks=seen.append, **QUICK)
    more = {"classes": [0, 1, 2]} if method == "partial_fit" else {}
    named("head", "head must have one row of coef_ for each class", lambda: getattr(model, method)(X, y, **more))
    assert not seen


@pytest.mark.parametrize("Model", [BCDClassifier, BCDRegressor])
def test_features_that_are_all_constant_are_named(Model):
    with pytest.warns(UserWarning, match="all features of X are constant, so that every row gets the same") as caught:
        Model(**QUICK).fit(np.ones((60, 3)), np.arange(60) % 2)
    assert len(caught) == 1


def test_threads_are_at_most_the_cores_and_small_work_has_one():
    before = torch.get_num_threads()
    with threads(10**6, 1e12):
        assert torch.get_num_threads() <= os.cpu_count()
    with threads(None, SMALL_WORK / 2):
        assert torch.get_num_threads() == 1
    with threads(None, 2 * SMALL_WORK):
        assert torch.get_num_threads() == before
    with pytest.raises(RuntimeError), threads(1, 1.0):
        raise RuntimeError
    assert torch.get_num_threads() == before


def test_small_fits_use_one_thread(monkeypatch):
    used = []
    monkeypatch.setattr(solvers.torch, "set_num_threads", used.append)
    BCDClassifier(**QUICK).fit(*blobs())
    assert used[0] == 1
    BCDClassifier(n_jobs=2, **QUICK).fit(*blobs())
    assert used[2] == min(2, os.cpu_count())


FORKS = """
import os
import numpy as np
from tikhonet import BCDClassifier
X = np.random.default_rng(0).normal(size=(400, 20))
y = (X[:, 0] > 0).astype(int)
model = BCDClassifier((256,), n_jobs=2, max_iter=1, batch_size=400, random_state=0, head="svm").fit(X, y)
child = os.fork()
if not child:
    model.fit(X, y).predict(X)
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_process_forked_after_a_fit_on_two_threads_can_fit():
    environment = os.environ | {"OMP_NUM_THREADS": "2", "PYTHONWARNINGS": "ignore"}
    clock = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", FORKS], env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.communicate(timeout=120)[0].strip() == "0"
        finally:
            process.kill()
    assert time.monotonic() - clock < 120
