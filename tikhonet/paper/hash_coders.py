"""Ways to make codes, all with one call: rows and labels in, a function from rows to scores out, whose signs are bits.

The networks of all of them are the same, and see inputs in units of their own spread. Back-propagation, ADMM and
quadratic penalties train towards a codeword for each class, as `BCDHasher` does with codes="classes".
"""

from __future__ import annotations

import time
import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from tikhonet.descent.result import Status
from tikhonet.estimators import BCDClassifier
from tikhonet.hashing.codes import pack, signs
from tikhonet.hashing.codewords import codewords
from tikhonet.hashing.engines import require_faiss
from tikhonet.hashing.hasher import BCDHasher
from tikhonet.hashing.neighbours import NEAREST, neighbour_recall, true_neighbours
from tikhonet.hashing.retrieval import evaluate
from tikhonet.hashing.ties import average_precision, count_by, precision_at
from tikhonet.model.scaling import Scaling
from tikhonet.network.graph import Network
from tikhonet.paper.baselines.admm import QuadraticPenalty
from tikhonet.paper.baselines.backprop import Backprop
from tikhonet.paper.baselines.classical_hashes import ClassifierHash, Hash, as_rows
from tikhonet.paper.experiment import Method, Watch
from tikhonet.paper.hashing_results import POOLED
from tikhonet.paper.labelled_images import Database
from tikhonet.paper.network_trials import plain
from tikhonet.paper.records import finite
from tikhonet.problem.lifts import Fenchel
from tikhonet.problem.objective import Problem

Rows = NDArray[Any]
Coder = Callable[[Rows], Rows]
Trained = tuple[Coder, dict[str, Any]]
"""A function from rows to real scores, and the fields of the record that tell of its training."""
CHUNK = 8192
ASKED, PAIRS, PART = 1000, 10**8, 100
"""Queries whose true neighbours are sought, and that ask by real scores, where queries and rows of the database make
more pairs than this; and how many of them at a time."""


@dataclass(frozen=True)
class HashMethod(Method):
    """A way of making codes, at one length."""

    way: str = field(kw_only=True)
    bits: int = field(kw_only=True)
    curve: bool = field(kw_only=True, default=True)
    """Whether the record keeps precision and recall of every radius, which a page shows of one length."""

    @property
    def group(self) -> str:
        return self.way

    @abstractmethod
    def train(self, X: Rows, y: Rows, seed: int, watch: Watch) -> Trained: ...

    def judge(self, coder: Coder, data: Database) -> dict[str, Any]:
        """The fields of the record that tell how good the codes are: retrieval, the codes themselves, neighbours."""
        scores, asked = coder(data.X_query), sought(data)
        base, queries, k = pack(coder(data.X)), pack(scores), nearest(len(data.X))
        labels = {"query_labels": data.y_query[asked], "base_labels": data.y}
        found = neighbour_recall(queries[asked], data.X_query[asked], base, data.X, k=k, **labels)
        retrieval = evaluate(queries, data.y_query, base, data.y, n_bits=self.bits).to_dict()
        balls, report = retrieval.pop("curve"), retrieval.pop("codes")
        if self.curve:
            retrieval["curve"] = {name: balls[name] for name in POOLED}
        stored = signs(base, self.bits)
        same = evaluate(queries[asked], data.y_query[asked], base, data.y, n_bits=self.bits).mean_average_precision
        real = by_distances(lambda rows: -(scores[rows] @ stored.T), data, k)
        return {
            "retrieval": retrieval,
            "codes": report,
            "neighbours": {"neighbour_recall": found.expected, "k": k, "asked": len(queries[asked])},
            "asymmetric": real | {"symmetric_precision": same.expected},
        }


def by_distances(distances: Callable[[slice], Rows], data: Database, k: int) -> dict[str, float]:
    """Mean average precision and recall of neighbours where real distances of the queries give the order.

    Of the queries that `sought` says; "by_scores" is their number.
    """
    truth, average, found = torch.from_numpy(data.X.astype(np.float32)), [], []
    count = len(data.X_query[sought(data)])
    for start in range(0, count, PART):
        rows = slice(start, min(start + PART, count))
        same = data.y_query[rows][:, None] == data.y
        asked = torch.from_numpy(data.X_query[rows].astype(np.float32))
        near = true_neighbours(asked, truth, k, torch.from_numpy(same))
        labels, neighbours = count_by(distances(rows), same, near)
        average.append(average_precision(labels).expected)
        found.append(precision_at(neighbours, k).expected * k / near.sum(1))
    means = {"asymmetric_precision": average, "asymmetric_recall": found}
    return {name: float(np.concatenate(parts).mean()) for name, parts in means.items()} | {"by_scores": count}


