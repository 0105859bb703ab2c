"""The records of one experiment, gathered by method: what tables, figures and claims are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Protocol

from tikhonet.paper.experiments.records import Record, RecordError

ORDER = ("printed", "proximal", "stochastic", "sgd", "reference")


class Labelled(Protocol):
    """What a drawing knows of a method: its name, its colour, and whether it is dashed or hollow."""

    @property
    def title(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def sparse(self) -> bool: ...


@dataclass(frozen=True)
class Row:
    """One method over its trials."""

    records: tuple[Record, ...]

    @property
    def name(self) -> str:
        return self.records[0].method

    @property
    def title(self) -> str:
        return self.records[0].title

    @property
    def family(self) -> str:
        return self.records[0].family

    @property
    def sparse(self) -> bool:
        return self.records[0].sparse

    @property
    def errors(self) -> list[float]:
        """Test errors in percent of the trials that did not diverge."""
        return [record.error for record in self.records if record.error is not None]

    @property
    def error(self) -> float:
        return fmean(self.errors) if len(self.errors) == len(self.records) else math.nan

    @property
    def seconds(self) -> float:
        return fmean(record.seconds for record in self.records)

    @property
    def pass_seconds(self) -> float:
        """Seconds of one pass over 10,000 images."""
        first = self.records[0]
        return self.seconds / max(1, self.passes) / first.samples * 1e4

    @property
    def passes(self) -> float:
        return fmean(record.passes for record in self.records)

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
    def density(self) -> float:
        """Mean percent of nonzeros over the W; V is left out, as in the paper, because it is refitted."""
        layers = [share for layer, share in self.nonzero.items() if layer != "V"]
        return fmean(layers) if layers else math.nan

    @property
    def statuses(self) -> str:
        return ", ".join(sorted({record.status for record in self.records}))

    def mean(self, value: Callable[[Record], float | None]) -> float:
        found = [value(record) for record in self.records]
        return fmean(math.nan if number is None else number for number in found)

    def holds(self, word: str) -> list[bool | None]:
        """What each trial's certificate says of the claim that contains this word."""
        return [check["holds"] for record in self.records for check in record.checks if word in check["claim"]]


@dataclass(frozen=True)
class Summary:
    """All methods of one experiment on one data set at one size."""

    rows: dict[str, Row]

    @classmethod
    def of(cls, records: Sequence[Record]) -> Summary:
        if not records:
            raise RecordError("a report needs at least one record, got none; run the experiment first")
        first = records[0]
        for record in records:
            for what, mine, other in (
                ("experiment", first.experiment, record.experiment),
                ("size", first.size, record.size),
                ("data", first.data["sha256"], record.data["sha256"]),
            ):
                if mine != other:
                    raise RecordError(
                        f"records of one report must share their {what}, but {first.name} has {mine} and "
                        f"{record.name} has {other}; keep each run in a folder of its own"
                    )
        names = list(dict.fromkeys(record.method for record in records))
        rows = [Row(tuple(r for r in records if r.method == name)) for name in names]
        rows.sort(key=lambda row: (ORDER.index(row.family), row.sparse))
        return cls({row.name: row for row in rows})

    @property
    def first(self) -> Record:
        return next(iter(self.rows.values())).records[0]

    def family(self, *names: str) -> list[Row]:
        return [row for row in self.rows.values() if row.family in names]

    def best(self, *families: str) -> Row | None:
        """The dense method of these families with the lowest error."""
        rows = [row for row in self.family(*families) if not row.sparse and not math.isnan(row.error)]
        return min(rows, key=lambda row: row.error, default=None)

    def median_sgd(self, value: Callable[[Row], float]) -> float:
        return median([value(row) for row in self.family("sgd")] or [math.nan])

    def noise(self, *errors: float) -> float:
        """The standard error, in points, of a difference of two error rates on this test set."""
        shares = [error / 100 for error in errors]
        return 100 * math.sqrt(sum(p * (1 - p) for p in shares) / self.first.data["test"])
