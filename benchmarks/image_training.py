"""Convolutional networks by the trainer and by tuned rivals at no less CPU time: test errors after every epoch.

Rivals are AdamW and schedule-free AdamW with cross-entropy, and SGD with Nesterov momentum and a one-cycle rate. The
settings of each method are compared on some of the training images, by the error on others, held out (seed 0). The
best setting of each then learns all training images, with several seeds, and is judged by the test images. Rivals have
more epochs, so that none has less CPU time, and torch's order "channels_last", which makes them faster. CIFAR-10
has random crops and flips.

Each run adds a line to results/image_race/NAME.jsonl, and a run that is there is not repeated: stop it, start it again.

    python benchmarks/image_training.py --data FOLDER [--name cifar10] [--seeds 3] [--methods trainer]
"""

from __future__ import annotations

import math
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

import torch
from machine import lines, save
from torch import Tensor, nn

from tikhonet import Conv2d, Network, Problem, Stochastic, TorchBlocks
from tikhonet.data import AugmentedImages, load
from tikhonet.descent.slots import Slot
from tikhonet.network.shapes import as_images
from tikhonet.paper.baselines.rules import Rule

STORE = Path(__file__).resolve().parents[1] / "results" / "image_race"
CLASSES = 10
NETWORKS = {
    "mnist": Network.sequential(
        (1, 28, 28), Conv2d(16, 5, 2, 2), Conv2d(32, 3, 1, 1), Conv2d(48, 3, 2, 1), Conv2d(48, 3, 1, 1), 96
    ),
    "cifar10": Network.sequential(
        (3, 32, 32), Conv2d(24, 3, 1, 1), Conv2d(48, 3, 2, 1), Conv2d(64, 3, 2, 1), Conv2d(64, 3, 1, 1), 128
    ),
}
FEW = {"mnist": 10_000, "cifar10": 5_000}
"""The images that settings are compared on, the first ones, and those that they are compared by, the last ones."""
AGAIN = 2
"""The settings of each method that are compared again on all but the last images, with the epochs of the race."""
EPOCHS = {"mnist": (3, 5), "cifar10": (5, 7)}
"""The epochs of the trainer and of rivals in the race, such that rivals have no less CPU time."""
FIRST_EPOCHS = 3, 4
"""Those where settings are compared."""
RATES = {
    "AdamW": (5e-4, 1e-3, 2e-3, 4e-3),
    "ScheduleFree": (2e-3, 4e-3, 8e-3, 1.6e-2),
    "Nesterov": (0.02, 0.05, 0.1, 0.2),
}
SETTINGS = {"trainer": [{"drop": drop, "batch_size": size} for drop in (0.0, 0.2) for size in (125, 250)]} | {
    method: [{"drop": drop, "batch_size": 64, "rate": rate} for drop in (0.0, 0.2, 0.5) for rate in rates]
    for method, rates in RATES.items()
}
DECAY = {"AdamW": 0.01, "ScheduleFree": 0.01, "Nesterov": 5e-4}
Curve = list[tuple[float, float]]
"""CPU seconds of training, and the error in percent, after every epoch."""


class Images:
    """Shifted images and labels: those trained on, moved and mirrored if asked for, and those judged by.

    Those trained on are some of the first training images, judged by the last ones, or all, judged by the test images.
    """

    def __init__(self, name: str, folder: str, part: str) -> None:
        self.network, self.part = NETWORKS[name], part
        self.X, self.y = self.read(name, folder, "train")
        if part == "all":
            self.judged = self.read(name, folder, "test")
        else:
            count = FEW[name]
            self.judged = self.X[-count:], self.y[-count:]
            first = slice(count if part == "few" else -count)
            self.X, self.y = self.X[first], self.y[first]
        self.targets = nn.functional.one_hot(self.y, CLASSES).float()
        self.changed = AugmentedImages(self.X, self.y).changed if name == "cifar10" else None

    def read(self, name: str, folder: str, split: str) -> tuple[Tensor, Tensor]:
        data = load(name, split, folder)
        X = torch.tensor(data.X).view(len(data), *self.network.shapes[0])
        mean = X.mean((0, 2, 3), keepdim=True) if split == "train" else self.mean
        self.mean = mean
        return X - mean, torch.tensor(data.y)

    def batches(self, size: int):
        for rows in torch.randperm(len(self.X)).split(size):
            yield self.changed(self.X[rows]) if self.changed else self.X[rows], rows

    @torch.no_grad()
    def error(self, scores) -> float:
        X, y = self.judged
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


