"""What the declared constraints of the parameters cannot say: each check raises with what is allowed and what came."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight

from tikhonet.estimators.rows import Floats


def check_widths(sizes: Any) -> None:
    widths = np.atleast_1d(np.array(sizes, dtype=object))
    if widths.ndim != 1 or len(widths) == 0 or not all(is_width(width) for width in widths):
        raise ValueError(f"hidden_layer_sizes must be whole numbers of at least 1, got {sizes!r}")


def is_width(number: Any) -> bool:
    return isinstance(number, Real) and float(number).is_integer() and float(number) >= 1


def check_dropout(dropout: Any) -> None:
    """Of a pair; a word or a number is declared."""
    if isinstance(dropout, (str, Real)):
        return
    pair = np.array(dropout, dtype=object)
    if pair.shape != (2,) or not all(isinstance(share, Real) and 0 <= float(share) < 1 for share in pair):
        raise ValueError(
            f"dropout must be a number or a pair (inputs, last features) from 0 to below 1, got {dropout!r}"
        )


def check_weights(sample_weight: Any, X: Any) -> Floats:
    """One for each row, ones where there are none."""
    weight: Floats = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        raise ValueError("sample_weight must be positive for at least one row, got zeros only")
    return weight


def check_callbacks(callbacks: Any) -> None:
    for callback in callbacks if isinstance(callbacks, (list, tuple)) else ():
        if not callable(callback):
            raise ValueError(f"callbacks must be callable, each of them, got {callback!r}; pass functions")


def check_validation(X_val: Any, y_val: Any, features: int) -> None:
    """Both are given, finite and of the same length, and X_val is as wide as X."""
    if X_val is None or y_val is None:
        missing, given = ("X_val", "y_val") if X_val is None else ("y_val", "X_val")
        raise ValueError(f"{missing} must go with {given}, got None; pass both or neither")
    shape = np.shape(X_val)
    if len(shape) != 2 or shape[1] != features:
        raise ValueError(f"X_val must have as many features as X ({features}), got shape {shape}")
    check_array(X_val, accept_sparse="csr", dtype=np.float64, input_name="X_val")
    y_val = check_array(y_val, ensure_2d=False, dtype=None, input_name="y_val")
    if len(y_val) != shape[0]:
        raise ValueError(f"X_val and y_val must have the same number of rows, got {shape[0]} and {len(y_val)}")
