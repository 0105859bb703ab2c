"""A transformer: the features of the last hidden layer, learned from classes or from real targets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions
from torch import Tensor

from tikhonet.estimators.checks import Columns, check_weights
from tikhonet.estimators.estimator import BCDEstimator
from tikhonet.estimators.fitting import fit
from tikhonet.estimators.parameters import NameIn, Parameters, documented
from tikhonet.estimators.rows import Floats, Rows, canonical, dense
from tikhonet.estimators.targets import Classes, Numbers, Target, takes_numbers
from tikhonet.model.heads import HeadKind, TrainedHead
from tikhonet.model.model import Model
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.losses import Loss


@dataclass(frozen=True, eq=False)
class Headless(Target):
    """A target that trains the network as another does, and puts no head on its features."""

    inner: Target

    @property
    def loss(self) -> Loss:  # type: ignore[override]
        return self.inner.loss

    def started(self, rows: Rows, seed: int, last: Target | None) -> Self:
        return replace(self, inner=self.inner.started(rows, seed, None))

    def in_numbers(self, y: Any, name: str = "y") -> Floats:
        return self.inner.in_numbers(y, name)

    def encode(self, Y: Floats) -> Tensor:
        return self.inner.encode(Y)

    def head(self, V: Floats) -> HeadKind:
        return TrainedHead(V)

    def labelled(self, model: Model) -> Model:
        return replace(model, head=None)


@dataclass(eq=False, repr=False, kw_only=True)
class BCDFeatures(BCDEstimator):
    __doc__ = documented(
        """The features that a network learns from targets, for any estimator that comes after.

        It has no learning rate. Features may come in any units: they are standardised inside.
        """,
        """
        target : {"auto", "classes", "numbers"}, default="auto"
            What y holds; "auto" takes continuous numbers as numbers, everything else as classes.
        """,
    )

    target: str = "auto"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Parameters._parameter_constraints,
        "loss": [NameIn(lambda: Loss.kinds), Loss],
        "target": [StrOptions({"auto", "classes", "numbers"})],
    }

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the network on X and y."""
        columns = Columns(self)
        X, y = columns.check(X, y, multi_output=True)
        weight = check_weights(sample_weight, X)
        if takes_numbers(np.asarray(y), self.target):
            target: Target = Numbers(self._loss())
        elif np.ndim(y) > 1 and np.shape(y)[1] > 1:
            raise ArgumentError("y", f'y must be one column of classes, got shape {np.shape(y)}; use target="numbers"')
        else:
            y = np.ravel(y)
            target = Classes(np.unique(y), self._loss())
        rows = canonical(dense(X), target.in_numbers(y), weight)
        return self._keep(fit(self, rows, Headless(target), last=self._last), columns)

    def _target_from_file(self, kept: dict[str, Any], model: Model) -> Target:
        return Headless(Numbers(self._loss()))
