"""The base of all estimators: features, attributes of the last fit, model files, exports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from tikhonet.descent.certificates import Certificate
from tikhonet.descent.devices import check_device
from tikhonet.descent.result import History, Status
from tikhonet.estimators.callbacks import plot_history
from tikhonet.estimators.files import Path, load_estimator, save_estimator
from tikhonet.estimators.fitting import Fitted, fit
from tikhonet.estimators.importances import importances
from tikhonet.estimators.large_fit import fit_large
from tikhonet.estimators.loader_fit import fit_loader, is_loader
from tikhonet.estimators.parameters import Parameters
from tikhonet.estimators.rows import Floats, Rows
from tikhonet.estimators.tabular import Inputs
from tikhonet.estimators.targets import Target
from tikhonet.model.export import CModel, CSRModel, to_c, to_csr, to_onnx, to_torch
from tikhonet.model.model import Model
from tikhonet.model.predictor import Predictor
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Network, Pair
from tikhonet.problem.objective import Problem
from tikhonet.trainer.sparsity.zeros import measure_sparsity
from tikhonet.trainer.training import Epoch

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class BCDEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Parameters):
    """An estimator validates, calls `fit`, and keeps its `Fitted` as a whole; all that it shows comes from there.

    Attributes
    ----------
    model_ : Model
        Columns, scaling, network and head: all that predictions, files and exports need.
    network_ : Network
        The network that was trained.
    coefs_ : dict of (n, m) to array
        The learned matrices by edge, from layer m into layer n; m = -1 is the bias.
    n_iter_ : int
        Epochs or iterations that were done.
    status_ : Status
        How training ended.
    history_ : list of Epoch or History
        The solver's record of every epoch or iteration; not in model files.
    certificate_ : Certificate
        The checks of the point that training reached; not in model files.
    feature_importances_ : array
        How much each column of X matters to what the model says, as shares that add up to 1.
    sparsity_ : dict
        Which weights are exactly zero, and why.
    n_features_in_ : int
        The columns of X.
    """

    _fitted: Fitted

    def _keep(self, fitted: Fitted, inputs: Inputs) -> Self:
        """Take the outcome of a fit: the only place where a fit changes the estimator."""
        inputs.give(self)
        self._fitted = replace(fitted, model=replace(fitted.model, columns=inputs.columns))
        return self

    def _fit_by_batches(self, X: Any, y: Any, sample_weight: Any, *validation: Any) -> Self | None:
        """Fit from a `DataLoader`, or within `memory_budget`; None where rows are arrays and have room."""
        if is_loader(X):
            return self._keep(*fit_loader(self, X, y, sample_weight, *validation))
        if self.memory_budget is None:
            return None
        if any(part is not None for part in validation):
            raise ArgumentError(
                "X_val", "X_val and eval_set must be None with memory_budget, which holds rows out itself"
            )
        fitted: Self = fit_large(self, X, y, sample_weight)
        return fitted

    def _target_of(self, y: NDArray[Any]) -> Target:
        """The target of all labels y."""
        raise NotImplementedError

    def _weigher(self, target: Any, rows: Rows) -> Callable[[Rows], Rows]:
        """What multiplies the weights of rows by those of their classes, which all training rows decide."""
        return lambda some: some

    def _fit_networks(self, inputs: Inputs, rows: Rows, target: Target, validation: Sequence[Rows]) -> Self:
        """Train one network on these rows; estimators of tables may train several."""
        return self._keep(fit(inputs.shaped(self), rows, target, validation=validation, last=self._last), inputs)

    def _sized(self, rows: int, inputs: Inputs) -> Self:
        """This estimator with what suits so many different rows and its columns in place of "auto"."""
        return self

    def _networks(self, rows: int, inputs: Inputs) -> int:
        """The networks for so many different rows."""
        return 1

    def _cuts(self, rows: int) -> bool:
        """Whether numbers of so many different rows may be cut into pieces."""
        return True

    @property
    def _last(self) -> Fitted | None:
        """The last fit, if there was one."""
        return getattr(self, "_fitted", None)

    def __sklearn_is_fitted__(self) -> bool:
        return self._last is not None

    def _learned(self) -> Fitted:
        check_is_fitted(self)
        return self._fitted

    def _not_in_file(self, name: str) -> Any:
        value = getattr(self._learned(), name)
        if value is None:
            raise AttributeError(f"{name}_ is not kept in a model file; fit again to have it")
        return value

    @property
    def model_(self) -> Model:
        """Columns, scaling, network and head: all that predictions, files and exports need."""
        return self._learned().model

    @property
    def network_(self) -> Network:
        """The network that was trained."""
        return self._learned().model.network

    @property
    def n_iter_(self) -> int:
        """Epochs or iterations that were done."""
        return self._learned().iterations

    @property
    def status_(self) -> Status:
        """How training ended."""
        return self._learned().status

    @property
    def history_(self) -> History | list[Epoch]:
        """The solver's record of every epoch or iteration."""
        return self._not_in_file("history")  # type: ignore[no-any-return]

    @property
    def certificate_(self) -> Certificate:
        """The checks of the point that training reached."""
        return self._not_in_file("certificate")  # type: ignore[no-any-return]

    @property
    def coefs_(self) -> dict[Pair, Floats]:
        """The learned matrices by edge `(n, m)`, from layer m into layer n; m = -1 is the bias."""
        return {edge: matrix.numpy() for edge, matrix in self.model_.W.items()}

    @property
    def feature_importances_(self) -> Floats:
        """How much each column of X matters to what the model says, as shares that add up to 1.

        Sobol's total effects: how far probabilities, or numbers, move where the column is taken from another training
        row, relative to their variance; see `estimators/importances.py`. They are computed when they are first asked
        for; model files of up to 100 columns keep them, and others where they were asked for before. Labels play no
        part: `sklearn.inspection.permutation_importance` says how much worse predictions would be.
        """
        fitted = self._learned()
        if fitted.importances is None:
            if fitted.memory.rows is None:
                message = "feature_importances_ needs training rows, which neither pickles nor files have; fit again"
                raise AttributeError(message)
            self._fitted = fitted = replace(fitted, importances=importances(fitted.model, fitted.memory.rows))
        found = fitted.importances
        assert found is not None
        return found

    @property
    def sparsity_(self) -> dict[str, Any]:
        """Which weights are exactly zero, and why; biases are not counted.

        `kind`: "none", "set" (zeros emerge from the constraint), "budget" (they were asked for) or "budget and set";
        `asked` and `over`: the budget; `zeros`: the share of zeros; `nonzeros` and `weights`: numbers by the name of
        the matrix, 'W[n,m]'.
        """
        found = measure_sparsity(Problem(self.network_), self.model_.W).as_dict()
        counts = {"zeros": 1 - found["share"], "nonzeros": found["nonzeros"], "weights": found["weights"]}
        return counts | self._fitted.zeros

    @property
    def _n_features_out(self) -> int:
        return int(self.network_.widths[-1])

    def numbers(self, X: Any) -> Floats:
        """The rows of X as exported models take them: numbers, NaN where they are missing, codes of categories.

        Parameters
        ----------
        X : array-like
            Samples x features.

        Returns
        -------
        array
            Samples x features, in float64.
        """
        return self._check_inputs(X)

    def transform(self, X: Any) -> Any:
        """The features: the last hidden layer.

        Parameters
        ----------
        X : array-like
            Samples x features.

        Returns
        -------
        array
            Samples x width.
        """
        features = self.model_.features(self._check_inputs(X), self.device)
        return features.astype(np.float32) if getattr(X, "dtype", None) == np.float32 else features

    def exported_model(self) -> Model:
        """The model that export formats take; raises where they could not say what this estimator predicts.

        Returns
        -------
        Model
            Columns, scaling, network and head.
        """
        return self.model_

    def to_torch(self, *, sparse: bool = False) -> nn.Module:
        """A plain `nn.Module` with the same scores (features for the transformer), from inputs as they are given.

        Parameters
        ----------
        sparse : bool, default=False
            Whether the matrices that are smaller so are kept as compressed sparse rows.

        Returns
        -------
        nn.Module
            The module.
        """
        return to_torch(self.exported_model(), sparse=sparse)

    def to_onnx(self, path: Path | None = None) -> Any:
        """An ONNX model. Needs the extra `onnx`.

        Parameters
        ----------
        path : str or path, optional
            A file that it is also written to.

        Returns
        -------
        onnx.ModelProto
            The model.
        """
        return to_onnx(self.exported_model(), path)

    def to_csr(self) -> CSRModel:
        """The model with matrices of SciPy's compressed sparse rows.

        Returns
        -------
        CSRModel
            With `scores`, `predict`, `save` and `load`.
        """
        return to_csr(self.exported_model())

    def to_c(self, name: str = "model", *, int8: bool = False) -> CModel:
        """The model as C99 without dependency or heap.

        Parameters
        ----------
        name : str, default="model"
            What the files and functions are called.
        int8 : bool, default=False
            Weights in 8 bits in place of float32.

        Returns
        -------
        CModel
            Its `save(folder)` writes NAME.h and NAME.c.
        """
        return to_c(self.exported_model(), name, int8=int8)

    def predictor(self, kernel: str = "auto", dtype: str = "float32") -> Predictor:
        """Predictions with as little overhead as possible.

        Parameters
        ----------
        kernel : {"auto", "dense", "sparse", "native"}, default="auto"
            "auto" is the faster of the dense and the sparse kernel. "native" runs the C compiler `cc` for one that is
            often faster still; nothing else starts a process.
        dtype : {"float32", "float64"}, default="float32"
            The type to compute in.

        Returns
        -------
        Predictor
            A function of rows.
        """
        return Predictor(self.exported_model(), kernel, dtype)

    def save(self, path: Path) -> None:
        """Write a model file: everything that prediction needs, nothing that runs. `history_` is not kept.

        Parameters
        ----------
        path : str or path
            The file; it is written whole or not at all.
        """
        save_estimator(self, path, self._learned())

    @classmethod
    def load(cls, path: Path) -> Self:
        """The estimator that `save` wrote.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        estimator
            Of this class.

        Raises
        ------
        ModelFormatError
            For any other file.
        """
        return load_estimator(cls, path)  # type: ignore[no-any-return]

    def plot(self, ax: Axes | None = None) -> Any:
        """Draw the loss of every epoch, and on axes of its own the metric or the error on validation rows.

        Needs the extra `report`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw the loss alone.

        Returns
        -------
        array of Axes or Axes
            The axes; `ax` where it is given.
        """
        metric = getattr(self, "eval_metric", None)
        return plot_history(self.history_, ax, str(getattr(metric, "__name__", metric)))

    def encode(self, y: Any) -> Tensor:
        """The targets of the loss that labels y stand for, as the last fit encoded them.

        Parameters
        ----------
        y : array-like
            Labels or numbers.

        Returns
        -------
        Tensor
            Samples x outputs.
        """
        target = self._learned().target
        return target.encode(target.in_numbers(y))

    def _check_savable(self) -> None:
        """Raise where a model file could not hold what predictions need."""

    def _target_to_file(self, target: Any) -> dict[str, Any]:
        """The part of the target that a model file keeps, as plain JSON."""
        return {}

    def _target_from_file(self, kept: dict[str, Any], model: Model) -> Target:
        """The target that was written as `kept`."""
        raise NotImplementedError

    def _check_inputs(self, X: Any) -> Floats:
        check_is_fitted(self)
        check_device(self.device)
        return Inputs(self).check(X)[0]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = tags.input_tags.string = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
