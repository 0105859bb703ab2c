"""A classifier: the network, a linear head on its features, probabilities that were calibrated on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.multiclass import check_classification_targets

from tikhonet.estimators.all_ranks import all_labels, row_count
from tikhonet.estimators.averaged import AVERAGE_BELOW, AVERAGE_FROM, AveragedEstimator, Given
from tikhonet.estimators.checks import check_classes
from tikhonet.estimators.constraints import NameIn
from tikhonet.estimators.energy import energies
from tikhonet.estimators.eval_metrics import make_metric, metric_names
from tikhonet.estimators.files import is_plain
from tikhonet.estimators.labels import Labels, is_indicator
from tikhonet.estimators.parameters import build_problem
from tikhonet.estimators.partial_fit import fit_more
from tikhonet.estimators.rows import Floats, Rows, dense, weigh
from tikhonet.estimators.tabular import Inputs
from tikhonet.estimators.targets import Classes
from tikhonet.model.heads import head_names
from tikhonet.model.model import Model
from tikhonet.model.reading import ModelFormatError
from tikhonet.network.docstrings import with_inherited
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.losses import Loss


@with_inherited
@dataclass(eq=False, repr=False, kw_only=True)
class BCDClassifier(ClassifierMixin, AveragedEstimator):
    """A ReLU network trained in blocks, with a linear classifier on its features.

    By default, mini-batches move the layers by preconditioned steps along back-propagated residuals, and the last layer
    is solved for; `solver` has the paper's block coordinate descent too. Features may come in any units: they are
    standardised inside. Probabilities are calibrated on held-out rows.

    Parameters
    ----------
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into those of the samples.
    head : {"logistic", "svm", "ridge", "trained"} or linear classifier, default="logistic"
        What replaces V on the features (Sec. 3.2): a logistic regression, a linear SVM or a ridge regression with
        the strength chosen on held-out rows, V as the solver left it, or a linear classifier of scikit-learn's with
        one row of `coef_` for each class.
    decision : {"forward", "energy"}, default="forward"
        The head's scores, or for each label the least energy (the inner minimum of f over u).
    eval_metric : {"accuracy", "log_loss", "auc"} or callable, default=None
        What early stopping and the best epoch go by, in place of the loss, on validation rows: those held out, or
        given to `fit`. A function of y and probabilities, samples x classes, is taken for better where it is
        larger; it gets `sample_weight` where it has such an argument. It sees the trained V, not yet the head.

    Attributes
    ----------
    classes_ : array
        The class labels, in the order of the columns of scores.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhonet import BCDClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same sign", "different")
    >>> model = BCDClassifier(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> model.predict_proba(X[:3]).shape
    (3, 2)
    """

    class_weight: Any = None
    head: Any = "logistic"
    decision: str = "forward"
    eval_metric: Any = None

    _own_head: ClassVar[str] = "logistic"
    _wide_decay: ClassVar[float] = 0.05
    _by_rows: ClassVar[tuple[tuple[float, dict[str, Any]], ...]] = (
        (1000, {"hidden_layer_sizes": (100,)}),
        (AVERAGE_BELOW, {"hidden_layer_sizes": (200,)}),
        (math.inf, {}),
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AveragedEstimator._parameter_constraints,
        "loss": [NameIn(lambda: (name for name, loss in Loss.kinds.items() if loss.for_classes)), Loss],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "head": [NameIn(head_names), HasMethods(["fit", "decision_function"])],
        "decision": [StrOptions({"forward", "energy"})],
        "eval_metric": [NameIn(lambda: metric_names(classes=True)), callable, None],
    }

    def _training(self, inputs: Inputs, given: Given, held_out: Given) -> tuple[Rows, Classes, list[Rows]]:
        X, y, weight = given
        options = {"multi_output": is_indicator(y)}
        X, y, weight = inputs.fit(X, dense(y) if options["multi_output"] else y, weight, **options)
        target = self._target_of(y)
        rows = inputs.rows(X, target.in_numbers(y), weight)
        if not self._cuts(row_count(len(rows))):
            rows = inputs.without_pieces(rows)
        weighed = self._weigher(target, rows)
        validation = [
            weighed(Rows(inputs.encoded(X), target.in_numbers(y, name), np.ones(len(y))))
            for X, y, name in inputs.validation(*held_out, **options)
        ]
        return weighed(rows), target, validation

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train for one epoch over these rows.

        The first 100 rows of a stream fix the scaling, in however many calls they come: until then each call begins
        anew on all of them. A feature that was constant so far gets its scaling when it is no more. A model from a
        file, whose rows are gone, stays as it is until a better one is learned.

        Parameters
        ----------
        X : array-like
            Samples x features.
        y : array-like
            A class a row.
        classes : array-like, default=None
            All classes there will be; the first call needs them.
        sample_weight : array-like, default=None
            A weight for each row; 1 where it is None.

        Returns
        -------
        self : BCDClassifier
            The fitted estimator.
        """
        if self._last and not self.model_.link.linear:
            raise ArgumentError("y", "partial_fit needs one class a row, and the last fit had several labels; use fit")
        inputs = Inputs(self)
        X, y, weight = inputs.fit(X, y, sample_weight, anew=False)
        check_classification_targets(y)
        target = self._target(check_classes(classes, self.classes_ if self._last else None))
        rows = inputs.rows(X, target.in_numbers(y), weight)
        rows = weigh(rows, target.factors(self.class_weight, rows))
        return self._keep(fit_more(inputs.shaped(self._going_on()), rows, target, self._last), inputs)

    def _cuts(self, rows: int) -> bool:
        """Only for the average of two networks, where nothing else is asked for."""
        return not (self.n_networks == "auto" and self.n_bins == "auto") or AVERAGE_FROM <= rows < AVERAGE_BELOW

    def _target_of(self, y: NDArray[Any]) -> Classes:
        """The target of all labels y; those of a warm start must be the last ones."""
        check_classification_targets(y)
        several = is_indicator(y)
        if not several and y.size > len(y):
            raise ArgumentError("y", f"y must be one class a row, or a matrix of 0 and 1, got shape {y.shape}")
        labels = np.arange(y.shape[1]) if several else all_labels(np.unique(y))
        if self.warm_start and self._last and not np.array_equal(labels, self.classes_):
            raise ArgumentError(
                "warm_start",
                f"warm_start needs the classes of the last fit ({self.classes_}), got {labels}; use warm_start=False",
            )
        return self._target(labels, several)

    def _weigher(self, target: Classes, rows: Rows) -> Callable[[Rows], Rows]:
        """What multiplies weights by those of the classes, which these rows decide; they must hold two of them."""
        if len(present := all_labels(np.unique(rows.Y[rows.weight > 0]))) < 2:
            raise ArgumentError(
                "y",
                f"{type(self).__name__} needs rows of at least 2 classes with positive weight, got 1 class: "
                f"{target.labels.tolist()[int(present[0])]!r}",
            )
        return partial(weigh, factors=target.factors(self.class_weight, rows))

    @property
    def _default_bins(self) -> int:  # type: ignore[override]
        """Pieces are for the average of networks with and without them."""
        return 0 if self.n_networks == 1 or (self.n_networks == "auto" and self._lone()) else 8

    def _target(self, labels: NDArray[Any], several: bool = False) -> Classes:
        if several and self.decision != "forward":
            message = f'decision must be "forward" where rows have several labels, got {self.decision!r}'
            raise ArgumentError("decision", message)
        metric = make_metric(self.eval_metric, np.arange(2) if several else labels)
        return (Labels if several else Classes)(labels, self._loss(), self.head, self.decision, metric=metric)

    @property
    def _classes(self) -> Classes:
        target = self._learned().target
        assert isinstance(target, Classes)
        return target

    @property
    def classes_(self) -> NDArray[Any]:
        """The class labels, in the order of the columns of scores."""
        return self._classes.labels

    def decision_function(self, X: Any) -> Floats:
        """The score of each class; for two classes that of the second over the first.

        Parameters
        ----------
        X : array-like
            Samples x features.

        Returns
        -------
        array
            Samples x classes, or a number for each sample.
        """
        return self._classes.decide(self._scores(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest score; of several labels a row, 1 for each that is more probable than not.

        Parameters
        ----------
        X : array-like
            Samples x features.

        Returns
        -------
        array
            A class a row, or samples x labels.
        """
        return self._classes.choose(self._scores(X))

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities: the softmax of the scores, as sharp as fits rows that were not trained on.

        Parameters
        ----------
        X : array-like
            Samples x features.

        Returns
        -------
        array
            Samples x classes; where rows have several labels, the probability of each by itself, samples x labels.
        """
        return self._classes.probabilities(self._logits(X))

    def predict_log_proba(self, X: Any) -> Floats:
        """The logarithms of the probabilities, finite also where these round to 0.

        Parameters
        ----------
        X : array-like
            Samples x features.

        Returns
        -------
        array
            Samples x classes.
        """
        return self._classes.log_probabilities(self._logits(X))

    def _logits(self, X: Any) -> Floats:
        scores = self._scores(X)
        if self.decision not in self._classes.sharpness:
            raise ArgumentError(
                "decision",
                f'decision was "forward" in the last fit, so probabilities of {self.decision!r} were not measured; '
                f'fit with decision="{self.decision}" for its probabilities',
            )
        return self._classes.sharpness[self.decision] * scores

    def _scores(self, X: Any) -> Floats:
        rows, model = self._check_inputs(X), self.model_
        if self.decision == "forward":
            return model.linear_scores(rows, self.device)
        problem = build_problem(self, model.network, self._loss(), 1.0)
        return -energies(problem, model.W, model.V, model.scaled(rows), len(self.classes_))

    def exported_model(self) -> Model:
        if self.decision != "forward":
            raise ArgumentError(
                "decision",
                f'decision must be "forward" for a model to be exported, got {self.decision!r}; '
                'use set_params(decision="forward")',
            )
        if not self.model_.classes and self.model_.link.linear:
            raise ArgumentError("y", f"classes must be numbers or strings to be exported, got {self.classes_.dtype}")
        return self.model_

    def _check_savable(self) -> None:
        """Energies need the loss, the lift and gamma, and a model file keeps no objects."""
        if self.classes_.dtype.kind not in "biufUO" or not all(is_plain(label) for label in self.classes_.tolist()):
            raise ModelFormatError(f"classes must be numbers or strings to be saved, got {self.classes_.dtype}")
        for parameter in ("loss", "lift", "gamma") if self.decision == "energy" else ():
            value = getattr(self, parameter)
            if is_plain(value):
                continue
            same = [name for name, kind in getattr(value, "kinds", {}).items() if value == kind()]
            remedy = f'{parameter}="{same[0]}"' if same else 'decision="forward"'
            raise ModelFormatError(
                f'{parameter} must be a word, a number or a list for a model with decision="energy" to be saved, '
                f"got {value!r}; use set_params({remedy})"
            )

    def _target_to_file(self, target: Classes) -> dict[str, Any]:
        return target.to_file()

    def _target_from_file(self, kept: dict[str, Any], model: Model) -> Classes:
        target = self._target(np.empty(0), bool(kept.get("several"))).from_file(kept, model)
        if self.decision == "energy":
            self._check_energies(model, target.sharpness.get("energy", 1.0))
        return target

    def _check_energies(self, model: Model, sharpness: float) -> None:
        """Raise where the energies of the largest inputs, or of middling ones, are not finite."""
        with np.errstate(all="ignore"):
            ends = model.scaling(np.stack([model.scaling.low, model.scaling.shift, model.scaling.high]))
            problem = build_problem(self, model.network, self._loss(), 1.0)
            found = sharpness * energies(problem, model.W, model.V, ends, model.outputs)
        if sharpness <= 0 or not np.isfinite(found).all():
            raise ValueError("weights, V and parameters must give finite energies; fit again")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
