"""The classical hashing methods on MNIST (pixels) or CIFAR-10 (GIST-like descriptors): mAP with its bounds.

Queries are test images. The database is the first --database training images, the first --train of them are trained on
(0: all).
Usage: python benchmarks/classical_hashing.py [--set cifar10] [--train 5000] [--database 0] [--queries 1000]

`--seeds 3` makes codes three times, `--classifier` adds a `BCDClassifier` as a hash.
"""

from __future__ import annotations

import time
from itertools import product

import numpy as np
from machine import arguments, describe, record

from tikhonet.data import Dataset, load
from tikhonet.data.gist import gist
from tikhonet.estimators import BCDClassifier
from tikhonet.hashing import code_report, evaluate
from tikhonet.paper.baselines.classical_hashes import ITQ, ClassifierHash, PrincipalComponents, RandomProjections
from tikhonet.paper.baselines.discrete_hash import DiscreteHash

MAP = "mean_average_precision"


def rows_of(data: Dataset, count: int | None = None) -> np.ndarray:
    """Descriptors of colour photographs, else pixels."""
    return gist(data.values[:count]) if len(data.shape) == 3 else data.X[:count]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--set", default="cifar10", choices=["cifar10", "mnist", "fashion-mnist"])
    parser.add_argument("--train", type=int, default=5000)
    parser.add_argument("--database", type=int, default=0)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--bits", default="16,32,64")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--classifier", action="store_true")
    parser.add_argument("--data")
    settings = parser.parse_args()
    train, test = (load(settings.set, split, settings.data) for split in ("train", "test"))
    start = time.process_time()
    X, queries = rows_of(train, settings.database or None), rows_of(test, settings.queries)
    print(f"{describe()}; {settings.set}: {X.shape[1]} numbers an image, in {time.process_time() - start:.0f} s of CPU")
    y, labels, used = train.y[: len(X)], test.y[: len(queries)], slice(settings.train or None)
    kept = []
    for n_bits, seed in product(map(int, settings.bits.split(",")), range(settings.seeds)):
        methods = [RandomProjections(n_bits), PrincipalComponents(n_bits), ITQ(n_bits), DiscreteHash(n_bits)]
        if settings.classifier:
            methods.append(ClassifierHash(n_bits, BCDClassifier(random_state=seed)))
        for method in methods:
            start = time.process_time()
            method.fit(X[used], y[used], seed=seed)
            seconds, codes = time.process_time() - start, method.codes(X)
            found = evaluate(method.codes(queries), labels, codes, y)
            ball = f"within 2: {found.precision_within:.3f}, {100 * found.empty_balls:.0f}% empty"
            name = type(method).__name__
            print(f"{n_bits:3} bits {name:20} {found.mean_average_precision}; {ball}; {seconds:.1f} s", flush=True)
            line = {"method": name, "bits": n_bits, "seed": seed, "seconds": seconds, "mAP": found.to_dict()[MAP]}
            report = code_report(codes, n_bits)
            kept.append(line | {"distinct": report.distinct, "entropy": report.entropy, "tied": report.tied})
    record(settings, {"set": settings.set, "train": settings.train, "database": len(X), "methods": kept})


if __name__ == "__main__":
    main()
