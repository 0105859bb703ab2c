"""The records of one run gathered by method, and claims judged by them: all that pages are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, ClassVar, Generic, Self, TypeVar

from scipy import stats

from tikhonet.paper.figures import Axis, Dots, Values
from tikhonet.paper.records import Record, RecordError

ORDER = ("printed", "proximal", "stochastic", "sgd", "reference")
"""The families of methods, in the order of the page's rows."""
CHANCE = 0.05
"""The p from which on a difference may be chance: two standard errors over few seeds say little."""


@dataclass(frozen=True)
class Finding:
    """The words of a measurement, and whether the claim holds by it (None: it cannot be told)."""

    text: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        return {True: "holds", False: "does not hold", None: "cannot be told"}[self.holds]


@dataclass(frozen=True)
class Claim:
    """A claim, where it is made, and one finding for each side that is judged."""

    words: str
    findings: tuple[Finding, ...]
    where: str = ""


def count_verdicts(claims: Sequence[Claim]) -> list[list[tuple[int, Finding]]]:
    """For each side that claims are judged by, how many findings have each verdict; holds first."""
    sides = zip(*(claim.findings for claim in claims), strict=True)
    kinds = [Finding("", holds) for holds in (True, False, None)]
    return [[(sum(f.holds is kind.holds for f in side), kind) for kind in kinds] for side in sides]


@dataclass(frozen=True)
class Row:
    """One method over its trials."""

    records: tuple[Any, ...]
    """Records of the experiment's own kind."""

    @property
    def name(self) -> str:
        return str(self.records[0].group)

    @property
    def title(self) -> str:
        return str(self.records[0].title)

    @property
    def label(self) -> str:
        """The title, short enough for a figure."""
        return self.title

    @property
    def family(self) -> str:
        return str(self.records[0].family)

    @property
    def sparse(self) -> bool:
        """Whether the method is drawn dashed and hollow."""
        return False

    @property
    def scores(self) -> list[float]:
        """The scores of the trials that did not diverge."""
        return [record.score for record in self.records if record.score is not None]

    @property
    def score(self) -> float:
        """The mean score; NaN where a trial diverged."""
        return fmean(self.scores) if len(self.scores) == len(self.records) else math.nan

    @property
    def spread(self) -> float:
        """The standard error of the mean score, over the trials."""
        return standard_error(self.scores)

    def less(self, other: Row) -> list[float]:
        """The scores less those of another method, over the seeds that both have."""
        theirs = {record.seed: record.score for record in other.records if record.score is not None}
        return [r.score - theirs[r.seed] for r in self.records if r.score is not None and r.seed in theirs]

    @property
    def seconds(self) -> float:
        return fmean(record.seconds for record in self.records)

    @property
    def passes(self) -> float:
        return fmean(record.passes for record in self.records)

    @property
    def statuses(self) -> str:
        return ", ".join(sorted({record.status for record in self.records}))

    def mean(self, value: Callable[[Any], float | None]) -> float:
        found = [value(record) for record in self.records]
        return fmean(math.nan if number is None else number for number in found)

    def checks(self, key: str) -> list[tuple[int, dict[str, Any]]]:
        """The checks with this key in the trials' certificates, each with its trial."""
        return [(record.trial, check) for record in self.records for check in record.checks if check["key"] == key]

    def holds(self, key: str) -> list[bool | None]:
        return [check["holds"] for _, check in self.checks(key)]

    def values(self, values: Sequence[float], error: float | None = None) -> Values:
        """The method's row of a figure, with these values, and the standard error of their mean where it is known."""
        return Values(self.label, self.title, self.family, values, self.sparse, error)


def standard_error(values: Sequence[float]) -> float:
    """That of the mean of these values; NaN where there are too few."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def by_chance(gaps: Sequence[float]) -> float:
    """The p of a t test of paired differences; NaN where there are too few, or where all are zero."""
    gaps = [round(gap, 9) for gap in gaps]  # equal ones must be equal, whatever they are differences of
    if len(gaps) < 2 or not any(gaps):
        return math.nan
    return float(stats.ttest_1samp(gaps, 0.0).pvalue) if standard_error(gaps) else 0.0


R = TypeVar("R", bound=Row)


@dataclass(frozen=True)
class Comparison(Generic[R]):
    """All methods of one experiment on one data set at one size."""

    rows: dict[str, R]

    whole: ClassVar[float] = 1.0
    """The score of a method that is always right, or always wrong."""

    @classmethod
    def of(cls, records: Sequence[Record], kind: type[R], order: Callable[[R], Any]) -> Self:
        if not records:
            raise RecordError("a report needs at least one record, got none; run the experiment first")
        first = records[0]
        for record in records:
            for name in ("experiment", "size", "data"):
                if getattr(record, name) != getattr(first, name):
                    raise RecordError(
                        f"records of one report must share their {name}, but {record.name} differs from {first.name}; "
                        "keep each run in a folder of its own"
                    )
        names = dict.fromkeys(record.group for record in records)
        rows = [kind(tuple(record for record in records if record.group == name)) for name in names]
        return cls({row.name: row for row in sorted(rows, key=order)})

    @property
    def first(self) -> Any:
        return next(iter(self.rows.values())).records[0]

    @property
    def records(self) -> list[Any]:
        return [record for row in self.rows.values() for record in row.records]

    def family(self, *names: str) -> list[R]:
        return [row for row in self.rows.values() if row.family in names]

    def noise(self, *scores: float) -> float:
        """The largest standard error that a difference of two mean scores over these tests can have.

        A single score lies in 0 to 1, so that its variance is at most p (1 - p) with p the mean; it is that where a
        single score is 0 or 1, as an error is.
        """
        shares = [score / self.whole for score in scores]
        return self.whole * math.sqrt(sum(p * (1 - p) for p in shares) / self.tests)

    @property
    def tests(self) -> int:
        """How many things a trial was tested on."""
        data = self.first.data
        return int(data.get("test", data.get("queries")))

    def seconds(self, rows: Sequence[R], *, name: str, title: str, caption: str) -> Dots:
        """The figure of training times; its caption says where the machine had other things to do."""
        machines = [record.hardware for record in self.records if record.hardware.get("load") is not None]
        busy = [machine["load"] for machine in machines if machine["load"] > (machine["cores"] or 1)]
        if busy:
            shared = f"load up to {max(busy):.1f} on {machines[0]['cores']} cores"
            caption += f" The machine was shared ({shared}): read ratios, not seconds."
        return Dots(
            name=name,
            title=title,
            caption=caption,
            x=Axis("seconds", log=True),
            rows=[row.values([record.seconds for record in row.records]) for row in rows],
            unit=" s",
            digits=None,
        )
