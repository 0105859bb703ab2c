"""A transformer: the features of the last hidden layer, learned from classes or from real targets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from tikhonet.estimators.constraints import NameIn
from tikhonet.estimators.estimator import BCDEstimator
from tikhonet.estimators.fitting import Fitted, fit
from tikhonet.estimators.number_targets import Numbers
from tikhonet.estimators.parameters import Parameters
from tikhonet.estimators.tabular import Inputs
from tikhonet.estimators.targets import Classes, Target, takes_numbers
from tikhonet.model.model import Model
from tikhonet.network.docstrings import with_inherited
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.losses import Loss


@with_inherited
@dataclass(eq=False, repr=False, kw_only=True)
class BCDFeatures(BCDEstimator):
    """The features that a network learns from targets, for any estimator that comes after.

    Features may come in any units: they are standardised inside. `transform` gives the last hidden layer.

    Parameters
    ----------
    target : {"auto", "classes", "numbers"}, default="auto"
        What y holds; "auto" takes continuous numbers as numbers, everything else as classes.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhonet import BCDFeatures
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> features = BCDFeatures((8,), random_state=0).fit(X, X[:, 0] > 0)
    >>> features.transform(X).shape
    (100, 8)
    """

    target: str = "auto"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Parameters._parameter_constraints,
        "loss": [NameIn(lambda: Loss.kinds), Loss],
        "target": [StrOptions({"auto", "classes", "numbers"})],
    }

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train the network on X and y.

        Parameters
        ----------
        X : array-like, sparse matrix, DataFrame or DataLoader
            Samples x features. With `memory_budget` also a file, a data set of Arrow or an iterable of pieces. A torch
            `DataLoader` gives batches (X, y), anew at every epoch.
        y : array-like, default=None
            Classes, or numbers.
        sample_weight : array-like, default=None
            A weight for each row; 1 where it is None.

        Returns
        -------
        self : BCDFeatures
            The fitted estimator.
        """
        if (fitted := self._fit_by_batches(X, y, sample_weight)) is not None:
            return fitted
        inputs = Inputs(self)
        X, y, weight = inputs.fit(X, y, sample_weight, multi_output=True)
        target = self._target_of(y)
        rows = inputs.rows(X, target.in_numbers(y), weight)
        return self._keep(fit(self, rows, target, last=self._last), inputs)

    def _target_of(self, y: NDArray[Any]) -> Target:
        if takes_numbers(np.asarray(y), self.target):
            return Numbers(self._loss(), "trained")
        if np.ndim(y) > 1 and np.shape(y)[1] > 1:
            raise ArgumentError("y", f'y must be one column of classes, got shape {np.shape(y)}; use target="numbers"')
        if not self._loss().for_classes:
            raise ArgumentError("loss", f'loss must be one for classes, got {self.loss!r}; use target="numbers"')
        return Classes(np.unique(y), self._loss(), "trained")

    def _keep(self, fitted: Fitted, inputs: Inputs) -> Self:
        """Take the outcome of a fit without its head."""
        bare = replace(fitted.model, head=None, classes=(), sharpness=1.0)
        return super()._keep(replace(fitted, model=bare), inputs)

    def exported_model(self) -> Model:
        return replace(self.model_, head=None)  # files of version 0.1 have the identity for a head

    def _target_from_file(self, kept: dict[str, Any], model: Model) -> Target:
        return Numbers(self._loss(), "trained")
