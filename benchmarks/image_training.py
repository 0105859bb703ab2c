"""Convolutional networks by the trainer and by tuned rivals at no less CPU time: errors on images held out.

The rivals are AdamW and schedule-free AdamW with cross-entropy and SGD with Nesterov momentum and a one-cycle rate, six
settings each. All settings run with seed 0; the best of each method by held-out error runs with the other seeds. Rivals
get twice as many epochs, so that none has less CPU time than the trainer. CIFAR-10 has random crops and flips.

Each run adds a line to results/image_race.jsonl, and a run that is there is not repeated: stop it, and start it again.

    python benchmarks/image_training.py --data FOLDER [--name cifar10] [--rows 10000] [--epochs 4] [--seeds 3]
"""

from __future__ import annotations

import math
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

import torch
from machine import lines, save
from torch import nn

from tikhonet import Conv2d, Network, Problem, Stochastic, TorchBlocks
from tikhonet.data import AugmentedImages, load
from tikhonet.paper.baselines.rules import Rule

STORE = Path(__file__).resolve().parents[1] / "results" / "image_race.jsonl"
CLASSES = 10
NETWORKS = {
    "mnist": Network.sequential((1, 28, 28), Conv2d(16, 3, 1, 1), Conv2d(32, 3, 2, 1), Conv2d(32, 3, 2, 1), 128),
    "cifar10": Network.sequential(
        (3, 32, 32), Conv2d(32, 3, 1, 1), Conv2d(64, 3, 2, 1), Conv2d(64, 3, 1, 1), Conv2d(64, 3, 2, 1), 128
    ),
}
HELD_OUT = {"mnist": 10_000, "cifar10": 5_000}
"""The last training images, which settings are chosen by."""
MORE = 2.0
"""The epochs of rivals, over those of the trainer."""
SETTINGS = {
    "trainer": [{"batch_size": size} for size in (250, 125)],
    "AdamW": [{"rate": rate, "batch_size": size} for rate in (5e-4, 1e-3, 2e-3) for size in (64, 128)],
    "ScheduleFree": [{"rate": rate, "batch_size": size} for rate in (1e-3, 2e-3, 4e-3) for size in (64, 128)],
    "Nesterov": [{"rate": rate, "batch_size": size} for rate in (0.02, 0.05, 0.1) for size in (64, 128)],
}
DECAY = 0.01


class Images:
    """Shifted images and labels: those trained on, moved and mirrored if asked for, and those held out."""

    def __init__(self, options: Namespace) -> None:
        data = load(options.name, "train", options.data)
        self.network = NETWORKS[options.name]
        X, self.y = torch.tensor(data.X).view(len(data), *self.network.shapes[0]), torch.tensor(data.y)
        X = X - X.mean((0, 2, 3), keepdim=True)
        self.held = X[-HELD_OUT[options.name] :], self.y[-HELD_OUT[options.name] :]
        rows = min(options.rows, len(X) - HELD_OUT[options.name])
        self.X, self.y = X[:rows], self.y[:rows]
        self.targets = nn.functional.one_hot(self.y, CLASSES).float()
        self.changed = AugmentedImages(X, data.y).changed if options.name == "cifar10" else None

    def batches(self, size: int):
        for rows in torch.randperm(len(self.X)).split(size):
            yield self.changed(self.X[rows]) if self.changed else self.X[rows], rows

    def error(self, scores) -> float:
        X, y = self.held
        found = torch.cat([scores(part) for part in X.split(500)])
        return round(100 * float((found.argmax(1) != y).double().mean()), 3)


class Loader:
    """The batches of an epoch for the trainer, anew at every pass."""

    def __init__(self, images: Images, size: int) -> None:
        self.images, self.size = images, size

    def __len__(self) -> int:
        return math.ceil(len(self.images.X) / self.size)

    def __iter__(self):
        return ((X, self.images.targets[rows]) for X, rows in self.images.batches(self.size))


def trainer(images: Images, epochs: int, seed: int, batch_size: int) -> list[tuple[float, float]]:
    clock, network = time.process_time(), images.network
    rows = (Loader(images, batch_size),) if images.changed else (images.X, images.targets)
    problem = Problem(network, lift="fenchel", gamma=1.0)
    run = Stochastic(epochs=epochs, batch_size=batch_size).run(problem, *rows, seed=seed)
    seconds, (W, V) = time.process_time() - clock, (run.blocks.W, run.blocks.V)
    return [(seconds, images.error(lambda X: network.features(X.flatten(1), W) @ V.T))]


def rival(images: Images, epochs: int, seed: int, method: str, rate: float, batch_size: int):
    network, features = images.network, images.network.widths[-1]
    W = network.random_weights(seed, 2**0.5)
    blocks = TorchBlocks(network, W, torch.randn(CLASSES, features) / features**0.5, torch.zeros(CLASSES))
    *hidden, head = blocks.to_torch()
    module = nn.Sequential(*hidden, nn.Dropout(0.2), head)
    total = epochs * math.ceil(len(images.X) / batch_size)
    others = [parameter for parameter in module.parameters() if parameter is not head.weight]
    rule, curve, spent, done = Rule.kinds[method](head.weight, others, total, DECAY), [], 0.0, 0
    for _ in range(epochs):
        clock = time.process_time()
        for X, rows in images.batches(batch_size):
            module.zero_grad()
            nn.functional.cross_entropy(module(X), images.y[rows]).backward()
            rule.step(rate * scheduled(rule, done / total), ())
            done += 1
        spent += time.process_time() - clock
        with torch.no_grad(), rule.at_answer():
            curve.append((round(spent, 2), images.error(module.eval())))
        module.train()
    return curve


def scheduled(rule: Rule, done: float) -> float:
    """The factor on the rate: constant, half a cosine, or up for a third of the run and down to the end."""
    if not rule.annealed:
        return 1.0
    if rule.name == "Nesterov":
        return done / 0.3 if done < 0.3 else 0.5 * (1 + math.cos(math.pi * (done - 0.3) / 0.7))
    return 0.5 * (1 + math.cos(math.pi * done))


def run(images: Images, options: Namespace, method: str, settings: dict, seed: int) -> float:
    """The held-out error of a run, which is made unless it is recorded."""
    epochs = options.epochs if method == "trainer" else math.ceil(MORE * options.epochs)
    key = {"data": options.name, "rows": len(images.X), "epochs": epochs, "method": method} | settings | {"seed": seed}
    for record in lines(STORE):
        if key.items() <= record.items():
            return record["curve"][-1][1]
    torch.manual_seed(seed)
    if method == "trainer":
        curve = trainer(images, epochs, seed, **settings)
    else:
        curve = rival(images, epochs, seed, method, **settings)
    save(STORE, key | {"curve": curve})
    print(key, curve[-1], flush=True)
    return curve[-1][1]


def main(options: Namespace) -> None:
    torch.set_num_threads(1)
    images = Images(options)
    for method, tried in SETTINGS.items():
        best = min(tried, key=lambda settings: run(images, options, method, settings, 0))
        errors = [run(images, options, method, best, seed) for seed in range(options.seeds)]
        print(f"{method} {best}: held-out error {', '.join(f'{error:.2f}' for error in errors)}%", flush=True)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="the folder of data sets")
    parser.add_argument("--name", default="mnist", choices=NETWORKS)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    main(parser.parse_args())
