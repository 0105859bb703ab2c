"""What makes full-batch iterations of the paper's 3 x 784 network cheaper: with all gains, without, and without each.

    metric  u-steps in the metric of the Hessian's own diagonal, with momentum that knows how convex they are
            (without: one number for each layer, and the proximal term's convexity alone)
    sums    f after the u-step and the W-step from the sums of the W-step (without: passes over the samples)
    halves  Gram matrices of which one half is made (without: whole products)
    inputs  what given layers bring to a pre-activation once for the steps and their residual (without: twice)

All sides run in one process, in turn, and the products of samples x 784 x 784 are counted beside CPU seconds: one in
float64 counts as two. Every side solves its sub-problems to the same tolerance, so f differs by what that leaves.

Usage: python benchmarks/full_batch_gains.py [--data DIR] [--samples N] [--iterations N] [--rounds N] [--each]
"""

from __future__ import annotations

import os
import time
from argparse import Namespace
from contextlib import ExitStack
from statistics import median
from unittest.mock import patch

import torch
from full_batch import SOLVERS, WIDTH, mnist_or_noise
from machine import CountProducts, arguments, describe, record
from torch import Tensor

from tikhonet import BlockDescent, Network, Problem
from tikhonet.descent import feature_step
from tikhonet.descent.feature_step import FeatureModel
from tikhonet.descent.linear import WeightSums
from tikhonet.network import designs


def ones(problem: Problem, n: int, V: Tensor, W: dict) -> Tensor:
    """The former metric: with rho added it is constant on each layer, so that the layer's norm makes it what it was."""
    return V.new_ones(problem.network.widths[n])


def load_twice(self, U, targets, fixed=None, load=FeatureModel.load):
    return load(self, U, targets)


GAINS = {
    "metric": [
        patch.object(feature_step, "unit_curvature", ones),
        patch.object(feature_step, "least_curvature", lambda *given: 0.0),
    ],
    "sums": [patch.object(WeightSums, "lifts", lambda self, W: {})],
    "halves": [patch.object(designs, "LARGE", 2**40)],
    "inputs": [patch.object(FeatureModel, "load", load_twice)],
}
"""What makes each of them what it was."""
SIDES: dict[str, list[str]] = {"now": [], "before": list(GAINS)}
EACH: dict[str, list[str]] = {f"without {name}": [name] for name in GAINS}


def run(lacking: list[str], solver: BlockDescent, problem: Problem, X: Tensor, targets: Tensor) -> list[dict]:
    """Seconds, products and what was reached, for each iteration."""
    kept: list[dict] = []
    counter, clock, before = CountProducts(), [time.process_time()], [0.0]

    def products() -> float:
        used = counter.multiplications
        return (used[torch.float32] + 2 * used[torch.float64]) / (len(X) * WIDTH * WIDTH)

    def watch(history) -> bool:
        now, counted, mine = time.process_time(), products(), history.steps[-3:]
        kept.append(
            {
                "seconds": now - clock[0],
                "products": counted - before[0],
                "steps": mine[0].inner_steps,
                "kkt": mine[0].relative,
                "f": mine[-1].terms.total,
            }
        )
        clock[0], before[0] = time.process_time(), products()
        return history.iterations == solver.max_iter - 1  # the last iteration would measure stationarity as well

    with ExitStack() as former:
        for name in lacking:
            for change in GAINS[name]:
                former.enter_context(change)
        with counter:
            solver.run(problem, X, targets, watch=watch)
    return kept


def main(options: Namespace) -> None:
    X, y = mnist_or_noise(options.data, options.samples)
    eq4 = Problem(Network.paper(WIDTH), gamma=0.1)
    targets = eq4.loss.encode(y, 10)
    print(f"{describe()}; {len(X)} images")
    values: dict[str, dict] = {}
    sides = SIDES | (EACH if options.each else {})
    for name, schedule in SOLVERS.items():
        solver = BlockDescent(schedule, options.iterations + 1, check_every=options.iterations + 1)
        found: dict[str, list[list[dict]]] = {side: [] for side in sides}
        run([], solver, eq4, X[:256], targets[:256])  # the first run of a process is slow
        for _ in range(options.rounds):
            for side, lacking in sides.items():
                found[side].append(run(lacking, solver, eq4, X, targets))
        values[name] = {}
        for side, rounds in found.items():
            values[name][side] = [
                at[0] | {"seconds": median(line["seconds"] for line in at)} for at in zip(*rounds, strict=True)
            ]
            for t, line in enumerate(values[name][side], 1):
                print(f"{name}, t = {t}, {side}: " + ", ".join(f"{key} {part:.6g}" for key, part in line.items()))
    record(options, {"images": len(X), "rounds": options.rounds, "solvers": values})


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--data", default=os.environ.get("TIKHONET_DATA"))
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--each", action="store_true", help="take away one gain after the other, too")
    main(parser.parse_args())
