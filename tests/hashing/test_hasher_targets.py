"""What the hasher is told to learn from: kinds of targets, their weights, and fits that go on from them."""

import numpy as np
import pytest
from scipy import sparse

from tests.estimators.samples import HASHER as SMALL
from tests.estimators.samples import blobs
from tikhonet.estimators import BCDFeatures
from tikhonet.hashing import BCDHasher, hamming, unpack


def test_whole_numbers_can_be_numbers():
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = np.round(100 * X[:, 0])
    far = np.abs(y[:, None] - y[None, :])
    hasher = BCDHasher(**SMALL | {"target": "numbers"}).fit(X, y)
    codes = hasher.transform(X)
    distance = hamming(codes, codes)
    assert distance[far < 20].mean() < 0.3 * distance[far > 200].mean()
    np.testing.assert_array_equal(codes, BCDHasher(**SMALL).fit(X, y + 1e-9 * X[:, 0]).transform(X))


@pytest.mark.parametrize("Model", [BCDHasher, BCDFeatures])
def test_many_whole_numbers_are_warned_of_unless_it_is_said_what_they_are(Model):
    X = np.random.default_rng(0).normal(size=(150, 3))
    y = np.round(100 * X[:, 0])
    with pytest.warns(UserWarning, match='different whole numbers in 150 rows.*use target="numbers"') as caught:
        Model(random_state=0).fit(X, y)
    assert caught[-1].filename == __file__
    for target, labels in (("classes", y), ("numbers", y), ("auto", np.arange(150.0) % 20)):
        Model(random_state=0, target=target).fit(X, labels)


def test_text_is_no_number():
    X, y = blobs(60)
    with pytest.raises(ValueError, match='y must hold numbers where target="numbers", got <U1; use target="classes"'):
        BCDHasher(**SMALL | {"target": "numbers"}).fit(X, np.array(list("abc"))[y])


def test_what_y_holds_is_kept_in_a_file(tmp_path):
    X, y = blobs(60)
    BCDHasher(**SMALL | {"target": "numbers"}).fit(X, y).save(tmp_path / "model")
    assert BCDHasher.load(tmp_path / "model").target == "numbers"


@pytest.mark.parametrize("kind", ["classes", "numbers", "sets"])
def test_weight_zero_is_no_row_and_weight_two_the_row_twice(kind):
    X, y = blobs(120, classes=4)
    targets = {"classes": y, "numbers": X[:, 0] ** 3, "sets": np.stack([y % 2, y // 2, y == 3], axis=1)}[kind]
    counts = np.random.default_rng(0).integers(0, 3, len(y)) * (y != 3 if kind == "classes" else 1)
    weighted = BCDHasher(**SMALL).fit(X, targets, counts)
    repeated = BCDHasher(**SMALL).fit(X.repeat(counts, 0), targets.repeat(counts, 0))
    np.testing.assert_array_equal(weighted.decision_function(X), repeated.decision_function(X))


def test_rows_of_weight_zero_are_left_out_of_a_similarity():
    X, y = blobs(80)
    S, kept = (y[:, None] == y).astype(float), np.arange(80) % 4 > 0
    some = BCDHasher(**SMALL).fit(X, similarity=S, sample_weight=kept.astype(float))
    rest = BCDHasher(**SMALL).fit(X[kept], similarity=S[kept][:, kept])
    np.testing.assert_array_equal(some.transform(X), rest.transform(X))


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_warm_start_keeps_codes_that_are_stored(kind):
    X, y = blobs(150, classes=5)
    targets = y if kind == "classes" else X[:, 0] ** 3
    draws = np.random.RandomState(0)  # another draw for each fit, the same ones in every run of this test
    hasher = BCDHasher(**SMALL | {"warm_start": True, "random_state": draws}).fit(X[:100], targets[:100])
    stored = unpack(hasher.transform(X), 16)
    again = unpack(hasher.fit(X, targets).transform(X), 16)
    assert (stored != again).mean() < 0.15
    assert hasher.set_params(n_bits=24).fit(X, targets).transform(X).shape == (150, 3)


def test_warm_start_refuses_other_classes():
    X, y = blobs(100)
    hasher = BCDHasher(**SMALL | {"warm_start": True}).fit(X, y)
    for other in (y + 1, np.where(y == 2, 1, y)):
        with pytest.raises(ValueError, match=r"warm_start needs the classes of the last fit \(\[0 1 2\]\)"):
            hasher.fit(X, other)
    hasher.fit(np.hstack([X, X]), y + 1)


@pytest.mark.parametrize(
    "labels",
    [[{0}, {1}] * 15, [frozenset({0, 1}), frozenset({1})] * 15, [[0], [0, 1]] * 15, [(0, 1), (2,)] * 15, [{0: 1}] * 30],
)
def test_sets_of_labels_are_refused_with_the_remedy(labels):
    X = np.random.default_rng(0).normal(size=(30, 3))
    with pytest.raises(ValueError, match=r"y must hold one label a row, or an indicator matrix .*MultiLabelBinarizer"):
        BCDHasher().fit(X, labels)


def test_whole_numbers_as_objects_are_classes():
    X, y = blobs(60)
    np.testing.assert_array_equal(
        BCDHasher(**SMALL).fit(X, y.astype(object)).transform(X), BCDHasher(**SMALL).fit(X, y).transform(X)
    )


def test_a_similarity_with_sparse_labels_is_one_too_many():
    X, y = blobs(30)
    with pytest.raises(ValueError, match=r"got both: y of 30 rows and a similarity of shape \(30, 30\); leave out one"):
        BCDHasher().fit(X, sparse.csr_array(np.eye(3)[y]), similarity=sparse.eye_array(30, format="csr"))


def test_the_number_of_bits_may_be_numpys(tmp_path):
    X, y = blobs(60)
    BCDHasher(**SMALL | {"n_bits": np.int64(16)}).fit(X, y).save(tmp_path / "model")
    assert BCDHasher.load(tmp_path / "model").n_bits == 16
