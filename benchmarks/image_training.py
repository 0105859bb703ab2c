"""A convolutional network by the trainer and by Adam on 10,000 images of MNIST; the error is that on 10,000 others.

    python benchmarks/image_training.py FOLDER trainer [SETTING=VALUE ..]
    python benchmarks/image_training.py FOLDER adam rate=0.002

FOLDER holds the data sets. CPU seconds of one thread. Each run adds lines to results/image_training.jsonl.
"""

import json
import sys
import time
from pathlib import Path

import torch
from torch import nn

from tikhonet import Conv2d, Network, Problem, Stochastic, TorchBlocks
from tikhonet.data import load

ROWS, HELD_OUT, CLASSES = 10_000, slice(50_000, 60_000), 10
NETWORK = Network.sequential((1, 28, 28), Conv2d(16, 3, 1, 1), Conv2d(32, 3, 2, 1), Conv2d(32, 3, 2, 1), 256)


def images(folder):
    data = load("mnist", "train", folder)
    X, y = torch.tensor(data.X, dtype=torch.float32), torch.tensor(data.y, dtype=torch.long)
    X = X / X.max()
    return X[:ROWS], y[:ROWS], X[HELD_OUT], y[HELD_OUT]


def note(method, settings, epoch, error, seconds):
    record = {"method": method, "settings": settings, "epoch": epoch, "error": error, "cpu_seconds": round(seconds, 2)}
    print(json.dumps(record), flush=True)
    path = Path(__file__).resolve().parents[1] / "results" / "image_training.jsonl"
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def trainer(X, y, X_held, y_held, epochs=4, batch_size=500, **settings):
    targets = nn.functional.one_hot(y, CLASSES).float()
    problem, clock = Problem(NETWORK, lift="fenchel", gamma=1.0), time.process_time()
    solver = Stochastic(epochs=int(epochs), batch_size=int(batch_size), **settings)
    run = solver.run(problem, X, targets, watch=lambda epoch: print(epoch, flush=True))
    seconds = time.process_time() - clock
    scores = NETWORK.features(X_held, run.blocks.W, 1000) @ run.blocks.V.T
    error = 100 * float((scores.argmax(1) != y_held).double().mean())
    note("trainer", {"batch_size": batch_size, **settings}, int(epochs), round(error, 2), seconds)


def adam(X, y, X_held, y_held, epochs=4, batch_size=128, rate=2e-3):
    torch.manual_seed(0)
    W = NETWORK.random_weights(0, 2**0.5)
    *hidden, head = TorchBlocks(NETWORK, W, torch.randn(CLASSES, 256) / 16, torch.zeros(CLASSES)).to_torch()
    module = nn.Sequential(*hidden, nn.Dropout(0.2), head)
    total = int(epochs) * -(-ROWS // int(batch_size))
    optimiser = torch.optim.Adam(module.parameters(), lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, total)
    clock, spent = time.process_time(), 0.0
    for epoch in range(1, int(epochs) + 1):
        for rows in torch.randperm(ROWS).split(int(batch_size)):
            optimiser.zero_grad()
            nn.functional.cross_entropy(module(X[rows].view(-1, 1, 28, 28)), y[rows]).backward()
            optimiser.step()
            schedule.step()
        spent += time.process_time() - clock
        with torch.no_grad():
            scores = torch.cat([module.eval()(part.view(-1, 1, 28, 28)) for part in X_held.split(1000)])
        error = 100 * float((scores.argmax(1) != y_held).double().mean())
        note("adam", {"batch_size": batch_size, "rate": rate}, epoch, round(error, 2), spent)
        module.train()
        clock = time.process_time()


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, method, *pairs = sys.argv[1:]
    settings = {name: value if value.isalpha() else float(value) for name, value in (pair.split("=") for pair in pairs)}
    {"trainer": trainer, "adam": adam}[method](*images(folder), **settings)
