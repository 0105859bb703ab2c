"""Full-batch iterations of the paper's 3 x 784 network on all of MNIST (gamma = 0.1).

For each solver: CPU seconds per iteration, the products that it needs, and the share of this machine's own
matrix-product rate (measured around every iteration) that the whole iteration reaches: all
steps, float64 residuals and objective values included. A product is samples x 784 x 784; those in float64
are counted at the float64 rate.

Usage: python benchmarks/full_batch.py [--data DIR] [--samples N] [--iterations N] [--only proximal|alg1]
with DIR (or the environment variable TIKHONET_DATA) holding mnist/train-images-idx3-ubyte.gz; without
it the images are random numbers of the same shape and density.
"""

from __future__ import annotations

import os
import resource
import time
from argparse import Namespace
from pathlib import Path

import torch
from machine import CountProducts, arguments, describe, images, product_seconds, record

from tikhonet import BlockDescent, Network, Power, Problem, Proximal, Samples, initial_blocks, measure_stationarity

WIDTH = 784
SOLVERS = {"proximal": Proximal(1.0), "alg1": Power(2)}


def mnist_or_noise(folder: str | None, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    if folder and Path(folder, "mnist").is_dir():
        X, y = images("mnist", "train", folder)
        return X[:samples].clone(), y[:samples]
    print("no MNIST at --data or TIKHONET_DATA: random images instead")
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(samples, WIDTH, generator=generator)
    return (X * (X > 0.8)).clone(), torch.randint(0, 10, (samples,), generator=generator)


def product_rates(samples: int) -> dict[torch.dtype, float]:
    """Seconds of one product of all samples, by type."""
    return {dtype: product_seconds(4096, WIDTH, dtype) * samples / 4096 for dtype in (torch.float32, torch.float64)}


def main(options: Namespace) -> None:
    samples, iterations, kept = options.samples, options.iterations, []
    X, y = mnist_or_noise(options.data, samples)
    problem = Problem(Network.paper(WIDTH), gamma=0.1)
    targets = problem.loss.encode(y, 10)
    print(f"{describe()}; {samples} images")
    for name, schedule in SOLVERS.items():
        if options.only not in (None, name):
            continue
        solver = BlockDescent(schedule, iterations + 1, check_every=iterations + 1)
        rates = [product_rates(samples)]
        blocks = initial_blocks(problem, Samples(X, targets))
        start = time.process_time()
        with CountProducts() as watching:  # what a run measures outside its iterations, and not on their clock
            measure_stationarity(problem, blocks, Samples(X, targets))
        with CountProducts() as starting:
            problem.objective(blocks, Samples(X, targets))
        counter, before = CountProducts(), watching.multiplications + starting.multiplications
        clock = [2 * time.process_time() - start]  # the run does both once more before its first iteration

        def watch(history, name=name, rates=rates, counter=counter, before=before, clock=clock) -> bool:
            t = history.iterations
            mine = [step for step in history.steps if step.iteration == t]
            spent = time.process_time() - clock[0]
            used = counter.multiplications - before
            rates.append(product_rates(samples))  # the machine's rate around this iteration: before and after
            before.clear()
            before.update(counter.multiplications)
            products = {dtype: used[dtype] / (samples * WIDTH * WIDTH) for dtype in rates[0]}
            ideal = sum(products[dtype] * (rates[-1][dtype] + rates[-2][dtype]) / 2 for dtype in products)
            kept.append(
                {
                    "solver": name,
                    "t": t,
                    "seconds": spent,
                    "float32": products[torch.float32],
                    "float64": products[torch.float64],
                    "share": ideal / spent,
                    "kkt": mine[0].relative,
                }
            )
            print(
                f"{name}, t = {t}: {spent:.1f} s, {products[torch.float32]:.1f} products in float32 and "
                f"{products[torch.float64]:.1f} in float64, share of the product rate {100 * ideal / spent:.0f}%, "
                f"u-step KKT {mine[0].relative:.1e} in {mine[0].inner_steps} steps, f {mine[-1].terms.total:.6g}",
                flush=True,
            )
            clock[0] = time.process_time()
            return t == iterations

        with counter:
            solver.run(problem, X, targets, start=blocks, watch=watch)
        flops = 2e-9 * samples * WIDTH * WIDTH
        for dtype in rates[0]:
            print(f"product rate in {dtype}: {', '.join(f'{flops / rate[dtype]:.0f}' for rate in rates)} Gflop/s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GB")
    record(options, {"images": samples, "iterations": kept, "peak GB": peak})


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--data", default=os.environ.get("TIKHONET_DATA"))
    parser.add_argument("--samples", type=int, default=60000)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--only", choices=list(SOLVERS))
    main(parser.parse_args())
