"""Bits that know neighbours: their axes and rotation, and what the hasher makes of them."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from tests.estimators.samples import HASHER, blobs
from tikhonet.hashing import BCDHasher, evaluate, neighbour_recall
from tikhonet.hashing.codes import pack
from tikhonet.hashing.directions import rotation
from tikhonet.hashing.frontier import MOST, SLACK, Share, chosen, unbeaten
from tikhonet.hashing.structure import Structure, principal_axes
from tikhonet.paper.baselines.classical_hashes import ITQ, as_rows


@pytest.fixture(scope="module")
def both(digits):
    X, y = digits
    return BCDHasher(n_bits=32, random_state=0).fit(X[:1297], y[:1297])


@pytest.fixture(scope="module")
def labels(digits):
    X, y = digits
    return BCDHasher(n_bits=32, structure=0.0, random_state=0).fit(X[:1297], y[:1297])


def found(hasher, digits):
    """Label mAP, and the share of the 20 nearest of the query's class that come first."""
    X, y = digits
    queries, base = hasher.transform(X[1297:]), hasher.transform(X[:1297])
    precision = evaluate(queries, y[1297:], base, y[:1297], n_bits=32).mean_average_precision.expected
    near = neighbour_recall(
        queries, X[1297:], base, X[:1297], k=20, query_labels=y[1297:], base_labels=y[:1297]
    ).expected
    return precision, near


def test_axes_are_those_of_principal_components_with_weights_as_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8)) * [5, 4, 3, 2, 1, 1, 0.5, 0.1]
    X -= X.mean(0)
    weight = rng.integers(1, 4, 300)
    expected = PCA(4).fit(np.repeat(X, weight, axis=0)).components_
    centred = torch.from_numpy(X - np.average(X, axis=0, weights=weight))
    axes = principal_axes(centred, torch.from_numpy(weight).double(), 4, seed=0)
    np.testing.assert_allclose(np.abs(np.diag(expected @ axes.numpy())), 1, atol=1e-3)


def test_coordinates_have_a_mean_square_of_one_and_no_more_axes_than_rows_span():
    X = torch.randn(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) @ torch.ones(3, 6).double()
    structure = Structure.fit(X, torch.ones(50).double(), 4, seed=0)
    Z = structure.beside(X)
    assert Z.shape[1] == 1
    assert float(Z.square().mean()) == pytest.approx(1)


