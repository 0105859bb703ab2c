"""The rows that are held out of training, to stop and to choose the head's strength by."""

from __future__ import annotations

import math

import numpy as np

from tikhonet.estimators.parameters import Parameters
from tikhonet.estimators.rows import Mask, Rows

HOLD_OUT_FROM = 100
"""Fewer rows are all trained on: what could be held out of them would tell nothing."""


def rows_held_out(parameters: Parameters, rows: int, count: int) -> int:
    """How many of so many rows (of `count` on all machines) are held out, to stop and to choose the strength by."""
    wanted = count >= HOLD_OUT_FROM if parameters.early_stopping == "auto" else parameters.early_stopping
    return max(0, min(round(parameters.validation_fraction * rows), rows - 1)) if wanted else 0


def hold_out(parameters: Parameters, rows: Rows, seed: int, count: int, most: float = math.inf) -> Mask:
    """The rows that are held out, at most so many, drawn evenly over the targets."""
    held = np.zeros(len(rows), bool)
    if chosen := int(min(most, rows_held_out(parameters, len(rows), count))):
        order = np.random.default_rng(seed).permutation(len(rows))
        order = order[np.argsort(rows.Y[order, 0], kind="stable")]
        held[order[((np.arange(chosen) + 0.5) * len(rows) / chosen).astype(int)]] = True
    return held