def sought(data: Database) -> slice:
    """The queries whose true neighbours are sought and that ask by real scores: all, or the first of many."""
    return slice(len(data.X_query) if len(data.X_query) * len(data.X) <= PAIRS else ASKED)


def nearest(rows: int) -> int:
    """How many true neighbours are sought among so many rows."""
    return max(1, min(NEAREST, rows // 100))


@dataclass(frozen=True)
class Hasher(HashMethod):
    """This library's `BCDHasher`; `parameters` are its own, and it sees the labels or none."""

    network: Network = field(kw_only=True)
    parameters: dict[str, Any] = field(kw_only=True)
    labels: bool = True

    estimator: ClassVar[type[BCDHasher] | type[BCDClassifier]] = BCDHasher

    @property
    def steps(self) -> int:
        return int(self.parameters["max_iter"])

    def settings(self) -> dict[str, Any]:
        return {"estimator": self.estimator.__name__, "widths": shown(self.network), **plain(self.parameters)}

    def train(self, X: Rows, y: Rows, seed: int, watch: Watch) -> Trained:
        model = BCDHasher(network=self.network, n_bits=self.bits, random_state=seed, **self.parameters)
        fields = fit(model, X, y if self.labels else None, watch)
        return by_chunks(model.decision_function), fields | {"mixture": model.mixture_.to_dict()}


@dataclass(frozen=True)
class Classifier(Hasher):
    """A `BCDClassifier`; the code of a row is the codeword of its predicted class, or the `soft` mean of codewords.

    One training serves codes of every length, so the last one is kept.
    """

    kept: list[tuple[int, Rows, BCDClassifier, dict[str, Any]]] = field(kw_only=True, compare=False)
    soft: bool = False

    estimator: ClassVar[type[BCDHasher] | type[BCDClassifier]] = BCDClassifier

    def settings(self) -> dict[str, Any]:
        return super().settings() | ({"soft": True} if self.soft else {})

    def train(self, X: Rows, y: Rows, seed: int, watch: Watch) -> Trained:
        if not self.kept or self.kept[0][0] != seed or self.kept[0][1] is not X:
            model = BCDClassifier(network=self.network, random_state=seed, **self.parameters)
            self.kept[:] = [(seed, X, model, fit(model, X, y, watch))]
        _, _, model, fields = self.kept[0]
        return by_chunks(ClassifierHash(self.bits, model, self.soft).assign(seed).scores), fields


@dataclass(frozen=True)
class ToCodewords(HashMethod):
    """The network trained by back-propagation or in split layers towards class codewords; bits are signs of outputs."""

    network: Network = field(kw_only=True)
    solver: Backprop | QuadraticPenalty = field(kw_only=True)

    @property
    def steps(self) -> int:
        return self.solver.epochs

    def settings(self) -> dict[str, Any]:
        return {"trained by": type(self.solver).__name__, "widths": shown(self.network), **plain(self.solver)}

    def train(self, X: Rows, y: Rows, seed: int, watch: Watch) -> Trained:
        clock = time.perf_counter()
        scaling = Scaling.fit(X.astype(np.float64), np.ones(len(X)))
        inputs = scaled(scaling, X)
        classes, numbers = np.unique(y, return_inverse=True)
        words = codewords(len(classes), self.bits, seed)
        targets = torch.from_numpy(words[numbers].astype(np.float32))
        problem = Problem(self.network, lift=Fenchel())
        spent = time.perf_counter() - clock
        training = self.solver.run(problem, inputs, targets, seed=seed, watch=lambda epoch, _: watch(epoch.number))
        W, V = training.blocks.W, training.blocks.V

        def scores(rows: Rows) -> Rows:
            found: Rows = (self.network.features(scaled(scaling, rows), W) @ V.T).numpy()
            return found

        return by_chunks(scores), {
            "seconds": spent + sum(epoch.seconds for epoch in training.epochs),
            "passes": len(training.epochs),
            "loss": [finite(epoch.loss) for epoch in training.epochs],
            "status": training.status.name,
            "message": training.message,
        }


@dataclass(frozen=True)
class Classical(HashMethod):
    """A method without a network: `make(n_bits)` gives it."""

    make: Callable[[int], Hash] = field(kw_only=True)

    def settings(self) -> dict[str, Any]:
        example = self.make(8)
        numbers = {name: value for name, value in vars(example).items() if isinstance(value, int | float)}
        return {"hash": type(example).__name__, **{name: v for name, v in numbers.items() if name != "n_bits"}}

    def train(self, X: Rows, y: Rows, seed: int, watch: Watch) -> Trained:
        clock = time.perf_counter()
        fitted = self.make(self.bits).fit(X, y, seed)
        message = "Fitted in closed form or by a fixed number of steps."
        fields = {"seconds": time.perf_counter() - clock, "loss": [], "status": "FITTED", "message": message}
        return by_chunks(lambda rows: fitted.scores(as_rows(rows)).numpy()), fields


@dataclass(frozen=True)
class Quantised(HashMethod):
    """Product quantisation of faiss: a byte for each of equal parts of the inputs, which stands for one of 256 centres.

    A query is compared with the centres as it is, so nothing of it is rounded; there is no Hamming distance.
    """

    def settings(self) -> dict[str, Any]:
        return {"parts": self.bits // 8, "centres": 256}

    def train(self, X: Rows, y: Rows, seed: int, watch: Watch) -> Trained:
        faiss = require_faiss()
        clock = time.perf_counter()
        width = -(-X.shape[1] // (self.bits // 8)) * (self.bits // 8)
        centres = min(8, int(np.log2(len(X))))  # as bits: there cannot be more than rows
        quantiser = faiss.ProductQuantizer(width, self.bits // 8, centres)
        quantiser.cp.seed = seed + 1
        quantiser.cp.min_points_per_centroid = 1
        quantiser.train(padded(X, width))
        message = "Fitted by faiss's k-means."
        fields = {"seconds": time.perf_counter() - clock, "loss": [], "status": "FITTED", "message": message}

        def coder(rows: Rows) -> Rows:
            return np.asarray(quantiser.decode(quantiser.compute_codes(padded(rows, width)))[:, : X.shape[1]])

        return coder, fields

    def judge(self, coder: Coder, data: Database) -> dict[str, Any]:
        base, queries, k = coder(data.X), data.X_query.astype(np.float32), nearest(len(data.X))
        squares = np.square(base).sum(1)
        found = by_distances(lambda rows: squares - 2 * queries[rows] @ base.T, data, k)
        mean = found["asymmetric_precision"]
        return {
            "retrieval": {"mean_average_precision": {"expected": mean, "lower": mean, "upper": mean}},
            "codes": {"distinct": len(np.unique(base, axis=0)), "codes": len(base), "n_bits": self.bits},
            "neighbours": {"neighbour_recall": found["asymmetric_recall"], "k": k, "asked": found["by_scores"]},
            "asymmetric": found,
        }


def padded(X: Rows, width: int) -> NDArray[np.float32]:
    """The rows with columns of zeros behind, so that they have equal parts."""
    return np.ascontiguousarray(np.pad(X.astype(np.float32), ((0, 0), (0, width - X.shape[1]))))


def fit(model: BCDHasher | BCDClassifier, X: Rows, y: Rows | None, watch: Watch) -> dict[str, Any]:
    """Fit an estimator; the fields of its record. The seconds are with all that is learned on the way (codes, head)."""
    loss = []

    def heard(epoch: Any) -> None:
        loss.append(finite(float(epoch.loss)))
        watch(epoch.number)

    clock = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the record's status says it
        model.set_params(callbacks=[heard]).fit(X, y)
    if model.status_ is Status.INTERRUPTED:
        raise KeyboardInterrupt
    model.set_params(callbacks=None)
    return {
        "seconds": time.perf_counter() - clock,
        "passes": len(loss),
        "loss": loss,
        "status": model.status_.name,
        "message": model.status_.value,
        "checks": [asdict(check) for check in model.certificate_.checks],
    }


def by_chunks(scores: Coder) -> Coder:
    """The scores of some thousand rows at a time: the estimators compute in float64."""
    return lambda X: np.concatenate([scores(X[start : start + CHUNK]) for start in range(0, len(X), CHUNK)])


def scaled(scaling: Scaling, X: Rows) -> Tensor:
    return torch.from_numpy(scaling(X, np.float32))


def shown(network: Network) -> str:
    """Widths in short: 784, 48 x 256."""
    hidden = network.widths[1:]
    same = len(set(hidden)) == 1
    return f"{network.widths[0]}, " + (f"{len(hidden)} x {hidden[0]}" if same else ", ".join(map(str, hidden)))
