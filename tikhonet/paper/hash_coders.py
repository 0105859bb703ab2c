"""Ways to make codes, all with one call: rows and labels in, a function from rows to packed codes out.

The networks of all of them are the same, and see inputs in units of their own spread. Back-propagation and ADMM train
towards a codeword for each class, as `BCDHasher` does with codes="classes".
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from tikhonet.descent.result import Status
from tikhonet.estimators import BCDClassifier
from tikhonet.hashing.codes import Codes, pack
from tikhonet.hashing.codewords import codewords
from tikhonet.hashing.hasher import BCDHasher
from tikhonet.model.scaling import Scaling
from tikhonet.network.graph import Network
from tikhonet.paper.baselines.admm import ADMM
from tikhonet.paper.baselines.backprop import Backprop
from tikhonet.paper.baselines.classifier_hash import ClassifierHash
from tikhonet.paper.baselines.hash_base import Hash
from tikhonet.paper.experiment import Watch
from tikhonet.paper.network_trials import plain
from tikhonet.problem.lifts import Fenchel
from tikhonet.problem.objective import Problem

Rows = NDArray[Any]
CHUNK = 8192


@dataclass(frozen=True)
class Coder:
    """The outcome of training. `codes` is None where it diverged."""

    codes: Callable[[Rows], Codes] | None
    seconds: float
    passes: int = 0
    loss: tuple[float, ...] = ()
    status: str = "FITTED"
    message: str = "Fitted in closed form or by a fixed number of steps."
    checks: tuple[dict[str, Any], ...] = ()


class Way(Protocol):
    """A method of making codes of any length."""

    def train(self, X: Rows, y: Rows, n_bits: int, seed: int, watch: Watch) -> Coder: ...

    @property
    def steps(self) -> int:
        """Passes over the rows; `watch` hears of each."""

    def settings(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Hasher:
    """This library's `BCDHasher`; `parameters` are its own."""

    network: Network
    parameters: dict[str, Any]

    estimator: ClassVar[type[BCDHasher] | type[BCDClassifier]] = BCDHasher

    @property
    def steps(self) -> int:
        return int(self.parameters["max_iter"])

    def settings(self) -> dict[str, Any]:
        return {"estimator": self.estimator.__name__, "widths": shown(self.network), **plain(self.parameters)}

    def train(self, X: Rows, y: Rows, n_bits: int, seed: int, watch: Watch) -> Coder:
        heard = Heard(watch)
        model = BCDHasher(network=self.network, n_bits=n_bits, random_state=seed, callbacks=[heard], **self.parameters)
        seconds = fit(model, X, y)
        return estimated(model, by_chunks(model.transform), seconds, heard)


@dataclass(frozen=True)
class Classifier(Hasher):
    """A `BCDClassifier`; the code of a row is the codeword of its predicted class.

    One training serves codes of every length, so the last one is kept.
    """

    kept: list[tuple[int, Rows, BCDClassifier, float, Heard]] = field(default_factory=list, compare=False)

    estimator: ClassVar[type[BCDHasher] | type[BCDClassifier]] = BCDClassifier

    def train(self, X: Rows, y: Rows, n_bits: int, seed: int, watch: Watch) -> Coder:
        if not self.kept or self.kept[0][0] != seed or self.kept[0][1] is not X:
            heard = Heard(watch)
            model = BCDClassifier(network=self.network, random_state=seed, callbacks=[heard], **self.parameters)
            self.kept[:] = [(seed, X, model, fit(model, X, y), heard)]
        _, _, model, seconds, heard = self.kept[0]
        hashed = ClassifierHash(n_bits, model).assign(y, seed)
        return estimated(model, by_chunks(hashed.codes), seconds, heard)


