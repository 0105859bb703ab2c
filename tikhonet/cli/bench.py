"""`tikhonet bench`: this machine, and three classifiers side by side on the digits."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import torch
import typer
from torch.utils.benchmark import Timer

from tikhonet.cli.inputs import Seed, Threads
from tikhonet.cli.outputs import Answer, facts, table
from tikhonet.data import load
from tikhonet.data.bar import Bar

EXAMPLE = "tikhonet bench --repeats 1"

Classifiers = dict[str, Callable[[int], Any]]


def classifiers() -> Classifiers:
    """From a seed to a classifier; both networks have the same layers and otherwise their own defaults."""
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    from tikhonet.estimators import BCDClassifier

    return {
        "BCDClassifier": lambda seed: BCDClassifier((200, 200), random_state=seed),
        "MLPClassifier": lambda seed: make_pipeline(StandardScaler(), MLPClassifier((200, 200), random_state=seed)),
        "linear SVM": lambda seed: make_pipeline(StandardScaler(), LinearSVC(random_state=seed)),
    }


def bench(
    repeats: Annotated[
        int, typer.Option(help="Fits of each classifier, in turn, from other seeds.", min=1, metavar="N")
    ] = 3,
    seed: Seed = 0,
    threads: Threads = None,
) -> Answer:
    """Compare classifiers on this machine.

    A network of this library, one of scikit-learn's and a linear SVM are fitted in turn on the digits: test error and
    seconds of a fit. Also the rate at which this machine multiplies matrices.
    """
    from tikhonet.paper.runner import torch_threads

    with torch_threads(threads):
        used = torch.get_num_threads()
        found = compare(classifiers(), repeats, seed)
        rates = {name: product_rate(getattr(torch, name)) for name in ("float32", "float64")}
    base = statistics.median(found["BCDClassifier"]["seconds"])
    rows = [
        (
            name,
            f"{statistics.mean(runs['error_percent']):.2f}",
            f"{min(runs['error_percent']):.2f} to {max(runs['error_percent']):.2f}",
            f"{statistics.median(runs['seconds']):.2f}",
            f"{statistics.median(runs['seconds']) / base:.2f}",
        )
        for name, runs in found.items()
    ]
    columns = ("classifier", "test error %", "range", "fit seconds (median)", "relative")
    machine = facts(
        data="digits: 1,297 training and 500 test images, fits take turns",
        threads=used,
        products=", ".join(f"{rate:.1f} GFLOP/s in {name}" for name, rate in rates.items()),
    )
    document = {"data": "digits", "repeats": repeats, "seed": seed, "threads": used, "gflops": rates, "results": found}
    return Answer(document, table(columns, rows), machine)


def compare(chosen: Classifiers, repeats: int, seed: int) -> dict[str, dict[str, list[float]]]:
    train, test = load("digits"), load("digits", "test")
    found: dict[str, dict[str, list[float]]] = {name: {"error_percent": [], "seconds": []} for name in chosen}
    with Bar("fitting", repeats * len(chosen)) as shown, warnings.catch_warnings():
        # Each runs as long as it does by default; that one would go on is no news in a comparison.
        warnings.simplefilter("ignore")
        for repeat in range(repeats):
            for name, make in chosen.items():
                shown.move(sum(len(runs["seconds"]) for runs in found.values()), f"fitting {name}")
                clock = time.perf_counter()
                model = make(seed + repeat).fit(train.X, train.y)
                found[name]["seconds"].append(time.perf_counter() - clock)
                found[name]["error_percent"].append(100 * float((model.predict(test.X) != test.y).mean()))
    return found


def product_rate(dtype: torch.dtype, size: int = 512, seconds: float = 0.3) -> float:
    """Billions of additions and multiplications a second in products of square matrices."""
    A, B = torch.randn(2, size, size, dtype=dtype)
    timer = Timer("torch.mm(A, B)", globals={"torch": torch, "A": A, "B": B}, num_threads=torch.get_num_threads())
    return 2e-9 * size**3 / timer.blocked_autorange(min_run_time=seconds).median
