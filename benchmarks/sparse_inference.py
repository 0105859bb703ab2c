"""Single predictions of the paper's network with 2% nonzeros: dense torch, SciPy's sparse rows, compiled kernels, C99.

All of them predict the same images in turn, one image at a time, on one thread; the figure is the median of the ratio
dense torch / each, in seconds of this thread's CPU time. Then batches, and flash, RAM and test error of the C models in
float32 and int8.
Usage: python benchmarks/sparse_inference.py [--data DIR] [--samples 10000] [--nonzero 0.02 | --model FILE]
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from machine import arguments, describe, images, record

from tikhonet import Network
from tikhonet.estimators import BCDClassifier
from tikhonet.model.export import CModel

SINGLE, ROUNDS, BATCHES = 400, 10, (16, 256, 1000)
Predict = Callable[[np.ndarray], np.ndarray]


def compiled(model: CModel) -> Predict:
    """The exported C as a function of rows, by gcc and ctypes."""
    with tempfile.TemporaryDirectory() as folder:
        _, source = model.save(folder)
        library = Path(folder, "model.so")
        subprocess.run(["gcc", "-std=c99", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        function = getattr(ctypes.CDLL(str(library)), f"{model.name}_predict")
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p)

    def predict(X: np.ndarray) -> np.ndarray:
        scores = np.empty((len(X), 10), np.float32)
        x, place = X.ctypes.data, scores.ctypes.data
        for row in range(len(X)):
            function(x + 4 * row * X.shape[1], place + 40 * row)
        return scores

    return predict


def by_torch(model: BCDClassifier, sparse: bool = False) -> Predict:
    module = model.to_torch(sparse=sparse).float().eval()

    @torch.inference_mode()
    def predict(X: np.ndarray) -> np.ndarray:
        return module(torch.from_numpy(X)).numpy()

    return predict


def measure(predictors: dict[str, Predict], X: np.ndarray, rows: int, repeats: int) -> dict[str, np.ndarray]:
    """Seconds of each call; the predictors take turns."""
    seconds = {name: [] for name in predictors}
    for repeat in range(repeats):
        batch = X[repeat * rows % (len(X) - rows) :][:rows]
        for name, predict in predictors.items():
            start = time.thread_time()
            predict(batch)
            seconds[name].append(time.thread_time() - start)
    return {name: np.array(found) for name, found in seconds.items()}


def streaks(predictors: dict[str, Predict], X: np.ndarray) -> dict[str, np.ndarray]:
    """Seconds of single predictions, in streaks that take turns, each with the cache to itself, as in a service."""
    seconds: dict[str, list[float]] = {name: [] for name in predictors}
    for _ in range(ROUNDS):
        for name, predict in predictors.items():
            predict(X[:1])
            found = []
            for row in range(SINGLE // ROUNDS):
                start = time.thread_time()
                predict(X[row : row + 1])
                found.append(time.thread_time() - start)
            seconds[name].append(float(np.median(found)))
    return {name: np.array(found) for name, found in seconds.items()}


def error(predict: Predict, X: np.ndarray, y: np.ndarray) -> float:
    return 100 * float((predict(X).argmax(1) != y).mean())


def train(folder: str | None, samples: int, nonzero: float) -> BCDClassifier:
    """The paper's network with the budget, ball and passes of `tikhonet reproduce sparse`."""
    X, y = (part.numpy()[:samples] for part in images("mnist", "train", folder))
    sparse = {"sparsity": nonzero, "constraint": "l1", "radius": 2.0}
    usual = {"head": "svm", "max_iter": 15, "early_stopping": False, "random_state": 0, "n_jobs": 1}
    return BCDClassifier(network=Network.paper(784), **sparse, **usual).fit(X, y)


def main(options: Namespace) -> None:
    torch.set_num_threads(1)
    X_test, y_test = (part.numpy() for part in images("mnist", "test", options.data))
    given = options.data, options.samples, options.nonzero
    model = BCDClassifier.load(options.model) if options.model else train(*given)
    print(f"{describe()}; nonzeros {100 * (1 - model.sparsity_['zeros']):.2f}%", end=", ")
    print(f"test error {error(model.predictor('dense'), X_test, y_test):.2f}%")

    c = {"C99, float32": model.to_c("net"), "C99, int8": model.to_c("net", int8=True)}
    predictors = {
        "dense torch": by_torch(model),
        "sparse torch": by_torch(model, sparse=True),
        "csr (SciPy)": model.predictor("csr"),
        "native": model.predictor("native"),
        "predictor (auto)": model.predictor(),
        **{name: compiled(exported) for name, exported in c.items()},
    }
    for predict in predictors.values():
        predict(X_test[:1])
    seconds = streaks(predictors, X_test)
    base = seconds["dense torch"]
    single, batches, sizes = {}, {}, {}
    for name, found in seconds.items():
        ratio = base / found
        print(f"1 row, {name:17} {1e6 * np.median(found):8.1f} us, dense / this: {np.median(ratio):5.1f}", end=" ")
        print(f"({ratio.min():.1f} to {ratio.max():.1f})")
        single[name] = {"us": 1e6 * np.median(found), "ratios": ratio.tolist()}
    for rows in BATCHES:
        found = measure(predictors, X_test, rows, 7)
        for name, values in found.items():
            ratio = np.median(found["dense torch"] / values)
            print(f"{rows} rows, {name:17} {1e3 * np.median(values):8.2f} ms, dense / this: {ratio:5.1f}")
            batches[f"{rows} rows, {name}"] = {"ms": 1e3 * np.median(values), "ratio": ratio}
    reference = predictors["dense torch"](X_test)
    for name, exported in c.items():
        scores = predictors[name](X_test)
        wrong, other = (int((scores.argmax(1) != labels).sum()) for labels in (y_test, reference.argmax(1)))
        print(
            f"{name}: flash {exported.flash:,} bytes, RAM {exported.ram:,}, error {100 * wrong / len(y_test):.2f}%, "
            f"other labels than dense torch {other}, largest difference {np.abs(scores - reference).max():.1e}"
        )
        sizes[name] = {"flash": exported.flash, "ram": exported.ram, "wrong": wrong, "other": other}
    record(options, {"one row": single, "batches": batches, "sizes": sizes, "tested": len(y_test)})


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--data", help="folder of the data sets, as `data_home`")
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--nonzero", type=float, default=0.02)
    parser.add_argument("--model", help="a saved classifier of MNIST, instead of training one")
    main(parser.parse_args())
