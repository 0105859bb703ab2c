"""Settings of hashes on 5,000 images and the network of 256-256, six trials each: label mAP of rows held out.

    python benchmarks/tune_hashing.py --record

A fifth of 5,000 training images are the queries, the others are learned from and searched. Methods without a number to
choose (ITQ, principal components, random projections, product quantisation) are left out, and so are the variants that
take the settings of another way; the short schedules of Adam have their own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from machine import arguments, record

from tikhonet.data import load
from tikhonet.network.graph import Network
from tikhonet.paper.baselines.admm import ADMM, QuadraticPenalty
from tikhonet.paper.baselines.backprop import Backprop
from tikhonet.paper.baselines.discrete_hash import DiscreteHash
from tikhonet.paper.hash_coders import Classical, Classifier, Hasher, HashMethod, ToCodewords
from tikhonet.paper.labelled_images import SHALLOW, Database, read_database

BITS = 48
PARTS = 5


def trials(network: Network) -> list[tuple[dict[str, Any], HashMethod]]:
    """Every setting of every method, with the words for it."""
    common: dict[str, Any] = {"title": "", "family": "reference", "bits": BITS, "curve": False}
    found: list[tuple[dict[str, Any], HashMethod]] = []
    for epochs, dropout in product((5, 10, 20), (0.0, 0.2)):
        given = {"max_iter": epochs, "dropout": dropout}
        options: dict[str, Any] = {"network": network, **common}
        hasher = Hasher("bcd", way="bcd", parameters=given | {"structure": 0.0}, **options)
        alone = Classifier(
            "classifier", way="classifier", kept=[], parameters=given | {"early_stopping": False}, **options
        )
        soft = replace(alone, name="soft", way="soft", soft=True)
        found += [(given, hasher), (given, alone), (given, soft)]
    for way, lengths in (("adam", (15, 30)), ("short", (2, 4))):
        for rate, epochs in product((3e-4, 1e-3, 3e-3), lengths):
            given = {"rate": rate, "epochs": epochs}
            solver = Backprop("Adam", initial="auto", batch_size=128, **given)
            found.append((given, ToCodewords(way, way=way, network=network, solver=solver, **common)))
    for beta, alpha in product((0.01, 0.1, 1.0), (0.1, 1.0)):
        given = {"beta": beta, "alpha": alpha}
        for way, kind in (("admm", ADMM), ("penalty", QuadraticPenalty)):
            split = kind(epochs=20, **given)
            found.append((given, ToCodewords(way, way=way, network=network, solver=split, **common)))
    for width, nu in product((0.3, 1.0, 3.0), (1e-5, 1e-2)):
        given = {"width": width, "nu": nu}
        found.append((given, Classical("sdh", way="sdh", make=partial(DiscreteHash, **given), **common)))
    return found


def held_out(data: Database) -> Database:
    """The training images alone, some of which are the queries."""
    assert data.trained is not None
    asked = np.arange(len(data.trained)) % PARTS == 0
    learned, sought = data.trained[~asked], data.trained[asked]
    parts = {"X": data.X[learned], "y": data.y[learned], "images": data.images[learned]}
    queries = {"X_query": data.X[sought], "y_query": data.y[sought], "query_images": data.images[sought]}
    return replace(data, **parts, **queries, trained=None)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--sets", default="mnist,cifar10")
    parser.add_argument("--data")
    given = parser.parse_args()
    torch.set_num_threads(1)
    kept = []
    for name in given.sets.split(","):
        data = held_out(read_database(f"{name}-5000", partial(load, data_home=given.data)))
        for settings, method in trials(Network.chain([data.X.shape[1], *SHALLOW], bias=True)):
            coder, fields = method.train(data.X, data.y, 0, lambda number: None)
            found = method.judge(coder, data)["retrieval"]
            mean, exact, seconds = (
                found["mean_average_precision"]["expected"],
                found["precision_within"],
                fields["seconds"],
            )
            words = f"{method.way:12}{settings!s:42}mAP {mean:.4f}  within 2 {exact:.4f}  {seconds:.1f} s"
            print(f"{name:10}{words}", flush=True)
            line = {"set": name, "way": method.way, "settings": settings, "precision": mean, "within": exact}
            kept.append(line | {"seconds": round(seconds, 3)})
    record(given, {"bits": BITS, "trials": kept})


if __name__ == "__main__":
    main()
