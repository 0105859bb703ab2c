"""An experiment that takes a second: a few digits, two SGD solvers, three iterations."""

from dataclasses import replace

from tikhonet.data import load
from tikhonet.paper.experiment import find_experiment
from tikhonet.paper.hashing_experiment import HashSize
from tikhonet.paper.labelled_images import Images, read_database, read_images
from tikhonet.paper.mnist_experiment import MnistSize
from tikhonet.paper.sparse_experiment import SparseSize

MNIST, SPARSE, HASHING = map(find_experiment, ("mnist", "sparse", "hashing"))

TINY = MnistSize(
    "tiny",
    rows=80,
    iterations={"alg1": 4, "alg1-s": 4, "proximal": 4, "proximal-s": 4},
    stochastic={"epochs": 2, "batch_size": 50},
    epochs=2,
    rates={"SGD": (0.01, 32), "Adam": (1e-3, 32)},
    threads=1,
    shorter=(1,),
    budgets=(10.0,),
    certified={"ridge_V": 0.01, "ridge_W": 0.002, "max_iter": 3},
)

TINY_SPARSE = SparseSize(
    "tiny",
    shares=(10.0, 2.42),
    radii=(1.0,),
    dense={"epochs": 2, "batch_size": 50},
    sparse={"epochs": 3, "batch_size": 30},
    ball={"epochs": 2, "batch_size": 50},
    adam={"rate": 1e-3, "batch_size": 32, "epochs": 3},
    pruned={"rate": 1e-3, "batch_size": 32, "epochs": 3},
    certified=80,
    threads=1,
)


def few_digits(train=150, test=60):
    data = read_images("digits")
    parts = data.X_train[:train], data.y_train[:train], data.X_test[:test], data.y_test[:test]
    return Images(*parts, "digits", data.shape, data.labels)


TINY_HASHING = HashSize(
    "tiny",
    bits=(8, 16),
    hasher={"max_iter": 12, "batch_size": 50, "dropout": 0.0},
    classifier={"max_iter": 3, "batch_size": 50, "dropout": 0.0},
    adam={"rate": 3e-3, "batch_size": 32, "epochs": 2},
    split={"epochs": 2},
    threads=1,
)


def small_database(size=150, queries=40):
    """Some digits, and networks of four layers."""
    data = read_database("digits", load)
    return replace(
        data,
        X=data.X[:size],
        y=data.y[:size],
        images=data.images[:size],
        X_query=data.X_query[:queries],
        y_query=data.y_query[:queries],
        query_images=data.query_images[:queries],
        hidden=(16,) * 4,
    )
