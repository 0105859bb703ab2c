"""Random and fitted models with a known share of zeros, and their scores in plain NumPy."""

import functools
import warnings
from itertools import pairwise

import numpy as np
import torch
from sklearn.datasets import load_digits, make_regression

from tests.strategies import normal
from tikhonet import BIAS, Network
from tikhonet.estimators import BCDClassifier, BCDFeatures, BCDRegressor
from tikhonet.model.heads import Head
from tikhonet.model.model import Model
from tikhonet.model.scaling import Scaling
from tikhonet.network.activation import ClippedReLU

SKIPS = Network(
    [5, 5, 7, 5],
    {(1, 0): "learned", (2, 1): "learned", (2, 0): "learned", (3, 0): "identity", (3, 2): "learned"},
    [1, 3],
)
PAPER = Network.paper(9)
BACKWARDS = Network([4, 3, 3, 4], {(2, 0): "learned", (1, 2): "identity", (3, 1): "learned", (3, 0): "identity"}, [1])
CHAIN = Network.chain([6, 8, 4], bias=True)
CLIPPED = SKIPS.with_activation(ClippedReLU(1.5))
NETWORKS = {"skips": SKIPS, "paper": PAPER, "backwards": BACKWARDS, "chain": CHAIN, "clipped": CLIPPED}


def random_model(network, seed=0, outputs=3, nonzero=1.0, head=True, classes=()):
    """Weights with this share of nonzeros, one constant input, inputs with wild values possible."""
    W = {edge: normal(*network.shape(edge), seed=seed + k).float() for k, edge in enumerate(network.learned)}
    for k, (edge, matrix) in enumerate(W.items()):
        if edge[1] != BIAS:
            generator = torch.Generator().manual_seed(seed + 500 + k)
            matrix[torch.rand(matrix.shape, generator=generator) >= nonzero] = 0
    rng = np.random.default_rng(seed)
    shift, scale = rng.normal(size=network.widths[0]), rng.uniform(0.5, 2, network.widths[0])
    low, high = shift - 3 * scale, shift + 3 * scale
    scale[0], low[0], high[0] = 1.0, shift[0], shift[0]
    linear = Head(rng.normal(size=(outputs, network.widths[-1])), rng.normal(size=outputs)) if head else None
    return Model(Scaling(shift, scale, low, high), network, W, head=linear, classes=classes)


def rows(model, count=40, seed=1):
    """Inputs with zeros and with values out of bounds, in float32."""
    rng = np.random.default_rng(seed)
    X = rng.normal(scale=3, size=(count, model.inputs))
    X[rng.random(X.shape) < 0.3] = 0
    X[0], X[1] = 0, 1e6
    return X.astype(np.float32)


def oracle(model, X):
    """The scores in float64, term by term."""
    scaling, activation = model.scaling, model.network.activation
    if model.columns is not None:
        X = np.array([encoded(row, model.columns.encoding.fields) for row in X])
    U = {0: (np.clip(X.astype(np.float64), scaling.low, scaling.high) - scaling.shift) / scaling.scale}
    for n in model.network.hidden:
        Z = np.zeros((len(X), model.network.widths[n]))
        for m in model.network.sources(n):
            if m == BIAS:
                Z += model.W[n, m].numpy()[:, 0]
            elif (n, m) in model.W:
                Z += U[m] @ model.W[n, m].numpy().T.astype(np.float64)
            else:
                Z += U[m]
        U[n] = np.clip(Z, activation.lower, activation.upper)
    last = U[model.network.depth]
    return last if model.head is None else last @ model.head.coef.T + model.head.intercept


def encoded(row, fields):
    """The inputs of one row, number by number; what is missing and has no fill stays so."""
    filled = [field.fill if np.isnan(x) and field.fill is not None else x for x, field in zip(row, fields, strict=True)]
    both = list(zip(filled, fields, strict=True))
    numbers = [x for x, field in both if field.number]
    missing = [float(np.isnan(x)) for x, field in zip(row, fields, strict=True) if field.missing]
    pieces = [min(1, max(0, (x - a) / (b - a))) for x, field in both for a, b in pairwise(field.edges)]
    codes = [float(x == code) for x, field in both for code in range(field.codes)]
    return [*numbers, *missing, *pieces, *codes]


def largest_error(scores, expected):
    """Relative to the largest score, or to 1."""
    assert scores.shape == expected.shape
    return float(np.abs(scores - expected).max() / (1 + np.abs(expected).max()))


def prune(model, nonzero):
    """Leave this share of the largest weights of each matrix of a fitted model; the rest becomes zero."""
    for (_, m), matrix in model.model_.W.items():
        if m != BIAS:
            keep = max(1, round(nonzero * matrix.numel()))
            threshold = matrix.abs().flatten().topk(keep).values.min()
            matrix[matrix.abs() < threshold] = 0
    vars(model.model_).pop("sparse_features", None)
    return model


@functools.cache
def digits():
    return load_digits(return_X_y=True)


def fit(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X[:500], y[:500])


@functools.cache
def fitted(kind):
    """Small fitted models of every kind, pruned to a fifth of their weights; treat them as constants."""
    X, y = digits()
    options = {"hidden_layer_sizes": (64, 64), "skip": True, "max_iter": 8, "random_state": 0}
    if kind == "regressor":
        X, y = make_regression(200, 6, n_targets=3, noise=1.0, random_state=0)
        return prune(fit(BCDRegressor((20,), max_iter=10, random_state=0), X, y), 0.2), X
    if kind == "features":
        return prune(fit(BCDFeatures(**options), X, y), 0.2), X
    if kind == "binary":
        return prune(fit(BCDClassifier(**options), X, y % 2), 0.2), X
    if kind == "words":
        return prune(fit(BCDClassifier(**options), X, np.array(["zero?", "één", '"2"\\'])[y % 3]), 0.2), X
    if kind == "paper":
        network = Network.paper(64)
        return prune(fit(BCDClassifier(network=network, max_iter=8, random_state=0), X, y), 0.2), X
    if kind == "clipped":
        return prune(fit(BCDClassifier(activation=ClippedReLU(2.0), **options), X, y), 0.2), X
    return prune(fit(BCDClassifier(head=kind, **options), X, y), 0.2), X


KINDS = ("logistic", "svm", "ridge", "trained", "paper", "clipped", "binary", "words", "regressor", "features")


def expected_scores(model, X):
    """What the estimator itself says, one column for each score."""
    if isinstance(model, BCDFeatures):
        return model.transform(X)
    if isinstance(model, BCDRegressor):
        return model.predict(X).reshape(len(X), -1)
    return model._scores(X)
