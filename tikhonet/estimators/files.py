"""Estimators as model files: their plain parameters in the header, everything learned as tensors."""

from __future__ import annotations

import os
import warnings
from typing import Any, get_args

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tikhonet.descent.result import Status
from tikhonet.estimators.parameters import SETS
from tikhonet.estimators.training import cause_of_zeros
from tikhonet.estimators.warned import users_level
from tikhonet.model import storage
from tikhonet.model.model import Model
from tikhonet.model.model_file import model_from_tensors, model_tensors, network_from_header, network_header
from tikhonet.model.storage import ModelFormatError
from tikhonet.problem.sets import Everything, NonNegative
from tikhonet.trainer.sparsity.zeros import Kind

Path = str | os.PathLike[str]
NAMES = ("BCDClassifier", "BCDRegressor", "BCDFeatures", "BCDHasher")


class NotInFile:
    """An attribute that `fit` sets and a model file does not keep; this is found where it was not set."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: Any, owner: type) -> Any:
        if estimator is None:
            return self
        check_is_fitted(estimator, "network_")
        raise AttributeError(f"{self.name} is not kept in a model file; fit again to have it")


def save_estimator(estimator: Any, path: Path, fitted: dict[str, Any]) -> None:
    """Write the model, the parameters that are plain numbers, words, lists and dicts, and `fitted`.

    Objects among the parameters (a loss, a head, callbacks) are left out, but for the network and for sets that have
    a name: the loaded estimator predicts the same and has the default in their place.
    """
    model: Model = estimator._model
    given = estimator.get_params(deep=False) | named_set(estimator.constraint)
    parameters = {name: plain(value) for name, value in given.items() if is_plain(value)}
    header = {
        "estimator": type(estimator).__name__,
        "parameters": parameters,
        "own_network": estimator.network is not None,
        "network": network_header(model.network),
        "n_iter": estimator.n_iter_,
        "status": estimator.status_.name,
        "sparsity": estimator._cause_of_zeros,
        "feature_names": list(getattr(estimator, "feature_names_in_", ())),
        "fitted": fitted,
    }
    storage.save(path, header, model_tensors(model))


def load_estimator(cls: type, path: Path) -> tuple[Any, dict[str, Any]]:
    """A new estimator of this class from a file of its own, and the `fitted` part of the header."""
    header, tensors = storage.load(path)
    if header.get("estimator") != cls.__name__:
        name = str(header.get("estimator"))[:80]
        remedy = f"; use {name}.load" if name in NAMES else ""
        raise ModelFormatError(f"{path} must hold a {cls.__name__}, got {name!r}{remedy}")
    try:
        network = network_from_header(header["network"])
        model = model_from_tensors(network, tensors)
        estimator = cls(**{name: from_plain(value) for name, value in dict(header["parameters"]).items()})
        if header["own_network"]:
            estimator.network = network
        estimator._validate_params()
        estimator._model, estimator.network_ = model, network
        estimator.n_features_in_ = network.widths[0]
        estimator.n_iter_, estimator.status_ = int(header["n_iter"]), Status[header["status"]]
        known = header.get("sparsity") or cause_of_zeros(estimator, model)
        estimator._cause_of_zeros = read_cause(known)
        if names := [str(name) for name in header["feature_names"]]:
            estimator.feature_names_in_ = np.array(names, dtype=object)
        return estimator, dict(header["fitted"])
    except ModelFormatError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFormatError(f"{path} does not hold a whole {cls.__name__}: {error}; save it again") from None


def named_set(constraint: Any) -> dict[str, Any]:
    """The parameters that say the same as a set that is an object, where any do."""
    if constraint is None or isinstance(constraint, str):
        return {}
    if type(constraint) is Everything:
        return {"constraint": None}
    if type(constraint) is NonNegative:
        return {"constraint": "nonnegative"}
    for name, kind in SETS.items():
        if type(constraint) is kind:
            return {"constraint": name, "radius": float(constraint.radius)}  # type: ignore[attr-defined]
    warnings.warn(
        f"constraint={constraint!r} is not kept in the model file, since it has no name: the loaded model predicts the "
        "same, but is fitted again without a set",
        stacklevel=users_level(),
    )
    return {}


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
    """The same as JSON knows it; a dict as pairs, because JSON makes strings of its keys."""
    if isinstance(value, dict):
        return {"pairs": [[plain(key), plain(part)] for key, part in value.items()]}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def from_plain(value: Any) -> Any:
    return dict(value["pairs"]) if isinstance(value, dict) else value
