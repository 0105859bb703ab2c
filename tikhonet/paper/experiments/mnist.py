"""Sec. 3.3.1 and Fig. 3: block coordinate descent and six SGD solvers on the paper's network.

Every method trains the same network on the same images from three seeds, and a linear SVM is refitted on its features.
Alg. 1 is run as printed (theta_t = 1/t^2, gamma = 0.1, the Tikhonov lift, random U); proximal descent minimises the
same Eq. 4 from the same start with theta = 1, so that the two differ in nothing but their steps; the stochastic trainer
uses the tight lift. Each of the three is run dense and with the rows of W in the l1 ball of radius 1 (BCD-S).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tikhonet.descent.full import BlockDescent
from tikhonet.descent.schedules import Power, Proximal, Schedule
from tikhonet.network.graph import Network
from tikhonet.paper.baselines import Backprop
from tikhonet.paper.experiments.images import Images
from tikhonet.paper.experiments.progress import Report
from tikhonet.paper.experiments.records import Record
from tikhonet.paper.experiments.runner import check_epochs, run_chosen
from tikhonet.paper.experiments.trials import Method, Pixels, Untrained
from tikhonet.problem.lifts import Fenchel
from tikhonet.problem.objective import Problem
from tikhonet.problem.sets import ConvexSet, Everything, RowL1Ball
from tikhonet.trainer.run import Stochastic

DROPOUT: dict[str, Any] = {"drop_inputs": 0.2, "drop_features": 0.2}
"""The same for all that train on mini-batches."""


@dataclass(frozen=True)
class Size:
    """How much is done.

    `rows`: training images that the full-batch solvers see, and that every certificate is measured on (None: all).
    `stochastic`: settings of the stochastic trainer; `rates`: learning rate and batch size of each SGD solver.
    """

    name: str
    rows: int | None
    iterations: dict[str, int]
    stochastic: dict[str, Any]
    epochs: int
    rates: dict[str, tuple[float, int]]
    inner_tol: float = BlockDescent.inner_tol
    """Relative residual to which the full-batch sub-problems are solved."""
    threads: int | None = None
    """None leaves torch's own number; one is faster where the matrices are small."""


QUICK = Size(
    "quick",
    rows=None,
    iterations={"alg1": 100, "alg1-s": 100, "proximal": 60, "proximal-s": 25},
    stochastic={"epochs": 30, "batch_size": 100, "change": 0.6},
    epochs=30,
    rates={
        "SGD": (9e-3, 16),
        "Nesterov": (0.03, 64),
        "AdaGrad": (0.015, 32),
        "AdaDelta": (10.0, 64),
        "RMSProp": (6e-3, 32),
        "Adam": (5e-3, 32),
    },
    threads=1,
)
"""Chosen by the SVM's error on 300 of the digits' training images among nine settings or more of every solver, mean of
three seeds. For AdaGrad and RMSProp, rates so small that they hardly train had the lowest error (4.0% each); a setting
that trains (4.9%) was taken instead, after the others had been seen to leave V wrong on 64 to 75% of the test
images."""

FULL = Size(
    "full",
    rows=3000,
    iterations={"alg1": 12, "alg1-s": 12, "proximal": 8, "proximal-s": 8},
    stochastic={"epochs": 30},
    epochs=30,
    rates={
        "SGD": (0.0231, 128),
        "Nesterov": (8.07e-3, 64),
        "AdaGrad": (4.97e-3, 64),
        "AdaDelta": (0.902, 64),
        "RMSProp": (5.31e-4, 64),
        "Adam": (5e-4, 128),
    },
    inner_tol=1e-2,
)
"""Rates and batch sizes: the best of four trials each of `benchmarks/time_to_error.py --tune` on MNIST (of Adam the
second, which is faster and no worse after 10 epochs); the stochastic trainer keeps its defaults. Alg. 1 takes a minute
for its first iteration on 10,000 images, and the W-step in the l1 ball some 10 s however few the images: so the
full-batch solvers see a part of them, and go 12 iterations, after which all theta_t to come sum to 0.08. Their
sub-problems are solved to 1e-2; certificates allow for it."""


def methods(size: Size, network: Network, epochs: int | None = None) -> dict[str, Method]:
    """The twelve solvers and two references; `epochs` sets the passes of every one of them, as the paper's 100."""
    iterations = {name: epochs or count for name, count in size.iterations.items()}
    stochastic = Stochastic(**DROPOUT | size.stochastic | ({"epochs": epochs} if epochs else {}))
    found = []
    forms: list[tuple[str, str, ConvexSet]] = [("", "", Everything()), ("-s", ", l1 ball", RowL1Ball(1.0))]
    for suffix, words, ball in forms:
        eq4, tight = Problem(network, gamma=0.1, W_set=ball), Problem(network, lift=Fenchel(), W_set=ball)
        printed = full_batch(size, Power(2), iterations[f"alg1{suffix}"])
        proximal = full_batch(size, Proximal(0.1), iterations[f"proximal{suffix}"], extrapolate=True)
        sparse = suffix == "-s"
        found += [
            Method(f"alg1{suffix}", f"Alg. 1 as printed{words}", "printed", eq4, printed, size.rows, sparse),
            Method(f"proximal{suffix}", f"Proximal BCD{words}", "proximal", eq4, proximal, size.rows, sparse),
            Method(f"stochastic{suffix}", f"Stochastic BCD{words}", "stochastic", tight, stochastic, None, sparse),
        ]
    tight = Problem(network, lift=Fenchel())
    for name, (rate, batch_size) in size.rates.items():
        solver = Backprop(name, rate, epochs or size.epochs, batch_size, "cosine", **DROPOUT)
        found.append(Method(name.lower(), name, "sgd", tight, solver))
    found.append(Method("untrained", "Untrained network", "reference", tight, Untrained()))
    found.append(Method("pixels", "Raw pixels", "reference", tight, Pixels()))
    return {method.name: replace(method, certified=size.rows) for method in found}


def full_batch(size: Size, schedule: Schedule, iterations: int, *, extrapolate: bool = False) -> BlockDescent:
    """Stationarity is measured often enough to fit a rate to the last half of the run."""
    often = max(1, iterations // 40)
    return BlockDescent(schedule, iterations, inner_tol=size.inner_tol, extrapolate=extrapolate, check_every=often)


def run(
    data: Images,
    size: Size = QUICK,
    output: str | os.PathLike[str] = "mnist",
    *,
    solvers: Sequence[str] | None = None,
    trials: Sequence[int] = (0, 1, 2),
    epochs: int | None = None,
    progress: Report | None = None,
) -> list[Record]:
    """Do the trials that are not yet in `output/records`, and return all that were asked for.

    `solvers` are names of `methods`, all of them if None; `epochs` sets the passes of every solver.
    """
    check_epochs(epochs)
    known = methods(size, Network.paper(data.X_train.shape[1]), epochs)
    options: dict[str, Any] = {"solvers": solvers, "trials": trials, "threads": size.threads, "progress": progress}
    return run_chosen(("mnist", size.name), known, data, output, **options)
