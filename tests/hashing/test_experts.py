"""Coordinates of each class: the layer that has them, its gates, and directions by neighbours."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import tikhonet
from tests.estimators.samples import HASHER, blobs
from tikhonet.data import load, read_table
from tikhonet.descent.result import Status
from tikhonet.estimators.solvers import Trained
from tikhonet.hashing import BCDHasher, neighbour_recall, pack
from tikhonet.hashing.directions import nearest, neighbourly, rotation, sample
from tikhonet.hashing.experts import Experts
from tikhonet.network.graph import Network
from tikhonet.problem.samples import keep


def rows(classes=3, each=200, features=6):
    """Classes far apart, each long in a direction of its own."""
    rng = np.random.default_rng(0)
    X, Y = [], np.repeat(np.eye(classes), each, axis=0)
    for c in range(classes):
        spread = np.full(features, 0.3)
        spread[[c, c + 1]] = 4.0, 2.0
        X.append(10 * np.eye(features)[-1] * c + spread * rng.normal(size=(each, features)))
    return torch.from_numpy(np.concatenate(X)).float(), torch.from_numpy(Y)


def test_each_class_has_the_axes_of_its_own_rows():
    X, Y = rows()
    found = Experts.fit(X, Y, torch.ones(len(X)), 2, seed=0)
    for c in range(3):
        torch.testing.assert_close(found.means[c], X[200 * c : 200 * (c + 1)].mean(0), rtol=1e-4, atol=1e-4)
        leading = found.axes[c, :, 0].abs()
        assert int(leading.argmax()) == c
        assert float(leading[c] / leading.norm()) > 0.95


def test_an_open_class_gives_its_own_coordinates_and_a_shut_one_nothing():
    X, Y = rows()
    sure = 2 * Y.float() - 1
    found = Experts.fit(X, Y, torch.ones(len(X)), 2, seed=0)
    found = found.turned(sure, X, Y, torch.ones(len(X)), 4, seed=0, reduce=lambda part: part, last=False)
    bits = found.bits(sure, X)
    for c in range(3):
        own = slice(200 * c, 200 * (c + 1))
        expected = (X[own] - found.means[c]) @ found.directions[c]
        torch.testing.assert_close(bits[own], expected, rtol=1e-3, atol=1e-4)
    assert float(found.bits(torch.ones(1, 3), X[:1]).abs().max()) == 0


def test_the_layer_gives_the_bits_that_the_fit_saw_and_labels_pass_through_it_exactly():
    X, y = blobs(300, features=6)
    hasher = BCDHasher(**HASHER | {"structure": 0.5}).fit(X, y)
    network = hasher.model_.network
    assert network.depth == 2
    assert (2, 0) in network.edges  # a skip from the rows
    near = hasher.mixture_.structure
    scaled = torch.from_numpy(hasher.model_.scaling(X, np.float32))
    inner = {pair: W.float() for pair, W in hasher.model_.W.items()}
    below = (scaled @ inner[1, 0].T + inner[1, -1].T).relu() if (1, -1) in inner else None
    scores = hasher.decision_function(X)
    assert scores.shape == (300, 16)
    assert isinstance(near, Experts)
    if below is not None:
        labels = below @ inner[2, 1][:8].T
        np.testing.assert_allclose(scores[:, :8], labels.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("lean", [0.0, 0.5])
def test_bits_that_lean_towards_labels_are_the_same_in_the_layer(lean):
    X, Y = rows()
    network = Network.chain([6, 5])
    W, V = {(1, 0): torch.randn(5, 6, generator=torch.Generator().manual_seed(0))}, torch.eye(5)
    P = (X @ W[1, 0].T).relu()
    found = Experts.fit(X, Y, torch.ones(len(X)), 2, seed=0)
    found = found.turned(P, X, Y, torch.ones(len(X)), 2, seed=0, reduce=lambda part: part, last=False)
    alone, found = found.bits(P, X), replace(found, lean=lean)
    torch.testing.assert_close(found.bits(P, X), alone + lean * P[:, 3:])
    trained = found.attached(Trained(W, V, Status.FINISHED, [], None, 1), network, 3, torch.ones(6))
    scores = trained.network.features(X, trained.W) @ trained.V.T
    torch.testing.assert_close(scores, torch.cat([P[:, :3], found.bits(P, X)], 1), rtol=1e-3, atol=1e-2)


def test_directions_by_neighbours_find_more_of_them_than_the_rotation():
    rng = np.random.default_rng(0)
    Z = torch.from_numpy(rng.normal(size=(1500, 8)) * np.array([4, 3, 2, 1.5, 1, 0.5, 0.3, 0.2])).float()
    R = rotation(Z, 8, seed=0)

    def found(R):
        codes = pack((Z[:, : len(R)] @ R.float()).numpy())
        return neighbour_recall(codes[:200], Z[:200], codes, Z, k=20).expected

    assert found(neighbourly(Z, R, seed=0)) > found(R) + 0.01


def test_of_many_rows_evenly_spread_ones_are_learned_from():
    Z = torch.arange(10.0)[:, None]
    assert sample(Z, keep, 4)[:, 0].tolist() == [0, 2, 5, 7]
    torch.testing.assert_close(sample(Z, keep, 20), Z)


def test_the_nearest_rows_are_others():
    Z = torch.arange(6.0)[:, None].square()
    numbers, last = nearest(Z)
    assert numbers[:, 0].tolist() == [1, 0, 1, 2, 3, 4]
    assert last[0] == 25.0**2


@pytest.mark.parametrize("change", [{"activation": "clipped_relu"}, {"sparsity": 0.5}])
def test_without_relu_or_under_a_budget_there_is_no_further_layer(change):
    X, y = blobs(300, features=6)
    hasher = BCDHasher(**HASHER | {"structure": 0.5} | change).fit(X, y)
    assert hasher.model_.network.depth == 1
    assert hasher.mixture_.bits == 8


def test_classes_of_one_row_and_equal_rows_leave_finite_codes():
    X, y = blobs(60)
    X[y == 2], y[0] = X[y == 2][0], 9
    hasher = BCDHasher(**HASHER | {"structure": 0.5, "max_iter": 60}).fit(X, y)
    assert np.isfinite(hasher.decision_function(X)).all()


def test_coordinates_of_each_class_find_more_neighbours_than_those_of_all_rows(digits, monkeypatch):
    X, y = digits
    base, queries = slice(0, 1297), slice(1297, None)

    def recall():
        codes = BCDHasher(n_bits=32, structure=0.4, random_state=0).fit(X[base], y[base]).transform(X)
        labels = {"query_labels": y[queries], "base_labels": y[base]}
        return neighbour_recall(codes[queries], X[queries], codes[base], X[base], k=12, **labels).expected

    by_class = recall()
    monkeypatch.setattr("tikhonet.hashing.code_targets.takes_experts", lambda course, classes: False)
    assert by_class > recall() + 0.01


@pytest.fixture(scope="module")
def by_class():
    """A hasher whose bits for neighbours come from the layer of class coordinates, and rows to ask with."""
    data = load("digits")
    hasher = BCDHasher((32,), n_bits=24, structure=0.5, random_state=0).fit(data.X[:600], data.y[:600])
    assert (2, 0) in hasher.network_.edges
    return hasher, data.X[600:800]


def test_files_and_exports_give_the_codes_of_the_layer(by_class, tmp_path):
    hasher, X = by_class
    codes = hasher.transform(X)
    hasher.save(tmp_path / "codes.tikhonet")
    np.testing.assert_array_equal(tikhonet.load(tmp_path / "codes.tikhonet").transform(X), codes)
    with torch.no_grad():
        scores = hasher.to_torch()(torch.from_numpy(X)).numpy()
    sure = np.abs(scores) > 1e-4
    np.testing.assert_array_equal(scores[sure] > 0, hasher.decision_function(X)[sure] > 0)
    onnxruntime = pytest.importorskip("onnxruntime")
    hasher.to_onnx(tmp_path / "codes.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "codes.onnx"))
    (found, *_) = session.run(None, {session.get_inputs()[0].name: X.astype(np.float32)})
    np.testing.assert_allclose(found, hasher.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_embeddings_in_files_get_the_codes_of_the_arrays(by_class, tmp_path, ending):
    hasher, X = by_class
    path = tmp_path / f"rows.{ending}"
    if ending == "npy":
        np.save(path, X)
    else:
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        pandas.DataFrame(X, columns=[f"c{n}" for n in range(X.shape[1])]).to_parquet(path)
    table = read_table(path, label=None)
    np.testing.assert_array_equal(hasher.transform(np.asarray(table.X, float)), hasher.transform(X))
