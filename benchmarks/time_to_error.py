"""Sec. 3.3.1: test error against training seconds, block coordinate descent and the six SGD solvers.

The paper's network, the same inputs and initial weights for all, a linear SVM refitted on the features
(its time is not training time). First `--tune` chooses every solver's step and batch size on the last sixth of the
training images, the same number of trials each; then the six run with their best settings and BCD with its defaults,
in turn, seed by seed, on all training images. Each finished run is a line of `results/time_to_error/<data>.jsonl` and
is not done again, so the whole can be done in pieces. "Adam/0" is Adam with the settings of its trial 0 in place of
its best; "BCD@0.2" drops a fifth of the inputs, in place of BCD's default of a tenth and the rivals' fifth, which is
what suits them. `--untimed` is for a machine that is shared: errors are kept, seconds are not.

Usage: python benchmarks/time_to_error.py [--data DIR] [--set mnist|fashion-mnist] [--samples N] [--tune] [--untimed]
       [--solvers BCD,Adam,..] [--epochs 10] [--seeds 0,1,2] [--goals 1.8,1.6]
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from machine import describe, images
from matplotlib.ticker import FixedLocator, NullFormatter

from tikhonet import Fenchel, Network, Problem, Stochastic
from tikhonet.model.svm import fit_linear_svm
from tikhonet.paper.baselines.backprop import SOLVERS, Backprop

PROBLEM = Problem(Network.paper(), lift=Fenchel())
DROPOUT = {"drop_inputs": 0.2, "drop_features": 0.2}
TRIALS = 4
RATES = {"SGD": 0.03, "Nesterov": 0.03, "AdaGrad": 5e-3, "AdaDelta": 1.0, "RMSProp": 2e-4, "Adam": 5e-4}
MEASURED = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 70, 100)
"""The epochs after which an SVM is fitted; the last one of a run always is."""


def search(solver: str, trial: int) -> dict[str, float]:
    """The trial's settings: trial 0 is the usual one, the others are drawn around it."""
    rng = random.Random(f"{solver} {trial}")
    if solver == "BCD":
        factor, batch_size = 3 ** rng.uniform(-1, 1), rng.choice([500, 1000, 2000])
        return {} if trial == 0 else {"change": 0.3 * factor, "batch_size": batch_size}
    factor, batch_size = (1.0, 128) if trial == 0 else (10 ** rng.uniform(-0.7, 0.7), rng.choice([64, 128, 256]))
    return {"rate": RATES[solver] * factor, "batch_size": batch_size}


