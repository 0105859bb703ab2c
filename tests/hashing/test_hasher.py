import math

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from tests.estimators.samples import HASHER as SMALL
from tests.estimators.samples import blobs
from tikhonet.estimators import BCDClassifier
from tikhonet.hashing import BCDHasher, code_report, evaluate, hamming, unpack
from tikhonet.hashing.code_training import ROUNDS, CodeBlock
from tikhonet.model.storage import ModelFormatError
from tikhonet.network.graph import Network


def precision(hasher, X, y, train):
    """Mean average precision of the rows after `train` as queries in those before."""
    queries, base = hasher.transform(X[train:]), hasher.transform(X[:train])
    return evaluate(queries, y[train:], base, y[:train], n_bits=hasher.n_bits).mean_average_precision.expected


@pytest.mark.parametrize("codes", ["learned", "classes"])
def test_digits_are_found_by_their_codes(digits, codes):
    X, y = digits
    hasher = BCDHasher(n_bits=32, codes=codes, random_state=0).fit(X[:1297], y[:1297])
    assert precision(hasher, X, y, 1297) > 0.97
    assert hasher.report_.least_balance > 0.5
    assert hasher.report_.distinct >= 10


def test_a_similarity_of_equal_labels_does_as_well_as_the_labels():
    X, y = blobs(200)
    S = y[:, None] == y[None, :]
    dense, thin = (
        BCDHasher(**SMALL).fit(X[:150], similarity=form(S[:150, :150])) for form in (np.asarray, sparse.csr_array)
    )
    labels = BCDHasher(**SMALL).fit(X[:150], y[:150])
    assert precision(dense, X, y, 150) > precision(labels, X, y, 150) - 0.05
    np.testing.assert_array_equal(dense.transform(X), thin.transform(X))


