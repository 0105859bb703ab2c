"""Fair rivals: the stochastic trainer against twelve tuned solvers, error by CPU seconds of one thread.

First every contender is tuned, by the same number of random trials for every length of run, on held-out rows of the
training part; then the best setting of each runs from several seeds, and is measured on the test images, once. All
train the paper's network; its own classifier counts, or a linear SVM refitted on its features (Sec. 3.2), whichever was
better on the held-out rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from tikhonet.data.dataset import Dataset
from tikhonet.descent.result import Status
from tikhonet.model.svm import fit_linear_svm
from tikhonet.network.graph import Network
from tikhonet.paper.comparison import Claim
from tikhonet.paper.experiment import DIVERGED, Column, Experiment, Method, Score, Size, Table, Watch
from tikhonet.paper.labelled_images import read_images
from tikhonet.paper.records import Record, finite
from tikhonet.paper.rivals_findings import race_claims, race_figures
from tikhonet.paper.rivals_results import Race, RivalRecord, chosen, rank
from tikhonet.paper.rivals_search import AGAIN, CONTENDERS, Contender, Part, Setting, Split
from tikhonet.paper.sheets import Figure, short
from tikhonet.problem.objective import Blocks

MEASURED = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 70, 100)
"""The epochs of a final run after which an SVM is fitted; the last one always is."""
HOPELESS = 1.5
"""A tuning trial ends when a third of its epochs are done (after the first of three) where its own classifier is then
wrong on this many times the held-out rows that the best trial of the same contender and length was wrong on then."""
GIVEN_UP = "GIVEN_UP"


@dataclass(frozen=True, kw_only=True)
class RivalSize(Size):
    """How much is done: the lengths of the runs in epochs, and the tuning trials of every contender at each length."""

    lengths: tuple[int, ...]
    tuning: int


QUICK = RivalSize("quick", lengths=(10,), tuning=4, threads=1)
FULL = RivalSize("full", lengths=(3, 10, 30), tuning=16, threads=1)


@dataclass(frozen=True)
class Run(Method):
    """One setting of a contender for a length of run: a tuning trial, or with `final` the one that was chosen."""

    contender: Contender = field(kw_only=True)
    length: int = field(kw_only=True)
    number: int = field(kw_only=True)
    setting: Setting = field(kw_only=True)
    stage: str = field(kw_only=True)
    head: str = field(default="", kw_only=True)
    """The classifier of a final run: the network's own or the SVM, which is a setting as the others are."""
    bound: Callable[[], float] = field(kw_only=True, compare=False, repr=False)
    """The error with a third of the epochs done from which on a trial is given up."""

    @property
    def group(self) -> str:
        return self.contender.name

    @property
    def steps(self) -> int:
        return self.length

    def settings(self) -> dict[str, Any]:
        return {"epochs": self.length, **self.setting}


class HopelessError(Exception):
    """A tuning trial that is given up."""


@dataclass
class Course:
    """Hears of every epoch: adds up the CPU seconds of training alone, and measures the errors.

    `error_V` is that of the network's own classifier, after every epoch; `error` that of the SVM, after some.
    """

    part: Part
    measured: Sequence[int]
    judged: int
    """The epoch after which it may be given up."""
    bound: Callable[[], float]
    watch: Watch
    spent: float = 0.0
    head_seconds: float = 0.0
    seconds: list[float | None] = field(default_factory=list)
    error: list[float | None] = field(default_factory=list)
    error_V: list[float | None] = field(default_factory=list)
    started: float = field(default_factory=time.process_time)

    def __call__(self, number: int, blocks: Blocks) -> None:
        self.spent += time.process_time() - self.started
        part, network = self.part, Network.paper(self.part.X.shape[1])
        seen = network.features(part.X_seen, blocks.W)
        self.seconds.append(self.spent)
        self.error_V.append(percent(seen @ blocks.V.T, part.y_seen))
        self.error.append(None)
        if number in self.measured and bool(seen.isfinite().all()):
            clock = time.process_time()
            features = network.features(part.X, blocks.W)
            svm = fit_linear_svm(features, part.y, classes=part.classes, tol=1e-3)
            self.head_seconds = time.process_time() - clock
            self.error[-1] = percent(svm.scores(seen), part.y_seen)
        self.watch(number)
        if number == self.judged and (self.error_V[-1] or 0.0) > self.bound():
            raise HopelessError
        self.started = time.process_time()


