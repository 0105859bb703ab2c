"""Checks of arguments that no declared constraint can say: each raises with what is allowed and what came."""

from __future__ import annotations

from copy import copy
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import _check_sample_weight, validate_data

from tikhonet.estimators.rows import Floats
from tikhonet.network.errors import ArgumentError


class ParameterError(ArgumentError, InvalidParameterError):
    """scikit-learn's error of a parameter's declared values, with the parameter's name as a field."""


class Columns:
    """scikit-learn's checks of X and y, on a copy: a fit that fails must leave the estimator as it was."""

    def __init__(self, estimator: Any) -> None:
        self.seen = copy(estimator)

    def check(self, X: Any, y: Any = "no_validation", *, reset: bool = True, **options: Any) -> Any:
        """X, and y if it is given, as `validate_data` returns them."""
        return validate_data(self.seen, X, y, reset=reset, accept_sparse="csr", dtype=np.float64, **options)

    def give(self, estimator: Any) -> None:
        """Set number and names of the columns that were seen."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.seen, name):
                setattr(estimator, name, getattr(self.seen, name))
            elif hasattr(estimator, name):
                delattr(estimator, name)


def check_widths(sizes: Any) -> None:
    widths = np.atleast_1d(np.array(sizes, dtype=object))
    if widths.ndim != 1 or len(widths) == 0 or not all(is_width(width) for width in widths):
        raise ArgumentError(
            "hidden_layer_sizes", f"hidden_layer_sizes must be whole numbers of at least 1, got {sizes!r}"
        )


def is_width(number: Any) -> bool:
    return isinstance(number, Real) and float(number).is_integer() and float(number) >= 1


def check_dropout(dropout: Any) -> None:
    """Raise unless a pair is one of shares; words and numbers are declared."""
    if isinstance(dropout, (str, Real)):
        return
    pair = np.array(dropout, dtype=object)
    if pair.shape != (2,) or not all(isinstance(share, Real) and 0 <= float(share) < 1 for share in pair):
        raise ArgumentError(
            "dropout",
            f"dropout must be a number or a pair (inputs, last features) from 0 to below 1, got {dropout!r}",
        )


def check_weights(sample_weight: Any, X: Any) -> Floats:
    """The weight of each row, ones where none are given."""
    try:
        weight: Floats = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    except ValueError as error:
        raise ArgumentError("sample_weight", str(error)) from None
    if not weight.any():
        raise ArgumentError("sample_weight", "sample_weight must be positive for at least one row, got zeros only")
    return weight


def check_callbacks(callbacks: Any) -> None:
    for callback in callbacks if isinstance(callbacks, (list, tuple)) else ():
        if not callable(callback):
            raise ArgumentError(
                "callbacks", f"callbacks must be callable, each of them, got {callback!r}; pass functions"
            )


def check_validation(X_val: Any, y_val: Any, features: int) -> None:
    """Raise unless both are given, finite and of the same length, and X_val is as wide as X."""
    if X_val is None or y_val is None:
        missing, given = ("X_val", "y_val") if X_val is None else ("y_val", "X_val")
        raise ArgumentError(missing, f"{missing} must go with {given}, got None; pass both or neither")
    shape = np.shape(X_val)
    if len(shape) != 2 or shape[1] != features:
        raise ArgumentError("X_val", f"X_val must have as many features as X ({features}), got shape {shape}")
    check_array(X_val, accept_sparse="csr", dtype=np.float64, input_name="X_val")
    y_val = check_array(y_val, ensure_2d=False, dtype=None, input_name="y_val")
    if len(y_val) != shape[0]:
        raise ArgumentError(
            "y_val", f"X_val and y_val must have the same number of rows, got {shape[0]} and {len(y_val)}"
        )
