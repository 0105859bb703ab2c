"""A transformer: the features of the last hidden layer, learned from classes or from real targets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import validate_data
from torch import Tensor

from tikhonet.estimators.base import BCDEstimator, dense
from tikhonet.estimators.checks import check_weights
from tikhonet.estimators.learning import whole_or_not_at_all
from tikhonet.estimators.parameters import LOSSES, Parameters
from tikhonet.estimators.rows import Floats, Rows, canonical
from tikhonet.estimators.supervision import takes_numbers
from tikhonet.model.heads import HeadKind, Trained
from tikhonet.model.model import Model
from tikhonet.model.scaling import Standard
from tikhonet.problem.losses import Loss


@dataclass(eq=False, repr=False, kw_only=True)
class BCDFeatures(BCDEstimator):
    __doc__ = (
        """The features that a network learns from targets, for any estimator that comes after.

    It has no learning rate. Features may come in any units: they are standardised inside.
    """
        + str(Parameters.__doc__).partition("\n")[2]
        + """    target : {"auto", "classes", "numbers"}, default="auto"
        What y holds; "auto" takes continuous numbers as numbers, everything else as classes.
    """
    )

    target: str = "auto"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Parameters._parameter_constraints,
        "loss": [StrOptions(set(LOSSES)), Loss],
        "target": [StrOptions({"auto", "classes", "numbers"})],
    }

    @_fit_context(prefer_skip_nested_validation=False)
    @whole_or_not_at_all
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the network on X and y."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, multi_output=True)
        weight = check_weights(sample_weight, X)
        numbers = takes_numbers(np.asarray(y), self.target)
        if not numbers and np.ndim(y) > 1 and np.shape(y)[1] > 1:
            raise ValueError(f'y must be one column of classes, got shape {np.shape(y)}; use target="numbers"')
        self._classes = 0
        if not numbers:
            classes, codes = np.unique(np.ravel(y), return_inverse=True)
            self._classes, y = len(classes), codes
        Y = np.asarray(y, np.float64)
        return self._learn(canonical(dense(X), Y[:, None] if Y.ndim == 1 else Y, weight))

    def exported_model(self) -> Model:
        return replace(self.model_, head=None)

    def _start_targets(self, rows: Rows) -> None:
        self._standard = Standard.fit(rows.Y, rows.weight)

    def _encode(self, Y: Floats) -> Tensor:
        if self._classes:
            return self._loss().encode(torch.from_numpy(Y[:, 0].astype(np.int64)), self._classes)
        return torch.from_numpy(self._standard(Y))

    def _head(self, V: Floats) -> HeadKind:
        """The features themselves."""
        width = V.shape[1]
        return Trained(np.eye(width))