def percent(scores: Tensor, labels: Tensor) -> float | None:
    wrong = (scores.argmax(1) != labels).double().mean()
    return finite(100 * float(wrong)) if bool(scores.isfinite().all()) else None


class Rivals(Experiment):
    """Twelve solvers by back-propagation and the stochastic trainer: tuned alike, then raced."""

    name = "rivals"
    title = "The stochastic trainer against tuned rivals"
    lead = (
        "The paper's network by the stochastic trainer, by the paper's six solvers and by six of today. Each was tuned "
        "by random trials on held-out rows of the training images, for every length of run apart; the best setting of "
        "each then ran from several seeds. Errors are those of the network's own classifier or of a linear SVM "
        "refitted on its features, whichever was better on the held-out rows; seconds are CPU seconds of one thread. "
        "The settings are in the tables at the end."
    )
    data_sets = ("digits", "mnist", "mnist-10000", "fashion-mnist", "fashion-mnist-10000")
    sizes = (QUICK, FULL)
    record = RivalRecord
    score = Score("error_percent", "error %", 2)

    def read(self, name: str, load: Callable[[str, str], Dataset]) -> Split:
        """A data set, of which `-10000` at the end of the name leaves the first 10,000 rows to train on."""
        whole, _, rows = name.rpartition("-") if name.endswith("-10000") else (name, "", "")
        return Split(read_images(whole, load), name, int(rows) if rows else None)

    def methods(self, size: RivalSize, data: Split, epochs: int | None = None) -> list[Run]:
        """The tuning trials, contender by contender in turn."""
        return self.tuning(size, epochs, list)

    def stages(
        self, size: RivalSize, data: Split, epochs: int | None, trials: Sequence[int], records: Callable[[], list[Any]]
    ) -> Iterator[tuple[list[Run], Sequence[int]]]:
        """The tuning trials from seed 0, the best of them again on more rows; then the settings that they chose."""
        tuning = self.tuning(size, epochs, records)
        yield tuning, (0,)
        if "again" in data.parts:
            yield second_round(tuning, records()), (0,)
        best, found = chosen(records()), []
        for method in tuning:
            key = method.contender.name, method.length
            if key in best and best[key].number == method.number:
                name = f"{method.contender.name}-{method.length}-final-{method.number}"
                final = replace(method, name=name, stage="final", head=best[key].head, bound=lambda: math.inf)
                found.append(final)
        yield found, trials

    def tuning(self, size: RivalSize, epochs: int | None, records: Callable[[], list[Any]]) -> list[Run]:
        runs = []
        for length in (epochs,) if epochs else size.lengths:
            for contender in CONTENDERS:
                bound = early_bound(contender.name, length, records)
                shared: dict[str, Any] = {"contender": contender, "length": length, "stage": "tuning", "bound": bound}
                for number, setting in enumerate(contender.settings(size.tuning)):
                    naming = f"{contender.name}-{length}-{number}", contender.title, contender.family
                    runs.append(Run(*naming, number=number, setting=setting, **shared))
        return sorted(runs, key=lambda run: (run.length, run.number))

    def trial(self, method: Run, data: Split, seed: int, watch: Watch) -> dict[str, Any]:
        part = data.parts[method.stage]
        curve = method.stage == "final" and method.head == "svm"
        measured = (*MEASURED, method.length) if curve else (method.length,)
        course = Course(part, measured, third(method.length), method.bound, watch)
        try:
            status = method.contender.train(method.setting, method.length, part, seed, course).name
        except HopelessError:
            status = GIVEN_UP
        error, error_V = (course.error[-1], course.error_V[-1]) if status == Status.FINISHED.name else (None, None)
        better = "own" if error is not None and error_V is not None and error_V <= error else "svm"
        return {
            "samples": len(part.X),
            "passes": len(course.error_V),
            "seconds": course.spent,
            "status": status,
            "solver": method.contender.name,
            "stage": method.stage,
            "length": method.length,
            "number": method.number,
            "error": error,
            "error_V": error_V,
            "head": method.head or better,
            "head_seconds": course.head_seconds,
            "curve_seconds": course.seconds,
            "curve_error": course.error,
            "curve_error_V": course.error_V,
        }

    def compare(self, records: Sequence[Record]) -> Race:
        return Race.run([record for record in records if isinstance(record, RivalRecord)])

    def findings(self, results: Race) -> list[Claim]:
        return race_claims(results)

    def figures(self, results: Race) -> list[Figure]:
        return [*race_figures(results)]

    def columns(self, results: Race) -> list[Column]:
        def time_to(goal: float) -> Column:
            return Column(f"s to {goal:g}%", lambda row: row.seconds_to(goal), short, unknown="never")

        return [
            Column("error %", lambda row: row.score, self.score.form, unknown=DIVERGED),
            Column("standard error", lambda row: row.spread, "{:.3f}".format, unknown="one seed"),
            Column("seeds", lambda row: len(row.records), str, wide=True),
            Column("CPU seconds", lambda row: row.total),
            *map(time_to, results.goals),
            Column("held out %", results.held_out, self.score.form, wide=True),
            Column("settings tried", results.tried, str, wide=True, text=True),
            Column("classifier", lambda row: row.records[0].head, str, wide=True, text=True),
            Column("setting", lambda row: words(row.records[0].settings), str, text=True, hidden=True),
        ]

    def tables(self, results: Race) -> dict[str, Table]:
        """Every tuning trial."""
        head = ["contender", "epochs", "setting", "rows", "held-out error %", "CPU seconds", "ended as", "drawn"]
        rows = [
            [t.title, t.length, t.number, t.samples, t.score, t.seconds, t.status, words(t.settings)]
            for t in results.tuning
        ]
        return {"tuning": [head, *rows]}


