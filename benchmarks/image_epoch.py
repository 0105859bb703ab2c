"""An epoch of the trainer on a convolutional network: over an epoch of Adam, and its share of the convolution rate.

Both take turns in one process, in CPU seconds, and both have their images in torch's order "channels_last"; the share
is the time that the convolutions of a step alone take (forward, adjoint, product of each) over that of the step.

Usage: python benchmarks/image_epoch.py [--samples N] [--batch-size N] [--repeats N]
"""

from __future__ import annotations

import time
from argparse import Namespace
from statistics import median

import torch
from machine import arguments, describe, record
from torch import nn

from tikhonet import Conv2d, Network, Problem, Stochastic, TorchBlocks
from tikhonet.network.shapes import as_images

NETWORK = Network.sequential((1, 28, 28), Conv2d(16, 3, 1, 1), Conv2d(32, 3, 2, 1), Conv2d(32, 3, 2, 1), 256)
ADAM = 128
"""The rows of Adam's batches."""


def convolutions(U: dict, W: dict, rows: int) -> float:
    """The seconds of all convolutions of a step."""
    spent = []
    for _ in range(10):
        clock = time.process_time()
        for n in (1, 2, 3):
            edge = NETWORK.edges[n, n - 1]
            edge.apply(U[n - 1][:rows], W[n, n - 1])
            edge.product(U[n][:rows], U[n - 1][:rows])
            if n > 1:
                edge.adjoint(U[n][:rows], W[n, n - 1])
        spent.append(time.process_time() - clock)
    return median(spent)


def main(options: Namespace) -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(options.samples, 784, generator=generator)
    y = torch.randint(0, 10, (options.samples,), generator=generator)
    W = NETWORK.random_weights(0, 2**0.5)
    *hidden, head = TorchBlocks(NETWORK, W, torch.randn(10, 256) / 16, torch.zeros(10)).to_torch()
    module = nn.Sequential(*hidden, nn.Dropout(0.2), head).to(memory_format=torch.channels_last)
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3, fused=True)
    U, ours, adams, alone = NETWORK.values(NETWORK.seen(X[: options.batch_size]), W), [], [], []

    @torch.enable_grad()
    def adam() -> None:
        for rows in torch.randperm(options.samples).split(ADAM):
            optimiser.zero_grad()
            images = as_images(X[rows], (1, 28, 28))
            nn.functional.cross_entropy(module(images), y[rows]).backward()
            optimiser.step()

    clock = [time.process_time()]

    def watch(epoch) -> None:
        ours.append(time.process_time() - clock[0])
        clock[0] = time.process_time()
        adam()
        adams.append(time.process_time() - clock[0])
        alone.append(convolutions(U, W, options.batch_size) * options.samples / options.batch_size)
        clock[0] = time.process_time()

    solver = Stochastic(epochs=options.repeats + 1, batch_size=options.batch_size, refit=False)
    solver.run(Problem(NETWORK, lift="fenchel"), X, nn.functional.one_hot(y, 10).float(), watch=watch)
    epoch, rival, share = median(ours[1:]), median(adams[1:]), median(alone[1:]) / median(ours[1:])
    print(f"{describe()}; {options.samples} images in batches of {options.batch_size}, Adam's of {ADAM}")
    print(f"epoch {epoch:.2f} CPU s, {epoch / rival:.2f} of Adam's {rival:.2f}; convolutions alone {100 * share:.0f}%")
    record(options, {"seconds": epoch, "adam": rival, "ratio": epoch / rival, "share": share})


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--samples", type=int, default=2500)
    parser.add_argument("--batch-size", type=int, default=250)
    parser.add_argument("--repeats", type=int, default=4)
    main(parser.parse_args())
