"""Sec. 3.3.1: test error against training seconds, block coordinate descent and the six SGD solvers.

The paper's network, the same initial weights and inputs, a linear SVM refitted on the features of every
epoch (its time is not training time). First `--tune` chooses every solver's settings on the last 10,000
training images, the same number of trials each; then the chosen ones are run in turn, seed by seed, on all
training images. Each finished run is a line of `results/time_to_error/<data>.jsonl` and is not done again, so
the whole can be done in pieces.

Usage: python benchmarks/time_to_error.py [--data DIR] [--set mnist|fashion] [--samples N] [--tune]
       [--solvers BCD,Adam,..] [--epochs 10] [--seeds 0,1,2]
"""

from __future__ import annotations

import argparse
import json
import os
import random
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from machine import describe
from mnist_data import load

from tikhonet import Fenchel, Network, Problem, Stochastic
from tikhonet.baselines import SOLVERS, Backprop
from tikhonet.heads import fit_linear_svm

PROBLEM = Problem(Network.paper(), lift=Fenchel())
TRIALS = 8
RATES = {"SGD": 0.03, "Nesterov": 0.03, "AdaGrad": 5e-3, "AdaDelta": 1.0, "RMSProp": 2e-4, "Adam": 5e-4}


def search(solver: str, trial: int) -> dict[str, float]:
    """The trial's settings: trial 0 is the usual one, the others are drawn around it."""
    rng = random.Random(f"{solver} {trial}")
    if solver == "BCD":
        if trial == 0:
            return {}
        return {
            "change": 0.3 * 3 ** rng.uniform(-1, 1),
            "batch_size": rng.choice([500, 1000, 2000]),
            "drop_inputs": rng.choice([0.0, 0.1, 0.2]),
            "drop_features": rng.choice([0.0, 0.2, 0.4]),
        }
    settings = {"rate": RATES[solver], "batch_size": 128, "drop_inputs": 0.1, "drop_features": 0.2}
    if trial:
        settings["rate"] *= 10 ** rng.uniform(-0.7, 0.7)
        settings |= {
            "batch_size": rng.choice([64, 128, 256]),
            "drop_inputs": rng.choice([0.0, 0.1, 0.2]),
            "drop_features": rng.choice([0.0, 0.2, 0.4]),
        }
    return settings


def run(solver: str, settings: dict, epochs: int, seed: int, data, test) -> dict:
    """One run with its curve: (epoch, training seconds so far, test error in percent by the SVM)."""
    (X, y), (X_test, y_test) = data, test
    targets = PROBLEM.loss.encode(y, 10)
    curve, seconds = [], 0.0

    def measure(number: int, spent: float, W) -> None:
        nonlocal seconds
        seconds += spent
        features, features_test = (PROBLEM.network.features(part, W) for part in (X, X_test))
        svm = fit_linear_svm(features, y, tol=1e-3)
        curve.append((number, round(seconds, 2), round(100 * svm.error(features_test, y_test), 2)))

    if solver == "BCD":
        trainer = Stochastic(epochs=epochs, **settings)
        state = None
        for number in range(1, epochs + 1):  # one epoch a time, so that measuring is not on the clock
            part = trainer.run(PROBLEM, X, targets, seed=seed, resume=state, watch=lambda epoch: True)
            state = part.state
            measure(number, part.epochs[-1].seconds, part.blocks.W)
    else:
        Backprop(solver, epochs=epochs, **settings).run(
            PROBLEM, X, targets, seed=seed, watch=lambda epoch, blocks: measure(epoch.number, epoch.seconds, blocks.W)
        )
    return {"solver": solver, "settings": settings, "epochs": epochs, "seed": seed, "curve": curve}


