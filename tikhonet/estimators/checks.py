"""Checks of arguments that no declared constraint can say: each raises with what is allowed and what came."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import _check_sample_weight

from tikhonet.estimators.frames import is_frame, is_mixed
from tikhonet.estimators.rows import Floats
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Network

LARGEST = 1e305
"""Numbers beyond it could not be added up: the sum of some hundred rows would overflow."""
HEAVIEST = 1e200
"""Weights beyond it, or below its inverse, could not be multiplied by numbers."""
NEGLIGIBLE = 1e-30
"""A weight that is a smaller share of the largest counts as zero."""
COPIES = 4
"""Matrices like the weights that training keeps at least, and like the layers of a batch."""


class ParameterError(ArgumentError, InvalidParameterError):
    """scikit-learn's error of a parameter's declared values, with the parameter's name as a field."""


def check_magnitude(name: str, values: Any, most: float = LARGEST) -> None:
    """Raise where numbers are so large that differences and spreads of them would overflow; missing ones are not."""
    if values.dtype.kind == "f" and values.size:
        largest = float(max(np.fmax.reduce(values, None), -np.fmin.reduce(values, None)))
        if largest > most:
            message = f"{name} must hold numbers up to {most:g}, got {largest:g}; measure it in other units"
            raise ArgumentError(name, message)


def check_widths(sizes: Any) -> None:
    widths = np.atleast_1d(np.array(sizes, dtype=object))
    whole = all(isinstance(width, Real) and float(width).is_integer() and float(width) >= 1 for width in widths.flat)
    if widths.ndim != 1 or len(widths) == 0 or not whole:
        raise ArgumentError(
            "hidden_layer_sizes", f"hidden_layer_sizes must be whole numbers of at least 1, got {sizes!r}"
        )


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
    largest = float(weight.max())
    if not 1 / HEAVIEST <= largest <= HEAVIEST:
        raise ArgumentError(
            "sample_weight",
            f"sample_weight must have its largest number between {1 / HEAVIEST:g} and {HEAVIEST:g}, got {largest:g}; "
            "only ratios matter, so divide by it",
        )
    return np.where(weight < NEGLIGIBLE * largest, 0.0, weight)


def check_size(network: Network, rows: int, batch: int, outputs: int, dtype: str) -> None:
    """Raise where weights, layers or targets alone would not fit into the memory of this machine."""
    number = np.dtype(dtype).itemsize
    weights = sum(math.prod(map(float, network.shape(pair))) for pair in network.learned)
    parts = {
        "hidden_layer_sizes": number * COPIES * (weights + batch * float(sum(network.widths))),
        "y": number * float(rows) * outputs,
    }
    for name, needed in parts.items():
        if needed > (there := memory()):
            what = f"layers of widths {network.widths[1:]}" if name != "y" else f"{outputs} targets for {rows} rows"
            raise ArgumentError(
                name,
                f"{name} must leave room in memory, got {what}, with {network.widths[0]} inputs and {outputs} outputs: "
                f"about {needed / 1e9:.3g} GB of {there / 1e9:.3g} GB; use fewer or narrower ones",
            )


def memory() -> float:
    """The bytes that this process may have: those of the machine, or of the limit that it runs under."""
    limits = [float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))] if hasattr(os, "sysconf") else [math.inf]
    with suppress(OSError, ValueError):
        limits.append(float(Path("/sys/fs/cgroup/memory.max").read_text()))  # "max" is no number
    return min(limits)


def check_callbacks(callbacks: Any) -> None:
    for callback in callbacks if isinstance(callbacks, (list, tuple)) else ():
        if not callable(callback):
            raise ArgumentError(
                "callbacks", f"callbacks must be callable, each of them, got {callback!r}; pass functions"
            )


def validation_sets(X_val: Any, y_val: Any, eval_set: Any) -> list[tuple[Any, Any, str, str]]:
    """The sets of validation rows, X and y, with the names that errors give them; none where none were given."""
    if eval_set is None:
        return [] if X_val is None and y_val is None else [(X_val, y_val, "X_val", "y_val")]
    if X_val is not None or y_val is not None:
        message = "eval_set must be None where X_val and y_val are given, got both; make them the last of eval_set"
        raise ArgumentError("eval_set", message)
    pairs = eval_set if isinstance(eval_set, (list, tuple)) else [eval_set]
    if not pairs or not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise ArgumentError(
            "eval_set", f"eval_set must be a list of pairs (X, y), got {type(pairs[0]).__name__ if pairs else 'none'}"
        )
    return [(X, y, f"eval_set[{k}][0]", f"eval_set[{k}][1]") for k, (X, y) in enumerate(pairs)]


def check_validation(X_val: Any, y_val: Any, features: int, X_name: str = "X_val", y_name: str = "y_val") -> None:
    """Raise unless both are given, y_val finite and as long as X_val, and X_val as wide as X."""
    if X_val is None or y_val is None:
        missing, given = (X_name, y_name) if X_val is None else (y_name, X_name)
        raise ArgumentError(missing, f"{missing} must go with {given}, got None; pass both or neither")
    shape = X_val.shape if hasattr(X_val, "shape") else np.shape(X_val)
    if len(shape) < 2 or (math.prod(shape[1:]) != features and not is_frame(X_val)):
        raise ArgumentError(X_name, f"{X_name} must have as many features as X ({features}), got shape {shape}")
    if not (is_frame(X_val) or is_mixed(X_val)):
        options: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": "allow-nan"}
        check_array(X_val, allow_nd=True, input_name=X_name, **options)
    y_val = check_array(y_val, ensure_2d=False, dtype=None, input_name=y_name)
    if len(y_val) != shape[0]:
        message = f"{X_name} and {y_name} must have the same number of rows, got {shape[0]} and {len(y_val)}"
        raise ArgumentError(y_name, message)


def check_classes(classes: Any, known: NDArray[Any] | None) -> NDArray[Any]:
    """The classes that calls of `partial_fit` may hold: those of the first call, which are `known` from then on."""
    if classes is None:
        if known is None:
            message = "classes must hold all class labels at the first call of partial_fit, got None"
            raise ArgumentError("classes", message)
        return known
    given = np.unique(classes)
    if known is None and len(given) < 2:
        message = f"classes must hold at least 2 labels, got {classes!r}; pass all that will ever come"
        raise ArgumentError("classes", message)
    if known is not None and not np.array_equal(given, known):
        message = f"classes must be those of the first call ({known}), got {given}"
        raise ArgumentError("classes", message)
    return given
