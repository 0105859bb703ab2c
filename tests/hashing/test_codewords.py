import numpy as np
import pytest

from tikhonet.hashing import hamming, pack
from tikhonet.hashing.codewords import balanced_splits, codewords


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
