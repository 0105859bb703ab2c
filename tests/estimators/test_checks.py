"""All of scikit-learn's own checks, with no expected failure."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from tikhonet.estimators import BCDClassifier, BCDFeatures, BCDRegressor
from tikhonet.hashing import BCDHasher


@parametrize_with_checks(
    [BCDClassifier(), BCDRegressor(), BCDFeatures(), BCDHasher(hidden_layer_sizes=(16,), n_bits=8)]
)
def test_scikit_learn(estimator, check):
    check(estimator)
