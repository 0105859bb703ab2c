"""The trainer's own steps against seven hand-set first steps: images, digits and tables, 3, 10 and 30 epochs.

Every cell (a task and a number of epochs) is trained with `Stochastic`'s own rule, and with each of seven first steps
in its place (`change`, linear annealing). The error is that of the network's own outputs on rows held out of the
training data; test images are never looked at. Each cell of a seed is a line of the records, written when it ends and
not done again, so the whole can be done in pieces.

Usage: python benchmarks/step_rule.py [--data DIR] [--tasks "digits;magic"] [--epochs 3,10,30] [--seeds 0,1,2]
       [--choices rule,hand] [--output results/step_rule]
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import step_rule_data
import torch
from machine import images
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from tikhonet import Budget, Fenchel, Network, Problem, Stochastic
from tikhonet.estimators.solvers import default_batch
from tikhonet.network.initial import deep_and_plain
from tikhonet.paper.records import VERSION, hardware, seal, versions
from tikhonet.trainer.pace import Pace

HELD = 10_000
"""Rows that are held out, at most: of images the last training images, of tables the rest, at least a third."""
TABLE_ROWS = 1500
HAND_SET = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
DEEP_SET = tuple(value / 32 for value in HAND_SET)
"""The same range for deep plain networks, whose steps are shorter."""


@dataclass(frozen=True)
class Task:
    """Rows and a network; what a run costs decides how many seeds and lengths are worth it."""

    source: str
    widths: tuple[int, ...] = ()
    """Of a chain on images; the paper's network where there are none, and the estimators' on tables."""
    rows: int = 10_000
    batch: int = 1000
    settings: dict[str, Any] = field(default_factory=dict)

    def load(self, seed: int, home: str | None) -> Cell:
        return self.images(home) if self.source in ("mnist", "fashion-mnist") else self.table(seed)

    def images(self, home: str | None) -> Cell:
        """The first training images, and the last ones."""
        X, y = images(self.source, "train", home)
        network = Network.chain([X.shape[1], *self.widths]) if self.widths else Network.paper(X.shape[1])
        problem = Problem(network, lift=Fenchel())
        targets = problem.loss.encode(y, 10)
        train, held = slice(0, self.rows), slice(-HELD, None)
        return Cell(problem, (X[train], targets[train]), (X[held], targets[held]), self.batch)

    def table(self, seed: int) -> Cell:
        """A split by the seed, standardised, with the estimators' network and batch."""
        numeric = self.source in step_rule_data.NUMBERS
        X, y = (step_rule_data.CLASSES | step_rule_data.NUMBERS)[self.source]()
        order = np.random.default_rng(seed).permutation(len(y))
        cut = min(TABLE_ROWS, 2 * len(y) // 3)
        first, rest = order[:cut], order[cut : cut + HELD]
        X = torch.from_numpy(StandardScaler().fit(X[first]).transform(X)).float()
        widths = [X.shape[1], 200] if numeric else [X.shape[1], 200, 200]
        edges = {(n, n - 1): "dense" for n in range(1, len(widths))}
        problem = Problem(Network(widths, edges, bias=True), lift=Fenchel())
        if numeric:
            targets = torch.from_numpy((y - y[first].mean()) / y[first].std())[:, None].float()
        else:
            targets = problem.loss.encode(torch.from_numpy(y), int(y.max()) + 1).float()
        return Cell(problem, (X[first], targets[first]), (X[rest], targets[rest]), default_batch(cut))


@dataclass(frozen=True)
class Cell:
    """Rows to train on and held-out rows, with their targets."""

    problem: Problem
    train: tuple[Tensor, Tensor]
    held: tuple[Tensor, Tensor]
    batch: int

    def given(self, first: float, epochs: int) -> dict[str, float]:
        """The settings whose first step makes this relative change, whatever the batch, with the rule's momentum."""
        rows, network = len(self.train[0]), self.problem.network
        count = max(1, round(rows / self.batch))
        preset, size = Stochastic(change=1.0).preset(network), (self.batch if count > 1 else rows) / 1000
        pace = Pace(preset, epochs * count, size, network.depth, Stochastic.averaging)
        return {"change": first / pace.converted, "momentum": preset.momentum ** (1 / size)}

    def trial(self, epochs: int, seed: int, settings: dict[str, Any]) -> dict[str, float]:
        """One run: held-out error (of classes the share that is wrong, of numbers 1 - R2), loss and CPU seconds."""
        clock = time.process_time()
        solver = Stochastic(epochs=epochs, batch_size=self.batch, **settings)
        training = solver.run(self.problem, *self.train, seed=seed)
        seconds = time.process_time() - clock
        X, targets = self.held
        W, V = training.blocks.W, training.blocks.V
        S = torch.cat([self.problem.network.features(part, W) @ V.T for part in X.split(2000)])
        if targets.shape[1] == 1:  # one mistyped diamond would decide otherwise
            S = S.clamp(self.train[1].min(), self.train[1].max())
        loss = float((S - targets).square().mean())
        error = float((S.argmax(1) != targets.argmax(1)).double().mean()) if targets.shape[1] > 1 else loss
        figures = {"error": error, "loss": loss, "cpu_seconds": seconds}
        return {name: float(f"{value:.5g}") for name, value in figures.items()}


TABLES = ("magic", "phoneme", "satimage", "penbased", "spambase", "texture")
TABLES += ("diamonds", "computers", "concrete", "friedman 1")
FRESH = ("clusters", "page-blocks", "pima", "breast cancer", "wage", "boston")
"""Tables that nothing was chosen on."""
TASKS = {
    **{name: Task(name) for name in ("digits", *TABLES, *FRESH)},
    "mnist": Task("mnist"),
    "fashion-mnist": Task("fashion-mnist"),
    "mnist-50000": Task("mnist", rows=50_000),
    "mnist 256-256": Task("mnist", (256, 256)),
    "mnist 256-256, batches of 100": Task("mnist", (256, 256), batch=100),
    "fashion-mnist 256-256": Task("fashion-mnist", (256, 256)),
    "mnist 12 x 128": Task("mnist", (128,) * 12, rows=5000),
    "mnist 48 x 256": Task("mnist", (256,) * 48),
    "mnist, 2% of the weights": Task("mnist", settings={"budget": Budget(0.02)}),
}


def choices(cell: Cell, names: list[str], epochs: int) -> dict[str, dict[str, float]]:
    steps = DEEP_SET if deep_and_plain(cell.problem.network) else HAND_SET
    hand = {f"{first:g}": cell.given(first, epochs) for first in steps}
    known: dict[str, dict[str, float]] = {"rule": {}} | hand
    return {name: settings for name, settings in known.items() if name in names or (name in hand and "hand" in names)}


def run(arguments: argparse.Namespace, path: Path) -> None:
    """All trials that are not in the file yet; those of one split in turn."""
    done = {(*cell_of(record), choice) for record in read(path) for choice in record["runs"]}
    for seed in arguments.seeds:
        for name in arguments.tasks:
            task, cell = TASKS[name], TASKS[name].load(seed, arguments.data)
            for epochs in arguments.epochs:
                key = {"task": name, "epochs": epochs, "seed": seed}
                options = choices(cell, arguments.choices, epochs)
                runs = {
                    choice: cell.trial(epochs, seed, task.settings | settings)
                    for choice, settings in options.items()
                    if (*cell_of(key), choice) not in done
                }
                if runs:
                    head = {
                        "version": VERSION,
                        "experiment": "step_rule",
                        "versions": versions(),
                        "hardware": hardware(),
                    }
                    with path.open("a") as file:
                        file.write(seal(head | key | {"runs": runs}))


def cell_of(record: dict[str, Any]) -> tuple[str, int, int]:
    return record["task"], record["epochs"], record["seed"]


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names, numbers = (lambda text: text.split(",")), (lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--data", help="folder of the image sets")
    parser.add_argument(
        "--tasks", type=lambda text: [part.strip() for part in text.split(";")], default=list(TASKS)[:11]
    )
    parser.add_argument("--epochs", type=numbers, default=[3, 10, 30])
    parser.add_argument("--seeds", type=numbers, default=[0, 1, 2])
    parser.add_argument("--choices", type=names, default=["rule", "hand"])
    parser.add_argument("--output", type=Path, default=Path("results/step_rule"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "records.jsonl"
    run(arguments, path)


if __name__ == "__main__":
    main()