class Judged(Slot):
    """The curve of a run: the error of its averaged network after every epoch, at which the clock stands still."""

    def __init__(self, images: Images) -> None:
        self.images, self.curve, self.spent, self.clock = images, [], 0.0, time.process_time()

    def offer(self, state, done: int | None = None) -> None:
        if done:
            network, (W, V), scale = self.images.network, (state.average.W, state.average.V), state.scale
            self.add(lambda X: network.features(X.flatten(1) / scale, W) @ V.T)

    def add(self, scores) -> None:
        self.spent += time.process_time() - self.clock
        self.curve.append((round(self.spent, 2), self.images.error(scores)))
        self.clock = time.process_time()


def trainer(images: Images, epochs: int, seed: int, drop: float, batch_size: int) -> Curve:
    network, judged = images.network, Judged(images)
    rows = (Loader(images, batch_size),) if images.changed else (images.X, images.targets)
    solver = Stochastic(epochs=epochs, batch_size=batch_size, drop_features=drop)
    run = solver.run(Problem(network, lift="fenchel", gamma=1.0), *rows, seed=seed, slot=judged)
    W, V = run.blocks.W, run.blocks.V
    judged.curve.pop()  # that of the last epoch before V was fitted to all images
    judged.add(lambda X: network.features(X.flatten(1), W) @ V.T)
    return judged.curve


def rival(images: Images, epochs: int, seed: int, method: str, rate: float, drop: float, batch_size: int) -> Curve:
    network, features = images.network, images.network.widths[-1]
    W = network.random_weights(seed, 2**0.5)
    blocks = TorchBlocks(network, W, torch.randn(CLASSES, features) / features**0.5, torch.zeros(CLASSES))
    *hidden, head = blocks.to_torch()
    module = nn.Sequential(*hidden, nn.Dropout(drop), head).to(memory_format=torch.channels_last)
    total = epochs * math.ceil(len(images.X) / batch_size)
    others = [parameter for parameter in module.parameters() if parameter is not head.weight]
    rule, judged, done = Rule.kinds[method](head.weight, others, total, DECAY[method]), Judged(images), 0
    for _ in range(epochs):
        for X, rows in images.batches(batch_size):
            module.zero_grad()
            nn.functional.cross_entropy(module(as_images(X, X.shape[1:])), images.y[rows]).backward()
            rule.step(rate * scheduled(rule, done / total), ())
            done += 1
        with rule.at_answer():
            judged.add(module.eval())
        module.train()
    return judged.curve


def scheduled(rule: Rule, done: float) -> float:
    """The factor on the rate: constant, half a cosine, or up for a third of the run and down to the end."""
    if not rule.annealed:
        return 1.0
    if rule.name == "Nesterov":
        return done / 0.3 if done < 0.3 else 0.5 * (1 + math.cos(math.pi * (done - 0.3) / 0.7))
    return 0.5 * (1 + math.cos(math.pi * done))


def run(images: Images, options: Namespace, method: str, settings: dict, seed: int) -> float:
    """The last error of a run, which is made unless it is recorded."""
    epochs = (FIRST_EPOCHS if images.part == "few" else EPOCHS[options.name])[method != "trainer"]
    store = STORE / f"{options.name}.jsonl"
    key = {"rows": len(images.X), "epochs": epochs, "method": method} | settings | {"seed": seed}
    for record in lines(store):
        if key.items() <= record.items():
            return record["curve"][-1][1]
    torch.manual_seed(seed)
    learn = trainer if method == "trainer" else rival
    curve = learn(images, epochs, seed, **settings | ({} if method == "trainer" else {"method": method}))
    weights = sum(math.prod(images.network.shape(pair)) for pair in images.network.learned)
    about = {
        "weights": weights + CLASSES * images.network.widths[-1],
        "by": "test" if images.part == "all" else "held out",
    }
    save(store, key | about | {"curve": curve})
    print(key, curve[-1], flush=True)
    return curve[-1][1]


def main(options: Namespace) -> None:
    torch.set_num_threads(1)
    chosen = {method: SETTINGS[method] for method in options.methods}
    for part, left in (("few", AGAIN), ("most", 1)):
        images = Images(options.name, options.data, part)
        for method, tried in chosen.items():
            chosen[method] = sorted(tried, key=lambda one: run(images, options, method, one, 0))[:left]
            print(f"{method} of {part} images: {chosen[method]}", flush=True)
    images = Images(options.name, options.data, "all")
    for seed in range(options.seeds):
        for method, (settings,) in chosen.items():
            run(images, options, method, settings, seed)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="the folder of data sets")
    parser.add_argument("--name", default="mnist", choices=NETWORKS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    main(parser.parse_args())