def test_rows_that_share_labels_are_nearer_than_rows_that_share_none():
    X, y = blobs(240, classes=4)
    labels = np.stack([y % 2, y // 2, np.ones_like(y) * (y == 3)], axis=1)
    hasher = BCDHasher(**SMALL).fit(X, labels)
    codes = hasher.transform(X)
    distance, common = hamming(codes, codes), labels @ labels.T
    assert distance[common >= 2].mean() < distance[common == 1].mean() < distance[common == 0].mean()
    np.testing.assert_array_equal(BCDHasher(**SMALL).fit(X, sparse.csr_matrix(labels)).transform(X), codes)


def test_near_numbers_get_near_codes():
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = X[:, 0] + 0.01 * X[:, 1]
    hasher = BCDHasher(**SMALL).fit(X, y)
    codes = hasher.transform(X)
    far = np.abs(y[:, None] - y[None, :])
    distance = hamming(codes, codes)
    assert distance[far < 0.2].mean() < 0.3 * distance[far > 2].mean()


@pytest.mark.parametrize("n_bits", [8, 12, 19, 512])
def test_codes_are_the_packed_signs_of_the_outputs(n_bits):
    X, y = blobs(60)
    hasher = BCDHasher(**SMALL | {"n_bits": n_bits}).fit(X, y)
    codes = hasher.transform(X)
    assert codes.dtype == np.uint8
    assert codes.shape == (60, math.ceil(n_bits / 8))
    np.testing.assert_array_equal(codes, np.packbits(hasher.decision_function(X) > 0, axis=1))
    padding = np.unpackbits(codes, axis=1)[:, n_bits:]
    assert not padding.any()
    assert len(hasher.get_feature_names_out()) == codes.shape[1]


def test_the_outputs_are_those_of_the_torch_module():
    X, y = blobs(60)
    hasher = BCDHasher(**SMALL).fit(X, y)
    found = hasher.to_torch()(torch.from_numpy(X)).detach().numpy()
    np.testing.assert_allclose(found, hasher.decision_function(X), rtol=1e-9, atol=1e-12)


def test_the_report_is_that_of_the_training_codes():
    X, y = blobs(60)
    hasher = BCDHasher(**SMALL).fit(X, y)
    assert hasher.report_ == code_report(hasher.transform(X), 16)


def test_the_features_of_all_rows_are_computed_once_a_round(monkeypatch):
    X, y = blobs(60)
    seen, features = [], Network.features
    monkeypatch.setattr(Network, "features", lambda *parts: seen.append(len(parts[1])) or features(*parts))
    BCDHasher(**SMALL).fit(X, y)
    assert seen == [len(X)] * ROUNDS


def test_the_certificate_covers_the_codes():
    X, y = blobs(150, classes=5)
    hasher = BCDHasher(**SMALL | {"supervision": 0.05}).fit(X, y)
    check = hasher.certificate_.checks[-1]
    assert check.claim == "f falls at every step of the codes"
    assert check.holds
    fixed = BCDHasher(**SMALL | {"codes": "classes"}).fit(X, y)
    assert all("codes" not in check.claim for check in fixed.certificate_.checks)


@pytest.mark.filterwarnings("ignore:BCDHasher stopped short")
def test_with_the_full_batch_solver_f_falls_over_all_blocks():
    X, y = blobs(80)
    hasher = BCDHasher(**SMALL | {"solver": "proximal", "supervision": 0.2}).fit(X, y)
    checks = {check.claim: check for check in hasher.certificate_.checks}
    assert checks["f falls at every block step"].holds
    assert checks["f falls at every step of the codes"].holds
    assert checks["f with the codes falls from round to round"].holds


def outputs(rows=40, bits=12, seed=0):
    rng = np.random.default_rng(seed)
    Y = torch.from_numpy(np.eye(4)[rng.integers(4, size=rows)])
    B = torch.from_numpy(rng.choice([-1.0, 1.0], (4, bits)))[Y.argmax(1)]
    return B, Y, torch.from_numpy(rng.normal(size=(rows, bits)))


def test_a_rise_of_the_objective_is_seen_by_the_check():
    B, Y, P = outputs()
    block = CodeBlock(B, Y, torch.ones(40), 1.0)
    block.update(P)
    assert block.check().holds
    assert len([value for value in block.values if not math.isnan(value)]) == 7
    block.values[3] = 2 * block.values[1]
    assert not block.check().holds


def test_strong_supervision_keeps_the_codes_and_none_lets_the_network_have_its_way():
    B, Y, P = outputs()
    strong, weak = (CodeBlock(B, Y, torch.ones(40), supervision) for supervision in (1e3, 1e-9))
    for block in (strong, weak):
        block.update(P)
    assert torch.equal(strong.B, B)
    assert strong.turned == 0
    assert torch.equal(weak.B, P.sign())
    assert weak.turned == int((P.sign() != B).sum())


def test_a_deep_plain_network_is_hashed_with_the_same_call():
    X, y = blobs(200)
    hasher = BCDHasher(**SMALL | {"hidden_layer_sizes": (20,) * 24}).fit(X[:150], y[:150])
    assert precision(hasher, X, y, 150) > 0.85


def test_the_order_of_the_rows_does_not_matter_and_seeds_repeat():
    X, y = blobs(60)
    order = np.random.default_rng(1).permutation(60)
    one, other = BCDHasher(**SMALL).fit(X, y), BCDHasher(**SMALL).fit(X[order], y[order])
    np.testing.assert_array_equal(one.transform(X), other.transform(X))


def test_related_codewords_bring_classes_nearer_that_are_taken_for_each_other():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 60)
    X = np.array([[6.0, 0], [-6.0, 6.0], [-6.0, 5.0], [0, -8.0]])[labels] + rng.normal(size=(240, 2))
    apart, related = (
        BCDHasher(**SMALL | {"n_bits": 32, "structure": 0.0, "codewords": words}).fit(X, labels).transform(X)
        for words in ("apart", "related")
    )
    one, two = labels == 1, labels == 2
    assert hamming(related[one], related[two]).mean() < 0.9 * hamming(apart[one], apart[two]).mean()


def test_warm_start_goes_on_from_the_last_weights():
    X, y = blobs(100)
    hasher = BCDHasher(**SMALL | {"warm_start": True, "structure": 0.0}).fit(X, y)
    cold = sum(epoch.loss for epoch in hasher.history_[1:6])
    warm = sum(epoch.loss for epoch in hasher.fit(X, y).history_[1:6])
    assert warm < 0.95 * cold  # of the same seed, so that they would be equal


def test_warm_start_begins_anew_where_the_features_are_others():
    X, y = blobs(100)
    hasher = BCDHasher(**SMALL | {"warm_start": True}).fit(X, y)
    wide = np.hstack([X, X])
    fresh = BCDHasher(**SMALL).fit(wide, y)
    np.testing.assert_array_equal(hasher.fit(wide, y).transform(wide), fresh.transform(wide))


@pytest.mark.parametrize("stop", [5, 12, 13, 24])
def test_a_callback_ends_training_at_any_epoch(stop):
    X, y = blobs(60)
    hasher = BCDHasher(**SMALL | {"max_iter": 60, "callbacks": lambda epoch: epoch.number == stop}).fit(X, y)
    assert hasher.n_iter_ == len(hasher.history_) == stop
    assert hasher.status_.name == "INTERRUPTED"


def test_an_interruption_of_the_codes_step_leaves_the_last_epoch(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    X, y = blobs(60)
    monkeypatch.setattr(CodeBlock, "update", interrupted)
    with pytest.warns(ConvergenceWarning, match="INTERRUPTED"):
        hasher = BCDHasher(**SMALL | {"max_iter": 60}).fit(X, y)
    assert hasher.n_iter_ == 12
    assert hasher.transform(X).shape == (60, 2)


@pytest.mark.filterwarnings("ignore:BCDHasher stopped short")
@pytest.mark.parametrize("limit", [1, 3, 6, 11])
def test_the_full_batch_solver_keeps_to_its_iterations_over_all_rounds(limit):
    X, y = blobs(40)
    heard = []
    parameters = SMALL | {"solver": "proximal", "max_iter": limit, "tol": 1e-12}
    hasher = BCDHasher(**parameters, callbacks=lambda history: heard.append(history.iterations)).fit(X, y)
    assert heard == list(range(1, limit + 1))
    assert hasher.n_iter_ == hasher.history_.iterations == limit
    assert len(hasher.history_.objective) == limit + 1


@pytest.mark.filterwarnings("ignore:all features of X are constant")
def test_equal_codes_are_warned_of():
    with pytest.warns(UserWarning, match="all codes are equal") as caught:
        BCDHasher(**SMALL).fit(np.ones((60, 4)), blobs(60)[1])
    assert caught[-1].filename == __file__


def test_a_similarity_in_float32_may_round():
    X, y = blobs(60)
    A = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    S = ((y[:, None] == y) * (1 + 1e-7 * A @ A.T)).astype(np.float32)
    S[0, 1] += S[1, 0] * np.float32(3e-7)
    BCDHasher(**SMALL).fit(X, similarity=S)
    with pytest.raises(ValueError, match="similarity must be symmetric"):
        BCDHasher(**SMALL).fit(X, similarity=S.astype(np.float64) + np.triu(np.full((60, 60), 1e-6)))


def test_a_saved_hasher_gives_the_same_codes(tmp_path):
    X, y = blobs(60)
    hasher = BCDHasher(**SMALL | {"n_bits": 11}).fit(X, y)
    hasher.save(tmp_path / "codes.tikhonet")
    again = BCDHasher.load(tmp_path / "codes.tikhonet")
    np.testing.assert_array_equal(again.transform(X), hasher.transform(X))
    assert again.report_ == hasher.report_
    assert again.get_params()["n_bits"] == 11
    np.testing.assert_array_equal(unpack(again.transform(X), 11), hasher.decision_function(X) > 0)
    with pytest.raises(ValueError, match="n_bits must be 11, as it was when this was fitted, got 16; fit again"):
        hasher.set_params(n_bits=16).save(tmp_path / "codes.tikhonet")
    with pytest.raises(ModelFormatError, match="must hold a BCDClassifier"):
        BCDClassifier.load(tmp_path / "codes.tikhonet")


@pytest.mark.parametrize(
    ("parameters", "fit", "message"),
    [
        ({"n_bits": 7}, {}, "'n_bits' parameter of BCDHasher must be an int in the range .8, 512."),
        ({"n_bits": 513}, {}, "'n_bits' parameter of BCDHasher must be an int in the range .8, 512."),
        ({"codes": "random"}, {}, "'codes' parameter of BCDHasher must be a str among"),
        ({}, {"y": np.zeros(30)}, "at least 2 classes, got 1 class"),
        ({}, {"y": np.ones((30, 4), int)}, "different sets of labels"),
        ({}, {"y": np.tile([[1, -1, 1], [-1, 1, 1]], (15, 1))}, "0 or 1 where labels have columns, got -1 to 1"),
        ({}, {"y": np.full(30, 0.5)}, "different numbers"),
        ({}, {"y": np.arange(60).reshape(30, 2)}, "indicator matrix of labels"),
        (
            {"structure": 0.5},
            {"y": None},
            'structure must be "auto", "open" or 1 where there is no y, got 0.5; or pass y',
        ),
        ({"codes": "classes"}, {"y": None}, "needs labels y, got none"),
        ({}, {"y": ["a", "b", None] * 10}, "y must hold a label for every row, got None in row 2; leave that row out"),
        ({}, {"y": np.ones(30, int)}, "at least 2 classes, got 1 class: 1; leave out y"),
        ({"codewords": "far"}, {}, "'codewords' parameter of BCDHasher must be a str among"),
        ({"codewords": "related"}, {"y": None}, 'codewords="related" needs one class a row in y, got nothing'),
        (
            {"codewords": "related"},
            {"y": np.arange(30) / 7},
            'one class a row in y, got numbers; use codewords="apart"',
        ),
        ({}, {"similarity": np.eye(30)}, "got both: y of 30 rows and a similarity of shape .30, 30."),
        ({}, {"y": None, "similarity": np.ones((30, 29))}, "similarity must be a square matrix, .*30, 29"),
        ({}, {"y": None, "similarity": np.eye(29)}, "a row and a column for each row of X .30., got shape .29, 29."),
        ({}, {"y": None, "similarity": np.triu(np.ones((30, 30)))}, "similarity must be symmetric"),
        ({}, {"y": None, "similarity": -np.eye(30)}, "similarity must be positive for some pairs"),
        ({}, {"y": None, "similarity": -np.ones((30, 30))}, "similarity must be positive for some pairs"),
        ({}, {"y": None, "similarity": -np.kron(np.eye(3), np.ones((10, 10)))}, "similarity must be positive"),
        ({}, {"y": None, "similarity": np.ones((30, 30))}, "similarity must tell rows apart"),
        ({"codes": "classes"}, {"y": None, "similarity": np.eye(30)}, "needs labels y"),
        ({"n_bits": 8}, {"y": np.arange(30) * 20, "rows": 300}, "n_bits must be at least 9 to give 300 classes"),
    ],
)
def test_bad_input_is_refused_with_what_is_allowed(parameters, fit, message):
    rows = fit.pop("rows", 30) if "rows" in fit else 30
    X = np.random.default_rng(0).normal(size=(rows, 3))
    y = np.arange(rows) if rows != 30 else np.arange(30) % 3
    arguments = {"y": y} | ({} if rows != 30 else fit)
    with pytest.raises(ValueError, match=message):
        BCDHasher(**parameters).fit(X, **arguments)


def test_images_that_are_no_rows_are_refused_with_a_remedy():
    with pytest.raises(ValueError, match=r"one row a sample, .* dim 3, of shape .9, 4, 4.; pass X.reshape.9, -1."):
        BCDHasher(n_bits=8).fit(np.zeros((9, 4, 4)), np.arange(9) % 2)
