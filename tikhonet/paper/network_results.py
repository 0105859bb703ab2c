"""Records and rows of the experiments that train the paper's network and refit a linear SVM on its features."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

import numpy as np
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
    tested: int = 0
    """Test images of the trial; 0 in records that do not say which were wrong."""
    wrong: list[int] = field(default_factory=list)
    """The numbers of the test images that the SVM has wrong."""
    course: list[dict[str, Any]] = field(default_factory=list)
    """Shorter runs of the same trial: passes, seconds and error of each."""

    later = frozenset({"tested", "wrong", "course"})

    @property
    def score(self) -> float | None:
        return self.error


SHORTER = {" as printed": "", " BCD": "", ", l1 ball": ", l1", " of the weights": "", "Descent on the n": "N"}
"""Words of titles, and what figures have for them."""


@dataclass(frozen=True)
class NetworkRow(Row):
    """One way to train the network, over its trials."""

    records: tuple[NetworkRecord, ...]

    @property
    def label(self) -> str:
        short = self.title
        for words, fewer in SHORTER.items():
            short = short.replace(words, fewer)
        return short

    @property
    def sparse(self) -> bool:
        return self.records[0].sparse

    @property
    def mistakes(self) -> Counter[int]:
        """How often each test image was wrong, over the trials."""
        return Counter(number for record in self.records for number in record.wrong)

    @property
    def standard_error(self) -> float | None:
        """Of the mean error, over the test images; None where records do not say which were wrong."""
        tests = [record.tested for record in self.records]
        return spread_over_images(self.mistakes, sum(tests), self.records[0].data["test"]) if all(tests) else None

    @property
    def runs(self) -> list[tuple[float, float, list[float]]]:
        """Passes, mean seconds and errors of the trials' shorter runs and of the whole ones."""
        found = []
        for parts in zip(*(record.course for record in self.records), strict=True):
            errors = [math.nan if part["error"] is None else part["error"] for part in parts]
            found.append((parts[0]["passes"], fmean(part["seconds"] for part in parts), errors))
        return [*found, (self.passes, self.seconds, self.scores)]

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


def spread_over_images(sums: Mapping[int, float], tests: int, images: int) -> float:
    """The standard error in percent of a mean over so many tests, of which each image has equally many.

    `sums` has what the tests of an image add up to, where that is not 0.
    """
    each = tests / images
    values = [count / each for count in sums.values()]
    mean = sum(values) / images
    return 100 * math.sqrt(max(0.0, sum(value**2 for value in values) / images - mean**2) / images)


class Networks(Comparison[NetworkRow]):
    """All networks of a run; errors are in percent."""

    whole = 100.0

    def best(self, *families: str) -> NetworkRow | None:
        """The dense method of these families with the lowest error."""
        rows = [row for row in self.family(*families) if not row.sparse and not math.isnan(row.score)]
        return min(rows, key=lambda row: row.score, default=None)

    def difference(self, row: NetworkRow, other: NetworkRow) -> tuple[float, float | None]:
        """The error of one method less that of another, and its standard error, paired by the test images.

        Only trials that both have count. The standard error is None where records do not say which images were wrong.
        """
        common = {record.trial for record in row.records} & {record.trial for record in other.records}
        if not common or math.isnan(row.score + other.score):
            return row.score - other.score, None
        one, two = (NetworkRow(tuple(r for r in side.records if r.trial in common)) for side in (row, other))
        tests = [record.tested for record in (*one.records, *two.records)]
        gaps = one.mistakes
        gaps.subtract(two.mistakes)
        error = spread_over_images(gaps, sum(tests) // 2, self.first.data["test"]) if all(tests) else None
        return one.score - two.score, error

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
        data = data.of_trial(seed)
        X, y = torch.tensor(data.X_train, dtype=torch.float32), torch.tensor(data.y_train, dtype=torch.int64)
        targets, network = method.problem.loss.encode(y, data.classes), method.problem.network
        course = []
        for short in method.shorter:
            outcome = short.train(X, targets, seed, lambda step: None)
            errors = refit(network, outcome, X, y, data, seed)[0]
            course.append({name: outcome.fields[name] for name in ("passes", "seconds")} | {"error": errors["error"]})
        outcome = method.train(X, targets, seed, watch)
        errors, scores = refit(network, outcome, X, y, data, seed)
        mistaken = np.zeros(0, int) if scores is None else data.test_rows[scores.argmax(1).numpy() != data.y_test]
        return outcome.fields | {
            **errors,
            "tested": len(data.y_test),
            "wrong": mistaken.tolist(),
            "course": course,
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
