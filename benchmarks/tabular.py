"""Default estimators on 52 tables as they are: BCD, four gradient boostings, two networks and linear models.

Every model sees the same three splits on one thread, raw columns, with its own defaults (`tabular_models.py`). The
tables are in `tabular_data.py`. Each fit is one line of the records, so that a run goes on where it was stopped; the
first split of all tables comes first. `--timings` measures fits of 150 rows and of 100,000 x 50 numbers instead.

The rivals are an extra of their own: pip install -c constraints.txt -e .[bench,report,rivals].
`python docs/tables.py` makes the tables of the documents from the records, `python docs/pictures.py` the picture.

Usage: python benchmarks/tabular.py [--models NAME ...] [--tables NAME ...] [--splits 3] [--timings]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from machine import RESULTS, Measured
from sklearn.datasets import load_iris, make_classification, make_friedman1
from sklearn.metrics import log_loss, mean_absolute_error, r2_score, roc_auc_score, root_mean_squared_error
from sklearn.model_selection import train_test_split
from tabular_data import TABLES, TEST, TRAIN, Table
from tabular_models import MODELS
from threadpoolctl import threadpool_limits

from tikhonet.paper.records import append_record, read_lines

KEYS = ("table", "split", "model")


def fits(tables: list[str], models: list[str], splits: int, done: set[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """One record for each fit that is not done yet, the models in turn on the same split."""
    for split in range(splits):
        for name in tables:
            todo = [model for model in models if (name, split, model) not in done]
            table = TABLES[name]() if todo else None
            for model in todo:
                yield dict(zip(KEYS, (name, split, model), strict=True)) | measure(model, table, split)


def measure(model: str, table: Table, seed: int) -> dict[str, Any]:
    """Fit on at most 3,000 rows, and score on those that are left."""
    train = min(TRAIN, 3 * len(table.y) // 4)
    X, X_test, y, y_test = train_test_split(
        table.X,
        table.y,
        train_size=train,
        test_size=min(TEST, len(table.y) - train),
        random_state=seed,
        stratify=table.y if table.task == "classes" else None,
    )
    fitted, seconds = timed(model, table.task, seed, X, y)
    clock = time.process_time()
    figures = (of_classes if table.task == "classes" else of_numbers)(fitted, X_test, y_test)
    used = {"cpu_seconds": seconds, "score_seconds": time.process_time() - clock}
    return {"task": table.task, "rows": len(X), "columns": X.shape[1], "tested": len(X_test)} | used | figures


def timed(model: str, task: str, seed: int, X: Any, y: np.ndarray) -> tuple[Any, float]:
    made = MODELS[model][0](task, seed)
    clock = time.process_time()
    made.fit(X, y)
    return made, time.process_time() - clock


def of_classes(model: Any, X: Any, y: np.ndarray) -> dict[str, float]:
    probabilities = np.asarray(model.predict_proba(X), dtype=float)
    probabilities /= probabilities.sum(1, keepdims=True)
    best, labels = probabilities.argmax(1), np.arange(probabilities.shape[1])
    curve = probabilities[:, 1] if len(labels) == 2 else probabilities
    return {
        "accuracy": float((best == y).mean()),
        "log_loss": float(log_loss(y, probabilities, labels=labels)),
        "ece": calibration_error(probabilities.max(1), best == y),
        "auc": float(roc_auc_score(y, curve, multi_class="ovr", labels=labels)),
    }


def calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """The mean gap between the highest probability and how often its class is right, over ten equal bins of it."""
    groups = np.minimum((confidence * 10).astype(int), 9)
    return float(sum(abs((confidence - right)[groups == group].sum()) for group in range(10)) / len(right))


def of_numbers(model: Any, X: Any, y: np.ndarray) -> dict[str, float]:
    predicted = np.asarray(model.predict(X), dtype=float)
    measures = {"r2": r2_score, "rmse": root_mean_squared_error, "mae": mean_absolute_error}
    return {name: float(measure(y, predicted)) for name, measure in measures.items()}


def timings(models: list[str]) -> Iterator[dict[str, Any]]:
    """CPU seconds of fits, the models in turn."""
    (X, y), wide = load_iris(return_X_y=True), {"n_samples": 100_000, "n_features": 50, "random_state": 0}
    sizes = {
        "150 rows": {"classes": (X, y), "numbers": (X[:, :3], X[:, 3])},
        "100,000 x 50": {
            "classes": make_classification(**wide, n_informative=20, n_classes=5),
            "numbers": make_friedman1(**wide, noise=1.0),
        },
    }
    for size, tasks in sizes.items():
        for repeat in range(3 if size == "150 rows" else 1):
            for task, (X, y) in tasks.items():
                frame = pd.DataFrame(X).add_prefix("x")
                for model in models:
                    found = {"cpu_seconds": timed(model, task, repeat, frame, y)[1]}
                    yield {"table": size, "split": repeat, "model": model, "task": task} | found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--timings", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder = options.output / ("tabular_timings" if options.timings else "tabular")
    done = {tuple(record[key] for key in KEYS) for _, record in read_lines(folder)}
    todo = timings(options.models) if options.timings else fits(options.tables, options.models, options.splits, done)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence warnings of MLP and of the linear models: they run as they are
        for record in todo:
            append_record(folder, Measured(record, (MODELS[record["model"]][1],)))
            print(*(f"{value:.4g}" if isinstance(value, float) else value for value in record.values()), flush=True)


if __name__ == "__main__":
    main()