def words(settings: dict[str, Any]) -> str:
    """A drawn setting in a line; the defaults where nothing was drawn."""
    drawn = {name: value for name, value in settings.items() if name != "epochs" and value is not None}
    return ", ".join(f"{name} {value}" for name, value in drawn.items()) or "defaults"


def third(epochs: int) -> int:
    return max(1, epochs // 3)


def second_round(tuning: Sequence[Run], records: Sequence[RivalRecord]) -> list[Run]:
    """The settings of every contender that were best on few rows; the trainer's defaults are among them anyway."""
    kept: dict[tuple[str, int], list[int]] = {}
    for record in sorted(records, key=lambda record: (len(record.settings) > 1, rank(record))):
        if record.stage == "tuning" and record.score is not None:
            kept.setdefault((record.solver, record.length), []).append(record.number)
    return [
        replace(
            run, name=f"{run.contender.name}-{run.length}-again-{run.number}", stage="again", bound=lambda: math.inf
        )
        for run in tuning
        if run.number in kept.get((run.contender.name, run.length), [])[:AGAIN]
    ]


def early_bound(solver: str, length: int, records: Callable[[], list[Any]]) -> Callable[[], float]:
    """Looks at the records when it is asked: other trials may have ended meanwhile, here or in another process."""

    def bound() -> float:
        own = [r for r in records() if (r.solver, r.length, r.stage) == (solver, length, "tuning")]
        errors = [error for r in own for error in r.curve_error_V[third(length) - 1 : third(length)] if error]
        return HOPELESS * min(errors, default=100.0)

    return bound
