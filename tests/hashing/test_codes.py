import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tikhonet.hashing import codes as module
from tikhonet.hashing.codes import as_words, check_codes, distance_blocks, hamming, pack, signs, unpack

LENGTHS = [8, 9, 12, 16, 24, 48, 63, 64, 65, 100, 128, 500, 512]


def random_bits(rows, n_bits, seed=0):
    return np.random.default_rng(seed).random((rows, n_bits)) < 0.5


@pytest.mark.parametrize("n_bits", LENGTHS)
def test_unpacking_gives_back_the_bits(n_bits):
    bits = random_bits(7, n_bits)
    packed = pack(bits)
    assert packed.dtype == np.uint8
    assert packed.shape == (7, -(-n_bits // 8))
    np.testing.assert_array_equal(unpack(packed, n_bits), bits)
    np.testing.assert_array_equal(signs(packed, n_bits), 2.0 * bits - 1)


def test_bit_0_is_the_highest_of_byte_0_and_padding_is_zero():
    bits = np.zeros((1, 12), bool)
    bits[0, [0, 11]] = True
    np.testing.assert_array_equal(pack(bits), [[128, 16]])
    np.testing.assert_array_equal(pack(np.ones((1, 12))), [[255, 240]])


def test_zeros_and_ones_signs_and_scores_pack_alike():
    scores = np.random.default_rng(1).standard_normal((5, 20))
    expected = np.packbits(scores > 0, axis=1)
    for form in (scores, np.sign(scores), scores > 0, (scores > 0).astype(np.int8), scores.astype(np.float32)):
        np.testing.assert_array_equal(pack(form), expected)


@given(st.integers(8, 200), st.integers(0, 6), st.integers(0, 6), st.integers(0, 999))
def test_distances_are_the_numbers_of_different_bits(n_bits, rows_a, rows_b, seed):
    a, b = random_bits(rows_a, n_bits, seed), random_bits(rows_b, n_bits, seed + 1)
    expected = (a[:, None] != b[None]).sum(2)
    np.testing.assert_array_equal(hamming(pack(a), pack(b)), expected)


def test_opposite_codes_of_the_greatest_length_are_at_distance_512():
    ones = pack(np.ones((1, 512)))
    assert hamming(ones, ~ones)[0, 0] == 512


def test_blocks_of_rows_make_the_whole(monkeypatch):
    a, b = pack(random_bits(23, 70)), pack(random_bits(9, 70, 1))
    whole = hamming(a, b)
    monkeypatch.setattr(module, "BLOCK", 40)
    blocks = [(rows, block.copy()) for rows, block in distance_blocks(a, b)]
    assert len(blocks) == 6
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), whole)
    assert [rows.start for rows, _ in blocks] == [0, 4, 8, 12, 16, 20]


def test_words_hold_all_bytes_and_zeros_after_them():
    codes = np.arange(1, 31, dtype=np.uint8).reshape(3, 10)
    raw = np.ascontiguousarray(as_words(codes).T).view(np.uint8)
    np.testing.assert_array_equal(raw[:, :10], codes)
    assert not raw[:, 10:].any()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (np.ones(8), "bits must be a matrix"),
        (np.array([["a"] * 8]), "bits must be a matrix"),
        (np.ones((2, 7)), "n_bits must be a whole number from 8 to 512, got 7"),
        (np.ones((2, 513)), "got 513"),
        (np.full((2, 8), np.nan), "NaN"),
    ],
)
def test_what_cannot_be_packed_is_named(wrong, said):
    with pytest.raises(ValueError, match=said):
        pack(wrong)


@pytest.mark.parametrize(
    ("codes", "n_bits", "said"),
    [
        (np.ones((2, 2)), 16, "uint8 matrix of packed codes, got float64"),
        ([[1]], 8, "got list"),
        (np.zeros(4, np.uint8), 32, r"shape \(4,\)"),
        (np.zeros((2, 3), np.uint8), 32, r"4 bytes a code \(32 bits\), got 3"),
        (np.full((2, 2), 255, np.uint8), 12, "end in zeros after bit 12"),
        (np.zeros((2, 2), np.uint8), True, "n_bits must be a whole number"),
        (np.zeros((2, 0), np.uint8), None, "1 to 64 bytes"),
    ],
)
def test_wrong_codes_are_named(codes, n_bits, said):
    with pytest.raises(ValueError, match=said):
        check_codes(codes, n_bits)


def test_distances_of_codes_of_two_lengths_are_refused():
    with pytest.raises(ValueError, match="one length, got 2 and 3 bytes"):
        hamming(np.zeros((1, 2), np.uint8), np.zeros((1, 3), np.uint8))
