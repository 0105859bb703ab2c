"""The models of the benchmark of tables, each with its defaults, one thread, and the columns as its manual wants them.

All get the same DataFrame of numbers, categories and dates, missing values in it. BCD takes it as it is. For the others
a date is its year, day of the year, weekday and hour. LightGBM, XGBoost and HistGradientBoosting then take missing
values and the type `category`; CatBoost is told the categories, a missing one is a word of its own; RealMLP takes
categories, but no missing numbers; MLP and the linear models get numbers only: medians and indicators in place of
missing ones, standardised, and an input for each category. MLPRegressor learns a standardised target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from tikhonet.estimators import BCDClassifier, BCDRegressor

CATEGORIES = make_column_selector(dtype_include="category")
NUMBERS = make_column_selector(dtype_exclude="category")


def without_dates(X: pd.DataFrame) -> pd.DataFrame:
    columns = {}
    for name, column in X.items():
        if column.dtype.kind == "M":
            parts = {"year": column.dt.year, "day": column.dt.dayofyear, "weekday": column.dt.weekday}
            parts["hour"] = column.dt.hour + column.dt.minute / 60
            columns |= {f"{name} {part}": values.astype(float) for part, values in parts.items()}
        else:
            columns[name] = column
    return pd.DataFrame(columns)


def missing_as_word(X: pd.DataFrame) -> pd.DataFrame:
    return X.assign(**{name: X[name].astype(object).fillna("missing").astype(str) for name in CATEGORIES(X)})


def filled() -> Any:
    """Medians in place of missing numbers, and an indicator for each column that has some."""
    return SimpleImputer(strategy="median", add_indicator=True)


def inputs() -> Any:
    """Numbers only, standardised."""
    words = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer((make_pipeline(filled(), StandardScaler()), NUMBERS), (words, CATEGORIES))


def lightgbm(task: str, seed: int) -> Any:
    from lightgbm import LGBMClassifier, LGBMRegressor

    return (LGBMClassifier if task == "classes" else LGBMRegressor)(n_jobs=1, random_state=seed, verbose=-1)


def xgboost(task: str, seed: int) -> Any:
    from xgboost import XGBClassifier, XGBRegressor

    kind = XGBClassifier if task == "classes" else XGBRegressor
    return kind(n_jobs=1, random_state=seed, enable_categorical=True)


def boosting(task: str, seed: int) -> Any:
    return (HistGradientBoostingClassifier if task == "classes" else HistGradientBoostingRegressor)(random_state=seed)


class CatBoost(BaseEstimator):
    """CatBoost is told at `fit` which columns are categories."""

    def __init__(self, task: str, seed: int) -> None:
        self.task, self.seed = task, seed

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> CatBoost:
        from catboost import CatBoostClassifier, CatBoostRegressor

        kind = CatBoostClassifier if self.task == "classes" else CatBoostRegressor
        self.model_ = kind(thread_count=1, random_seed=self.seed, verbose=False, allow_writing_files=False)
        self.model_.fit(missing_as_word(X), y, cat_features=CATEGORIES(X))
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return self.model_.predict(missing_as_word(X))

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        return self.model_.predict_proba(missing_as_word(X))


def realmlp(task: str, seed: int) -> Any:
    from pytabkit import RealMLP_TD_S_Classifier, RealMLP_TD_S_Regressor

    kind = RealMLP_TD_S_Classifier if task == "classes" else RealMLP_TD_S_Regressor
    numbers = make_column_transformer((filled(), NUMBERS), remainder="passthrough", verbose_feature_names_out=False)
    model = kind(device="cpu", n_threads=1, random_state=seed, verbosity=0)
    return make_pipeline(numbers.set_output(transform="pandas"), model)


def mlp(task: str, seed: int) -> Any:
    if task == "classes":
        return make_pipeline(inputs(), MLPClassifier(random_state=seed))
    return make_pipeline(
        inputs(), TransformedTargetRegressor(MLPRegressor(random_state=seed), transformer=StandardScaler())
    )


def linear(task: str, seed: int) -> Any:
    del seed
    return make_pipeline(
        inputs(), LogisticRegression(max_iter=1000) if task == "classes" else RidgeCV(np.logspace(-3, 3, 13))
    )


def bcd(task: str, seed: int) -> Any:
    return (BCDClassifier if task == "classes" else BCDRegressor)(random_state=seed)


def dated(make: Callable[[str, int], Any]) -> Callable[[str, int], Any]:
    return lambda task, seed: make_pipeline(FunctionTransformer(without_dates), make(task, seed))


MODELS: dict[str, tuple[Callable[[str, int], Any], str]] = {
    "BCD": (bcd, "tikhonet"),
    "LightGBM": (dated(lightgbm), "lightgbm"),
    "XGBoost": (dated(xgboost), "xgboost-cpu"),
    "HistGradientBoosting": (dated(boosting), "scikit-learn"),
    "CatBoost": (dated(CatBoost), "catboost"),
    "RealMLP_TD_S": (dated(realmlp), "pytabkit"),
    "MLP": (dated(mlp), "scikit-learn"),
    "linear": (dated(linear), "scikit-learn"),
}
"""How to make each model for a task and a seed, and the package whose version counts."""
