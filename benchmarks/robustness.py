"""Forty random settings of the stochastic trainer: none diverges.

Batch size 100 to 5000, width 50 to 1500, depth 1 to 12 (every fourth: width up to 300, depth 12 to 48), data scale 1e-3
to 1e3, initial scale 0.01 to 10, with and without identity skips; each is drawn log-uniformly and trained on 10,000
images for three epochs. A setting passes when its weights are finite and the loss of its last epoch is below that of
its first.

Usage: python benchmarks/robustness.py [--data DIR] [--settings N] [--samples N] [--epochs N]
"""

from __future__ import annotations

import argparse
import math
import random
import time

import torch
from machine import describe, images

from tikhonet import Fenchel, Network, Problem, Stochastic


def draw(number: int) -> dict[str, float]:
    rng = random.Random(number)

    def between(low: float, high: float) -> float:
        return low * (high / low) ** rng.random()

    drawn = {
        "batch": round(between(100, 5000)),
        "width": round(between(50, 1500)),
        "depth": round(between(1, 12)),
        "scale": between(1e-3, 1e3),
        "start": between(0.01, 10),
        "skips": rng.random() < 0.5,
    }
    if number % 4 == 3:  # the other settings stay what they were before there were these
        drawn |= {"depth": round(between(12, 48)), "width": round(between(50, 300)), "skips": rng.random() < 0.25}
    return drawn


def network(inputs: int, width: int, depth: int, skips: bool) -> Network:
    edges = {(n, n - 1): "learned" for n in range(1, depth + 1)}
    edges |= {(n, n - 2): "identity" for n in range(3, depth + 1) if skips}
    return Network([inputs] + [width] * depth, edges, bias=True)


def main(data: str | None, settings: int, samples: int, epochs: int) -> None:
    X, y = (part[:samples] for part in images("mnist", "train", data))
    print(f"{describe()}; {samples} images, {epochs} epochs")
    failed = []
    for number in range(settings):
        s = draw(number)
        problem = Problem(network(X.shape[1], s["width"], s["depth"], s["skips"]), lift=Fenchel())
        trainer = Stochastic(epochs=epochs, batch_size=s["batch"], initial_scale=s["start"])
        clock = time.perf_counter()
        training = trainer.run(problem, X * s["scale"], problem.loss.encode(y, 10), seed=number)
        blocks = training.blocks
        finite = all(bool(M.isfinite().all()) for M in (blocks.V, *blocks.W.values()))
        losses = [epoch.loss for epoch in training.epochs]
        passed = finite and len(losses) == epochs and losses[-1] < losses[0] and math.isfinite(losses[-1])
        wrong = (problem.network.features(X * s["scale"], blocks.W) @ blocks.V.T).argmax(1) != y
        text = ", ".join(f"{key} {value:.3g}" for key, value in s.items())
        print(
            f"{number:2} {'ok  ' if passed else 'FAIL'} {text}: loss {' '.join(f'{loss:.4f}' for loss in losses)}, "
            f"training error {100 * float(wrong.double().mean()):.1f}%, {time.perf_counter() - clock:.0f} s",
            flush=True,
        )
        if not passed:
            failed.append(number)
    print(
        f"{settings - len(failed)} of {settings} ended finite and decreasing"
        + (f"; failed: {failed}" if failed else "")
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=None, help="folder of the data sets, as `data_home`")
    parser.add_argument("--settings", type=int, default=40)
    parser.add_argument("--samples", type=int, default=10000)
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    torch.manual_seed(0)
    main(options.data, options.settings, options.samples, options.epochs)
