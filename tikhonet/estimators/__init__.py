"""scikit-learn estimators: a classifier, a regressor, the features alone, and binary codes."""

from tikhonet.estimators.classifier import BCDClassifier
from tikhonet.estimators.features import BCDFeatures
from tikhonet.estimators.regressor import BCDRegressor
from tikhonet.hashing.hasher import BCDHasher

__all__ = ["BCDClassifier", "BCDFeatures", "BCDHasher", "BCDRegressor"]
