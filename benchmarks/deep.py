"""Sec. 3.3.2: a plain 48 x 256 network on MNIST, test error by epoch and training seconds, by all trainers.

Ours with its defaults, back-propagation from each of our initialisations, and split layers by ADMM or by quadratic
penalties alone ("Penalty"); error of the network's own linear outputs. With `--bits` all of them train towards class
codewords of that length and the signs of the outputs are codes; in place of the error then stands 100 (1 - mAP), test
images as queries, training images as database. `--tune` first tries every rival's settings on the last sixth of the
training images; `--tuned FILE` takes those found in another run, such as one on fewer images. Runs go solver by solver
within a seed; each finished one is a line of a file in `results/deep` and is not done again, so the whole can be done
in pieces. `--untimed` is for a machine that is shared: errors are kept, seconds are not.

Usage: python benchmarks/deep.py [--data DIR] [--samples N] [--depth 48] [--bits 48] [--tune] [--tuned FILE]
       [--untimed] [--seeds 0,1,2] [--solvers BCD,Adam/looks-linear,Adam/he,SGD/looks-linear,ADMM,Penalty]
       [--epochs BCD=3,ADMM=20] [--goals 2.2,1.8]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from machine import images, lines, save
from torch import Tensor, from_numpy

from tikhonet import Blocks, Fenchel, Network, Problem, Stochastic
from tikhonet.hashing import evaluate, pack
from tikhonet.hashing.codewords import codewords
from tikhonet.paper.baselines.admm import ADMM, QuadraticPenalty
from tikhonet.paper.baselines.backprop import Backprop

HE = {"initial": "gaussian", "initial_scale": 2**0.5}
LOOKS_LINEAR = {"initial": "looks-linear", "initial_scale": 1.0}
ADAM = [
    {"rate": 1e-4},
    {"rate": 3e-4},
    {"rate": 3e-5},
    {"rate": 2e-4, "batch_size": 512},
    {"rate": 5e-4, "batch_size": 512},
]
TRIALS: dict[str, list[dict]] = {
    "Adam/looks-linear": ADAM,
    "Adam/he": ADAM,
    "SGD/looks-linear": [{"rate": rate} for rate in (3e-3, 1e-2, 1e-3, 3e-2)] + [{"rate": 1e-2, "batch_size": 512}],
    "ADMM": [
        {"beta": 1.0, "alpha": 1.0, "warm_up": 10},
        {"beta": 0.1, "alpha": 0.1, "warm_up": 10},
        {"beta": 10.0, "alpha": 10.0, "warm_up": 10},
    ],
    "Penalty": [{}, {"beta": 0.1, "alpha": 1.0}, {"beta": 1.0, "alpha": 0.1}],
}
"""What each rival may be set to; the first is used before any tuning."""
EPOCHS = {"BCD": 3, "ADMM": 20, "Penalty": 20}
SPLIT = {"ADMM": ADMM, "Penalty": QuadraticPenalty}
USUAL_EPOCHS = 10


def run(solver: str, settings: dict, epochs: int, seed: int, problem: Problem, data, test, bits: int | None) -> dict:
    """One run with its curve: (epoch, training seconds so far, what is missed on the test images in percent)."""
    X, y = data
    targets = from_numpy(codewords(10, bits, seed)).to(X)[y] if bits else problem.loss.encode(y, 10)
    curve, seconds = [], 0.0

    def measure(number: int, spent: float, blocks: Blocks) -> None:
        nonlocal seconds
        seconds += spent
        missed = missed_precision(problem, blocks, data, test, bits) if bits else error(problem, blocks, test)
        curve.append((number, round(seconds, 2), round(missed, 2)))

    if solver == "BCD":
        state = None
        for number in range(1, epochs + 1):  # one epoch a time, so that measuring is not on the clock
            part = Stochastic(epochs=epochs, **settings).run(
                problem, X, targets, seed=seed, resume=state, watch=lambda epoch: True
            )
            state = part.state
            measure(number, part.epochs[-1].seconds, part.blocks)
    else:
        trainer = rival(solver, epochs, settings)
        trainer(problem, X, targets, seed=seed, watch=lambda epoch, now: measure(epoch.number, epoch.seconds, now))
    return {"solver": solver, "settings": settings, "epochs": epochs, "seed": seed, "curve": curve}


def rival(solver: str, epochs: int, settings: dict) -> Callable:
    if solver in SPLIT:
        return SPLIT[solver](epochs, **settings).run
    name, _, start = solver.partition("/")
    return Backprop(name, epochs=epochs, **(HE if start == "he" else LOOKS_LINEAR), **settings).run


def scores(problem: Problem, blocks: Blocks, X: Tensor) -> Tensor:
    return problem.network.features(X, blocks.W) @ blocks.V.T


def error(problem: Problem, blocks: Blocks, test) -> float:
    X, y = test
    return 100 * float((scores(problem, blocks, X).argmax(1) != y).double().mean())


def missed_precision(problem: Problem, blocks: Blocks, data, test, bits: int) -> float:
    database, queries = (pack(scores(problem, blocks, X).numpy()) for X, _ in (data, test))
    found = evaluate(queries, test[1].numpy(), database, data[1].numpy(), n_bits=bits)
    return 100 * (1 - found.mean_average_precision.expected)


def tune(solvers: list[str], epochs: dict[str, int], problem: Problem, data, store: Path, bits: int | None) -> None:
    X, y = data
    held = max(1, len(X) // 6)
    split = (X[:-held], y[:-held]), (X[-held:], y[-held:])
    for solver in solvers:
        for trial, settings in enumerate(TRIALS.get(solver, [])):
            done = {(line["solver"], line["trial"]) for line in lines(store) if "trial" in line}
            if (solver, trial) not in done:
                record = run(solver, settings, epochs.get(solver, USUAL_EPOCHS), 0, problem, *split, bits)
                save(store, record | {"trial": trial})
                print(f"{solver:17} trial {trial}: {record['curve'][-1][2]:.2f}%  {settings}", flush=True)


def chosen(solver: str, store: Path) -> dict:
    """The settings with the lowest held-out error; the usual ones before any tuning."""
    if solver not in TRIALS:
        return {}
    trials = [line for line in lines(store) if line["solver"] == solver and "trial" in line]
    return min(trials, key=lambda line: line["curve"][-1][2])["settings"] if trials else TRIALS[solver][0]


def report(store: Path, goals: tuple[float, ...]) -> None:
    """Errors by solver and length of run, and where runs were timed the seconds to each goal."""
    runs = [line for line in lines(store) if "trial" not in line]
    for solver, epochs in sorted({(line["solver"], line["epochs"]) for line in runs}):
        mine = [line for line in runs if (line["solver"], line["epochs"]) == (solver, epochs)]
        errors = [line["curve"][-1][2] for line in mine]
        text = f"{solver:17} {epochs:3} epochs: {fmean(errors):.2f}%  {errors}"
        timed = [line["curve"] for line in mine if line["timed"]]
        for goal in goals if timed else ():
            reached = (next((s for _, s, error in curve if error <= goal), float("inf")) for curve in timed)
            text += f", {goal}% in {fmean(reached):.1f} s"
        print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the data sets, as `data_home`")
    parser.add_argument("--samples", type=int, default=60000)
    parser.add_argument("--depth", type=int, default=48)
    parser.add_argument("--bits", type=int, help="train towards class codewords of that length")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--tuned", type=Path, help="take the rivals' settings from the trials in this file")
    parser.add_argument("--untimed", action="store_true", help="the machine is shared: keep errors, not seconds")
    parser.add_argument("--solvers", default=",".join(["BCD", *TRIALS]))
    parser.add_argument("--epochs", default="", help="for instance BCD=3,ADMM=20")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--goals", default="2.2,1.8", help="errors in percent to give the time to")
    options = parser.parse_args()
    depth = "" if options.depth == 48 else f"-{options.depth}"
    bits = f"-{options.bits}bits" if options.bits else ""
    store = Path("results", "deep", f"mnist-{options.samples}{depth}{bits}.jsonl")
    problem = Problem(Network.chain([784] + [256] * options.depth), lift=Fenchel())
    data = tuple(part[: options.samples] for part in images("mnist", "train", options.data))
    solvers = options.solvers.split(",") if options.solvers else []
    given = (pair.split("=") for pair in options.epochs.split(",") if pair)
    epochs = EPOCHS | {name: int(number) for name, number in given}
    if options.tune:
        tune(solvers, epochs, problem, data, store, options.bits)
        return
    test = images("mnist", "test", options.data)
    for seed in map(int, options.seeds.split(",")):
        for solver in solvers:
            key = (solver, epochs.get(solver, USUAL_EPOCHS), seed)
            before = [line for line in lines(store) if "trial" not in line and (line["timed"] or options.untimed)]
            if any(key == (line["solver"], line["epochs"], line["seed"]) for line in before):
                continue
            record = run(solver, chosen(solver, options.tuned or store), *key[1:], problem, data, test, options.bits)
            save(store, record | {"timed": not options.untimed})
            print(solver, "seed", seed, record["curve"], flush=True)
    report(store, tuple(map(float, options.goals.split(","))))


if __name__ == "__main__":
    main()
