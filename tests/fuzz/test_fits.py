"""Random fits: whatever the parameters and data, a fit is finite, fails by the library's own errors alone, and is not
worse than the majority class without a warning.
"""

import time
import warnings

import numpy as np
import pytest

from tikhonet import BCDClassifier, BCDRegressor
from tikhonet.network.errors import ArgumentError

NUMBER, MANY = 60, 500


def pick(rng, *values):
    return values[rng.integers(len(values))]


def random_data(rng, numbers):
    """Blobs in random units, some with constant columns, outliers, few rows, rare classes."""
    rows, features = int(rng.integers(20, 200)), int(rng.integers(1, 15))
    classes = int(rng.integers(2, 5))
    y = rng.permutation(np.arange(rows) % classes)
    X = 3 * rng.normal(size=(classes, features))[y] + rng.normal(size=(rows, features))
    X = X * 10.0 ** rng.integers(-5, 6, features) + pick(rng, 0.0, 0.0, 10.0)
    if rng.random() < 0.2:
        X[:, rng.integers(features)] = 3.0
    if rng.random() < 0.2:
        X[rng.integers(rows)] *= 1e6
    target = X @ rng.normal(size=features) + np.abs(X).mean() * rng.normal(size=rows) if numbers else y
    return X, target, pick(rng, None, None, rng.uniform(1e-3, 1e3, rows))


def random_model(rng, numbers, seed):
    depth = int(pick(rng, 1, 1, 2, 2, 3, 5, 8))
    settings = {
        "hidden_layer_sizes": tuple(int(width) for width in rng.integers(1, 40, depth)),
        "loss": pick(rng, "squared", "squared", "huber") if numbers else pick(rng, "squared", "huber", "softmax"),
        "solver": pick(rng, "stochastic", "stochastic", "stochastic", "proximal"),
        "constraint": pick(rng, None, None, None, "l1", "l2", "frobenius", "nonnegative"),
        "skip": bool(rng.random() < 0.2),
        "activation": pick(rng, "relu", "relu", "clipped_relu"),
        "batch_size": pick(rng, "auto", "auto", 7, 50),
        "dropout": pick(rng, "auto", "auto", 0.0, (0.3, 0.5)),
        "early_stopping": pick(rng, "auto", False, True),
        "dtype": pick(rng, "float32", "float32", "float64"),
        "head": pick(rng, "ridge", "trained") if numbers else pick(rng, "logistic", "svm", "ridge", "trained"),
        "max_iter": int(rng.integers(1, 15)),
        "random_state": seed,
    }
    if settings["solver"] == "stochastic" and rng.random() < 0.2:
        settings["sparsity"] = float(rng.uniform(0.2, 1.0))
    return (BCDRegressor if numbers else BCDClassifier)(**settings)


def check(seed):
    """One random fit; the sentences that say what is wrong with it."""
    rng = np.random.default_rng(seed)
    numbers = bool(rng.random() < 0.4)
    X, y, weight = random_data(rng, numbers)
    model = random_model(rng, numbers, seed)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            model.fit(X, y, weight)
        except ArgumentError:
            return []
        except Exception as error:
            return [f"seed {seed}: {type(error).__name__}: {error} of {model}"]
        wrong = []
        outputs = [model.predict(X), model.transform(X), *model.coefs_.values()]
        outputs += [] if numbers else [model.predict_proba(X)]
        if not all(np.isfinite(values).all() for values in outputs):
            wrong.append(f"seed {seed}: not finite: {model}")
        weight = np.ones(len(y)) if weight is None else weight
        if numbers:
            mean = np.average(y, weights=weight)
            worse = model.score(X, y, weight) < 1 - np.average((y - mean) ** 2, weights=weight) / y.var() - 0.1
        else:
            majority = max(weight[y == label].sum() for label in np.unique(y)) / weight.sum()
            worse = model.score(X, y, weight) < majority - 0.05
    if worse and not warned:
        wrong.append(f"seed {seed}: worse than a constant ({model.score(X, y, weight):.3f}) without a warning: {model}")
    return wrong


def check_many(seeds):
    clock = time.perf_counter()
    wrong = [sentence for seed in seeds for sentence in check(seed)]
    print(f"{len(seeds)} fits in {time.perf_counter() - clock:.1f} s")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("part", range(6))
def test_random_fits(part):
    check_many(range(part * NUMBER // 6, (part + 1) * NUMBER // 6))


@pytest.mark.slow
def test_many_random_fits():
    check_many(range(1000, 1000 + MANY))
