"""Sparse rows equal the dense network, and their file comes back as it was, without pickle."""

import io
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.model.export.models import (
    CLIPPED,
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
from tikhonet.model.export import CSRModel, to_csr
from tikhonet.model.storage import ModelFormatError
from tikhonet.network.activation import ClippedReLU

WHOLE = to_csr(random_model(SKIPS))


@pytest.mark.parametrize("kind", KINDS)
def test_fitted_models_give_the_same(kind, tmp_path):
    model, X = fitted(kind)
    model.to_csr().save(tmp_path / "net.npz")
    loaded = CSRModel.load(tmp_path / "net.npz")
    assert largest_error(loaded.scores(X), expected_scores(model, X)) <= 1e-5
    if hasattr(model, "classes_"):
        assert np.array_equal(loaded.predict(X), model.predict(X))


@given(networks(), seeds, st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from(["float32", "float64"]), st.booleans())
def test_sparse_equals_dense(network, seed, nonzero, dtype, clipped):
    network = network.with_activation(ClippedReLU(0.5)) if clipped else network
    forward = random_model(network, seed, nonzero=nonzero)
    X, made = rows(forward, 7, seed), to_csr(forward, dtype)
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    assert largest_error(made.scores(X), oracle(forward, X)) <= tolerance
    assert largest_error(made.scores(X[2]), oracle(forward, X[2:3])) <= tolerance
    assert made.scores(X).dtype == dtype


def test_only_nonzeros_are_kept():
    forward = random_model(SKIPS, nonzero=0.3)
    for edge, matrix in to_csr(forward).layers.weights.items():
        assert matrix.nnz == int(forward.W[edge].count_nonzero())


def test_the_file_needs_numpy_only(tmp_path):
    to_csr(random_model(SKIPS)).save(tmp_path / "net.npz")
    with np.load(tmp_path / "net.npz", allow_pickle=False) as file:
        assert {"header", "shift", "W.1.0.data", "W.1.0.indices", "W.1.0.indptr", "W.1.bias", "coef.data"} <= set(file)


def header(**changes):
    """The header of a whole file, with changes."""
    with np.load(io.BytesIO(WHOLE.to_bytes())) as file:
        text = json.loads(file["header"].tobytes())
    return np.frombuffer(json.dumps(text | changes).encode(), np.uint8)


def rewritten(path, **changes):
    with np.load(path) as file:
        arrays = dict(file) | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"W.1.0.indices": np.full(25, 99, np.int32)}, "W|indices|index"),
        ({"W.1.0.data": np.full(25, np.nan, np.float32)}, "finite"),
        ({"W.1.bias": np.zeros(3)}, "shape"),
        ({"coef.indptr": None}, "coef.indptr"),
        ({"header": np.frombuffer(b'{"version": 4}', np.uint8)}, "version 4"),
        ({"header": np.frombuffer(b"[]", np.uint8)}, "not a whole CSR model"),
        ({"header": header(classes=[1, 2])}, "classes must hold a number or a text for each of 3 scores"),
        ({"header": header(classes=[1, 2, [3]])}, "classes must hold a number or a text"),
        ({"header": header(sharpness=float("nan"))}, "NaN is not finite"),
        ({"intercept": np.full(3, np.inf)}, "intercept must hold finite numbers"),
        ({"intercept": np.zeros((3, 1))}, "intercept must hold finite numbers of shape"),
        ({"shift": np.array([None] * 5)}, "not a whole CSR model"),
    ],
)
def test_damaged_files_are_refused(changes, reason, tmp_path):
    path = tmp_path / "net.npz"
    to_csr(random_model(SKIPS)).save(path)
    rewritten(path, **changes)
    with pytest.raises(ModelFormatError, match=reason):
        CSRModel.load(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and no more", b"text"])
def test_other_files_are_refused(content, tmp_path):
    (tmp_path / "net.npz").write_bytes(content)
    with pytest.raises(ModelFormatError, match=r"net\.npz is not a whole CSR model"):
        CSRModel.load(tmp_path / "net.npz")


@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(1, 255), cut=st.booleans())
def test_a_damaged_file_gives_the_librarys_own_error_or_what_it_held(place, byte, cut, tmp_path_factory):
    content = bytearray(WHOLE.to_bytes())
    at = int(place * len(content))
    content[at] ^= byte
    path = tmp_path_factory.mktemp("damaged") / "net.npz"
    path.write_bytes(content[:at] if cut else content)
    X = np.ones((2, 5))
    try:
        loaded = CSRModel.load(path)
    except ModelFormatError:
        return
    np.testing.assert_array_equal(loaded.scores(X), WHOLE.scores(X))  # times in the archive may change unnoticed


def test_the_activation_is_kept(tmp_path):
    model = random_model(CLIPPED)
    to_csr(model).save(tmp_path / "net.npz")
    X = rows(model)
    assert largest_error(CSRModel.load(tmp_path / "net.npz").scores(X), oracle(model, X)) <= 1e-5


def test_a_folder_is_no_model(tmp_path):
    with pytest.raises(ModelFormatError, match="must be a model file, got a folder"):
        CSRModel.load(tmp_path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.npz"):
        CSRModel.load(tmp_path / "nothing.npz")


def test_rows_of_another_width_are_refused():
    with pytest.raises(ValueError, match=r"X must have 5 columns, got shape \(2, 4\)"):
        to_csr(random_model(SKIPS)).scores(np.zeros((2, 4)))


def test_rows_that_are_sparse_or_not_finite_are_refused():
    made = to_csr(random_model(SKIPS))
    with pytest.raises(ValueError, match=r"X must be dense, .* use X.toarray"):
        made.scores(csr_array(np.zeros((2, 5))))
    for predict in (made.features, made.scores, made.predict):
        with pytest.raises(ValueError, match="X must hold finite numbers, got NaN or infinity in row 1"):
            predict(np.array([[0.0] * 5, [np.nan] * 5]))


@pytest.mark.parametrize("head", [True, False])
def test_no_rows_give_no_scores(head):
    forward = random_model(SKIPS, head=head, classes=("a", "b", "c") if head else ())
    made = to_csr(forward)
    assert made.features(np.empty((0, 5))).shape == (0, 5)
    assert made.scores(np.empty((0, 5))).shape == (0, forward.outputs)
    assert len(made.predict(np.empty((0, 5)))) == 0


def test_the_bytes_in_memory_are_counted():
    made = to_csr(random_model(SKIPS))
    assert zipfile.is_zipfile(io.BytesIO(made.to_bytes()))
    entries = sum(matrix.nnz for matrix in made.layers.weights.values()) + made.coef.nnz
    ends = sum(len(matrix.indptr) for matrix in [*made.layers.weights.values(), made.coef])
    assert made.nbytes == 8 * entries + 4 * ends + 4 * (5 + 5 + 3) + 8 * 4 * 5
