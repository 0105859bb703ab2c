"""scikit-learn estimators: a classifier, a regressor, and the features alone."""

from tikhonet.estimators.classifier import BCDClassifier
from tikhonet.estimators.features import BCDFeatures
from tikhonet.estimators.regressor import BCDRegressor

__all__ = ["BCDClassifier", "BCDFeatures", "BCDRegressor"]
