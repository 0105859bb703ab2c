"""A classifier: the network, a linear head on its features, probabilities that were calibrated on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data
from torch import Tensor

from tikhonet.estimators.base import BCDEstimator, dense
from tikhonet.estimators.checks import check_validation, check_weights
from tikhonet.estimators.energy import energies
from tikhonet.estimators.files import is_plain
from tikhonet.estimators.learning import whole_or_not_at_all
from tikhonet.estimators.parameters import LIFTS, LOSSES, Parameters
from tikhonet.estimators.rows import Floats, Rows, canonical
from tikhonet.estimators.training import build_problem
from tikhonet.model.heads import Head, HeadData, HeadKind, cross_entropy, make_head, sharpness
from tikhonet.model.model import Model
from tikhonet.model.storage import ModelFormatError
from tikhonet.problem.losses import Loss


@dataclass(eq=False, repr=False, kw_only=True)
class BCDClassifier(ClassifierMixin, BCDEstimator):
    __doc__ = (
        """A ReLU network trained by block coordinate descent, with a linear classifier on its features.

    It has no learning rate. Features may come in any units: they are standardised inside.
    """
        + str(Parameters.__doc__).partition("\n")[2]
        + """    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into those of the samples.
    head : {"logistic", "svm", "ridge", "trained"} or linear classifier, default="logistic"
        What replaces V on the features (Sec. 3.2): a logistic regression, a linear SVM or a ridge regression with
        the strength chosen on held-out rows, V as the solver left it, or a linear classifier of scikit-learn's with one
        row of `coef_` for each class.
    decision : {"forward", "energy"}, default="forward"
        The head's scores, or for each label the least energy (the inner minimum of f over u).
    """
    )

    class_weight: Any = None
    head: Any = "logistic"
    decision: str = "forward"

    classes_: NDArray[Any] = field(init=False)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Parameters._parameter_constraints,
        "loss": [StrOptions(set(LOSSES)), Loss],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "head": [str, HasMethods(["fit", "decision_function"])],
        "decision": [StrOptions({"forward", "energy"})],
    }

    @_fit_context(prefer_skip_nested_validation=False)
    @whole_or_not_at_all
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, X_val: Any = None, y_val: Any = None) -> Self:
        """Train on X and y; with `X_val` and `y_val` training stops where the loss on these is least.

        Validation rows count by the weights of their classes.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        classes = np.unique(y)
        if self.warm_start and hasattr(self, "_model") and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"warm_start needs the classes of the last fit ({self.classes_}), got {classes}; use warm_start=False"
            )
        self.classes_ = classes
        rows, validation = self._rows(X, y, sample_weight), None
        factors = self._class_factors(rows)
        if X_val is not None or y_val is not None:
            check_validation(X_val, y_val, self.n_features_in_)
            X_val, y_val = validate_data(self, X_val, y_val, reset=False, accept_sparse="csr", dtype=np.float64)
            validation = weigh(Rows(dense(X_val), self._codes(y_val, "y_val"), np.ones(len(y_val))), factors)
        return self._learn(weigh(rows, factors), validation)

    @_fit_context(prefer_skip_nested_validation=False)
    @whole_or_not_at_all
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One epoch over these rows; the first call needs all `classes`, and its rows fix the scaling.

        A model from a file, whose rows are gone, stays as it is until a better one is learned.
        """
        first = not hasattr(self, "_model")
        X, y = validate_data(self, X, y, reset=first, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        if first and classes is None:
            raise ValueError("classes must hold all class labels at the first call of partial_fit, got None")
        if first:
            self.classes_ = np.unique(classes)
            if len(self.classes_) < 2:
                raise ValueError(f"classes must hold at least 2 labels, got {classes!r}; pass all that will ever come")
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes must be those of the first call ({self.classes_}), got {np.unique(classes)}")
        rows = self._rows(X, y, sample_weight, partial=True)
        return self._learn_more(weigh(rows, self._class_factors(rows)))

    def decision_function(self, X: Any) -> Floats:
        """The score of each class; for two classes that of the second over the first."""
        scores = self._scores(self._check_inputs(X))
        binary: Floats = scores[:, 1] - scores[:, 0]
        return binary if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        best = self._scores(self._check_inputs(X)).argmax(1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities: the softmax of the scores, as sharp as fits rows that were not trained on."""
        probabilities: Floats = softmax(self._logits(X), axis=1)
        return probabilities

    def predict_log_proba(self, X: Any) -> Floats:
        """Their logarithms, finite also where probabilities round to 0."""
        logarithms: Floats = log_softmax(self._logits(X), axis=1)
        return logarithms

    def _logits(self, X: Any) -> Floats:
        scores = self._scores(self._check_inputs(X))
        if self.decision not in self._sharpness:
            raise ValueError(
                f'decision was "forward" in the last fit, so probabilities of {self.decision!r} were not measured; '
                f'fit with decision="{self.decision}" for its probabilities'
            )
        return self._sharpness[self.decision] * scores

    def exported_model(self) -> Model:
        model = self.model_
        if self.decision != "forward":
            raise ValueError(
                f'decision must be "forward" for a model to be exported, got {self.decision!r}; '
                'use set_params(decision="forward")'
            )
        return replace(model, classes=tuple(self.classes_.tolist()), sharpness=self._sharpness["forward"])

    def _scores(self, X: Floats) -> Floats:
        if self.decision == "forward":
            return self._model.scores(X, self.device)
        return self._energy_scores(self._model, self._model.scaling(X))

    def _energy_scores(self, model: Model, scaled: Floats) -> Floats:
        problem = build_problem(self, model.network, 1.0)
        return -energies(problem, model.W, model.V, scaled, len(self.classes_))

    def _rows(self, X: Any, y: Any, sample_weight: Any, partial: bool = False) -> Rows:
        weight = check_weights(sample_weight, X)
        rows = canonical(dense(X), self._codes(y), weight)
        present = np.unique(rows.Y[:, 0].astype(np.intp))
        if len(present) < 2 and not partial:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least 2 classes with positive weight, got 1 class: "
                f"{self.classes_.tolist()[present[0]]!r}"
            )
        return rows

    def _class_factors(self, rows: Rows) -> Floats:
        """The weight of each class, "balanced" by these rows."""
        if self.class_weight is None:
            return np.ones(len(self.classes_))
        labels = rows.Y[:, 0].astype(np.intp)
        # Not every call of partial_fit has rows of all classes; those without any need no weight.
        known = np.unique(labels) if self.class_weight == "balanced" else np.arange(len(self.classes_))
        factors = np.ones(len(self.classes_))
        factors[known] = compute_class_weight(
            self.class_weight, classes=self.classes_[known], y=self.classes_[labels], sample_weight=rows.weight
        )
        if not (np.isfinite(factors).all() and (factors >= 0).all() and factors[labels].any()):
            raise ValueError(
                f"class_weight must hold finite weights of at least 0, not 0 for all rows, got {self.class_weight!r}"
            )
        return factors

    def _codes(self, y: Any, name: str = "y") -> Floats:
        """Labels as their places in `classes_`."""
        codes = np.searchsorted(self.classes_, y)
        unknown = self.classes_[np.minimum(codes, len(self.classes_) - 1)] != y
        if unknown.any():
            raise ValueError(f"{name} must hold the classes {self.classes_}, got {np.unique(np.asarray(y)[unknown])}")
        column: Floats = codes[:, None].astype(np.float64)
        return column

    def _encode(self, Y: Floats) -> Tensor:
        return self._loss().encode(torch.from_numpy(Y[:, 0].astype(np.int64)), len(self.classes_))

    def _head(self, V: Floats) -> HeadKind:
        return make_head(self.head, V, classes=len(self.classes_))

    def _score_loss(self, head: Head, data: HeadData) -> float:
        scores = head(data.features)
        believed = sharpness(scores, data.labels, data.weight) * scores
        return cross_entropy(believed, data.labels, data.weight)

    def _calibrate(self, model: Model, scaled: Floats, data: HeadData) -> None:
        self._sharpness = {"forward": 1.0}
        if not self._head(model.linear_head.coef).calibrated:
            self._sharpness["forward"] = sharpness(model.linear_head(data.features), data.labels, data.weight)
        if self.decision == "energy":
            self._sharpness["energy"] = sharpness(self._energy_scores(model, scaled), data.labels, data.weight)

    def _fitted(self) -> dict[str, Any]:
        if self.classes_.dtype.kind not in "biufUO" or not all(is_plain(label) for label in self.classes_.tolist()):
            raise ModelFormatError(f"classes must be numbers or strings to be saved, got {self.classes_.dtype}")
        if self.decision == "energy":
            self._check_energy_is_kept()
        return {
            "classes": self.classes_.tolist(),
            "dtype": self.classes_.dtype.str,
            "sharpness": self._sharpness,
        }

    def _check_energy_is_kept(self) -> None:
        """Energies need the loss, the lift and gamma, and a model file keeps no objects."""
        names: dict[str, dict[str, Any]] = {"loss": LOSSES, "lift": LIFTS, "gamma": {}}
        for parameter, known in names.items():
            value = getattr(self, parameter)
            if is_plain(value):
                continue
            same = [f'{parameter}="{name}"' for name, kind in known.items() if value == kind()]
            remedy = same[0] if same else 'decision="forward"'
            raise ModelFormatError(
                f'{parameter} must be a word, a number or a list for a model with decision="energy" to be saved, '
                f"got {value!r}; use set_params({remedy})"
            )

    def _restore(self, fitted: dict[str, Any]) -> None:
        dtype = np.dtype(str(fitted["dtype"]))
        if dtype.kind not in "biufUO":
            raise ValueError(f"classes must be numbers or strings, got {dtype}")
        self.classes_ = np.array([label for label in fitted["classes"] if is_plain(label)], dtype)
        if len(self.classes_) != self._model.outputs or len(self.classes_) < 2:
            raise ValueError(f"there are {self._model.outputs} scores for {len(self.classes_)} classes")
        measured = {rule: float(value) for rule, value in dict(fitted["sharpness"]).items()}
        if measured.get("energy") == 1.0:
            del measured["energy"]  # what older files say where it was not measured
        if "forward" not in measured or not set(measured) <= {"forward", "energy"}:
            raise ValueError(f"sharpness must hold that of the rules forward and energy, got {measured}")
        self._sharpness = measured


def weigh(rows: Rows, factors: Floats) -> Rows:
    """The same rows with their weights multiplied by those of their classes."""
    return replace(rows, weight=rows.weight * factors[rows.Y[:, 0].astype(np.intp)])
