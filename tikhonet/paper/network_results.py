"""Records and rows of the experiments that train the paper's network and refit a linear SVM on its features."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

import torch

from tikhonet.paper import pictures
from tikhonet.paper.comparison import Comparison, Row
from tikhonet.paper.experiment import DIVERGED, Column, Experiment, Score, Watch
from tikhonet.paper.labelled_images import Images
from tikhonet.paper.network_trials import NetworkMethod, nonzero, picture_arrays, refit
from tikhonet.paper.records import Record


@dataclass(frozen=True, kw_only=True)
class NetworkRecord(Record):
    """A trial of Sec. 3.3.1: a network, with a linear SVM refitted on its features."""

    sparse: bool
    objective: list[float | None]
    """Mean over the images, at the start where it is known and after every pass."""
    first_pass: int
    """The pass that `objective` begins with: 0 for the start, 1 where the start is not measured."""
    error: float | None
    """Test error in percent of the linear SVM refitted on the features; None where training diverged."""
    error_V: float | None
    """Test error in percent of the classifier V that was trained with the network."""
    C: float | None
    nonzero: dict[str, float]
    """Percent of exactly nonzero weights by layer."""
    residual: float | None
    """Norm of the projected gradient of Eq. 4 at the point reached, in float64."""
    start_residual: float | None

    @property
    def score(self) -> float | None:
        return self.error


@dataclass(frozen=True)
class NetworkRow(Row):
    """One way to train the network, over its trials."""

    records: tuple[NetworkRecord, ...]

    @property
    def label(self) -> str:
        return self.title.replace(" as printed", "").replace(" BCD", "").replace(", l1 ball", ", l1")

    @property
    def sparse(self) -> bool:
        return self.records[0].sparse

    @property
    def pass_seconds(self) -> float:
        """Seconds of one pass over 10,000 images."""
        return self.seconds / max(1, self.passes) / self.records[0].samples * 1e4

    @property
    def residual(self) -> float:
        return self.mean(lambda record: record.residual)

    @property
    def objective(self) -> float:
        return self.mean(lambda record: record.objective[-1] if record.objective else None)

    @property
    def nonzero(self) -> dict[str, float]:
        return {layer: fmean(r.nonzero[layer] for r in self.records) for layer in self.records[0].nonzero}

    @property
    def layers(self) -> list[str]:
        """The W; V is left out, as in the paper, because it is refitted."""
        return [layer for layer in self.records[0].nonzero if layer != "V"]

    @property
    def density(self) -> float:
        """Mean percent of nonzeros over the W."""
        return fmean(self.nonzero[layer] for layer in self.layers) if self.layers else math.nan

    @property
    def pictured(self) -> NetworkRecord:
        """The first trial that has pictures."""
        return next((record for record in self.records if record.pictures), self.records[0])

    def patterns(self) -> list[pictures.Picture]:
        """Where the zeros of every W are, in the trial that has pictures."""
        shown = self.pictured
        return [pictures.pattern(shown, name, f"{name}, {shown.nonzero[name]:.1f}%") for name in self.layers]


class Networks(Comparison[NetworkRow]):
    """All networks of a run; errors are in percent."""

    whole = 100.0

    def best(self, *families: str) -> NetworkRow | None:
        """The dense method of these families with the lowest error."""
        rows = [row for row in self.family(*families) if not row.sparse and not math.isnan(row.score)]
        return min(rows, key=lambda row: row.score, default=None)

    def median_sgd(self, name: str) -> float:
        return float(median([getattr(row, name) for row in self.family("sgd")] or [math.nan]))


class NetworkExperiment(Experiment):
    """The trial, record and columns that experiments on the paper's network share."""

    record = NetworkRecord
    score = Score("error_percent", "test error %", 2)

    @abstractmethod
    def methods(self, size: Any, data: Images, epochs: int | None = None) -> list[NetworkMethod]: ...

    def compare(self, records: Any) -> Networks:
        return Networks.of(records, NetworkRow, self.order)

    def trial(self, method: NetworkMethod, data: Images, seed: int, watch: Watch) -> dict[str, Any]:
        X, y = torch.tensor(data.X_train, dtype=torch.float32), torch.tensor(data.y_train, dtype=torch.int64)
        outcome = method.train(X, method.problem.loss.encode(y, data.classes), seed, watch)
        errors, scores = refit(method.problem.network, outcome, X, y, data, seed)
        return outcome.fields | {
            **errors,
            "sparse": method.sparse,
            "samples": len(X[: method.rows]),
            "nonzero": nonzero(outcome),
            "pictures": self.pictures(picture_arrays(outcome, scores, data)),
        }

    def pictures(self, found: dict[str, Any]) -> dict[str, Any]:
        """The arrays that the page may show."""
        return found

    def columns(self, results: Networks) -> list[Column]:
        return [
            Column("error %", lambda row: row.score, self.score.form, unknown=DIVERGED),
            Column("range", error_range, str, wide=True),
            Column("seconds", trained("seconds")),
            Column("s / pass / 10⁴", trained("pass_seconds"), wide=True),
            Column("passes", trained("passes"), "{:.0f}".format, wide=True),
            Column("f", trained("objective"), wide=True),
            Column("gradient", trained("residual"), wide=True),
            Column("nonzero %", lambda row: row.density, "{:.1f}".format),
            Column("ended as", lambda row: row.statuses.replace("_", " ").lower(), str, wide=True, text=True),
        ]


def error_range(row: NetworkRow) -> str:
    return f"{min(row.scores):.2f}–{max(row.scores):.2f}" if row.scores else ""  # noqa: RUF001


def trained(name: str) -> Any:
    """A value of the rows that were trained; None of the others."""
    return lambda row: getattr(row, name) if row.passes else None
