"""A run that is certified and learns, beside the trainer: test errors, checks, iterations, CPU seconds.

Two hidden layers of 100 units, or the paper's network. `certified` is `NetworkDescent` from random weights, without
biases, so that the ridges bound every block; `trainer` is `BCDClassifier` with its defaults. The ridges (a row) are
given, or chosen among three pairs on training rows that are held out, by 60 iterations each; the test rows are looked
at once, at the end.

Usage: python benchmarks/certified.py [--data DIR] [--set digits|mnist] [--seeds 0 1 2] [--ridges 0.01 0.002]
           [--network plain|paper] [--iterations 2000] [--dtype float64|float32] [--only trainer|certified]
           [--out results/certified]
MNIST needs DIR (or the environment variable TIKHONET_DATA); its first 10,000 training images are used. A trial that the
records hold already is not done again.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from tikhonet import (
    BCDClassifier,
    Fenchel,
    Network,
    NetworkDescent,
    Problem,
    Samples,
    Status,
    certify,
    certify_network,
    data,
    lift_gap,
)
from tikhonet.descent.network_loss import NetworkLoss
from tikhonet.paper.records import Scored, append_record, hardware, read_lines, versions

HIDDEN = (100, 100)
SOLVERS = {"trainer": "The trainer", "certified": "Certified descent"}
NETWORKS = {"plain": "", "paper": ", the paper's network"}
"""What the titles of their runs end with."""
ROWS = 10_000
RIDGES = ((1e-3, 2e-4), (4e-3, 8e-4), (1e-2, 2e-3))
"""Ridges of V and W for each row."""
CHOICE = 60
"""Iterations of a run that a pair of ridges is judged by."""


@dataclass(frozen=True)
class Rows:
    X: torch.Tensor
    y: torch.Tensor

    def error(self, network: Network, V: torch.Tensor, W: dict[tuple[int, int], torch.Tensor]) -> float:
        return 100 * float(((network.features(self.X, W) @ V.T).argmax(1) != self.y).double().mean())


def scaled(fitted: NDArray[np.float64], X: NDArray[np.float64]) -> torch.Tensor:
    """Columns centred, and all divided by one number."""
    mean = fitted.mean(0)
    return torch.from_numpy((X - mean) / np.sqrt(np.square(fitted - mean).mean()))


def load(name: str, home: str | None) -> tuple[Rows, Rows, Rows]:
    """Training rows, rows of the training part that choose the ridges (on the digits some of the first), test rows."""
    train, test = (data.load(name, split, home) for split in ("train", "test"))
    X, y = train.X.astype(float), torch.from_numpy(train.y.astype(int))
    fitted = X[:ROWS]
    held_out = slice(ROWS, 2 * ROWS) if name == "mnist" else slice(0, 300)
    tested = Rows(scaled(fitted, test.X.astype(float)), torch.from_numpy(test.y.astype(int)))
    return Rows(scaled(fitted, fitted), y[:ROWS]), Rows(scaled(fitted, X[held_out]), y[held_out]), tested


def problem_of(network: Network, rows: Rows, ridges: tuple[float, float]) -> Problem:
    count = len(rows.X)
    return Problem(network, lift=Fenchel(), gamma=1.0, ridge_V=ridges[0] * count, ridge_W=ridges[1] * count)


def choose(name: str, network: Network, train: Rows, held_out: Rows) -> tuple[float, float]:
    rows = train if name == "mnist" else Rows(train.X[300:], train.y[300:])
    errors = {}
    for ridges in RIDGES:
        problem = problem_of(network, rows, ridges)
        targets = problem.loss.encode(rows.y, 10).to(rows.X)
        blocks = NetworkDescent(max_iter=CHOICE, check_every=CHOICE).run(problem, rows.X, targets, seed=99).blocks
        errors[ridges] = held_out.error(problem.network, blocks.V, blocks.W)
        print(f"{name}: ridges {ridges}: {errors[ridges]:.2f}% of the rows held out", flush=True)
    return min(errors, key=lambda ridges: errors[ridges])


def certified(problem: Problem, train: Rows, test: Rows, seed: int, iterations: int) -> dict[str, object]:
    """One run and its certificates, in the type of the rows."""
    clock = time.process_time()
    targets = problem.loss.encode(train.y, 10).to(train.X)
    solver = NetworkDescent(max_iter=iterations)
    result = solver.run(problem, train.X, targets, seed=seed)
    seconds = time.process_time() - clock
    V, W, samples = result.blocks.V, result.blocks.W, Samples(train.X, targets)
    certificate = certify(result)
    proper = certify_network(problem, V, W, samples, tol=solver.tol, rounding=result.loss.width, sweeps=0)
    gap = lift_gap(problem, V, W, samples, sweeps=3)
    exact = NetworkLoss(problem, samples)
    settings = {
        "ridges_a_row": [ridge / len(train.X) for ridge in (problem.ridge_V, problem.ridge_W)],
        "dtype": str(train.X.dtype),
        "tol": solver.tol,
        "rounding": solver.rounding,
        "loss": exact.terms(exact.forward(V, W)).total,
        "loss_rounded": proper.stationarity.objective,
        "share": proper.stationarity.share,
        "gap": [gap.at_least / gap.loss, gap.at_most / gap.loss],
        "training_error": train.error(problem.network, V, W),
    }
    return {
        "seconds": seconds,
        "passes": result.history.iterations,
        "status": result.status.name,
        "score": test.error(problem.network, V, W),
        "settings": settings,
        "checks": [asdict(check) for check in (*certificate.checks, *proper.checks)],
    }


def trainer(network: Network | None, train: Rows, test: Rows, seed: int) -> dict[str, object]:
    """One fit with defaults, those of tables and images where no network is given."""
    model = BCDClassifier(HIDDEN, network=network, random_state=seed, n_jobs=1)
    clock = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(train.X.numpy(), train.y.numpy())
    seconds = time.process_time() - clock
    return {
        "seconds": seconds,
        "passes": model.n_iter_,
        "status": Status.FINISHED.name,
        "score": 100 * (1 - model.score(test.X.numpy(), test.y.numpy())),
        "settings": {"not_claimed": list(model.certificate_.not_claimed)},
        "checks": [asdict(check) for check in model.certificate_.checks],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--set", choices=["digits", "mnist"], default="digits")
    parser.add_argument("--network", choices=[*NETWORKS], default="plain")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--ridges", type=float, nargs=2, help="in place of a choice on rows held out")
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    parser.add_argument("--only", choices=[*SOLVERS])
    parser.add_argument("--out", type=Path, default=Path("results/certified"))
    options = parser.parse_args()
    name, kind = options.set, options.network
    dtype = getattr(torch, options.dtype)
    train, held_out, test = (Rows(rows.X.to(dtype), rows.y) for rows in load(name, options.data))
    done = {(line["size"], line["method"], line["seed"]) for _, line in read_lines(options.out)}
    ridges, inputs = tuple(options.ridges) if options.ridges else None, train.X.shape[1]
    network = Network.paper(inputs) if kind == "paper" else Network.chain([inputs, *HIDDEN])
    for seed in options.seeds:
        for family, title in SOLVERS.items():
            method = family if kind == "plain" else f"{family}-{kind}"
            if (name, method, seed) in done or options.only not in (None, family):
                continue
            clock = time.perf_counter()
            if family == "trainer":
                found = trainer(None if kind == "plain" else network, train, test, seed)
            else:
                ridges = ridges or choose(name, network, train, held_out)
                found = certified(problem_of(network, train, ridges), train, test, seed, options.iterations)
            record = Scored(
                experiment="certified",
                size=name,
                method=method,
                title=title + NETWORKS[kind],
                family=family,
                trial=seed,
                seed=seed,
                data={"name": name, "rows": len(train.X), "test": len(test.X)},
                samples=len(train.X),
                wall=time.perf_counter() - clock,
                versions=versions(),
                hardware=hardware(),
                **found,
            )
            append_record(options.out, record)
            print(name, seed, method, f"{record.score:.2f}%", record.status, record.passes, f"{record.seconds:.1f} s")
            print("  not true:", [check["claim"] for check in record.checks if check["holds"] is not True], flush=True)


if __name__ == "__main__":
    main()
