"""All kernels give the same scores; which of them is used is measured once for about so many rows."""

import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.model.export.models import (
    KINDS,
    SKIPS,
    expected_scores,
    fitted,
    largest_error,
    oracle,
    random_model,
    rows,
)
from tests.strategies import networks, seeds
from tikhonet import Network
from tikhonet.model import kernels, predictor
from tikhonet.model.predictor import Predictor
from tikhonet.network.activation import ClippedReLU

KERNELS = ["dense", "csr", pytest.param("native", marks=pytest.mark.skipif(not shutil.which("cc"), reason="needs cc"))]


@pytest.mark.parametrize("kernel", KERNELS)
@given(networks(), seeds, st.sampled_from([0.0, 0.3, 1.0]), st.booleans(), st.booleans())
def test_every_kernel_gives_the_scores_of_the_network(kernel, network, seed, nonzero, head, clipped):
    network = network.with_activation(ClippedReLU(0.5)) if clipped else network
    forward = random_model(network, seed, nonzero=nonzero, head=head)
    X = rows(forward, 7, seed)
    predict = Predictor(forward, kernel)
    assert largest_error(predict(X), oracle(forward, X)) <= 1e-5
    assert largest_error(predict(X[3]), oracle(forward, X[3:4])[0]) <= 1e-5
    assert predict(X).dtype == np.float32


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", ["auto", *KERNELS])
def test_fitted_models_predict_the_same(kind, kernel):
    model, X = fitted(kind)
    predict = model.predictor(kernel)
    assert largest_error(predict(X), expected_scores(model, X)) <= 1e-5
    if hasattr(model, "classes_"):
        assert np.array_equal(predict.predict(X), model.predict(X))
        assert predict.predict(X[5]) == model.predict(X[5:6])[0]
    elif kind == "regressor":
        assert predict.predict(X).shape == (len(X), 3)


@pytest.mark.parametrize("kernel", ["auto", "dense", "csr"])
def test_double_precision_is_exact(kernel):
    forward = random_model(SKIPS, nonzero=0.2)
    X = rows(forward)
    scores = Predictor(forward, kernel, "float64")(X)
    assert scores.dtype == np.float64
    assert largest_error(scores, oracle(forward, X)) <= 1e-13


def slowed(monkeypatch, slow):
    """A clock on which each kernel takes as many seconds as said; the calls, in order."""
    clock, calls, make = [0.0], [], Predictor._make

    def made(self, kind):
        kernel = make(self, kind)

        def run(X):
            calls.append((kind, len(X)))
            clock[0] += slow(kind, len(X))
            return kernel(X)

        return run

    monkeypatch.setattr(Predictor, "_make", made)
    monkeypatch.setattr(kernels.time, "perf_counter", lambda: clock[0])
    return calls


def test_the_fastest_is_chosen_for_each_number_of_rows_and_remembered(monkeypatch):
    calls = slowed(monkeypatch, lambda kind, count: {"dense": 10 + 0.01 * count, "csr": count}[kind])
    forward = random_model(SKIPS, nonzero=0.2)
    predict = Predictor(forward, dtype="float64")
    X = rows(forward, 1000)
    assert predict.choose(X[:1]) == "csr"
    assert predict.choose(X) == "dense"
    done = len(calls)
    predict(X[0]), predict(X), predict(X[:900])
    assert calls[done:] == [("csr", 1), ("dense", 1000), ("dense", 900)]
    assert predict.seconds[0] == pytest.approx({"dense": 10.01, "csr": 1.0})


def test_kernels_take_turns_while_they_are_timed(monkeypatch):
    calls = slowed(monkeypatch, lambda kind, count: 1.0)
    forward = random_model(SKIPS, nonzero=0.2)
    Predictor(forward, dtype="float64").choose(rows(forward, 5))
    assert calls == [("dense", 5), ("csr", 5)] * (1 + kernels.ROUNDS)


def test_a_network_that_is_not_sparse_is_not_measured():
    forward = random_model(SKIPS)
    predict = Predictor(forward)
    predict(rows(forward))
    assert predict.seconds == {}
    assert list(predict._kernels) == ["dense"]


def test_estimators_predict_through_the_measured_kernel_where_they_are_sparse():
    model, X = fitted("paper")
    learned = model.model_
    dense = learned.head(learned.scaled_features(learned.scaling(X)))
    np.testing.assert_allclose(model.decision_function(X), dense, rtol=1e-9, atol=1e-9)
    assert learned.sparse_features.seconds
    again = pickle.loads(pickle.dumps(model))
    assert "sparse_features" not in vars(again.model_)
    assert np.array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("kernel", ["auto", *KERNELS])
