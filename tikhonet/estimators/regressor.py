"""A regressor: the network, and a ridge regression on its features; one target or several."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods

from tikhonet.estimators.averaged import AVERAGE_BELOW, AveragedEstimator, Given
from tikhonet.estimators.constraints import SHARE, NameIn
from tikhonet.estimators.eval_metrics import make_metric, metric_names
from tikhonet.estimators.number_targets import Numbers
from tikhonet.estimators.partial_fit import fit_more
from tikhonet.estimators.rows import Floats, Rows
from tikhonet.estimators.tabular import Inputs
from tikhonet.model.heads import head_names
from tikhonet.model.links import Link
from tikhonet.model.model import Model
from tikhonet.model.scaling import Standard
from tikhonet.network.docstrings import with_inherited
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.losses import Loss

NUMBERS = {"multi_output": True, "y_numeric": True}
"""What scikit-learn is to check of y."""


@with_inherited
@dataclass(eq=False, repr=False, kw_only=True)
class BCDRegressor(RegressorMixin, AveragedEstimator):
    """A ReLU network trained in blocks, with a ridge regression on its features.

    It is trained as `BCDClassifier` is. Features and targets may come in any units: they are standardised inside.

    Parameters
    ----------
    head : {"ridge", "trained"} or linear regressor, default="ridge"
        What replaces V on the features: a ridge regression by the loss, V as the solver left it, or any linear
        regressor of scikit-learn's.
    quantile : float, default=0.5
        The quantile that `loss="quantile"` predicts; 0.9 is one that nine of ten numbers stay below.
    eval_metric : {"r2", "mae", "rmse"} or callable, default=None
        What early stopping and the best epoch go by, in place of the loss, on validation rows: those held out, or
        given to `fit`. A function of y and predictions is taken for better where it is larger; it gets
        `sample_weight` where it has such an argument. It sees the trained V, not yet the head.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhonet import BCDRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> y = X[:, 0] * X[:, 1]
    >>> model = BCDRegressor(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.5)
    True
    """

    head: Any = "ridge"
    quantile: float = 0.5
    eval_metric: Any = None

    _own_head: ClassVar[str] = "ridge"
    _default_sizes: ClassVar[tuple[int, ...]] = (200,)
    _by_rows: ClassVar[tuple[tuple[float, dict[str, Any]], ...]] = (
        (1000, {}),
        (AVERAGE_BELOW, {"hidden_layer_sizes": (100,)}),
        (50_000, {}),
        (math.inf, {"hidden_layer_sizes": (200, 200), "dropout": (0.0, 0.1)}),
    )
    _default_bins: ClassVar[int] = 8
    _default_dropout: ClassVar[tuple[float, float]] = (0.0, 0.4)
    _sparse_dropout: ClassVar[tuple[float | None, float | None]] = (0.0, 0.4)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AveragedEstimator._parameter_constraints,
        "head": [NameIn(lambda: head_names(numbers=True)), HasMethods(["fit", "predict"])],
        "quantile": [SHARE],
        "eval_metric": [NameIn(lambda: metric_names(classes=False)), callable, None],
    }

    def _training(self, inputs: Inputs, given: Given, held_out: Given) -> tuple[Rows, Numbers, list[Rows]]:
        rows, single = checked_rows(inputs, *given)
        validation = []
        for X, y, name in inputs.validation(*held_out, **NUMBERS):
            validation.append(inputs.rows(X, as_matrix(y), np.ones(len(y))))
            wanted, got = rows.Y.shape[1], validation[-1].Y.shape[1]
            if got != wanted:
                raise ArgumentError(name, f"{name} must have as many columns as y ({wanted}), got {got}")
        return rows, self._target(single), validation

    def _target(self, single: bool) -> Numbers:
        return Numbers(self._loss(), self.head, single, metric=make_metric(self.eval_metric))

    def _target_of(self, y: NDArray[Any]) -> Numbers:
        return self._target(np.ndim(y) == 1)

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train for one epoch over these rows.

        The first 100 rows of a stream fix the scaling of inputs and targets, in however many calls they come: until
        then each call begins anew on all of them. A feature that was constant so far gets its scaling when it is no
        more. A model from a file, whose rows are gone, stays as it is until a better one is learned.

        Parameters
        ----------
        X : array-like
            Samples x features.
        y : array-like
            A number a row, or samples x targets.
        sample_weight : array-like, default=None
            A weight for each row; 1 where it is None.

        Returns
        -------
        self : BCDRegressor
            The fitted estimator.
        """
        inputs, last = Inputs(self), self._last
        rows, single = checked_rows(inputs, X, y, sample_weight, anew=False)
        target = Numbers(self._loss(), self.head, single)
        if last:
            known, outputs = self._numbers, last.model.outputs
            if rows.Y.shape[1] != outputs:
                raise ArgumentError(
                    "y",
                    f"y must have as many columns as in the last fit ({outputs}), "
                    f"got {rows.Y.shape[1]}; use fit to begin anew",
                )
            target = Numbers(self._loss(), self.head, known.single, known.standard)
        return self._keep(fit_more(inputs.shaped(self._going_on()), rows, target, last), inputs)

    def predict(self, X: Any) -> Floats:
        """The numbers, in the units and the shape of y.

        Parameters
        ----------
        X : array-like
            Samples x features.

        Returns
        -------
        array
            A number a row, or samples x targets.
        """
        scores = self.model_.scores(self._check_inputs(X), self.device)
        return scores[:, 0] if self._numbers.single else scores

    @property
    def _numbers(self) -> Numbers:
        target = self._learned().target
        assert isinstance(target, Numbers)
        return target

    def _target_to_file(self, target: Numbers) -> dict[str, Any]:
        units = {name: values.tolist() for name, values in vars(target.units).items()}
        return {"single": target.single, "link": target.link.name, **units}

    def _target_from_file(self, kept: dict[str, Any], model: Model) -> Numbers:
        standard = Standard(*(np.array(kept[name], np.float64) for name in ("mean", "deviation")))
        if not len(standard.mean) == len(standard.deviation) == model.outputs:
            raise ValueError("mean and deviation must hold one number for each output")
        loss, link = self._loss(), Link.kinds[kept.get("link", "identity")]
        if loss.link != link.name:  # an object, which was left out
            loss = next(kind() for kind in Loss.kinds.values() if kind.link == link.name)
        return Numbers(loss, self.head, bool(kept["single"]), standard)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


def checked_rows(inputs: Inputs, X: Any, y: Any, sample_weight: Any, anew: bool = True) -> tuple[Rows, bool]:
    """The canonical rows, and whether y is a vector."""
    X, y, weight = inputs.fit(X, y, sample_weight, anew=anew, **NUMBERS)
    return inputs.rows(X, as_matrix(y), weight), np.ndim(y) == 1


def as_matrix(y: Any) -> Floats:
    Y = np.asarray(y, np.float64)
    return Y[:, None] if Y.ndim == 1 else Y
