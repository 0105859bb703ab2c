"""Runs on data four times as large as their memory: what they take at most, and how long, beside runs in memory.

Each fit runs in a process of its own, which first fits a few rows of the same shape: what the libraries load late is
not counted. Memory is what the process has at most (its resident set) above what it has after that.

    python benchmarks/out_of_core.py [--record] [--full-batch]

With `--full-batch` it is Alg. 1, whose data are X, the targets and the hidden layers; else an estimator.
"""

import json
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from machine import arguments, record

from tikhonet.cli.progress import memory_now, memory_peak

ROWS, COLUMNS, RATIO = 60_000, 784, 4
SETTINGS = {"hidden_layer_sizes": (200, 200), "max_iter": 4, "random_state": 0, "n_jobs": 1, "n_networks": 1}
TURNS = 3


def write_rows(folder):
    """Rows as a file of float64, with labels that a network can learn."""
    generator = np.random.default_rng(0)
    out = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float64, (ROWS, COLUMNS))
    labels, directions = [], generator.normal(size=(COLUMNS, 10)) / np.sqrt(COLUMNS)
    for start in range(0, ROWS, 1000):
        X = np.abs(generator.normal(size=(1000, COLUMNS)))
        out[start : start + 1000] = X
        labels.append(((X - X.mean()) @ directions + 0.1 * generator.normal(size=(1000, 10))).argmax(1))
    out.flush()
    np.save(folder / "y.npy", np.concatenate(labels))


def fit(side, folder):
    """In a process of its own: CPU seconds, peak memory above that of a small fit, and accuracy on 5,000 rows."""
    from tikhonet import BCDClassifier

    warnings.simplefilter("ignore")
    budget = ROWS * COLUMNS * 8 // RATIO
    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    few = np.random.default_rng(1).normal(size=(300, COLUMNS))
    large = BCDClassifier(**SETTINGS, memory_budget=budget)
    large.fit(few, np.arange(300) % 10).predict(few)
    before, clock = memory_now(), time.process_time()
    model = large if side == "on disk" else BCDClassifier(**SETTINGS)
    model.fit(X if side == "on disk" else np.array(X), y)
    seconds = time.process_time() - clock
    peak = memory_peak() - before
    score = float(np.mean(model.predict(np.array(X[-5000:])) == y[-5000:]))
    return {"seconds": seconds, "peak": peak, "accuracy": score, "budget": budget}


def descend(side, folder):
    """An iteration of Alg. 1, in a process of its own, as `fit` does a fit."""
    import torch

    from tikhonet import BlockDescent, Network, Power, Problem

    torch.set_num_threads(1)
    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    network, X = Network.chain([100, 100, 100]), np.array(X[:, :100], np.float32)
    np.save(folder / "some.npy", X)
    X, T = np.load(folder / "some.npy", mmap_mode="r"), np.eye(10, dtype=np.float32)[y]
    budget = 4 * ROWS * (sum(network.widths) + 10) // RATIO
    large = BlockDescent(Power(2), max_iter=1, chunk_rows=256, memory_budget=budget)
    solver = large if side == "on disk" else replace(large, memory_budget=None)
    problem = Problem(network)
    large.run(problem, np.array(X[:2000]), T[:2000])
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, clock = memory_now(), time.process_time()
    result = solver.run(problem, X if side == "on disk" else np.array(X), T)
    seconds, peak = time.process_time() - clock, memory_peak() - before
    return {"seconds": seconds, "peak": peak, "objective": result.history.objective[-1], "budget": budget}


def run(full_batch=False):
    """Both sides in turn, some times; the medians, and their ratios."""
    found = {"in memory": [], "on disk": []}
    with tempfile.TemporaryDirectory() as place:
        write_rows(Path(place))
        for _ in range(TURNS):
            for side, results in found.items():
                words = [sys.executable, __file__, "--one", side, place, *(["--full-batch"] if full_batch else [])]
                results.append(json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout))
    medians = {
        side: {name: float(np.median([one[name] for one in results])) for name in results[0]}
        for side, results in found.items()
    }
    disk, memory = medians["on disk"], medians["in memory"]
    return {
        "rows": ROWS,
        "data_bytes": RATIO * disk["budget"],
        "sides": medians,
        "peak_over_budget": disk["peak"] / disk["budget"],
        "time_over_memory": disk["seconds"] / memory["seconds"],
    }


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--full-batch", action="store_true", help="Alg. 1 in place of an estimator")
    parser.add_argument("--one", nargs=2, metavar=("SIDE", "FOLDER"), help="one fit in this process")
    options = parser.parse_args()
    if options.one:
        one = descend if options.full_batch else fit
        print(json.dumps(one(options.one[0], Path(options.one[1]))))
    else:
        found = run(options.full_batch)
        print(json.dumps(found, indent=2))
        record(options, found)