def test_a_rotation_loses_less_by_signs_than_where_it_began_and_is_orthonormal():
    Z = torch.randn(500, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * torch.arange(6, 0, -1)

    def lost(R):
        turned = Z @ R
        return float((turned.sign() - turned / turned.abs().mean()).square().mean())

    R = rotation(Z, 6, seed=0)
    torch.testing.assert_close(R.T @ R, torch.eye(6).double())
    begin = torch.linalg.qr(torch.from_numpy(np.random.default_rng(0).normal(size=(6, 6)))).Q
    assert lost(R) < lost(begin)
    assert rotation(Z[:, :2], 5, seed=0).shape == (2, 5)


def test_codes_of_both_kinds_tell_rows_of_a_class_apart_and_keep_the_labels(both, labels, digits):
    (precision, near), (alone, by_chance) = found(both, digits), found(labels, digits)
    assert precision > alone - 0.02
    assert near > 2.5 * by_chance
    assert both.report_.distinct > 30 * labels.report_.distinct
    assert both.report_.tied < 0.5 < labels.report_.tied
    assert both.report_.entropy > labels.report_.entropy + 3


def test_the_share_is_the_best_of_those_that_cost_labels_little(both):
    shares, taken = both.mixture_.frontier, both.mixture_.taken(32)
    best = max(share.mean_average_precision for share in shares)
    assert taken.mean_average_precision >= best - MOST
    assert taken.recall >= both.mixture_.wanted > 0.3
    cheap = [share for share in shares if share.mean_average_precision >= best - SLACK]
    assert all(share.recall <= taken.recall for share in cheap)


def test_as_many_neighbours_as_without_labels_are_bought_where_that_is_not_too_dear():
    shares = [Share(0, 0.9, 0.1, 1), Share(0.2, 0.895, 0.4, 9), Share(0.4, 0.88, 0.6, 9), Share(0.6, 0.8, 0.9, 9)]
    assert [chosen(shares, wanted).structure for wanted in (0.0, 0.3, 0.5, 0.7)] == [0.2, 0.2, 0.4, 0.2]


def test_of_shares_that_cost_as_much_the_one_that_finds_most_is_taken():
    shares = [
        Share(0, 0.9, 0.1, 1),
        Share(0.2, 0.88, 0.5, 9),
        Share(0.3, 0.876, 0.6, 9, 0.4),
        Share(0.4, 0.873, 0.7, 9),
    ]
    assert chosen(shares, 0.4).structure == 0.3


def test_no_other_beats_what_a_frontier_shows():
    shares = [Share(0, 0.9, 0.1, 1), Share(0.2, 0.8, 0.1, 9), Share(0.2, 0.85, 0.3, 9, 0.5), Share(0.4, 0.7, 0.6, 9)]
    assert [share.mean_average_precision for share in unbeaten(shares)] == [0.9, 0.85, 0.7]


def test_a_share_that_is_given_is_kept_and_nothing_is_kept_aside(digits):
    X, y = digits
    hasher = BCDHasher(n_bits=16, structure=0.25, max_iter=30, random_state=0).fit(X[:400], y[:400])
    assert hasher.mixture_.bits == 4
    assert hasher.mixture_.frontier == ()


def test_without_labels_all_bits_know_neighbours(digits):
    X, _ = digits
    hasher = BCDHasher(n_bits=32, random_state=0).fit(X[:1297])
    assert hasher.mixture_.bits == 32
    itq = ITQ(32).fit(X[:1297], None, 0)

    def found(codes):
        return neighbour_recall(codes(X[1297:]), X[1297:], codes(X[:1297]), X[:1297], k=20).expected

    assert found(hasher.transform) > found(lambda rows: pack(itq.scores(as_rows(rows)).numpy())) > 0.5
    assert hasher.report_.distinct > 800


@pytest.mark.parametrize("options", [{"structure": 1}, {"constraint": "nonnegative"}, {"sparsity": 0.5}])
def test_without_labels_the_network_learns_bits_where_it_is_asked_to_or_weights_are_limited(options):
    X, _ = blobs(240)
    hashers = [BCDHasher(**HASHER | changed).fit(X) for changed in (options, {})]
    assert {hasher.mixture_.bits for hasher in hashers} == {hashers[0].n_bits}
    assert [len(hasher.history_) > 0 for hasher in hashers] == [True, False]


def test_a_saved_hasher_says_what_its_bits_know(both, tmp_path, digits):
    both.save(tmp_path / "my.hasher")
    again = BCDHasher.load(tmp_path / "my.hasher")
    assert again.mixture_ == both.mixture_
    assert again.report_ == both.report_
    np.testing.assert_array_equal(again.transform(digits[0][:50]), both.transform(digits[0][:50]))


def test_after_a_warm_start_codes_stay_comparable():
    X, y = blobs(240)
    hasher = BCDHasher(**HASHER | {"warm_start": True}).fit(X, y)
    before, bits = hasher.transform(X), hasher.mixture_.bits
    after = hasher.fit(X, y).transform(X)
    assert hasher.mixture_.bits == bits
    assert (np.unpackbits(before, axis=1) != np.unpackbits(after, axis=1)).mean() < 0.05


def test_with_labels_true_neighbours_are_those_of_the_querys_label():
    base = np.arange(8.0)[:, None]
    codes = np.packbits(np.tril(np.ones((8, 8), bool)), axis=1)  # distances as those of the numbers
    everywhere = neighbour_recall(codes, base, codes, base, k=3)
    assert everywhere.upper == 1
    within = neighbour_recall(
        codes, base, codes, base, k=3, query_labels=np.arange(8) % 2, base_labels=np.arange(8) % 2
    )
    assert within.upper < 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 9}, "k must be a whole number from 1 to 8"),
        ({"queries": np.zeros((3, 1))}, "queries must hold a row for each of the 8 codes"),
        ({"base": np.zeros(8)}, "base must hold a row for each of the 8 codes"),
    ],
)
def test_wrong_neighbours_are_refused(change, message):
    base = np.arange(8.0)[:, None]
    codes = np.packbits(np.eye(8, dtype=bool), axis=1)
    options = {"query_codes": codes, "queries": base, "base_codes": codes, "base": base, "k": 3} | change
    with pytest.raises(ValueError, match=message):
        neighbour_recall(**options)


@pytest.mark.parametrize(("columns", "least"), [(1, 0.3), (2, 0.45)])
def test_many_bits_cut_few_columns_at_thresholds_of_their_own(columns, least):
    X = np.random.default_rng(0).normal(size=(1000, columns))
    hasher = BCDHasher(n_bits=48, random_state=0).fit(X[:900])
    assert hasher.report_.distinct > 40
    codes = hasher.transform(X)
    assert neighbour_recall(codes[900:], X[900:], codes[:900], X[:900], k=10).expected > least


def test_coordinates_of_few_axes_end_in_a_one_that_bits_have_their_thresholds_from():
    X = torch.randn(200, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weight = torch.ones(200, dtype=torch.float64)
    assert not Structure.fit(X, weight, 8, seed=0).constant
    structure = Structure.fit(X, weight, 16, seed=0)
    Z = structure.beside(X)
    assert Z.shape[1] == 3
    turned = structure.turned(Z, X, X, weight, 16, seed=0, reduce=lambda part: part, last=False)
    set_ = (turned.bits(Z, X) > 0).double().mean(0)
    assert float(set_.max() - set_.min()) > 0.7