@dataclass(frozen=True)
class Trained:
    """The network trained by back-propagation or by ADMM towards class codewords; bits are signs of its outputs."""

    network: Network
    solver: Backprop | ADMM

    @property
    def steps(self) -> int:
        return self.solver.epochs

    def settings(self) -> dict[str, Any]:
        return {"trained by": type(self.solver).__name__, "widths": shown(self.network), **plain(self.solver)}

    def train(self, X: Rows, y: Rows, n_bits: int, seed: int, watch: Watch) -> Coder:
        clock = time.perf_counter()
        scaling = Scaling.fit(X.astype(np.float64), np.ones(len(X)))
        inputs = scaled(scaling, X)
        classes, numbers = np.unique(y, return_inverse=True)
        words = codewords(len(classes), n_bits, seed)
        targets = torch.from_numpy(words[numbers].astype(np.float32))
        problem = Problem(self.network, lift=Fenchel())
        spent = time.perf_counter() - clock
        training = self.solver.run(problem, inputs, targets, seed=seed, watch=lambda epoch, _: watch(epoch.number))
        W, V = training.blocks.W, training.blocks.V

        def codes(rows: Rows) -> Codes:
            return pack((self.network.features(scaled(scaling, rows), W) @ V.T).numpy())

        diverged = training.status is Status.NONFINITE
        return Coder(
            None if diverged else by_chunks(codes),
            spent + sum(epoch.seconds for epoch in training.epochs),
            len(training.epochs),
            tuple(epoch.loss for epoch in training.epochs),
            training.status.name,
            training.message,
        )


@dataclass(frozen=True)
class Classical:
    """A method without a network: `make(n_bits)` gives it."""

    make: Callable[[int], Hash]

    steps = 1

    def settings(self) -> dict[str, Any]:
        example = self.make(8)
        numbers = {name: value for name, value in vars(example).items() if isinstance(value, int | float)}
        return {"hash": type(example).__name__, **{name: v for name, v in numbers.items() if name != "n_bits"}}

    def train(self, X: Rows, y: Rows, n_bits: int, seed: int, watch: Watch) -> Coder:
        clock = time.perf_counter()
        fitted = self.make(n_bits).fit(X, y, seed)
        return Coder(fitted.codes, time.perf_counter() - clock)


class Heard:
    """A callback of the estimators that keeps the losses and tells how far training is."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.loss: list[float] = []

    def __call__(self, epoch: Any) -> None:
        self.loss.append(float(epoch.loss))
        self.watch(epoch.number)


def fit(model: BCDHasher | BCDClassifier, X: Rows, y: Rows) -> float:
    """The seconds of training, with all that is learned on the way (codes, head)."""
    clock = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the record's status says it
        model.fit(X, y)
    if model.status_ is Status.INTERRUPTED:
        raise KeyboardInterrupt
    model.set_params(callbacks=None)
    return time.perf_counter() - clock


def estimated(model: Any, codes: Callable[[Rows], Codes], seconds: float, heard: Heard) -> Coder:
    diverged = model.status_ is Status.NONFINITE or not all(map(math.isfinite, heard.loss))
    return Coder(
        None if diverged else codes,
        seconds,
        len(heard.loss),
        tuple(heard.loss),
        model.status_.name,
        model.status_.value,
        tuple(asdict(check) for check in model.certificate_.checks),
    )


def by_chunks(codes: Callable[[Rows], Codes]) -> Callable[[Rows], Codes]:
    """The codes of some thousand rows at a time: the estimators compute in float64."""
    return lambda X: np.concatenate([codes(X[start : start + CHUNK]) for start in range(0, len(X), CHUNK)])


def scaled(scaling: Scaling, X: Rows) -> Tensor:
    return torch.from_numpy(scaling(X, np.float32))


def shown(network: Network) -> str:
    """Widths in short: 784, 48 x 256."""
    hidden = network.widths[1:]
    same = len(set(hidden)) == 1
    return f"{network.widths[0]}, " + (f"{len(hidden)} x {hidden[0]}" if same else ", ".join(map(str, hidden)))
