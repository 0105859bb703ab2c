"""Error against nonzeros (Sec. 3.3.1, Fig. 3d, taken further): how few weights the paper's network needs.

Five ways to zeros, on the same images from three seeds, each with a linear SVM refitted on its features: a budget of
nonzeros in the stochastic trainer, with the rows in an l1 ball; the l1 ball alone, whose zeros emerge (BCD-S); and
magnitude pruning of the network that Adam trained, at once with fine-tuning, gradually over the network, or gradually
with the same share of every layer, as a budget has. All get the same number of epochs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tikhonet.network.graph import Network
from tikhonet.paper.baselines.backprop import Backprop
from tikhonet.paper.baselines.pruning import Pruning
from tikhonet.paper.comparison import ORDER, Claim
from tikhonet.paper.experiment import DIVERGED, Column, Size, Table
from tikhonet.paper.labelled_images import Images
from tikhonet.paper.network_results import NetworkExperiment, NetworkRow, Networks, error_range
from tikhonet.paper.network_trials import MiniBatch, NetworkMethod
from tikhonet.paper.sheets import Figure
from tikhonet.paper.sparse_findings import frontier, sparse_claims
from tikhonet.problem.lifts import Fenchel
from tikhonet.problem.objective import Problem
from tikhonet.problem.sets import RowL1Ball
from tikhonet.trainer.run import Stochastic
from tikhonet.trainer.sparsity.budget import Budget

RADIUS, RADII = 2.0, {"fashion-mnist": 4.0}
"""The radius of the l1 ball around every row that a budget is spent in, and by data set where it is another; chosen on
held-out training images (docs/log/sparse.md)."""
GRADUAL: dict[str, Any] = {"begin": 0.1, "end": 0.7}


@dataclass(frozen=True, kw_only=True)
class SparseSize(Size):
    """How much is done: the shares of nonzeros in percent, the radii of the ball alone, the settings of each way.

    `dense`, `sparse` and `ball` are settings of the stochastic trainer, `adam` and `pruned` of back-propagation.
    The ball alone has a first step by hand: longer steps than those of the rule leave fewer nonzeros
    (docs/log/step_rule.md).
    """

    shares: tuple[float, ...]
    radii: tuple[float, ...]
    dense: dict[str, Any]
    sparse: dict[str, Any]
    ball: dict[str, Any]
    adam: dict[str, Any]
    pruned: dict[str, Any]
    certified: int | None = None
    """Rows of the certificates."""


QUICK = SparseSize(
    "quick",
    shares=(20.0, 10.0, 5.0, 2.42),
    radii=(1.0,),
    dense={"epochs": 15, "batch_size": 100},
    sparse={"epochs": 15, "batch_size": 100},
    ball={"epochs": 15, "batch_size": 100, "change": 1.5, "momentum": 0.95},
    adam={"rate": 5e-3, "batch_size": 32, "epochs": 15, "drop_inputs": 0.1, "drop_features": 0.2},
    pruned={"rate": 5e-3, "batch_size": 32, "epochs": 15, "drop_inputs": 0.05},
    threads=1,
)

FULL = SparseSize(
    "full",
    shares=(20.0, 10.0, 5.0, 2.42, 1.0, 0.5),
    radii=(1.0, 0.5, 0.25),
    dense={"epochs": 15},
    sparse={"epochs": 15},
    ball={"epochs": 15, "change": 2.0, "momentum": 0.95},
    adam={"rate": 5e-4, "batch_size": 128, "epochs": 15, "drop_inputs": 0.1, "drop_features": 0.2},
    pruned={"rate": 1e-3, "batch_size": 128, "epochs": 15, "drop_inputs": 0.05},
    certified=3000,
)


class Sparse(NetworkExperiment):
    """The frontier: test error against nonzeros, by five ways to zeros."""

    name = "sparse"
    sizes = (QUICK, FULL)
    template = "sparse.html.j2"

    def methods(self, size: SparseSize, data: Images, epochs: int | None = None) -> list[NetworkMethod]:
        """Dense and sparse forms of all five ways; `epochs` sets the passes of every one of them."""
        passes = {"epochs": epochs} if epochs else {}
        tight = Problem(Network.paper(data.X_train.shape[1]), lift=Fenchel())
        wide = replace(tight, W_set=RowL1Ball(RADII.get(data.name, RADIUS)))
        dense, adam = Stochastic(**size.dense | passes), Backprop("Adam", **size.adam | passes)
        found: list[NetworkMethod] = [
            MiniBatch("dense", "Stochastic BCD", "stochastic", problem=tight, solver=dense),
            MiniBatch("adam", "Adam", "sgd", problem=tight, solver=adam),
        ]
        for alone in size.radii:
            naming = f"ball-{alone:g}", f"l1 ball alone, radius {alone:g}", "proximal"
            problem, solver = replace(tight, W_set=RowL1Ball(alone)), Stochastic(**size.ball | passes)
            found.append(MiniBatch(*naming, problem=problem, solver=solver, sparse=True))
        for percent in size.shares:
            share, words = percent / 100, f"{percent:g}%"
            budget = Stochastic(**size.sparse | passes, budget=Budget(share))
            naming = f"budget-{percent:g}", f"Budget, {words}", "stochastic"
            found.append(MiniBatch(*naming, problem=wide, solver=budget, sparse=True))
            for name, title, family, pruning in (
                ("gradual", "Adam, pruned gradually", "sgd", Pruning(share, **GRADUAL)),
                ("layered", "Adam, pruned gradually by layer", "sgd", Pruning(share, over="layer", **GRADUAL)),
                ("one-shot", "Adam, pruned at once", "reference", Pruning(share)),
            ):
                pruned = Backprop("Adam", **size.pruned | passes, pruning=pruning)
                naming = f"{name}-{percent:g}", f"{title}, {words}", family
                found.append(MiniBatch(*naming, problem=tight, solver=pruned, sparse=True))
        return [replace(method, certified=size.certified) for method in found]

    def pictures(self, found: dict[str, Any]) -> dict[str, Any]:
        return {name: array for name, array in found.items() if name.startswith("pattern")}

    def order(self, row: NetworkRow) -> Any:
        return ORDER.index(row.family), -row.density

    def findings(self, results: Networks) -> list[Claim]:
        return sparse_claims(results)

    def figures(self, results: Networks) -> list[Figure]:
        return [frontier(results)]

    def tables(self, results: Networks) -> dict[str, Table]:
        return {"frontier": frontier(results).table()}

    def columns(self, results: Networks) -> list[Column]:
        form = "{:.2f}".format

        def share(layer: str) -> Column:
            return Column(f"{layer} %", lambda row: row.nonzero[layer], form, wide=True)

        return [
            Column("nonzero %", lambda row: row.density, form),
            Column("error %", lambda row: row.score, self.score.form, unknown=DIVERGED),
            Column("range", error_range, str, wide=True),
            Column("seconds", lambda row: row.seconds),
            Column("epochs", lambda row: row.passes, "{:.0f}".format, wide=True),
            *map(share, ("W1", "W2", "W3")),
        ]

    def parts(self, results: Networks) -> dict[str, Any]:
        """The zeros of the ball's network and of those with a budget."""
        rows = [row for row in results.family("stochastic", "proximal") if row.sparse]
        return {"patterns": [(row, row.patterns()) for row in rows]}
