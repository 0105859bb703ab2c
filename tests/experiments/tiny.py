"""An experiment that takes a second: a few digits, two SGD solvers, three iterations."""

from tikhonet.experiments import Images, Size, digits

TINY = Size(
    "tiny",
    rows=80,
    iterations={"alg1": 4, "alg1-s": 4, "proximal": 4, "proximal-s": 4},
    stochastic={"epochs": 2, "batch_size": 50},
    epochs=2,
    rates={"SGD": (0.01, 32), "Adam": (1e-3, 32)},
    threads=1,
)


def few_digits(train=150, test=60):
    data = digits()
    parts = data.X_train[:train], data.y_train[:train], data.X_test[:test], data.y_test[:test]
    return Images(*parts, "digits", data.shape, data.labels)
