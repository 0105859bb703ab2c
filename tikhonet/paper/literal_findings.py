"""Which readings of Alg. 1 converge, and which learn: the picture, and the claims judged by it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tikhonet.descent.schedules import Power
from tikhonet.paper.comparison import Claim, Comparison, Finding
from tikhonet.paper.figures import Axis, Line, Lines, Point
from tikhonet.paper.network_results import NetworkRecord, NetworkRow
from tikhonet.paper.sheets import short

TOLERANCES = ("inner-0.01", "printed", "inner-0.0001")
"""Alg. 1 as printed with its sub-problems solved ever more exactly."""
DEEP = "deep"
"""The reading with a network of its own, whose error has no place beside the others."""
BEYOND = 2.0
"""An error is lower for certain where it is so many standard errors lower."""


@dataclass(frozen=True, kw_only=True)
class LiteralRecord(NetworkRecord):
    """A trial, and where it stood on the way."""

    course: list[dict[str, Any]]
    """By iteration: f per image, the share of f that exact block steps could still take, the norm of the projected
    gradient, and the SVM's test error."""


@dataclass(frozen=True)
class LiteralRow(NetworkRow):
    """A reading over its trials, after its first iteration and at its end."""

    records: tuple[LiteralRecord, ...]

    @property
    def label(self) -> str:
        return super().label.replace(" from the forward pass", ": forward pass").replace("tolerance", "tol.")

    def at_first(self, name: str) -> float:
        """What the course says after the first iteration; NaN where there is none."""
        return self.mean(lambda record: record.course[0][name] if record.course else None)

    @property
    def left(self) -> float:
        """The norm of the projected gradient at the end, as a share of that at the start."""
        return self.mean(lambda record: record.residual / record.start_residual if record.course else None)

    @property
    def left_at_first(self) -> float:
        return self.mean(lambda r: r.course[0]["gradient"] / r.start_residual if r.course else None)

    @property
    def stationary(self) -> bool:
        """Whether every trial's certificate says so; one that was stopped has none."""
        return all(held is True for held in self.holds("stationary") or [False])


class Readings(Comparison[LiteralRow]):
    """Alg. 1, its readings and the references; errors are in percent."""

    whole = 100.0

    @property
    def followed(self) -> list[LiteralRow]:
        """The full-batch runs on the first images."""
        rows = [row for row in self.rows.values() if row.records[0].course and row.scores]
        return [row for row in rows if row.records[0].samples < row.records[0].data["train"]]

    @property
    def printed(self) -> LiteralRow | None:
        """Alg. 1 as printed on all images, or where that was not run on the first ones."""
        return self.rows.get("alg1") or self.rows.get("printed")

    def reference(self, name: str, row: LiteralRow) -> LiteralRow | None:
        """The reference that saw as many images as the row."""
        rows = (self.rows.get(name), self.rows.get(f"{name}-all"))
        return next((other for other in rows if other and other.records[0].samples == row.records[0].samples), None)

    def compare_errors(self, row: LiteralRow, other: LiteralRow) -> tuple[str, bool | None]:
        """Two errors in words, and whether the first is lower; None where the noise of the test images hides it."""
        noise, gap = self.noise(row.score, other.score), row.score - other.score
        noise /= math.sqrt(min(len(row.records), len(other.records)))
        text = f"{row.score:.2f}% against {other.score:.2f}%, standard error {noise:.2f}"
        return text, gap < 0 if abs(gap) > BEYOND * noise else None


def literal_figures(results: Readings) -> list[Lines]:
    """Test error against the gradient that is left: each reading from its first iteration to its end."""
    shown = [row for row in results.followed if row.name != DEEP]
    if not shown:
        return []
    low = min(min(row.left, row.left_at_first) for row in shown)
    lines = [path(row) for row in shown]
    for name in ("untrained", "pixels", "trainer"):
        if (row := results.rows.get(name)) and row.scores:
            words = f"{row.title}\n{row.score:.2f}%"
            across = [Point(x, row.score, row.score, row.score, words) for x in (1.0, low)]
            lines.append(Line(row.label, row.family, across, dashed=True))
    images = shown[0].records[0].samples
    return [
        Lines(
            name="readings",
            title="Which converge, which learn",
            caption=f"Every reading of Alg. 1 on the same {images:,} images, from its first iteration to its end (the "
            "filled dot). To the right less of the gradient is left: those converge. Further down the features are "
            "worth more to a linear SVM, which sees the same images: those learn. Dashed across: the network before "
            "training, which is also gamma = 0, the raw pixels, and the stochastic trainer.",
            x=Axis("projected gradient, share of its size at the start", log=True, falling=True),
            y=Axis("test error, %"),
            lines=lines,
            dots=True,
        )
    ]


