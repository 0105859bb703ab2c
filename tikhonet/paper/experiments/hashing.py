"""Sec. 3.3.2: supervised hashing with very deep networks, against ADMM, back-propagation and classical methods.

The paper trains a plain 48 x 256 network on MNIST and a 16 x 1024 one on CIFAR-10, and compares with ADMM. Here the
same network is trained in six ways (block coordinate descent towards learned codes, once more in a fifth of the passes,
and towards class codewords; ADMM and Adam towards class codewords; and as a classifier whose predicted class gives the
code), and four methods without a network stand beside them. Every way makes codes of every length from three seeds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tikhonet.network.graph import Network
from tikhonet.paper.baselines import ADMM, Backprop
from tikhonet.paper.baselines.hashes import ITQ, DiscreteHash, PrincipalComponents, RandomProjections
from tikhonet.paper.experiments.coders import Classical, Classifier, Hasher, Trained, Way
from tikhonet.paper.experiments.databases import Database
from tikhonet.paper.experiments.hashing_trials import HashMethod, do_hash_trial
from tikhonet.paper.experiments.progress import Report
from tikhonet.paper.experiments.records import HashingRecord, Pictures
from tikhonet.paper.experiments.runner import check_epochs, run_queue, torch_threads
from tikhonet.paper.experiments.trials import Watch

FEW = 10_000
BRIEF = 5
"""The part of the passes that shows how soon block coordinate descent is as good as others at the end: one in 5."""


@dataclass(frozen=True)
class Size:
    """How much is done: the lengths of the codes, and the settings of each way.

    `hasher` and `classifier` are parameters of the estimators; `adam` and `admm` settings of these solvers.
    """

    name: str
    bits: tuple[int, ...]
    hasher: dict[str, Any]
    classifier: dict[str, Any]
    adam: dict[str, Any]
    admm: dict[str, Any]
    few: dict[str, int] = field(default_factory=dict)
    """Passes of the hasher, the classifier and Adam over no more than `FEW` images, where they are not those above."""
    threads: int | None = None

    def for_rows(self, rows: int) -> Size:
        """The same for so many training images."""
        if not self.few or rows > FEW:
            return self
        return replace(
            self,
            hasher=self.hasher | {"max_iter": self.few["hasher"]},
            classifier=self.classifier | {"max_iter": self.few["classifier"]},
            adam=self.adam | {"epochs": self.few["adam"]},
        )


QUICK = Size(
    "quick",
    bits=(16, 32),
    hasher={"max_iter": 12, "batch_size": 200, "dropout": 0.0},
    classifier={"max_iter": 12, "batch_size": 200, "dropout": 0.0},
    adam={"rate": 2e-3, "batch_size": 32, "epochs": 12},
    admm={"epochs": 12},
    threads=1,
)
"""Chosen by the mAP of 32 bits with 300 of the digits' training images as queries, among eight settings of the hasher
(batch size, epochs, dropout), six of Adam (rate, batch size) and six of ADMM (penalties, warm-up), which keeps its
own."""

FULL = Size(
    "full",
    bits=(16, 24, 32, 48, 64),
    hasher={"max_iter": 5, "dropout": 0.0},
    classifier={"max_iter": 5, "dropout": 0.0},
    adam={"rate": 1e-4, "batch_size": 128, "epochs": 10},
    admm={"epochs": 20, "beta": 0.1, "warm_up": 20},
    few={"hasher": 30, "classifier": 30, "adam": 60},
)
"""Rate and batch of Adam and the penalties of ADMM, whose multipliers rest, are the best of five and six trials,
held out from 10,000 images of MNIST (`benchmarks/deep.py --tune`); all start looks-linear."""


def methods(size: Size, network: Network, epochs: int | None = None) -> dict[str, HashMethod]:
    """Every way at every length, as `<way>-<bits>`; `epochs` sets the passes of all that train a network."""
    limit, passes = ({"max_iter": epochs}, {"epochs": epochs}) if epochs else ({}, {})
    classifier = Classifier(network, size.classifier | limit)
    hasher = {"codes": "learned", **size.hasher, **limit}
    brief = hasher | {"max_iter": max(1, hasher["max_iter"] // BRIEF)}
    backprop: dict[str, Any] = {"initial": "auto", **size.adam, **passes}
    found: list[tuple[str, str, str, Way]] = [
        ("bcd", "BCD, learned codes", "stochastic", Hasher(network, hasher)),
        ("brief", "BCD, fewer passes", "stochastic", Hasher(network, brief)),
        ("words", "BCD, class codewords", "stochastic", Hasher(network, hasher | {"codes": "classes"})),
        ("admm", "ADMM", "printed", Trained(network, ADMM(**size.admm | passes))),
        ("adam", "Adam", "sgd", Trained(network, Backprop("Adam", **backprop))),
        ("classifier", "Classifier as hash", "proximal", classifier),
        ("sdh", "SDH", "proximal", Classical(DiscreteHash)),
        ("itq", "ITQ", "reference", Classical(ITQ)),
        ("pca", "Principal components", "reference", Classical(PrincipalComponents)),
        ("random", "Random projections", "reference", Classical(RandomProjections)),
    ]
    named = [HashMethod(name, title, family, bits, way) for bits in size.bits for name, title, family, way in found]
    return {method.name: method for method in named}


def choose(known: dict[str, HashMethod], solvers: Sequence[str] | None) -> list[HashMethod]:
    """Methods by their whole names (bcd-48) or those of ways (bcd), which stand for every length."""
    if solvers is None:
        return list(known.values())
    ways = dict.fromkeys(method.way for method in known.values())
    unknown = [name for name in solvers if name not in known and name not in ways]
    if unknown:
        lengths = ", ".join(sorted({str(method.bits) for method in known.values()}))
        raise ValueError(
            f"solvers must be among {', '.join(ways)}, or one of these and a length ({lengths}) such as "
            f"{next(iter(known))}, got {', '.join(unknown)}"
        )
    return [method for method in known.values() if method.name in solvers or method.way in solvers]


def run(
    data: Database,
    size: Size = QUICK,
    output: str | os.PathLike[str] = "hashing",
    *,
    solvers: Sequence[str] | None = None,
    trials: Sequence[int] = (0, 1, 2),
    epochs: int | None = None,
    progress: Report | None = None,
) -> list[HashingRecord]:
    """Do the trials that are not yet in `output/records`, and return all that were asked for.

    `solvers` are names of `methods` or of ways, all if None; `epochs` sets the passes of all that train a network.
    """
    check_epochs(epochs)
    network = Network.chain([data.X.shape[1], *data.hidden], bias=True)
    rows = data.X_train, data.y_train
    chosen = choose(methods(size.for_rows(len(rows[0])), network, epochs), solvers)
    identity, description = ("hashing", size.name), data.describe()

    def do(method: HashMethod, trial: int, watch: Watch) -> tuple[HashingRecord, Pictures]:
        return do_hash_trial(identity, method, data, rows, description, trial, watch)

    folder = Path(output, "records")
    with torch_threads(size.threads):
        return run_queue(identity, chosen, description, folder, trials, do, HashingRecord, progress)
