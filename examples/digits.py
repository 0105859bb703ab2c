"""Train the paper's network on scikit-learn's digits by five kinds of block coordinate descent.

Prints and saves a table of objective, certificate (the float64 projected gradient and the status that follows)
and test error, the linear SVM refitted on the learned features as in Sec. 3.2.

Usage: python examples/digits.py [--output DIR]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC

from tikhonet import (
    BlockDescent,
    Fenchel,
    Network,
    Power,
    Problem,
    Proximal,
    Result,
    RowL1Ball,
    Samples,
    Status,
    Stochastic,
    Tikhonov,
    certify,
)

NETWORK = Network.paper(64)
PROBLEM = Problem(NETWORK, lift=Fenchel())
# Alg. 1 with the paper's gamma; the settings of the other two were chosen on a split of the training images.
RUNS = {
    "Alg. 1 as printed": (Problem(NETWORK, gamma=0.1), BlockDescent(Power(2), 100, check_every=5)),
    "Alg. 1, l1 ball (BCD-S)": (
        Problem(NETWORK, gamma=0.1, W_set=RowL1Ball(1.0)),
        BlockDescent(Power(2), 100, check_every=5),
    ),
    "proximal, Tikhonov lift": (
        Problem(NETWORK, lift=Tikhonov(), gamma=0.1, ridge_V=3.0),
        BlockDescent(Proximal(1.0), 60, initial_features="forward", extrapolate=True, check_every=5),
    ),
    "proximal, Fenchel lift": (
        Problem(NETWORK, lift=Fenchel(), gamma=1.0, ridge_V=30.0),
        BlockDescent(Proximal(0.1), 60, initial_features="forward", extrapolate=True, check_every=5),
    ),
}


def svm_error(train: np.ndarray, y: np.ndarray, test: np.ndarray, y_test: np.ndarray) -> float:
    """Test error in percent of a linear SVM on features divided by their rms norm."""
    scale = np.sqrt(np.mean(np.sum(train**2, axis=1)))
    svm = LinearSVC(C=10.0, max_iter=20000).fit(train / scale, y)
    return 100 * (1 - svm.score(test / scale, y_test))


def main(output: Path) -> None:
    torch.set_num_threads(1)  # these matrices are small: a second thread costs more than it gives
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16, y, test_size=500, stratify=y, random_state=0)
    data = torch.tensor(X, dtype=torch.float32)
    test = torch.tensor(X_test, dtype=torch.float32)
    print(f"{NETWORK}\nscikit-learn's digits: {len(X)} training and {len(X_test)} test images, 8 x 8 pixels\n")
    table = Table()
    for heading in ("run", "objective", "gradient", "status", "nonzero %", "error %", "s"):
        table.add_column(heading, no_wrap=True)
    table.add_row("raw pixels", "", "", "", "", f"{svm_error(X, y, X_test, y_test):.1f}", "")
    targets = PROBLEM.loss.encode(torch.tensor(y))

    def add_row(name: str, W: dict, objective: float, gradient: float, status: Status, seconds: float) -> None:
        features = [NETWORK.features(rows, W).double().numpy() for rows in (data, test)]
        weights = torch.cat([matrix.flatten() for matrix in W.values()])
        error = svm_error(features[0], y, features[1], y_test)
        numbers = f"{100 * float((weights != 0).float().mean()):.1f}", f"{error:.1f}", f"{seconds:.1f}"
        table.add_row(name, f"{objective:.4g}", f"{gradient:.2g}", status.name, *numbers)

    results: dict[str, Result] = {}
    with Progress(transient=True) as progress:
        for name, (problem, solver) in RUNS.items():
            task = progress.add_task(name, total=solver.max_iter)
            start = time.perf_counter()
            result = solver.run(
                problem,
                data,
                targets,
                watch=lambda history, task=task: progress.update(task, completed=history.iterations),
            )
            seconds = time.perf_counter() - start
            progress.update(task, completed=solver.max_iter)
            gradient = certify(result).stationarity.total
            add_row(name, result.blocks.W, result.history.objective[-1], gradient, result.status, seconds)
            results[name] = result
        start = time.perf_counter()
        training = Stochastic(epochs=50, batch_size=200).run(PROBLEM, data, targets)
        seconds = time.perf_counter() - start
    blocks = replace(training.blocks, U=NETWORK.forward(data, training.blocks.W))
    samples = Samples(data, targets)
    objective, gradient = PROBLEM.objective(blocks, samples).total, PROBLEM.stationarity(blocks, samples).total
    add_row("stochastic, Fenchel lift", blocks.W, objective, gradient, training.status, seconds)
    save_report(output, table, results)


def save_report(output: Path, table: Table, results: dict[str, Result]) -> None:
    """The table, each run's certificate and a picture of the objectives, in one folder."""
    output.mkdir(parents=True, exist_ok=True)
    Console(width=max(110, Console().width)).print(table)
    report = output / "report.txt"
    with report.open("w") as file:
        console = Console(file=file, width=120)
        console.print(table)
        for name, result in results.items():
            console.print(f"\n{name}\n{result.message}")
            console.print(certify(result).table())
    _, ax = plt.subplots(figsize=(7, 4.5))
    for name, result in results.items():
        ax.plot(result.history.objective, label=name)
    ax.set(xlabel="iteration", ylabel="objective (Eq. 4)", yscale="log", title="digits, the paper's network")
    ax.legend()
    ax.figure.savefig(output / "objective.png", dpi=150, bbox_inches="tight")
    print(f"report: {report.resolve()}\npicture: {(output / 'objective.png').resolve()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"))
    main(parser.parse_args().output)