def run(solver: str, settings: dict, epochs: int, seed: int, data, test, measured=MEASURED) -> dict:
    """One run with its curve: (epoch, training seconds so far, test error in percent by the SVM)."""
    (X, y), (X_test, y_test) = data, test
    targets = PROBLEM.loss.encode(y, 10)
    curve, seconds = [], 0.0

    def measure(number: int, spent: float, W) -> None:
        nonlocal seconds
        seconds += spent
        if number in measured or number == epochs:
            features, features_test = (PROBLEM.network.features(part, W) for part in (X, X_test))
            svm = fit_linear_svm(features, y, tol=1e-3)
            curve.append((number, round(seconds, 2), round(100 * svm.error(features_test, y_test), 2)))

    name, _, dropout = parse(solver)
    if name == "BCD":
        trainer = Stochastic(epochs=epochs, **dropout, **settings)
        state = None
        for number in range(1, epochs + 1):  # one epoch a time, so that measuring is not on the clock
            part = trainer.run(PROBLEM, X, targets, seed=seed, resume=state, watch=lambda epoch: True)
            state = part.state
            measure(number, part.epochs[-1].seconds, part.blocks.W)
    else:
        Backprop(name, epochs=epochs, **dropout, **settings).run(
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
                record = run(solver, search(solver, trial), epochs, 0, *split, measured=()) | {"trial": trial}
                save(store, record)
                print(f"{solver:9} trial {trial}: {record['curve'][-1][2]:.2f}%  {record['settings']}", flush=True)


def parse(solver: str) -> tuple[str, str, dict[str, float]]:
    """Name, trial (or nothing) and dropout of, for instance, "Adam", "Adam/0", "BCD@0.2"."""
    solver, _, drop = solver.partition("@")
    name, _, trial = solver.partition("/")
    usual = {} if name == "BCD" else DROPOUT
    return name, trial, usual | ({"drop_inputs": float(drop)} if drop else {})


def chosen(solver: str, store: Path) -> dict:
    """The settings with the lowest validation error, or the usual ones before any tuning; BCD keeps its defaults."""
    solver, trial, _ = parse(solver)
    if solver == "BCD":
        return {}
    if trial:
        return search(solver, int(trial))
    trials = [line for line in lines(store) if line["solver"] == solver and "trial" in line]
    return min(trials, key=lambda line: line["curve"][-1][2])["settings"] if trials else search(solver, 0)


def lines(store: Path) -> list[dict]:
    return [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []


def save(store: Path, record: dict) -> None:
    store.parent.mkdir(parents=True, exist_ok=True)
    with store.open("a") as file:
        file.write(json.dumps(record | {"machine": describe()}) + "\n")


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def seconds_to(curve: list, error: float) -> float:
    return next((seconds for _, seconds, reached in curve if reached <= error), float("inf"))


def fastest(times: dict[int, list[list[float]]], goal: int) -> float:
    """Mean seconds to a goal of the fastest among the schedules that were run with the most seeds."""
    seeds = max(map(len, times.values()))
    return min(mean([run[goal] for run in runs]) for runs in times.values() if len(runs) == seeds)


def report(store: Path, goals: tuple[float, ...]) -> None:
    """Final errors by schedule, times to the goals, and the picture of the curves."""
    runs = [line for line in lines(store) if "trial" not in line]
    times: dict[str, dict[int, list[list[float]]]] = {}
    for solver, epochs in sorted({(line["solver"], line["epochs"]) for line in runs}, key=lambda key: order(*key)):
        mine = [line for line in runs if (line["solver"], line["epochs"]) == (solver, epochs)]
        errors = {line["seed"]: line["curve"][-1][2] for line in mine}
        text = f"{solver:9} {epochs:3} epochs: {mean(list(errors.values())):.2f}%  {errors}"
        timed = [line["curve"] for line in mine if line["timed"]]
        if timed:
            spent = [[seconds_to(curve, goal) for goal in goals] for curve in timed]
            times.setdefault(solver, {})[epochs] = spent
            means = [mean(list(column)) for column in zip(*spent, strict=True)]
            reached = ", ".join(f"{goal}% in {seconds:.1f} s" for goal, seconds in zip(goals, means, strict=True))
            text += f", {mean([curve[-1][1] for curve in timed]):.0f} s; {reached} ({len(timed)} timed)"
        print(text)
    for index, goal in enumerate(goals):
        ours, others = (
            {name: fastest(found, index) for name, found in times.items() if ("BCD" in name) is side}
            for side in (True, False)
        )
        if ours and others:
            (mine, spent), (rival, longer) = (min(group.items(), key=lambda item: item[1]) for group in (ours, others))
            ratio = f"{longer / spent:.1f}" if spent < float("inf") else "none, not reached"
            print(f"{goal}%: {mine} {spent:.1f} s, {rival} {longer:.1f} s, ratio {ratio}")
    draw([line for line in runs if line["timed"] and "@" not in line["solver"]], store.with_suffix(".png"))


def order(solver: str, epochs: int) -> tuple[bool, str, int]:
    return "BCD" not in solver, solver, epochs


def draw(runs: list[dict], path: Path) -> None:
    """Of every solver and length of run, the one that ended best; a solver's settings share its colour."""
    best: dict[tuple[str, int], dict] = {}
    for line in sorted(runs, key=lambda line: -line["curve"][-1][2]):
        best[parse(line["solver"])[0], line["epochs"]] = line
    if not best:
        return
    longest = {name: max(epochs for other, epochs in best if other == name) for name, _ in best}
    colours = {name: f"C{number}" for number, name in enumerate(["BCD", *SOLVERS])}
    _, ax = plt.subplots(figsize=(8, 5))
    for (name, epochs), line in sorted(best.items(), key=lambda item: order(*item[0])):
        _, seconds, error = zip(*line["curve"], strict=True)
        style = {"lw": 2.5 if name == "BCD" else 1, "ls": "-" if epochs == longest[name] else "--"}
        ax.plot(seconds, error, ".", color=colours[name], label=f"{name}, {epochs} epochs", **style)
    ax.set(xlabel="training seconds", ylabel="test error %, linear SVM refitted", xscale="log", yscale="log")
    ax.grid(alpha=0.3, which="both")
    marks = (1, 1.2, 1.5, 2, 3, 4, 5, 7, 9, 10, 11, 12, 14, 16, 20)
    for axis, ticks in ((ax.xaxis, (5, 10, 20, 50, 100, 200, 500)), (ax.yaxis, marks)):
        axis.set(major_locator=FixedLocator(ticks), major_formatter="{x:g}", minor_formatter=NullFormatter())
    ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    ax.figure.savefig(path, dpi=150, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the data sets, as `data_home`")
    parser.add_argument("--set", default="mnist", choices=["mnist", "fashion-mnist"])
    parser.add_argument("--samples", type=int, default=60000)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--untimed", action="store_true", help="the machine is shared: keep errors, not seconds")
    parser.add_argument("--solvers", default=",".join(["BCD", *SOLVERS]))
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--goals", default="1.8,1.6", help="errors in percent to give the time to")
    options = parser.parse_args()
    store = Path("results", "time_to_error", f"{options.set}-{options.samples}.jsonl")
    data = tuple(part[: options.samples] for part in images(options.set, "train", options.data))
    solvers = options.solvers.split(",") if options.solvers else []
    if options.tune:
        tune(solvers, options.epochs, data, store)
        return
    test = images(options.set, "test", options.data)
    for seed in map(int, options.seeds.split(",")):
        for solver in solvers:
            key = (solver, options.epochs, seed)
            # Two processes may share the work, so what is done is looked up before every run.
            before = [line for line in lines(store) if "trial" not in line]
            if any(
                key == (line["solver"], line["epochs"], line["seed"])
                for line in before
                if line["timed"] or options.untimed
            ):
                continue
            measured = () if options.untimed else MEASURED
            record = run(*key[:1], chosen(solver, store), *key[1:], data, test, measured) | {
                "timed": not options.untimed
            }
            save(store, record)
            print(solver, "seed", seed, record["curve"], flush=True)
    report(store, tuple(map(float, options.goals.split(","))))


if __name__ == "__main__":
    main()
