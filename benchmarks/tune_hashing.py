"""Settings of hashes on 5,000 images and the network of 256-256, six trials each: label mAP of rows held out.

    python benchmarks/tune_hashing.py --set mnist

A fifth of 5,000 training images are the queries, the others are learned from and searched. Methods without a number to
choose (ITQ, principal components, random projections, product quantisation) are left out.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

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
        found += [(given, hasher), (given, alone)]
    for rate, epochs in product((3e-4, 1e-3, 3e-3), (15, 30)):
        given = {"rate": rate, "epochs": epochs}
        solver = Backprop("Adam", initial="auto", batch_size=128, **given)
        found.append((given, ToCodewords("adam", way="adam", network=network, solver=solver, **common)))
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", default="mnist", choices=("mnist", "cifar10"))
    parser.add_argument("--data-home", default=None)
    parser.add_argument("--ways", default="bcd,classifier,adam,admm,penalty,sdh")
    given = parser.parse_args()
    data = held_out(read_database(f"{given.set}-5000", partial(load, data_home=given.data_home)))
    network = Network.chain([data.X.shape[1], *SHALLOW], bias=True)
    for settings, method in sorted(trials(network), key=lambda trial: trial[1].way):
        if method.way in given.ways.split(","):
            coder, fields = method.train(data.X, data.y, 0, lambda number: None)
            found = method.judge(coder, data)
            mean, exact = (
                found["retrieval"]["mean_average_precision"]["expected"],
                found["retrieval"]["precision_within"],
            )
            print(
                f"{method.way:12}{settings!s:42}mAP {mean:.4f}  within 2 {exact:.4f}  {fields['seconds']:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
