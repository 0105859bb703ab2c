"""How good predictions are: the error of classes, the residuals of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.cli.progress import by_chunks

Measures = dict[str, Any]


def measure(estimator: Any, X: NDArray[Any], y: NDArray[Any]) -> Measures:
    predicted = by_chunks(estimator.predict, X, "predicting")
    return class_measures(y, predicted) if hasattr(estimator, "classes_") else number_measures(y, predicted)


def class_measures(y: NDArray[Any], predicted: NDArray[Any]) -> Measures:
    wrong = int(np.sum(predicted != y))
    return {"rows": len(y), "wrong": wrong, "error_percent": 100 * wrong / len(y)}


def number_measures(y: NDArray[Any], predicted: NDArray[Any]) -> Measures:
    """R2 is 1 where predictions are exact and 0 where they are no better than the mean of y."""
    residual = np.asarray(y, float) - predicted
    spread = float(np.sum(np.square(y - np.mean(y, axis=0))))
    squares = float(np.sum(np.square(residual)))
    return {
        "rows": len(y),
        "rmse": float(np.sqrt(np.mean(np.square(residual)))),
        "mae": float(np.mean(np.abs(residual))),
        "r2": 1 - squares / spread if spread else float("nan"),
    }


def headline(measures: Measures) -> str:
    if "n_bits" in measures:
        return (
            f"{measures['distinct']:,} distinct codes of {measures['n_bits']} bits, bit balance "
            f"{measures['balance']:.3f}, correlation between bits {measures['correlation']:.3f}"
        )
    if "wrong" in measures:
        return f"error {measures['error_percent']:.2f}% ({measures['wrong']} of {measures['rows']:,} wrong)"
    return f"R2 {measures['r2']:.4f}, rms error {measures['rmse']:.4g}, mean absolute error {measures['mae']:.4g}"
