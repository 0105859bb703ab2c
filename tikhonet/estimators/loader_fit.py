"""Fits of the batches that a torch `DataLoader` gives, anew at every epoch: its images may be changed at random.

A first pass finds labels and the scaling; each epoch of training is a pass; and one more gives the rows that the head
is fitted on. Nothing is held out, since rows that come in another order, and changed, cannot be told apart. The seed of
the fit is that of torch's random numbers in each pass, so that a fit that was killed goes on with the same batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from tikhonet.estimators.checks import check_magnitude
from tikhonet.estimators.fitting import Fitted, Plan, draw_seed, set_up, started, warm_start
from tikhonet.estimators.large_rows import Keys, Moments
from tikhonet.estimators.networks import flat_rows, with_shape
from tikhonet.estimators.parameters import build_problem
from tikhonet.estimators.rows import Floats, Rows, fingerprint, in_order, joined
from tikhonet.estimators.sessions import session_of
from tikhonet.estimators.tabular import Inputs
from tikhonet.estimators.targets import Target
from tikhonet.model.scaling import Scaling
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.ranks import current_reduce
from tikhonet.problem.samples import rank_of
from tikhonet.trainer.batches import seeded

MOST = 2**28
"""Numbers of the rows that the head is fitted on, at most: those of 80,000 colour images of 32 x 32 pixels."""
PLAIN: dict[str, tuple[Any, ...]] = {
    "solver": ("stochastic",),
    "batch_size": ("auto",),
    "early_stopping": ("auto", False),
    "memory_budget": (None,),
    "n_networks": ("auto", 1),
    "n_bins": ("auto", 0),
    "monotonic_cst": (None,),
    "categorical_features": ("from_dtype", None),
}
"""What parameters may be beside a DataLoader."""
Labels = NDArray[Any]


@dataclass
class Loaded:
    """The batches of a loader as flat rows and labels, each of them checked; the first says the shape of images."""

    estimator: Any
    loader: DataLoader[Any]
    name: str = "X"

    def __iter__(self) -> Iterator[tuple[Floats, Labels]]:
        width = None
        for number, batch in enumerate(self.loader):
            if not isinstance(batch, (tuple, list)) or len(batch) != 2:
                raise self.refused(f"must give batches (X, y), got {type(batch).__name__}", number)
            X, y = np.asarray(batch[0]), np.asarray(batch[1])
            self.estimator = with_shape(self.estimator, X)
            X = flat_rows(self.estimator, X, self.name)
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

    def gathered(self, most: float = np.inf, seed: int = 0) -> tuple[Floats, Labels]:
        """The rows of a pass in memory, up to so many numbers, and their labels; the seed is of its random numbers."""
        parts, size = [], 0
        for X, y in seeded(self, seed):
            parts.append((X, y))
            size += X.size
            if size >= most:
                break
        X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        return X, y


@dataclass(frozen=True)
class Reading:
    """How the rows of a loader become numbers: scaled inputs, labels as their target has them, weights by class."""

    scaling: Scaling
    target: Target
    weighed: Callable[[Rows], Rows]
    kind: str

    def __call__(self, X: Floats, y: Labels, name: str = "y") -> Rows:
        Y = self.target.in_numbers(y, name)
        return self.weighed(Rows(self.scaling(X.astype(np.float64), self.kind), Y, np.ones(len(Y))))


@dataclass(frozen=True)
class Encoded:
    """The batches of a loader as the trainer takes them: scaled inputs, encoded targets and weights."""

    batches: Loaded
    read: Reading
    encode: Callable[[Floats], Tensor]
    device: torch.device | str

    def __len__(self) -> int:
        return len(self.batches.loader)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        for batch in self.batches:
            rows = self.read(*batch)
            uneven = (rows.weight != 1).any()
            yield torch.from_numpy(rows.X), self.encode(rows.Y), *([torch.from_numpy(rows.weight)] if uneven else [])

    @property
    def dtype(self) -> torch.dtype:
        return torch.from_numpy(np.empty(0, self.read.kind)).dtype


@dataclass(frozen=True)
class LoaderRows(Rows):
    """The rows of a loader, of which labels, weights and fingerprints alone are known; `X` says how wide they are."""

    batches: Callable[..., Encoded]
    known: Keys

    def tensors(self, encode: Callable[[Floats], Tensor], device: torch.device | str) -> tuple[Any, Any, Tensor]:
        return self.batches(encode, device), None, torch.ones(1)

    def keys(self) -> Keys:
        return self.known


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
    """What a first pass over a loader found: the labels, 64 bits of each row, moments of the columns, a batch's rows.

    Torch's random numbers are the same in each first pass, so that a fit that goes on finds what it found before.
    """

    labels: Labels
    keys: Keys
    moments: Moments
    batch: int

    @classmethod
    def of(cls, batches: Loaded) -> Survey:
        labels, keys, moments = [], [], None
        for X, y in seeded(batches, 0):
            moments = moments or Moments.none(X.shape[1])
            moments.add(X.astype(np.float64), np.ones(len(X)))
            keys.append(fingerprint(X.astype(np.float64)))
            labels.append(y)
        assert moments is not None
        return cls(np.concatenate(labels), np.concatenate(keys), moments, max(map(len, labels)))


def check_repeatable(batches: Loaded) -> None:
    """Raise where the first batch is another one with the same random numbers: no fit could go on with such."""
    first, again = (next(seeded(batches, 0))[0] for _ in range(2))
    if not np.array_equal(first, again):
        raise ArgumentError(
            "checkpoint",
            "checkpoint must be None where X gives other batches for the same torch.manual_seed, got a folder; draw "
            "its order and its changes by torch's own random numbers, without a generator",
        )


def fit_loader(
    estimator: Any,
    loader: DataLoader[Any],
    y: Any,
    sample_weight: Any,
    X_val: Any = None,
    y_val: Any = None,
    eval_set: Any = None,
) -> tuple[Fitted, Inputs]:
    """Train on the batches of a loader, then the head on the rows of one pass; also what was seen of the columns."""
    check_allowed(estimator, y, sample_weight)
    batches = Loaded(estimator, loader)
    if estimator.checkpoint is not None:
        check_repeatable(batches)
    survey = Survey.of(batches)
    inputs, parameters = Inputs(batches.estimator), copy(batches.estimator)
    parameters.batch_size, width = survey.batch, len(survey.moments.mean)
    inputs.begin_anew()
    inputs.seen.n_features_in_ = width
    warm = warm_start(parameters, estimator._last, width)
    warm = None if warm and warm.model.columns else warm
    scaling = warm.model.scaling if warm else survey.moments.scaling(parameters._network(width).shapes[0])
    rows, read, unit = surveyed(parameters, batches, survey, scaling)
    if is_loader(X_val) and y_val is None:
        X_val, y_val = Loaded(parameters, X_val, "X_val").gathered()
    several = {"multi_output": np.ndim(survey.labels) > 1}
    held_out = [in_order(read(*part)) for part in inputs.validation(X_val, y_val, eval_set, **several)]
    with (
        set_up(parameters, rows, read.target) as network,
        session_of(parameters, rows, held_out, warm.model if warm else None) as session,
    ):
        seed = session.seed(lambda: draw_seed(parameters))
        target = read.target.started(rows, seed, warm.target if warm else None)
        problem = build_problem(parameters, network, target.loss, float(len(rows)))
        plan = Plan(parameters, problem, target, scaling, seed, unit=unit, session=session)
        trained = plan.train(rows, held_out, start=started(warm, target, network))
        some = in_order(read(*batches.gathered(MOST, seed)))
        both = joined(some, held_out[-1]) if held_out else some
        judge = np.arange(len(both)) >= len(some)
        strength, target = plan.judge(trained, both, judge, ~judge)
        return replace(plan, target=target).finish(trained, some, strength), inputs


def surveyed(parameters: Any, batches: Loaded, survey: Survey, scaling: Scaling) -> tuple[LoaderRows, Reading, float]:
    """The rows that a survey found, how to read them in units of their mean weight, and this mean."""
    target, count = parameters._target_of(survey.labels), len(survey.labels)
    rows = Rows(np.broadcast_to(0.0, (count, len(scaling.shift))), target.in_numbers(survey.labels), np.ones(count))
    weighed = parameters._weigher(target, rows)
    rows = weighed(rows)
    unit = rows.mean_weight()
    read = Reading(scaling, target, lambda some: weighed(some).weighed_in(unit), parameters.dtype)
    X, Y, weight = rows.X, rows.Y, rows.weight / unit
    return LoaderRows(X, Y, weight, partial(Encoded, batches, read), survey.keys), read, unit
