import numpy as np
import pytest

from tikhonet.hashing import hamming, pack
from tikhonet.hashing.codewords import codewords, hadamard, truncated_hadamard


def least_distance(words):
    packed = pack(words)
    return int(np.min(hamming(packed, packed) + 1000 * np.eye(len(words), dtype=int)))


@pytest.mark.parametrize("order", [1, 2, 4, 8, 12, 16, 20, 24, 32, 44, 48, 64, 80, 128, 256, 512])
def test_a_hadamard_matrix_has_orthogonal_rows(order):
    H = hadamard(order).astype(int)
    np.testing.assert_array_equal(H @ H.T, order * np.eye(order))


@pytest.mark.parametrize("order", [3, 6, 7, 10, 18, 22, 92])
def test_orders_without_a_construction_give_none(order):
    assert hadamard(order) is None


@pytest.mark.parametrize("n_bits", [8, 12, 16, 24, 32, 40, 48, 64, 128, 512])
def test_ten_words_differ_in_half_of_their_bits(n_bits):
    words = codewords(10, n_bits)
    assert words.shape == (10, n_bits)
    assert np.isin(words, (-1, 1)).all()
    assert least_distance(words) == n_bits // 2


@pytest.mark.parametrize("n_bits", [9, 13, 30, 56, 100, 255])
def test_other_lengths_come_near_to_half(n_bits):
    assert truncated_hadamard(n_bits).shape[1] == n_bits
    assert least_distance(codewords(10, n_bits)) >= 0.4 * n_bits


@pytest.mark.parametrize(("classes", "n_bits"), [(2, 8), (17, 8), (100, 16), (500, 32)])
def test_many_classes_have_different_words(classes, n_bits):
    words = codewords(classes, n_bits, seed=3)
    assert len(np.unique(words, axis=0)) == classes
    np.testing.assert_array_equal(words, codewords(classes, n_bits, seed=3))


def test_too_many_classes_are_refused():
    for classes in (1, 129):
        with pytest.raises(ValueError, match=f"classes must be from 2 to 128 for words of 8 bits, got {classes}"):
            codewords(classes, 8)
