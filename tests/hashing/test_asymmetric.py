"""Search by scores: the order among candidates is that of the written sum, and scores of +-1 give Hamming distances."""

import numpy as np
import pytest

from tikhonet.hashing import HammingIndex, pack, signs

RNG = np.random.default_rng(0)
BASE = RNG.normal(size=(300, 20))
SCORES = RNG.normal(size=(7, 20))


def slow(scores, codes):
    """Sum of |score| over the bits that differ."""
    bits = signs(codes, 20)
    return np.array([[np.abs(q)[np.sign(q) != b].sum() for b in bits] for q in scores])


@pytest.mark.parametrize("kind", ["flat", "numpy", "ivf", "hash"])
def test_with_all_codes_as_candidates_the_nearest_by_scores_are_found(kind):
    settings = {"ivf": {"lists": 4, "probes": 4}, "hash": {"hash_bits": 8, "flips": 8}}.get(kind, {})
    index = HammingIndex(20, kind, **settings).fit(pack(BASE)).add(pack(BASE))
    distances, ids = index.search(pack(SCORES), 5, scores=SCORES)
    truth = slow(SCORES, pack(BASE))
    order = np.argsort(truth, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(ids, order)
    np.testing.assert_allclose(distances, np.take_along_axis(truth, order, 1), rtol=1e-5)


def test_candidates_are_the_nearest_by_hamming_distance():
    index = HammingIndex(20).add(pack(BASE))
    _, near = index.search(pack(SCORES), 10)
    _, found = index.search(pack(SCORES), 10, scores=SCORES, candidates=3)
    assert all(set(a) == set(b) for a, b in zip(near, found, strict=True))
    assert (near != found).any()


def test_scores_of_one_size_give_hamming_distances():
    index = HammingIndex(20).add(pack(BASE), np.arange(300)[::-1])
    plain = index.search(pack(SCORES), 8)
    scored = index.search(pack(SCORES), 8, scores=np.sign(SCORES))
    for one, other in zip(plain, scored, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("scores", "candidates", "message"),
    [
        (SCORES[:, :19], 10, "a number for each of the 20 bits of the 7 queries, got float64 of shape .7, 19."),
        (-SCORES, 10, "the signs of the codes"),
        (np.where(SCORES > 1, np.nan, SCORES), 10, "finite"),
        (SCORES, 0, "candidates must be a whole number of at least 1, got 0"),
    ],
)
def test_wrong_scores_are_refused(scores, candidates, message):
    with pytest.raises(ValueError, match=message):
        HammingIndex(20).add(pack(BASE)).search(pack(SCORES), 5, scores=scores, candidates=candidates)


def test_no_queries_have_no_neighbours_by_scores():
    index = HammingIndex(20).add(pack(BASE))
    distances, ids = index.search(pack(SCORES[:0]), 5, scores=SCORES[:0])
    assert distances.shape == ids.shape == (0, 5)


def test_scores_whose_sums_no_float_holds_are_refused():
    index = HammingIndex(20).add(pack(BASE))
    with pytest.raises(ValueError, match=r"scores must be at most 1e.35 in size"):
        index.search(pack(SCORES), 5, scores=1e40 * SCORES)
    near, far = (index.search(pack(SCORES), 5, scores=factor * SCORES)[1] for factor in (1, 1e34))
    np.testing.assert_array_equal(near, far)


@pytest.mark.parametrize(
    ("kind", "settings"), [("hash", {"hash_bits": 8, "flips": 0}), ("ivf", {"lists": 60, "probes": 1})]
)
def test_what_an_index_does_not_find_is_further_than_all_that_it_finds(kind, settings):
    index = HammingIndex(20, kind, **settings).fit(pack(BASE)).add(pack(BASE))
    distances, ids = index.search(pack(SCORES), 50, scores=100 * SCORES)
    assert (ids < 0).any()
    assert np.isinf(distances[ids < 0]).all()
    assert (np.diff(distances[ids[:, 0] >= 0][:, :2]) >= 0).all()
