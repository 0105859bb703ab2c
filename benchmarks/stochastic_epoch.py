"""An epoch of the stochastic trainer on the paper's network: its share of this machine's matrix-product rate.

All that an epoch does is on the clock (gathering rows, dropout, statistics, guards), in CPU seconds; the products are
counted in a separate epoch, since counting takes time. Random images do as well as real ones here.

Usage: python benchmarks/stochastic_epoch.py [--samples N] [--batch-size N] [--repeats N]
"""

from __future__ import annotations

import time
from argparse import Namespace

import torch
from machine import CountProducts, arguments, describe, product_seconds, record

from tikhonet import Fenchel, Network, Problem, Stochastic

WIDTH = 784


def main(options: Namespace) -> None:
    samples, batch_size, repeats = options.samples, options.batch_size, options.repeats
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(samples, WIDTH, generator=generator)
    problem = Problem(Network.paper(WIDTH), lift=Fenchel())
    targets = problem.loss.encode(torch.randint(0, 10, (samples,), generator=generator), 10)
    trainer = Stochastic(epochs=repeats + 1, batch_size=batch_size)
    rates, spent, clock = [], [], [time.process_time()]

    def watch(epoch) -> None:
        spent.append(time.process_time() - clock[0])
        rates.append(product_seconds(batch_size, WIDTH))
        clock[0] = time.process_time()

    trainer.run(problem, X, targets, watch=watch)
    count = CountProducts()
    with count:
        Stochastic(epochs=1, batch_size=batch_size).run(problem, X, targets)
    refit = samples * WIDTH * (4 * WIDTH + 10)  # the features and the V-step on them, after the last epoch
    products = (sum(count.multiplications.values()) - refit) / (batch_size * WIDTH * WIDTH)
    print(f"{describe()}; {samples} rows in batches of {batch_size}, {products:.0f} products an epoch")
    epochs = []
    for number, seconds, before, after in zip(range(2, repeats + 2), spent[1:], rates[:-1], rates[1:], strict=True):
        ideal = products * (before + after) / 2
        rate = 4e-9 * batch_size * WIDTH**2 / (before + after)
        print(f"epoch {number}: {seconds:.2f} CPU s, {100 * ideal / seconds:.0f}% of {rate:.0f} Gflop/s")
        epochs.append({"seconds": seconds, "share": ideal / seconds, "gflops": rate})
    record(options, {"rows": samples, "products": products, "epochs": epochs})


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--samples", type=int, default=60000)
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    main(parser.parse_args())
