"""Records and rows of the hashing experiment: every way of making codes, at every length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, ClassVar

from tikhonet.hashing.ties import Tied
from tikhonet.paper.comparison import Comparison, Row
from tikhonet.paper.records import Record

DASHED = ("open", "fewer", "words", "same", "short", "soft", "sdh", "pca", "random")
"""Drawn with dashed lines, beside another method of the same colour."""
SHORTER = {
    "BCD, labels and neighbours": "BCD, both",
    "BCD, open to new classes": "BCD, open",
    "Adam, as many passes": "Adam, same",
    "Adam, fewer passes": "Adam, short",
    "Classifier, soft codes": "Classifier, soft",
    "Product quantisation": "PQ",
    "Principal components": "PCA",
    "BCD, class codewords": "BCD, codewords",
    "BCD, learned codes": "BCD, learned",
    "BCD, fewer passes": "BCD, fewer",
    "Random projections": "random proj.",
}
SHOWN_BITS = 48
"""The length that curves and pictures are shown for, where it was run."""
POOLED = ("pooled_precision", "pooled_recall")
"""What records keep of the balls of every radius: precision and recall of all pairs of queries and images together."""


@dataclass(frozen=True, kw_only=True)
class HashRecord(Record):
    """A trial of Sec. 3.3.2: codes of one length by one way of making them."""

    way: str
    bits: int
    loss: list[float | None]
    """The loss of every pass over the training images, where the method has one."""
    retrieval: dict[str, Any]
    """`Retrieval.to_dict()`; empty where training diverged."""
    codes: dict[str, Any]
    """`CodeReport.to_dict()` of the database."""
    neighbours: dict[str, Any] = field(default_factory=dict)
    """How many of the truly nearest images of the query's class are found: `recall` of so many (`k`), by `queries`."""
    asymmetric: dict[str, Any] = field(default_factory=dict)
    """mAP and recall of neighbours where the order is that of the queries' real scores against stored codes, for so
    many queries (`by_scores`), and the mAP of the same ones by bits."""
    mixture: dict[str, Any] = field(default_factory=dict)
    """`Mixture.to_dict()`, where some bits know neighbours."""

    later: ClassVar[frozenset[str]] = frozenset({"neighbours", "mixture", "asymmetric"})

    @property
    def score(self) -> float | None:
        return self.retrieval["mean_average_precision"]["expected"] if self.retrieval else None

    @property
    def label(self) -> str:
        return f"{self.title}, {self.bits} bits"

    @property
    def group(self) -> str:
        return self.way


@dataclass(frozen=True)
class Coding(Row):
    """One way of making codes: all of its lengths and trials."""

    records: tuple[HashRecord, ...]

    @property
    def label(self) -> str:
        return SHORTER.get(self.title, self.title)

    @property
    def sparse(self) -> bool:
        return self.name in DASHED

    @property
    def lengths(self) -> list[int]:
        """The lengths at which no trial diverged."""
        diverged = {record.bits for record in self.records if not record.retrieval}
        return sorted({record.bits for record in self.records} - diverged)

    def at(self, bits: int) -> Coding:
        """The trials at one length."""
        return Coding(tuple(record for record in self.records if record.bits == bits))

    @property
    def bits(self) -> int:
        return self.records[0].bits

    @property
    def precision(self) -> Tied | None:
        """Mean average precision, mean of the trials, with the mean bounds by ties; None where a trial diverged."""
        if not all(record.retrieval for record in self.records):
            return None
        found = [record.retrieval["mean_average_precision"] for record in self.records]
        return Tied(*(fmean(part[name] for part in found) for name in ("expected", "lower", "upper")))

    def measure(self, name: str) -> float | None:
        """A measure without ties: of the retrieval such as "precision_within", or of the codes such as "balance".

        None where a record does not have it: those of version 0.1, and of methods whose codes have no Hamming distance.
        """
        found = [
            (record.retrieval | record.codes | record.neighbours | record.asymmetric).get(name)
            for record in self.records
        ]
        known = [value for value in found if value is not None]
        return fmean(known) if known and len(known) == len(found) else None

    @property
    def seconds(self) -> float:
        """The least of the trials: the work is the same in all, and some may have shared their core."""
        return min(record.seconds for record in self.records)


class Hashing(Comparison[Coding]):
    """All ways of one run."""

    @property
    def unseen(self) -> bool:
        """Whether the classes that are searched were kept from the training."""
        return "unseen" in self.first.data["name"]

    @property
    def tests(self) -> int:
        """Queries of a trial, the fewest where each has its own."""
        return min(self.sizes("queries"))

    def sizes(self, name: str) -> list[int]:
        """The different numbers of images that trials "train" on, have as "database" or as "queries", ascending.

        Where classes are unseen each trial has its own; older records do not say them all.
        """
        own = {
            "train": [record.samples for record in self.records],
            "database": [record.codes.get("codes", 0) for record in self.records],
            "queries": [record.retrieval.get("queries", 0) for record in self.records],
        }[name]
        found = sorted({number for number in own if number})
        return found if self.unseen and found else [self.first.data[name]]

    def count(self, name: str) -> str:
        """`sizes` in words: 2,859, or 2,800 to 3,100."""
        found = self.sizes(name)
        return " to ".join(dict.fromkeys(f"{number:,}" for number in (found[0], found[-1])))

    @property
    def asked(self) -> str:
        """How many queries, the first ones, true neighbours were sought for; older records do not say it."""
        found = sorted({record.neighbours.get("asked", 1000) for record in self.records if record.neighbours})
        return " to ".join(dict.fromkeys(f"{number:,}" for number in (found or [1000])[:: max(1, len(found) - 1)]))

    @property
    def lengths(self) -> list[int]:
        return sorted({bits for way in self.rows.values() for bits in way.lengths})

    @property
    def shown(self) -> int | None:
        """The length to show curves and pictures of; None where everything diverged."""
        return shown_length(self.lengths) if self.lengths else None


def shown_length(lengths: Sequence[int]) -> int:
    return SHOWN_BITS if SHOWN_BITS in lengths else max(lengths)