def test_no_rows_give_no_scores(kernel):
    assert Predictor(random_model(SKIPS), kernel)(np.empty((0, 5))).shape == (0, 3)


def test_a_copy_measures_for_itself():
    forward = random_model(SKIPS, nonzero=0.2)
    predict = Predictor(forward)
    X = rows(forward)
    expected = predict(X)
    again = pickle.loads(pickle.dumps(predict))
    assert again.seconds == {}
    assert largest_error(again(X), expected) <= 1e-5


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"kernel": "gpu"}, "kernel must be one of auto, dense, csr, native, got 'gpu'"),
        ({"dtype": "float16"}, "dtype must be one of float32, float64, got 'float16'"),
        ({"kernel": "native", "dtype": "float64"}, 'dtype must be "float32" for kernel="native"'),
    ],
)
def test_unknown_settings_are_refused(options, reason):
    with pytest.raises(ValueError, match=reason):
        Predictor(random_model(SKIPS), **options)


@pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 2, 5), ()])
def test_rows_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match="X must have 5 columns, got shape"):
        Predictor(random_model(SKIPS))(np.zeros(shape))


@pytest.mark.parametrize("kernel", ["auto", *KERNELS])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused_by_every_kernel(kernel, value):
    forward = random_model(SKIPS, nonzero=0.2)
    X = rows(forward, 3).astype(float)
    X[2, 4] = value
    predict = Predictor(forward, kernel)
    with pytest.raises(ValueError, match="X must hold finite numbers, got NaN or infinity in row 2"):
        predict(X)
    with pytest.raises(ValueError, match="in row 0"):
        predict.predict(X[2])


def test_numbers_whose_squares_overflow_are_fine():
    forward = random_model(SKIPS)
    X = np.full((2, 5), 1e300)
    assert largest_error(Predictor(forward)(X), oracle(forward, X)) <= 1e-5


def test_sparse_rows_are_refused():
    forward = random_model(SKIPS)
    with pytest.raises(ValueError, match=r"X must be dense, .* use X.toarray"):
        Predictor(forward)(csr_array(rows(forward)))


@pytest.fixture
def without_compiler(monkeypatch):
    predictor.library.cache_clear()
    monkeypatch.setattr(predictor.shutil, "which", lambda name: None)
    yield
    predictor.library.cache_clear()


@pytest.mark.usefixtures("without_compiler")
def test_without_a_compiler_the_others_are_used():
    forward = random_model(Network.paper(9), nonzero=0.2)
    predict = Predictor(forward)
    X = rows(forward)
    assert largest_error(predict(X), oracle(forward, X)) <= 1e-5
    assert set(next(iter(predict.seconds.values()))) == {"dense", "csr"}
    with pytest.raises(RuntimeError, match='kernel="native" needs a C compiler'):
        Predictor(forward, "native")


@pytest.mark.parametrize("script", ["exit 1", "exec sleep 60", "true"])
def test_a_compiler_that_fails_hangs_or_makes_nothing_is_named(script, tmp_path, monkeypatch):
    (tmp_path / "cc").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(predictor, "TIMEOUT", 0.5)
    predictor.library.cache_clear()
    with pytest.raises(RuntimeError, match=r'kernel="native" could not be compiled by .*cc .*; use kernel="csr"'):
        Predictor(random_model(SKIPS), "native")
    predictor.library.cache_clear()


WATCHED = """
import sys
import numpy as np
from tests.model.export.models import SKIPS, random_model, rows
from tikhonet.model.predictor import Predictor

started = []
sys.addaudithook(lambda event, _: started.append(event) if event in EVENTS else None)
model = random_model(SKIPS, nonzero=0.2)
for kernel in ("auto", "dense", "csr"):
    for count in (1, 10, 300):
        Predictor(model, kernel)(rows(model, 300)[:count])
print(started)
Predictor(model, "native")
print(started[:1])
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="needs cc")
def test_no_prediction_starts_a_process_unless_the_compiled_kernel_is_asked_for():
    events = {"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork", "ctypes.dlopen"}
    script = WATCHED.replace("EVENTS", repr(events))
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split("\n")[:2] == ["[]", "['subprocess.Popen']"]
