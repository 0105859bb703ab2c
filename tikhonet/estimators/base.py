"""What the three estimators show: features, what was learned, model files, the torch module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from tikhonet.descent.devices import check_device
from tikhonet.estimators.files import Path, load_estimator, save_estimator
from tikhonet.estimators.learning import Learning
from tikhonet.estimators.rows import Floats
from tikhonet.estimators.training import count_zeros
from tikhonet.model.export import CModel, CSRModel, to_c, to_csr, to_onnx, to_torch
from tikhonet.model.model import Model
from tikhonet.model.predictor import Predictor
from tikhonet.model.storage import ModelFormatError
from tikhonet.network.graph import Pair

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class BCDEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Learning):
    @property
    def coefs_(self) -> dict[Pair, Floats]:
        """The learned matrices by edge `(n, m)`, from layer m into layer n; m = -1 is the bias."""
        check_is_fitted(self, "network_")
        return {edge: matrix.numpy() for edge, matrix in self._model.W.items()}

    @property
    def sparsity_(self) -> dict[str, Any]:
        """Which weights are exactly zero, and why; biases are not counted.

        `kind`: "none", "set" (zeros emerge from the constraint), "budget" (they were asked for) or "budget and set";
        `asked` and `over`: the budget; `zeros`: the share of zeros; `nonzeros` and `weights`: numbers by the name of
        the matrix, 'W[n,m]'.
        """
        check_is_fitted(self, "network_")
        return count_zeros(self._model) | self._cause_of_zeros

    @property
    def _n_features_out(self) -> int:
        return int(self.network_.widths[-1])

    def transform(self, X: Any) -> Any:
        """The features: the last hidden layer, samples x width."""
        data = self._check_inputs(X)
        features = self._model.features(data, self.device)
        return features.astype(np.float32) if getattr(X, "dtype", None) == np.float32 else features

    @property
    def model_(self) -> Model:
        """Scaling, network and head: all that prediction needs."""
        check_is_fitted(self, "network_")
        return self._model

    def exported_model(self) -> Model:
        """The model that export formats take; raises where they could not say what this estimator predicts."""
        return self.model_

    def to_torch(self, *, sparse: bool = False) -> nn.Module:
        """A plain `nn.Module` with the same scores (features for the transformer), from inputs as they are given.

        With `sparse` the matrices that are smaller so are kept as compressed sparse rows.
        """
        return to_torch(self.exported_model(), sparse=sparse)

    def to_onnx(self, path: Path | None = None) -> Any:
        """An ONNX model (an `onnx.ModelProto`), also written to `path` if given. Needs the extra `onnx`."""
        return to_onnx(self.exported_model(), path)

    def to_csr(self) -> CSRModel:
        """SciPy's compressed sparse rows, with `scores`, `predict`, `save` and `load`."""
        return to_csr(self.exported_model())

    def to_c(self, name: str = "model", *, int8: bool = False) -> CModel:
        """C99 without dependency or heap, in float32 or with int8 weights; `.save(folder)` writes NAME.h and NAME.c."""
        return to_c(self.exported_model(), name, int8=int8)

    def predictor(self, kernel: str = "auto", dtype: str = "float32") -> Predictor:
        """The same predictions with as little overhead as possible, by the fastest of the dense and sparse kernels."""
        return Predictor(self.exported_model(), kernel, dtype)

    def save(self, path: Path) -> None:
        """Write a model file: everything that prediction needs, nothing that runs. `history_` is not kept."""
        check_is_fitted(self, "network_")
        save_estimator(self, path, self._fitted())

    @classmethod
    def load(cls, path: Path) -> Self:
        """The estimator that `save` wrote; `ModelFormatError` for any other file."""
        estimator, fitted = load_estimator(cls, path)
        try:
            estimator._restore(fitted)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ModelFormatError(f"{path} does not hold a whole {cls.__name__}: {error}; save it again") from None
        return estimator  # type: ignore[no-any-return]

    def plot(self, ax: Axes | None = None) -> Axes:
        """The objective and the validation error over training."""
        from tikhonet.estimators.plotting import plot_history

        check_is_fitted(self, "network_")
        return plot_history(self.history_, ax)

    def _fitted(self) -> dict[str, Any]:
        """What a model file keeps beside the model, as plain JSON."""
        return {}

    def _restore(self, fitted: dict[str, Any]) -> None:
        """The same the other way."""

    def _check_inputs(self, X: Any) -> Floats:
        check_is_fitted(self, "network_")
        check_device(self.device)
        return dense(validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def dense(X: Any) -> Floats:
    dense: Floats = X.toarray() if hasattr(X, "toarray") else X
    return dense
