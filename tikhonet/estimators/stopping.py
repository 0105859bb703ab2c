"""Training that stopped short, or had nothing to learn: what users are told, and what to do about it."""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning

from tikhonet.descent.result import Status
from tikhonet.estimators.callbacks import users_level
from tikhonet.estimators.parameters import Parameters
from tikhonet.estimators.solvers import Trained

FEW_STEPS = 50
CONSTANT = "all features of X are constant, so that every row gets the same prediction; look how X is made"

REMEDIES = {
    Status.MAX_ITER: "raise max_iter, or fit again with warm_start=True to go on",
    Status.SCHEDULE_EXHAUSTED: 'use solver="proximal" or "stochastic"; the steps 1/t^2 of "alg1" run out',
    Status.STALLED: 'use dtype="float64"; the steps are lost in rounding',
    Status.NONFINITE: 'use dtype="float64", or look for extreme values in X, y or sample_weight',
    Status.INTERRUPTED: "the last finished epoch is used, with held-out rows the best one; "
    "fit again with warm_start=True to go on",
}


class StoppedShort(ConvergenceWarning):
    """Training ended before it should; `remedy` is the part of the message that says what to do."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


def warn_if_short(parameters: Parameters, trained: Trained, asked: bool, varies: bool) -> None:
    """Say so, with a remedy, where training stopped short and no callback asked for it, or had nothing to learn."""
    status, remedy = trained.status, REMEDIES.get(trained.status)
    if not varies:
        warnings.warn(CONSTANT, stacklevel=users_level())
        return
    if trained.state and status is Status.FINISHED and trained.state.step < FEW_STEPS:
        remedy = f"raise max_iter: {trained.iterations} epochs were only {trained.state.step} mini-batch steps"
    if remedy and not (asked and status is Status.INTERRUPTED):
        name = type(parameters).__name__
        text = f"{name} stopped short after {trained.iterations} iterations ({status.name}): {remedy}"
        warnings.warn(StoppedShort(text, remedy), stacklevel=users_level())
