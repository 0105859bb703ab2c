"""Default estimators against scikit-learn's on small and middling tables: score and fit time.

Every model sees the same splits (a quarter of the rows is tested on), on one thread, once with features (and numeric
targets) as they are and once standardised. "tuned" chooses weight decay and rate among three settings on a fifth of
the training rows. Each fit is one line of the results file, so that a run goes on where it was stopped.

Usage: python benchmarks/tabular.py [--quick] [--output results/tabular] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tabular_data
import torch
from machine import describe
from rich.console import Console
from rich.table import Table
from scipy.stats import rankdata
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, ShuffleSplit, StratifiedShuffleSplit, train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from tikhonet.estimators import BCDClassifier, BCDRegressor

SEEDS = 5
GRID = [
    {"alpha": [1e-4], "learning_rate_init": [1e-3, 1e-2]},
    {"alpha": [1.0], "learning_rate_init": [1e-3]},
]
MODELS: dict[str, dict[str, Callable[[int], Any]]] = {
    "classes": {
        "BCD": lambda seed: BCDClassifier(random_state=seed),
        "MLP": lambda seed: MLPClassifier(random_state=seed),
        "MLP tuned": lambda seed: GridSearchCV(
            MLPClassifier(random_state=seed), GRID, cv=StratifiedShuffleSplit(1, test_size=0.2, random_state=seed)
        ),
        "HistGradientBoosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
        "linear": lambda seed: LogisticRegression(max_iter=1000),
    },
    "numbers": {
        "BCD": lambda seed: BCDRegressor(random_state=seed),
        "MLP": lambda seed: MLPRegressor(random_state=seed),
        "MLP tuned": lambda seed: GridSearchCV(
            MLPRegressor(random_state=seed), GRID, cv=ShuffleSplit(1, test_size=0.2, random_state=seed)
        ),
        "HistGradientBoosting": lambda seed: HistGradientBoostingRegressor(random_state=seed),
        "linear": lambda seed: RidgeCV(np.logspace(-3, 3, 13)),
    },
}


def scaled(model: Any, task: str) -> Any:
    model = make_pipeline(StandardScaler(), model)
    return model if task == "classes" else TransformedTargetRegressor(model, transformer=StandardScaler())


def fits(names: dict[str, list[str]], seeds: int, done: set[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """One record for each fit that is not done yet, the models in turn on the same split."""
    for seed in range(seeds):
        for task, tables in names.items():
            for table in tables:
                X, y = tabular_data.load(table)
                split = train_test_split(X, y, random_state=seed, stratify=y if task == "classes" else None)
                for features in ("scaled", "raw"):
                    for name, make in MODELS[task].items():
                        key = {"table": table, "task": task, "seed": seed, "features": features, "model": name}
                        if tuple(key.values()) not in done:
                            yield key | measure(make(seed), task, features, split)


def measure(model: Any, task: str, features: str, split: list[np.ndarray]) -> dict[str, float]:
    X, X_test, y, y_test = split
    model = scaled(model, task) if features == "scaled" else model
    clock = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLP's and the linear models' convergence warnings: they run as they are
        model.fit(X, y)
    seconds = {"seconds": time.perf_counter() - clock[0], "cpu_seconds": time.process_time() - clock[1]}
    figures = {"score": float(model.score(X_test, y_test)), "rows": len(X), **seconds}
    if task == "classes":
        probabilities = model.predict_proba(X_test)
        figures["log_loss"] = float(log_loss(y_test, probabilities, labels=model.classes_))
        figures["ece"] = calibration_error(probabilities, model.classes_ == y_test[:, None])
    return figures


def calibration_error(probabilities: np.ndarray, hits: np.ndarray, bins: int = 10) -> float:
    """The mean gap between the highest probability and how often its class is right, over equal bins of it."""
    best = probabilities.argmax(1)
    confidence, right = probabilities.max(1), hits[np.arange(len(best)), best]
    groups = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [abs((confidence - right)[groups == group].sum()) for group in range(bins)]
    return float(sum(gaps) / len(best))


def summary(records: list[dict[str, Any]], task: str, features: str) -> Table:
    """Mean scores over the seeds for each table, then mean rank and total fit time."""
    records = [record for record in records if record["task"] == task and record["features"] == features]
    models, tables = list(MODELS[task]), list(dict.fromkeys(record["table"] for record in records))
    scores = np.full((len(tables), len(models)), np.nan)
    spreads, times = np.zeros_like(scores), np.zeros(len(models))
    for i, table in enumerate(tables):
        for j, model in enumerate(models):
            found = [r for r in records if (r["table"], r["model"]) == (table, model)]
            values = [r["score"] for r in found]
            scores[i, j], spreads[i, j] = np.mean(values), np.std(values)
            times[j] += sum(r["cpu_seconds"] for r in found)
    what = "accuracy" if task == "classes" else "R2"
    out = Table("table", *models, title=f"{what}, {features} features: mean over seeds (standard deviation)")
    for i, table in enumerate(tables):
        out.add_row(table, *(f"{100 * a:.1f} ({100 * b:.1f})" for a, b in zip(scores[i], spreads[i], strict=True)))
    ranks = np.mean([rankdata(-row.round(4)) for row in scores], axis=0)
    out.add_section()
    out.add_row("mean rank", *(f"{rank:.2f}" for rank in ranks))
    out.add_row("fit time, CPU s", *(f"{seconds:.1f}" for seconds in times))
    for figure in ("log_loss", "ece") if task == "classes" else ():
        means = [np.mean([r[figure] for r in records if r["model"] == model]) for model in models]
        out.add_row(f"mean {figure}", *(f"{mean:.3f}" for mean in means))
    return out


def main(output: Path, quick: bool, only: list[str]) -> None:
    torch.set_num_threads(1)
    names = {"classes": list(tabular_data.CLASSES), "numbers": list(tabular_data.NUMBERS)}
    if quick:
        names = {"classes": ["iris", "wine", "pima"], "numbers": ["diabetes"]}
    if only:
        names = {task: [name for name in tables if name in only] for task, tables in names.items()}
    output.mkdir(parents=True, exist_ok=True)
    path = output / ("quick.jsonl" if quick else "fits.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    keys = ("table", "task", "seed", "features", "model")
    done = {tuple(record[key] for key in keys) for record in records}
    with threadpool_limits(1), path.open("a") as file:
        for record in fits(names, 1 if quick else SEEDS, done):
            records.append(record | {"machine": describe()})
            file.write(json.dumps(records[-1]) + "\n")
            file.flush()
    for task in MODELS:
        for features in ("scaled", "raw"):
            Console(width=120).print(summary(records, task, features))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("results/tabular"))
    parser.add_argument("--quick", action="store_true", help="four small tables, one seed")
    parser.add_argument("--only", nargs="*", default=[], help="names of tables")
    arguments = parser.parse_args()
    main(arguments.output, arguments.quick, arguments.only)
