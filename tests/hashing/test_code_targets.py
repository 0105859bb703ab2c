import numpy as np

from tikhonet.hashing import evaluate, hamming, pack
from tikhonet.hashing.code_targets import from_targets
from tikhonet.hashing.directions import rotations


def first_codes(y, n_bits=48):
    supervision = from_targets(y)
    return pack(supervision.start(np.ones(len(y)), n_bits, seed=0).codes(supervision.Y))


def test_first_codes_tell_all_sets_of_two_labels_apart():
    codes = first_codes(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]))
    distances = hamming(codes, codes)
    assert len(np.unique(codes, axis=0)) == 4
    assert distances[1, 2] > 1.5 * distances[3, 1:3].max()


def test_first_codes_of_sets_with_a_common_label_are_near():
    Y = (np.random.default_rng(0).random((800, 24)) < 0.1).astype(int)
    codes, known = first_codes(Y), Y.any(1)
    assert evaluate(codes[known], Y[known], codes, Y).mean_average_precision.expected > 0.85


def test_indicators_of_one_label_a_row_start_as_classes_do():
    y = np.arange(30) % 4
    np.testing.assert_array_equal(first_codes(np.eye(4, dtype=int)[y]), first_codes(y))


def test_directions_are_orthonormal_within_each_block():
    directions = rotations(5, 12, np.random.default_rng(0))
    assert directions.shape == (5, 12)
    np.testing.assert_allclose(directions[:, :5].T @ directions[:, :5], np.eye(5), atol=1e-12)
    np.testing.assert_allclose(directions[:, 5:10].T @ directions[:, 5:10], np.eye(5), atol=1e-12)
