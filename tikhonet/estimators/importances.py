"""How much each column of a table matters to what a model says: Sobol's total effects, without labels.

    effect_j = E |f(x) - f(x')|^2 / (2 Var f),    x' = x with column j taken from another row

f is probabilities, or numbers in units of their spread, and x a training row. Where columns are independent, it is the
share of the variance of f that column j has a part in, by itself or together with others (Jansen's estimator). All
inputs that a column becomes (its pieces, categories, indicator) change together. What a model says, not how good that
is: for the latter there is scikit-learn's `permutation_importance`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from tikhonet.estimators.rows import Floats, Rows
from tikhonet.model.model import Model

MOST = 1000
"""Rows that are enough: effects of a percent are then known to a tenth of it."""
WORK = 50_000
"""Predictions for all columns together, beyond which fewer rows have to do, at least `FEWEST`."""
FEWEST = 50
REPEATS = 5


def importances(model: Model, rows: Rows) -> Floats:
    """The effects of the columns, as shares that add up to 1; all zero where f does not depend on any."""
    owner = columns_of_inputs(model)
    columns = int(owner.max()) + 1
    count = min(len(rows), MOST, max(FEWEST, WORK // columns))  # rows come in an order that is as good as random
    X, share = rows.X[:count].astype(np.float64), rows.weight[:count] / rows.weight[:count].sum()
    said = predictions(model, X)
    spread = share @ np.square(said - share @ said)
    unit = spread.sum() if model.classes else np.where(spread > 0, spread, np.inf)
    effects = np.zeros(columns)
    repeats = max(1, min(REPEATS, count - 1, WORK // (columns * count)))
    for column in range(columns):
        places = np.flatnonzero(owner == column)
        for shift in range(1, repeats + 1):
            other = X.copy()
            other[:, places] = np.roll(X[:, places], shift, axis=0)
            effects[column] += (share @ np.square(predictions(model, other) - said) / unit).sum()
    return effects / (effects.sum() or 1.0)


def predictions(model: Model, scaled: Floats) -> Floats:
    """Probabilities of classes, else what the model gives, for scaled inputs."""
    scores = model.link(model.linear_head(model.scaled_features(scaled)))
    return softmax(model.sharpness * scores, axis=1) if model.classes else scores


def columns_of_inputs(model: Model) -> NDArray[np.int64]:
    """For each input of the network the column of the table that it is made of."""
    if model.columns is None:
        return np.arange(model.inputs)
    encoding = model.columns.encoding
    fields = np.concatenate([encoding.numbers, encoding.missing, encoding.pieces, encoding.coded])
    of_field = np.repeat(np.arange(len(model.columns.columns)), [len(one.fields()) for one in model.columns.columns])
    found: NDArray[np.int64] = of_field[fields]
    return found
