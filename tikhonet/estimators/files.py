"""Estimators as model files: their plain parameters in the header, everything learned as tensors."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import torch

from tikhonet.descent.result import Status
from tikhonet.estimators.callbacks import users_level
from tikhonet.estimators.fitting import Fitted, cause_of_zeros
from tikhonet.estimators.parameters import MOST_CUT, build_problem
from tikhonet.model import storage
from tikhonet.model.model_file import (
    columns_from_header,
    model_from_tensors,
    model_tensors,
    network_from_header,
    network_header,
)
from tikhonet.model.reading import ModelFormatError, refusing
from tikhonet.network.activation import Activation
from tikhonet.network.graph import Network
from tikhonet.problem.sets import ConvexSet
from tikhonet.trainer.sparsity.zeros import Kind

Path = str | os.PathLike[str]
NAMES = ("BCDClassifier", "BCDRegressor", "BCDFeatures", "BCDHasher")
OF_THE_FIT = ("checkpoint", "memory_budget")
"""Parameters of one fit on one machine, which a model is no other for."""


def save_estimator(estimator: Any, path: Path, fitted: Fitted) -> None:
    """Write the model, the parameters that are plain numbers, words, lists and dicts, and what the target learned.

    Objects among the parameters (a loss, a head, callbacks) are left out, but for the network and for sets that have
    a name: the loaded estimator predicts the same and has the default in their place.
    """
    estimator._check_savable()
    model = fitted.model
    given = estimator.get_params(deep=False) | named_set(estimator.constraint)
    parameters = {name: plain(value) for name, value in given.items() if is_plain(value) and name not in OF_THE_FIT}
    header = {
        "estimator": type(estimator).__name__,
        "parameters": parameters,
        "own_network": isinstance(estimator.network, Network),
        "network": network_header(model.network),
        "columns": None if model.columns is None else model.columns.as_list(),
        "n_iter": fitted.iterations,
        "status": fitted.status.name,
        "sparsity": fitted.zeros,
        "label": getattr(estimator, "label_name_", None),
        "importances": [] if (shares := importances_to_keep(estimator, fitted)) is None else shares.tolist(),
        "feature_names": list(getattr(estimator, "feature_names_in_", ())),
        "fitted": estimator._target_to_file(fitted.target),
    }
    storage.save(path, header, model_tensors(model.checked()))


def load_estimator(cls: type, path: Path) -> Any:
    """A new estimator of this class from a file of its own."""
    header, tensors = storage.load(path)
    if header.get("estimator") != cls.__name__:
        name = str(header.get("estimator"))[:80]
        remedy = f"; use {name}.load" if name in NAMES else ""
        raise ModelFormatError(f"{path} must hold a {cls.__name__}, got {name!r}{remedy}")
    with refusing(f"{path} does not hold a whole {cls.__name__}", "save it again"):
        network = network_from_header(header["network"])
        model = model_from_tensors(network, tensors, columns_from_header(header.get("columns"), network))
        estimator = cls(**{name: from_plain(value) for name, value in dict(header["parameters"]).items()})
        if header["own_network"]:
            estimator.network = network
        elif network.activation != Activation.named(estimator.activation):
            estimator.activation = network.activation  # an object, which was left out
        estimator._validate_params()
        torch.device(estimator.device)  # raises where no machine has such a one
        target = estimator._target_from_file(dict(header["fitted"]), model)
        zeros = header.get("sparsity")
        if not zeros:
            zeros = cause_of_zeros(estimator, build_problem(estimator, network, target.loss, 1.0), model)
        model = replace(model, **target.in_model()).checked()
        fitted = Fitted(model, target, read_cause(zeros), whole(header["n_iter"]), Status[header["status"]])
        estimator.n_features_in_ = width = network.widths[0] if model.columns is None else len(model.columns.columns)
        estimator._fitted = replace(fitted, importances=read_shares(header.get("importances"), width))
        if label := header.get("label"):
            estimator.label_name_ = str(label)
        if names := list(header["feature_names"]):
            if len(names) != width or not all(isinstance(name, str) for name in names):
                raise ValueError(f"feature_names must be {width} texts or none, got {len(names)}")
            estimator.feature_names_in_ = np.array(names, dtype=object)
        return estimator


def named_set(constraint: Any) -> dict[str, Any]:
    """The parameters that say the same as a set that is an object, where any do."""
    if constraint is None or isinstance(constraint, str):
        return {}
    if constraint.everything:
        return {"constraint": None}
    if type(constraint) in ConvexSet.kinds.values() and set(vars(constraint)) <= {"radius"}:
        return {"constraint": constraint.name, **{name: float(value) for name, value in vars(constraint).items()}}
    warnings.warn(
        f"constraint={constraint!r} is not kept in the model file, since it has no name: the loaded model predicts the "
        "same, but is fitted again without a set",
        stacklevel=users_level(),
    )
    return {}


def whole(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 2**63:
        raise ValueError(f"n_iter must be a whole number, got {str(number)[:80]}")
    return number


def importances_to_keep(estimator: Any, fitted: Fitted) -> Any:
    """The importances, where they were asked for before or are a matter of a moment: of a table, not of pixels."""
    if fitted.importances is not None or fitted.memory.rows is None or estimator.n_features_in_ > MOST_CUT:
        return fitted.importances
    return estimator.feature_importances_


def read_shares(found: Any, width: int) -> Any:
    """The importances of so many columns; None where there are none, as in older files."""
    if not found:
        return None
    shares = np.array(found, np.float64)
    if shares.shape != (width,) or not np.isfinite(shares).all() or (shares < 0).any():
        raise ValueError(f"importances must be {width} numbers that are not negative")
    return shares


def read_cause(found: dict[str, Any]) -> dict[str, Any]:
    if set(found) != {"kind", "asked", "over"} or found["kind"] not in get_args(Kind):
        raise ModelFormatError(f"sparsity must say what made zeros in the fit, got {str(found)[:80]}")
    return dict(found)


def is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(is_plain(part) for pair in value.items() for part in pair)
    if isinstance(value, np.ndarray):
        return is_plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return all(is_plain(part) for part in value)
    return value is None or isinstance(value, (bool, int, float, str, np.bool_, np.integer, np.floating))


def plain(value: Any) -> Any:
    """A plain value as JSON knows it; a dict as pairs, because JSON makes strings of its keys."""
    if isinstance(value, dict):
        return {"pairs": [[plain(key), plain(part)] for key, part in value.items()]}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def from_plain(value: Any) -> Any:
    return dict(value["pairs"]) if isinstance(value, dict) else value
