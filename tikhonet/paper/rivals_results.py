"""Records of the comparison with rivals: tuning trials, final runs, and the statistics over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median_high

from scipy import stats

from tikhonet.paper.comparison import Comparison, Row, by_chance, standard_error
from tikhonet.paper.records import Record, RecordError

GOALS = {
    "digits": (4.0, 3.0),
    "mnist-10000": (4.0, 3.0),
    "mnist": (1.8, 1.5),
    "fashion-mnist-10000": (14.0, 13.0),
    "fashion-mnist": (11.0, 10.0),
}
"""Test errors in percent, of which the time to them is given."""


@dataclass(frozen=True, kw_only=True)
class RivalRecord(Record):
    """A trial of tuning ("tuning" on few rows, "again" on many), with its errors on held-out rows, or a "final" run.

    Final runs have their errors on the test images.
    """

    solver: str
    stage: str
    length: int
    """Epochs that were asked for."""
    number: int
    """Which of the contender's settings it is."""
    error: float | None
    """Of the linear SVM refitted on the features, in percent; None where it diverged or was given up."""
    error_V: float | None
    """Of the network's own classifier."""
    head: str
    """"svm" or "own": the classifier that counts, which is the better one of the tuning trial."""
    head_seconds: float
    """CPU seconds of the last SVM, which `seconds` leaves out."""
    curve_seconds: list[float | None]
    """CPU seconds of training, after every epoch."""
    curve_error: list[float | None]
    """The SVM's error then; None where none was fitted."""
    curve_error_V: list[float | None]

    @property
    def score(self) -> float | None:
        return self.error_V if self.head == "own" else self.error

    @property
    def label(self) -> str:
        words = f"{self.title}, {self.length} epochs"
        return words if self.stage == "final" else f"{words}, setting {self.number}, {self.status.lower()}"

    @property
    def group(self) -> str:
        return f"{self.solver}-{self.length}"

    @property
    def curve(self) -> list[tuple[float, float]]:
        """CPU seconds and errors, wherever the error was measured; those of the SVM have its seconds in them."""
        extra, errors = (0.0, self.curve_error_V) if self.head == "own" else (self.head_seconds, self.curve_error)
        known = zip(self.curve_seconds, errors, strict=True)
        return [(spent + extra, error) for spent, error in known if spent is not None and error is not None]

    def seconds_to(self, goal: float) -> float:
        """CPU seconds until the error was at most this, as far as it was measured."""
        return next((spent for spent, error in self.curve if error <= goal), math.inf)


def chosen(records: Sequence[RivalRecord]) -> dict[tuple[str, int], RivalRecord]:
    """The trial of tuning with the lowest held-out error, by contender and length; the sooner one of equals.

    What was tried again on many rows goes before all that was tried on few.
    """
    found: dict[tuple[str, int], RivalRecord] = {}
    for record in records:
        key = record.solver, record.length
        if record.stage != "final" and (key not in found or rank(record) < rank(found[key])):
            found[key] = record
    return found


def rank(record: RivalRecord) -> tuple[bool, bool, float, float]:
    return record.score is None, record.stage != "again", record.score or 0.0, record.seconds


@dataclass(frozen=True)
class Rival(Row):
    """A contender at one length of run, over the seeds of its final runs."""

    records: tuple[RivalRecord, ...]

    @property
    def title(self) -> str:
        return self.records[0].label

    @property
    def ours(self) -> bool:
        return self.family == "stochastic"

    @property
    def length(self) -> int:
        return self.records[0].length

    @property
    def total(self) -> float:
        """CPU seconds in all: of training, and of the SVM where it is the classifier."""
        return fmean(record.curve[-1][0] if record.curve else record.seconds for record in self.records)

    def seconds_to(self, goal: float) -> float:
        """The median over the seeds; infinity where more than half of them never were there."""
        return median_high(record.seconds_to(goal) for record in self.records)


@dataclass(frozen=True)
class Paired:
    """Two contenders over the seeds that both have: the mean difference of their errors, and how sure it is."""

    seeds: int
    difference: float
    error: float
    """The standard error of the difference."""
    t_test: float
    wilcoxon: float

    @classmethod
    def of(cls, ours: Rival, other: Rival) -> Paired | None:
        gaps = ours.less(other)
        if len(gaps) < 2 or not any(gaps):
            return None
        wilcoxon = float(stats.wilcoxon(gaps).pvalue)
        return cls(len(gaps), fmean(gaps), standard_error(gaps), by_chance(gaps), wilcoxon)

    def __str__(self) -> str:
        return (
            f"{self.difference:+.3f} points, standard error {self.error:.3f} over {self.seeds} seeds, "
            f"p = {self.t_test:.2g} (paired t), {self.wilcoxon:.2g} (Wilcoxon)"
        )


@dataclass(frozen=True)
class Race(Comparison[Rival]):
    """The final runs of the settings that were chosen, and all tuning trials."""

    tuning: tuple[RivalRecord, ...] = ()

    whole = 100.0

    @classmethod
    def run(cls, records: Sequence[RivalRecord]) -> Race:
        best = chosen(records)
        final = [r for r in records if r.stage == "final" and r.number == best[r.solver, r.length].number]
        if not final:
            raise RecordError("a report needs a final run of every stage of tuning; run the experiment to its end")
        rows = cls.of(final, Rival, lambda row: (row.length, math.inf if math.isnan(row.score) else row.score)).rows
        return cls(rows, tuple(record for record in records if record.stage != "final"))

    @property
    def lengths(self) -> list[int]:
        return sorted({row.length for row in self.rows.values()})

    def at(self, length: int, *, ours: bool) -> list[Rival]:
        """The contenders of one side at a length, best first."""
        rows = [row for row in self.rows.values() if row.length == length and row.ours is ours]
        return [row for row in rows if not math.isnan(row.score)]

    def tried(self, row: Rival) -> str:
        """How many settings the row's one was chosen among, and how many of them were tried again on many rows."""
        own = [t.stage for t in self.tuning if (t.solver, t.length) == (row.records[0].solver, row.length)]
        again = own.count("again")
        return f"{len(own) - again}, {again} again" if again else f"{len(own)}"

    def held_out(self, row: Rival) -> float | None:
        """The error of the chosen setting in its last trial of tuning."""
        return chosen(self.tuning)[row.records[0].solver, row.length].score

    @property
    def goals(self) -> tuple[float, ...]:
        return GOALS.get(self.first.data["name"], ())
