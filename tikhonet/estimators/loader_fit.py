"""Fits of the batches that a torch `DataLoader` gives, anew at every epoch: its images may be changed at random.

A first pass finds labels and the scaling; each epoch of training is a pass; and one more gives the rows that the head
is fitted on. Nothing is held out, since rows that come in another order, and changed, cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from tikhonet.estimators.checks import check_magnitude
from tikhonet.estimators.fitting import Fitted, Plan, draw_seed, set_up
from tikhonet.estimators.large_rows import Moments
from tikhonet.estimators.networks import flat_rows
from tikhonet.estimators.parameters import build_problem
from tikhonet.estimators.rows import Floats, Rows, in_order, joined
from tikhonet.estimators.tabular import Inputs
from tikhonet.model.scaling import Scaling
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.ranks import current_reduce
from tikhonet.problem.samples import rank_of

MOST = 2**28
"""Numbers of the rows that the head is fitted on, at most: those of 80,000 colour images of 32 x 32 pixels."""
PLAIN: dict[str, tuple[Any, ...]] = {
    "solver": ("stochastic",),
    "batch_size": ("auto",),
    "early_stopping": ("auto", False),
    "warm_start": (False,),
    "checkpoint": (None,),
    "memory_budget": (None,),
    "n_networks": ("auto", 1),
    "n_bins": ("auto", 0),
    "class_weight": (None,),
    "monotonic_cst": (None,),
    "categorical_features": ("from_dtype", None),
}
"""What parameters may be beside a DataLoader."""
Labels = NDArray[Any]


@dataclass(frozen=True)
class Loaded:
    """The batches of a loader as flat rows and labels, each of them checked."""

    estimator: Any
    loader: DataLoader[Any]
    name: str = "X"

    def __iter__(self) -> Iterator[tuple[Floats, Labels]]:
        width = None
        for number, batch in enumerate(self.loader):
            if not isinstance(batch, (tuple, list)) or len(batch) != 2:
                raise self.refused(f"must give batches (X, y), got {type(batch).__name__}", number)
            X = np.asarray(flat_rows(self.estimator, np.asarray(batch[0]), self.name))
            y = np.asarray(batch[1])
            if X.ndim != 2 or X.dtype.kind not in "buif" or X.shape[1] != (width or X.shape[1]):
                raise self.refused(f"must hold numbers with {width or 'some'} columns, got {X.dtype} {X.shape}", number)
            if len(y) != len(X):
                raise self.refused(f"must have a label for each row, got {len(y)} for {len(X)}", number)
            if not np.isfinite(X).all():
                raise self.refused("must hold finite numbers, got NaN or infinity", number)
            check_magnitude(self.name, X)
            width = X.shape[1]
            yield X, y
        if width is None:
            raise ArgumentError(self.name, f"{self.name} must give at least one batch, got none")

    def refused(self, what: str, number: int) -> ArgumentError:
        return ArgumentError(self.name, f"{self.name} {what} in batch {number}; see the `Dataset` of the loader")

    def gathered(self, most: float = np.inf) -> tuple[Floats, Labels]:
        """The rows of a pass in memory, up to so many numbers, and their labels."""
        parts, size = [], 0
        for X, y in self:
            parts.append((X, y))
            size += X.size
            if size >= most:
                break
        X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        return X, y


@dataclass(frozen=True)
class Scaled:
    """The batches of a loader as the trainer takes them: scaled inputs and encoded targets."""

    batches: Loaded
    scaling: Scaling
    numbers: Callable[[Labels], Floats]
    kind: str
    encode: Callable[[Floats], Tensor]
    device: torch.device | str

    def __len__(self) -> int:
        return len(self.batches.loader)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for X, y in self.batches:
            yield torch.from_numpy(self.scaling(X.astype(np.float64), self.kind)), self.encode(self.numbers(y))

    @property
    def dtype(self) -> torch.dtype:
        return torch.from_numpy(np.empty(0, self.kind)).dtype


@dataclass(frozen=True)
class LoaderRows(Rows):
    """The rows of a loader, of which labels alone are known; `X` says how many and how wide they are."""

    batches: Callable[..., Scaled]

    def tensors(self, encode: Callable[[Floats], Tensor], device: torch.device | str) -> tuple[Any, Any, Tensor]:
        return self.batches(encode, device), None, torch.ones(1)


def is_loader(X: Any) -> bool:
    return isinstance(X, DataLoader)


def check_allowed(estimator: Any, y: Any, sample_weight: Any) -> None:
    """Raise where something is asked for that a loader cannot give."""
    if y is not None or sample_weight is not None:
        raise ArgumentError(
            "y",
            "y and sample_weight must be None where X is a DataLoader, whose batches are (X, y); for weights, give it "
            "a WeightedRandomSampler",
        )
    for name, allowed in PLAIN.items():
        given = getattr(estimator, name, allowed[0])
        if not any(given is one or (isinstance(given, (str, int)) and given == one) for one in allowed):
            raise ArgumentError(
                name, f"{name} must be {allowed[0]!r} where X is a DataLoader, got {given!r}; or give arrays X and y"
            )
    if rank_of(current_reduce())[1] > 1:
        raise ArgumentError("X", "X must be the arrays of each rank in a run on several, got a DataLoader")


@dataclass(frozen=True)
class Survey:
    """What a first pass over a loader found: the labels, the moments of the columns, and the rows of a batch."""

    labels: Labels
    moments: Moments
    batch: int

    @classmethod
    def of(cls, batches: Loaded) -> Survey:
        labels, moments = [], None
        for X, y in batches:
            moments = moments or Moments.none(X.shape[1])
            moments.add(X.astype(np.float64), np.ones(len(X)))
            labels.append(y)
        assert moments is not None
        return cls(np.concatenate(labels), moments, max(map(len, labels)))


def fit_loader(
    estimator: Any, loader: DataLoader[Any], y: Any, sample_weight: Any, X_val: Any, y_val: Any, eval_set: Any
) -> tuple[Fitted, Inputs]:
    """Train on the batches of a loader, then the head on the rows of one pass; also what was seen of the columns."""
    check_allowed(estimator, y, sample_weight)
    batches = Loaded(estimator, loader)
    survey, inputs, parameters = Survey.of(batches), Inputs(estimator), copy(estimator)
    parameters.batch_size, width = survey.batch, len(survey.moments.mean)
    inputs.columns, inputs.last, inputs.seen.n_features_in_ = None, None, width
    vars(inputs.seen).pop("feature_names_in_", None)
    target, Y, weight = estimator._large_target(survey.labels, np.ones(len(survey.labels)))
    scaling = survey.moments.scaling(parameters._network(width).shapes[0])
    rows = LoaderRows(
        np.broadcast_to(0.0, (len(Y), width)),
        Y,
        weight,
        lambda *place: Scaled(batches, scaling, target.in_numbers, parameters.dtype, *place),
    )

    def in_memory(X: Floats, y: Labels, name: str = "y") -> Rows:
        return in_order(
            Rows(scaling(X.astype(np.float64), parameters.dtype), target.in_numbers(y, name), np.ones(len(y)))
        )

    if is_loader(X_val) and y_val is None:
        X_val, y_val = Loaded(estimator, X_val, "X_val").gathered()
    held_out = [in_memory(*part) for part in inputs.validation(X_val, y_val, eval_set)]
    with set_up(parameters, rows, target) as network:
        seed = draw_seed(parameters)
        problem = build_problem(parameters, network, target.loss, float(len(rows)))
        plan = Plan(parameters, problem, target.started(rows, seed, None), scaling, seed)
        trained = plan.train(rows, held_out)
        some = in_memory(*batches.gathered(MOST))
        both = joined(some, held_out[-1]) if held_out else some
        judge = np.arange(len(both)) >= len(some)
        strength, target = plan.judge(trained, both, judge, ~judge)
        return replace(plan, target=target).finish(trained, some, strength), inputs