def path(row: LiteralRow) -> Line:
    first, last = row.at_first("error"), row.score
    words = f"{row.title}\nf per image {short(row.objective)}, gradient {short(row.residual)}, error {last:.2f}%"
    start = Point(row.left_at_first, first, first, first, f"{row.title}, t = 1\nerror {first:.2f}%", hollow=True)
    return Line(row.label, row.family, [start, Point(row.left, last, last, last, words)])


def literal_claims(results: Readings) -> list[Claim]:
    """The paper's claims of convergence and learning, for its recipe and for the readings of it."""
    found = [
        ("Alg. 1 as printed reaches a stationary point (Thm. 1).", converges(results)),
        ("Its features are worth more to the SVM than those of the untrained network.", learns(results, "untrained")),
        ("Its features are worth more to the SVM than the pixels.", learns(results, "pixels")),
        ("What its first iteration leaves is repaired by the later ones.", repaired(results)),
        ("How exactly the first sub-problem is solved does not matter in the end.", exactness(results)),
        ("Some reading of it reaches a stationary point.", some_converge(results)),
        ("Some reading of it learns features worth more than the untrained network's.", some_learn(results)),
        ("It trains a very deep plain network (Sec. 3.3.2).", deep(results)),
    ]
    return [Claim(words, (finding,)) for words, finding in found if finding]


def converges(results: Readings) -> Finding | None:
    row = results.printed
    if row is None:
        return None
    share, rest = row.mean(lambda record: record.course[-1]["share"]), Power(2).tail(round(row.passes) + 1)
    blocks = "" if math.isnan(share) else f"exact block steps could take up to {share:.0%} of f; "
    return Finding(
        f"{row.records[0].samples:,} images, {row.passes:.0f} iterations: the gradient is {short(row.residual)}, after "
        f"the first it was {short(row.at_first('gradient'))}; {blocks}all steps to come sum to {rest:.2g} of one.",
        row.stationary,
    )


def learns(results: Readings, name: str) -> Finding | None:
    row = results.printed
    other = row and results.reference(name, row)
    if row is None or other is None:
        return None
    text, better = results.compare_errors(row, other)
    return Finding(f"{text} ({other.title.lower()}, {row.records[0].samples:,} images).", better)


def repaired(results: Readings) -> Finding | None:
    row = results.printed
    if row is None:
        return None
    first, last = row.at_first("error"), row.score
    noise, f = results.noise(first, last), row.at_first("objective")
    text = f"Error {first:.2f}% after t = 1 and {last:.2f}% after t = {row.passes:.0f} (standard error {noise:.2f}); "
    return Finding(f"{text}f {short(f)} and {short(row.objective)}.", last < first - BEYOND * noise)


def exactness(results: Readings) -> Finding | None:
    rows = [results.rows[name] for name in TOLERANCES if name in results.rows]
    if len(rows) < 2:
        return None
    parts = []
    for row in rows:
        tol = row.records[0].settings["inner_tol"]
        f = f"f {short(row.at_first('objective'))} to {short(row.objective)}"
        parts.append(f"{tol:g}: {f}, error {row.at_first('error'):.2f} to {row.score:.2f}%")
    noise, errors = results.noise(rows[0].score, rows[-1].score), [row.score for row in rows]
    text = "; ".join(parts)
    return Finding(f"From t = 1 to the end, by inner tolerance {text}.", max(errors) - min(errors) < BEYOND * noise)


def some_converge(results: Readings) -> Finding | None:
    rows = results.followed
    if not rows:
        return None
    names = [row.title for row in rows if row.stationary]
    best = min(rows, key=lambda row: row.left)
    text = f"{len(names)} of {len(rows)}{': ' * bool(names)}{', '.join(names)}; least gradient left: {best.title}, "
    return Finding(f"{text}{best.left:.1e} of the start's after {best.passes:.0f} iterations.", bool(names))


def some_learn(results: Readings) -> Finding | None:
    rows, base = results.followed, results.rows.get("untrained")
    if not rows or base is None:
        return None
    better = [row.title for row in rows if results.compare_errors(row, base)[1]]
    best = min(rows, key=lambda row: row.score)
    names = f"{len(better)} of {len(rows)}{': ' * bool(better)}{', '.join(better)}"
    lowest = f"The lowest error is that of {best.title}: {results.compare_errors(best, base)[0]}"
    return Finding(f"{names}. {lowest}.", bool(better))


def deep(results: Readings) -> Finding | None:
    row, base = results.rows.get(DEEP), results.rows.get("pixels")
    if row is None or base is None or math.isnan(row.score):
        return None
    text, better = results.compare_errors(row, base)
    return Finding(f"{row.title}, {row.passes:.0f} iterations: {text} (raw pixels).", better)
