"""Hashing where rows have several labels: images of the digits side by side, whose labels are the digits among them.

Alike are rows with a label in common. Rows of training images are trained on and are the database, rows of test images
the queries; all are drawn at random.
Usage: python benchmarks/label_sets.py [--images 2] [--train 4000] [--queries 600] [--bits 16,48] [--seeds 0,1,2]
"""

from __future__ import annotations

import time

import numpy as np
from machine import arguments, describe, record

from tikhonet.data import load
from tikhonet.hashing import evaluate
from tikhonet.hashing.hasher import BCDHasher
from tikhonet.paper.baselines.classical_hashes import ITQ
from tikhonet.paper.baselines.discrete_hash import DiscreteHash


def draw(split: str, rows: int, images: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of so many images each, and which of the ten labels they have."""
    data = load("digits", split)
    drawn = rng.integers(len(data.X), size=(rows, images))
    Y = np.zeros((rows, 10), dtype=int)
    np.put_along_axis(Y, data.y[drawn].astype(int), 1, axis=1)
    return data.X[drawn].reshape(rows, -1), Y


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--images", type=int, default=2)
    parser.add_argument("--train", type=int, default=4000)
    parser.add_argument("--queries", type=int, default=600)
    parser.add_argument("--bits", default="16,48")
    parser.add_argument("--seeds", default="0,1,2")
    settings = parser.parse_args()
    print(f"{describe()}; {settings.images} images a row, {settings.train} rows, {settings.queries} queries")
    kept = []
    for n_bits in map(int, settings.bits.split(",")):
        for name in ("BCDHasher", "SDH", "ITQ"):
            scores, seconds = [], []
            for seed in map(int, settings.seeds.split(",")):
                rng = np.random.default_rng(seed)
                X, Y = draw("train", settings.train, settings.images, rng)
                queries, labels = draw("test", settings.queries, settings.images, rng)
                start = time.process_time()
                if name == "BCDHasher":
                    codes = BCDHasher(n_bits=n_bits, random_state=seed).fit(X, Y).transform
                else:
                    codes = {"SDH": DiscreteHash, "ITQ": ITQ}[name](n_bits).fit(X, Y, seed=seed).codes
                seconds.append(time.process_time() - start)
                scores.append(evaluate(codes(queries), labels, codes(X), Y).mean_average_precision.expected)
            each = " ".join(f"{score:.3f}" for score in scores)
            print(f"{n_bits:3} bits {name:10} mAP {np.mean(scores):.3f} ({each}), {np.mean(seconds):.1f} s", flush=True)
            kept.append({"method": name, "bits": n_bits, "scores": scores, "seconds": seconds})
    record(settings, {"images": settings.images, "methods": kept})


if __name__ == "__main__":
    main()
