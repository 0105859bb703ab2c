"""Error against nonzeros (Sec. 3.3.1, Fig. 3d, taken further): how few weights the paper's network needs.

Four ways to zeros, on the same images from three seeds, each with a linear SVM refitted on its features: a budget of
nonzeros in the stochastic trainer, with the rows in an l1 ball; the l1 ball alone, whose zeros emerge (BCD-S); and
magnitude pruning of the network that Adam trained, at once with fine-tuning or gradually. All get the same number of
epochs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tikhonet.network.graph import Network
from tikhonet.paper.baselines import Backprop, Pruning
from tikhonet.paper.experiments.images import Images
from tikhonet.paper.experiments.progress import Report
from tikhonet.paper.experiments.records import Record
from tikhonet.paper.experiments.runner import check_epochs, run_chosen
from tikhonet.paper.experiments.trials import Method
from tikhonet.problem.lifts import Fenchel
from tikhonet.problem.objective import Problem
from tikhonet.problem.sets import RowL1Ball
from tikhonet.trainer.run import Stochastic
from tikhonet.trainer.sparsity.budget import Budget

RADIUS, RADII = 2.0, {"fashion-mnist": 4.0}
"""Of the l1 ball around every row that a budget is spent in, and by data set where it is another; chosen on held-out
training images (docs/sparse.md)."""
GRADUAL: dict[str, Any] = {"begin": 0.1, "end": 0.7}


@dataclass(frozen=True)
class Size:
    """How much is done: the shares of nonzeros in percent, the radii of the ball alone, the settings of each way.

    `dense`, `sparse` and `ball` are settings of the stochastic trainer, `adam` and `pruned` of back-propagation.
    """

    name: str
    shares: tuple[float, ...]
    radii: tuple[float, ...]
    dense: dict[str, Any]
    sparse: dict[str, Any]
    ball: dict[str, Any]
    adam: dict[str, Any]
    pruned: dict[str, Any]
    certified: int | None = None
    """Rows of the certificates."""
    threads: int | None = None


QUICK = Size(
    "quick",
    shares=(20.0, 10.0, 5.0, 2.42),
    radii=(1.0,),
    dense={"epochs": 15, "batch_size": 100, "change": 0.6},
    sparse={"epochs": 15, "batch_size": 100, "change": 1.5},
    ball={"epochs": 15, "batch_size": 100, "change": 1.5},
    adam={"rate": 5e-3, "batch_size": 32, "epochs": 15, "drop_inputs": 0.1, "drop_features": 0.2},
    pruned={"rate": 5e-3, "batch_size": 32, "epochs": 15, "drop_inputs": 0.05},
    threads=1,
)

FULL = Size(
    "full",
    shares=(20.0, 10.0, 5.0, 2.42, 1.0, 0.5),
    radii=(1.0, 0.5, 0.25),
    dense={"epochs": 15},
    sparse={"epochs": 15},
    ball={"epochs": 15, "change": 2.0},
    adam={"rate": 5e-4, "batch_size": 128, "epochs": 15, "drop_inputs": 0.1, "drop_features": 0.2},
    pruned={"rate": 1e-3, "batch_size": 128, "epochs": 15, "drop_inputs": 0.05},
    certified=3000,
)


def methods(size: Size, network: Network, epochs: int | None = None, radius: float = RADIUS) -> dict[str, Method]:
    """Dense and sparse forms of all four ways, by name; `epochs` sets the passes of every one of them."""
    passes = {"epochs": epochs} if epochs else {}
    tight = Problem(network, lift=Fenchel())
    wide = replace(tight, W_set=RowL1Ball(radius))
    found = [
        Method("dense", "Stochastic BCD", "stochastic", tight, Stochastic(**size.dense | passes)),
        Method("adam", "Adam", "sgd", tight, Backprop("Adam", **size.adam | passes)),
    ]
    for alone in size.radii:
        title = f"l1 ball alone, radius {alone:g}"
        problem, solver = replace(tight, W_set=RowL1Ball(alone)), Stochastic(**size.ball | passes)
        found.append(Method(f"ball-{alone:g}", title, "proximal", problem, solver, sparse=True))
    for percent in size.shares:
        share, words = percent / 100, f"{percent:g}%"
        budget = Stochastic(**size.sparse | passes, budget=Budget(share))
        found.append(Method(f"budget-{percent:g}", f"Budget, {words}", "stochastic", wide, budget, sparse=True))
        gradual, once = Pruning(share, **GRADUAL), Pruning(share)
        for name, title, family, pruning in (
            ("gradual", "Adam, pruned gradually", "sgd", gradual),
            ("one-shot", "Adam, pruned at once", "reference", once),
        ):
            pruned = Backprop("Adam", **size.pruned | passes, pruning=pruning)
            found.append(Method(f"{name}-{percent:g}", f"{title}, {words}", family, tight, pruned, sparse=True))
    return {method.name: replace(method, certified=size.certified) for method in found}


def run(
    data: Images,
    size: Size = QUICK,
    output: str | os.PathLike[str] = "sparse",
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
    known = methods(size, Network.paper(data.X_train.shape[1]), epochs, RADII.get(data.name, RADIUS))
    options: dict[str, Any] = {"solvers": solvers, "trials": trials, "threads": size.threads, "progress": progress}
    return run_chosen(("sparse", size.name), known, data, output, **options)
