import numpy as np
import pytest

from tikhonet.estimators.codewords import class_codewords, least_distance, rotations


@pytest.mark.parametrize(
    ("classes", "n_bits", "distance"), [(10, 16, 6), (10, 48, 24), (10, 64, 32), (2, 8, 8), (100, 64, 18)]
)
def test_codewords_are_far_apart_and_split_the_classes_into_halves(classes, n_bits, distance):
    codewords = class_codewords(classes, n_bits, np.random.default_rng(0))
    assert set(np.unique(codewords)) == {-1.0, 1.0}
    assert least_distance(codewords) >= distance
    assert np.abs(codewords.sum(0)).max() <= classes % 2


def test_the_least_distance_is_the_written_one():
    codewords = np.array([[1.0, 1, 1, 1], [1, 1, -1, 1], [-1, -1, -1, -1]])
    assert least_distance(codewords) == 1


def test_codewords_repeat_with_the_seed():
    one, again, other = (class_codewords(7, 12, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


def test_more_classes_than_codes_are_refused():
    with pytest.raises(ValueError, match="n_bits must be at least 9 to give 300 classes a code each, got 8"):
        class_codewords(300, 8, np.random.default_rng(0))


def test_directions_are_orthonormal_within_each_block():
    directions = rotations(5, 12, np.random.default_rng(0))
    assert directions.shape == (5, 12)
    np.testing.assert_allclose(directions[:, :5].T @ directions[:, :5], np.eye(5), atol=1e-12)
    np.testing.assert_allclose(directions[:, 5:10].T @ directions[:, 5:10], np.eye(5), atol=1e-12)
