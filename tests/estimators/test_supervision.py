import numpy as np

from tikhonet.estimators.supervision import rotations


def test_directions_are_orthonormal_within_each_block():
    directions = rotations(5, 12, np.random.default_rng(0))
    assert directions.shape == (5, 12)
    np.testing.assert_allclose(directions[:, :5].T @ directions[:, :5], np.eye(5), atol=1e-12)
    np.testing.assert_allclose(directions[:, 5:10].T @ directions[:, 5:10], np.eye(5), atol=1e-12)
