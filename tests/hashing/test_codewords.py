import numpy as np
import pytest

from tikhonet.hashing import hamming, pack
from tikhonet.hashing.codewords import balanced_splits, codewords, likeness


def least_distance(words):
    packed = pack(words)
    return int(np.min(hamming(packed, packed) + 1000 * np.eye(len(words), dtype=int)))


@pytest.mark.parametrize(
    ("classes", "n_bits", "distance"),
    [(2, 8, 8), (10, 8, 3), (10, 16, 7), (10, 24, 12), (10, 48, 24), (10, 64, 33), (10, 255, 128), (100, 64, 18)],
)
def test_words_are_far_apart_and_split_the_classes_into_halves(classes, n_bits, distance):
    words = codewords(classes, n_bits)
    assert words.shape == (classes, n_bits)
    assert np.isin(words, (-1, 1)).all()
    assert least_distance(words) >= distance
    assert np.abs(words.sum(0)).max() <= classes % 2


@pytest.mark.parametrize(("classes", "n_bits"), [(17, 8), (100, 8), (256, 8), (100, 16)])
def test_many_classes_have_different_words(classes, n_bits):
    assert len(np.unique(codewords(classes, n_bits, seed=3), axis=0)) == classes


def test_many_classes_have_few_candidates_and_words_still_far_apart():
    rng = np.random.default_rng(0)
    assert [len(balanced_splits(classes, rng)) for classes in (10, 256, 512, 3000)] == [256, 256, 64, 16]
    words = codewords(600, 48)
    assert least_distance(words) >= 10
    assert np.abs(words.sum(0)).max() == 0


def test_words_repeat_with_the_seed():
    one, again, other = (codewords(7, 12, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


def test_wrong_numbers_of_classes_are_refused():
    with pytest.raises(ValueError, match="n_bits must be at least 9 to give 300 classes a code each, got 8"):
        codewords(300, 8)
    with pytest.raises(ValueError, match="classes must be at least 2, got 1"):
        codewords(1, 8)


def test_words_of_classes_that_are_alike_are_nearer_than_others_and_still_differ():
    alike = np.zeros((10, 10))
    alike[2, 5] = alike[5, 2] = 1.0
    words = codewords(10, 48, alike=alike)
    distances = (48 - words @ words.T) / 2
    others = distances[~np.eye(10, dtype=bool) & (alike == 0)]
    assert 10 <= distances[2, 5] < others.min()
    assert np.abs(words.sum(0)).max() == 0
    assert len(np.unique(codewords(10, 8, alike=alike), axis=0)) == 10


def test_classes_are_alike_where_a_regression_takes_one_for_the_other():
    rng = np.random.default_rng(0)
    means = np.array([[4.0, 0, 0], [0, 4.0, 0], [0, 4.5, 0.5], [-4.0, -4.0, 0]])
    labels = np.repeat(np.arange(4), 200)
    X, weight = means[labels] + rng.normal(size=(800, 3)), rng.uniform(0.5, 2, 800)
    found = likeness(X, np.eye(4)[labels], weight)
    np.testing.assert_allclose(found, found.T)
    np.testing.assert_array_equal(np.diag(found), 0)
    assert found.max() == found[1, 2] == 1
    assert found[~np.eye(4, dtype=bool)].mean() == pytest.approx(0, abs=1e-12)
    twice = likeness(np.vstack([X, X[:50]]), np.eye(4)[np.r_[labels, labels[:50]]], np.r_[weight, weight[:50]])
    heavier = likeness(X, np.eye(4)[labels], weight * np.r_[np.full(50, 2.0), np.ones(750)])
    np.testing.assert_allclose(twice, heavier)
    assert (likeness(X[:400], np.eye(2)[labels[:400]], weight[:400]) == 0).all()