def tune(solvers: list[str], epochs: int, data, store: Path) -> None:
    """Every solver's trials in turn, on a split of the training images, with the validation error kept."""
    X, y = data
    held = max(1, len(X) // 6)
    split = (X[:-held], y[:-held]), (X[-held:], y[-held:])
    done = {(line["solver"], line["trial"]) for line in lines(store) if "trial" in line}
    for trial in range(TRIALS):
        for solver in solvers:
            if (solver, trial) not in done:
                record = run(solver, search(solver, trial), epochs, 0, *split) | {"trial": trial}
                save(store, record)
                print(f"{solver:9} trial {trial}: {record['curve'][-1][2]:.2f}%  {record['settings']}", flush=True)


def best(solver: str, store: Path) -> dict:
    """The settings with the lowest validation error, or the usual ones before any tuning."""
    trials = [line for line in lines(store) if line["solver"] == solver and "trial" in line]
    return min(trials, key=lambda line: line["curve"][-1][2])["settings"] if trials else search(solver, 0)


def lines(store: Path) -> list[dict]:
    return [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []


def save(store: Path, record: dict) -> None:
    store.parent.mkdir(parents=True, exist_ok=True)
    with store.open("a") as file:
        file.write(json.dumps(record | {"machine": describe()}) + "\n")


def seconds_to(curve: list, error: float) -> float:
    return next((seconds for _, seconds, reached in curve if reached <= error), float("inf"))


def report(store: Path, goals: tuple[float, ...]) -> None:
    """The table of final errors and times to the goals, and the picture of all curves."""
    runs = [line for line in lines(store) if "trial" not in line]
    _, ax = plt.subplots(figsize=(8, 5))
    for solver in ["BCD", *SOLVERS]:
        for epochs in sorted({line["epochs"] for line in runs if line["solver"] == solver}):
            mine = [line for line in runs if line["solver"] == solver and line["epochs"] == epochs]
            errors = [line["curve"][-1][2] for line in mine]
            times = [sum(seconds_to(line["curve"], goal) for line in mine) / len(mine) for goal in goals]
            goal_text = ", ".join(f"{goal}% in {spent:.1f} s" for goal, spent in zip(goals, times, strict=True))
            total = sum(line["curve"][-1][1] for line in mine) / len(mine)
            print(
                f"{solver:9} {epochs:3} epochs: {sum(errors) / len(errors):.2f}% "
                f"({', '.join(f'{error:.2f}' for error in errors)}), {total:.0f} s; {goal_text}"
            )
            _, seconds, error = zip(*mine[0]["curve"], strict=True)
            ax.plot(seconds, error, marker=".", label=f"{solver}, {epochs} epochs", lw=2.5 if solver == "BCD" else 1)
    ax.set(xlabel="training seconds", ylabel="test error %, linear SVM refitted", xscale="log", yscale="log")
    ax.legend(fontsize=8)
    ax.figure.savefig(store.with_suffix(".png"), dpi=150, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("TIKHONET_DATA", "data"))
    parser.add_argument("--set", default="mnist", choices=["mnist", "fashion"])
    parser.add_argument("--samples", type=int, default=60000)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--solvers", default=",".join(["BCD", *SOLVERS]))
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--goals", default="1.8,1.6", help="errors in percent to give the time to")
    options = parser.parse_args()
    store = Path("results", "time_to_error", f"{options.set}-{options.samples}.jsonl")
    data = tuple(part[: options.samples] for part in load(options.data, options.set, "train"))
    solvers = options.solvers.split(",")
    if options.tune:
        tune(solvers, options.epochs, data, store)
        return
    test = load(options.data, options.set, "t10k")
    done = {(line["solver"], line["epochs"], line["seed"]) for line in lines(store) if "trial" not in line}
    for seed in map(int, options.seeds.split(",")):
        for solver in solvers:
            if (solver, options.epochs, seed) not in done:
                record = run(solver, best(solver, store), options.epochs, seed, data, test)
                save(store, record)
                print(solver, "seed", seed, record["curve"], flush=True)
    report(store, tuple(map(float, options.goals.split(","))))


if __name__ == "__main__":
    main()
