"""The paper's network with 2% nonzeros on MNIST, as C on this machine and on an emulated ARM; run with -m slow.

ARM needs Debian's gcc-arm-linux-gnueabihf and qemu-user-static.
"""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.model.export.compiling import SANITIZED, STRICT, needs_gcc, run_c
from tests.model.export.models import digits, fitted, largest_error, prune
from tikhonet import Network
from tikhonet.data import DataError, load
from tikhonet.estimators import BCDClassifier
from tikhonet.model.heads import Head
from tikhonet.model.svm import fit_linear_svm

pytestmark = [pytest.mark.slow, needs_gcc]

ARM = ("arm-linux-gnueabihf-gcc", "qemu-arm-static")
needs_arm = pytest.mark.skipif(
    not all(map(shutil.which, ARM)), reason="needs apt-get install gcc-arm-linux-gnueabihf qemu-user-static"
)
PLATFORMS = {
    "sanitized": {"flags": SANITIZED},
    "arm": {"compiler": (ARM[0],), "emulator": (ARM[1],), "flags": (*STRICT, "-static")},
}
platforms = pytest.mark.parametrize("platform", ["sanitized", pytest.param("arm", marks=needs_arm)])


@pytest.fixture(scope="module")
def mnist():
    try:
        return load("mnist"), load("mnist", "test")
    except DataError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def sparse(mnist):
    """The paper's network, 2% of the weights of each matrix, and an SVM on what is left of its features."""
    train, _ = mnist
    X, y = train.X[:10000].astype(np.float64), train.y[:10000]
    model = prune(BCDClassifier(network=Network.paper(784), random_state=0).fit(X, y), 0.02)
    svm = fit_linear_svm(torch.from_numpy(model.transform(X)), torch.from_numpy(y.astype(np.int64)), 100.0)
    head = Head((svm.V / svm.norm).numpy(), svm.intercept.numpy())
    model._fitted = replace(model._fitted, model=replace(model.model_, head=head))
    return model


@platforms
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_all_test_images_get_the_estimators_class(platform, mnist, sparse, tmp_path):
    X = mnist[1].X.astype(np.float32)
    forward = sparse.exported_model()
    scores, best = run_c(sparse.to_c("net"), forward, X, tmp_path, **PLATFORMS[platform])
    assert largest_error(scores, sparse.decision_function(X)) <= 1e-5
    assert np.array_equal(sparse.classes_[best], sparse.predict(X))


@platforms
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_int8_takes_less_than_100_kilobytes_and_a_tenth_of_a_point(platform, mnist, sparse, tmp_path):
    X, y = mnist[1].X.astype(np.float32), mnist[1].y
    made = sparse.to_c("net", int8=True)
    assert made.flash < 100_000
    assert made.ram < 10_000
    _, best = run_c(made, sparse.exported_model(), X, tmp_path, **PLATFORMS[platform])
    error, dense = np.mean(sparse.classes_[best] != y), np.mean(sparse.predict(X) != y)
    assert error <= dense + 0.001


@needs_arm
@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("kind", ["svm", "paper", "regressor", "features"])
def test_small_models_give_the_same_on_arm(kind, int8, tmp_path):
    model, X = fitted(kind)
    X = X.astype(np.float32)
    made, forward = model.to_c("net", int8=int8), model.exported_model()
    here, _ = run_c(made, forward, X, tmp_path, flags=STRICT)
    there, _ = run_c(made, forward, X, tmp_path, **PLATFORMS["arm"])
    assert largest_error(there, here) <= 1e-6


def test_a_dense_network_of_a_million_weights_compiles(tmp_path):
    X, y = digits()
    model = BCDClassifier((900, 900), max_iter=1, random_state=0)
    with pytest.warns(UserWarning, match="stopped short"):
        model.fit(X, y)
    X = X[:200].astype(np.float32)
    scores, _ = run_c(model.to_c("net"), model.exported_model(), X, tmp_path, flags=STRICT)
    assert largest_error(scores, model.decision_function(X)) <= 1e-5
