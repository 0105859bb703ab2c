"""The paper's claims about Fig. 3, judged by what its literal recipe and this library gave. Verdicts are computed.

The literal recipe is Alg. 1 as printed. "This library" is proximal descent where convergence is at stake, and the
stochastic trainer where error, time and sparsity are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tikhonet.descent.schedules import Power
from tikhonet.paper.comparison import Claim, Finding
from tikhonet.paper.network_results import NetworkRow, Networks
from tikhonet.paper.sheets import short

PAPER_SPEED_UP = 2.5
PAPER_NONZERO = 2.42
PAPER_GAP = 1.34
STANDSTILL = 0.1
"""A schedule stands still when all of its steps to come go less than this share of one full block step."""


@dataclass(frozen=True)
class Pair:
    """A dense method and its sparse form, which a claim is judged by."""

    results: Networks
    dense: NetworkRow
    sparse: NetworkRow

    def holds(self, key: str) -> list[bool | None]:
        """The verdicts of this check in all certificates."""
        return self.dense.holds(key) + self.sparse.holds(key)

    def each(self, form: Callable[[NetworkRow], str]) -> str:
        return f"BCD {form(self.dense)}, BCD-S {form(self.sparse)}"

    @property
    def steps_left(self) -> float:
        """The sum of all theta_t still to come: without end where theta = 1."""
        return Power(2).tail(round(self.dense.passes) + 1) if self.dense.family == "printed" else math.inf


Judge = Callable[[Pair], Finding]
CLAIMS: list[tuple[str, str, str, Judge]] = []


def claim(where: str, words: str, library: str = "stochastic") -> Callable[[Judge], Judge]:
    """Make a function the judge of a claim; `library` is the method that stands for this library."""

    def add(judge: Judge) -> Judge:
        CLAIMS.append((where, words, library, judge))
        return judge

    return add


def mnist_claims(results: Networks) -> list[Claim]:
    """Every claim, with a finding on Alg. 1 as printed and one on this library."""
    return [
        Claim(words, tuple(finding(results, judge, name) for name in ("alg1", library)), where)
        for where, words, library, judge in CLAIMS
    ]


def finding(results: Networks, judge: Judge, name: str) -> Finding:
    dense, sparse = results.rows.get(name), results.rows.get(f"{name}-s")
    if dense is None or sparse is None:
        return Finding(f"{name} or {name}-s was not run.", None)
    return judge(Pair(results, dense, sparse))


@claim("Fig. 3a", "The objectives of BCD and BCD-S decrease monotonically.", "proximal")
def falls(pair: Pair) -> Finding:
    def start(row: NetworkRow) -> float:
        return row.mean(lambda record: record.objective[0] if record.objective else None)

    checks = pair.holds("descent")
    values = pair.each(lambda row: f"{short(start(row))} → {short(row.objective)}")
    text = f"f per image: {values}. It fell at every block step in {checks.count(True)} of {len(checks)} runs."
    return Finding(text, False if False in checks else None if None in checks or not checks else True)


@claim("Thm. 1", "BCD converges globally to a stationary point.", "proximal")
def stationary(pair: Pair) -> Finding:
    checks, values = pair.holds("stationary"), pair.each(lambda row: short(row.residual))
    text = f"Projected gradient: {values}. Stationary in {checks.count(True)} of {len(checks)} runs"
    if all(checks):
        return Finding(f"{text}.", True)
    left = pair.steps_left
    if left < STANDSTILL:
        return Finding(f"{text}; all steps still to come go {100 * left:.1f}% of the way to the next minimiser.", False)
    return Finding(f"{text}; the others used up their iterations.", None)


@claim("Thm. 1", "The rate of convergence is R-linear.", "proximal")
def linear_rate(pair: Pair) -> Finding:
    if pair.steps_left < STANDSTILL and not all(pair.dense.holds("stationary")):
        return Finding("The gradient stays away from zero, so no stationary point is approached at any rate.", False)
    checks, first = pair.holds("rate"), pair.dense.checks("rate")[0][1]["figure"]
    text = f"Geometric fits best in {checks.count(True)} of {len(checks)} runs; trial 0 of BCD: {first}."
    return Finding(text, True if all(checks) else None)


@claim("Fig. 3a", "BCD-S converges much faster than BCD, to a higher objective.", "proximal")
def sparse_is_faster_and_higher(pair: Pair) -> Finding:
    slow, fast, end, end_s = settled(pair.dense), settled(pair.sparse), pair.dense.objective, pair.sparse.objective
    text = (
        f"BCD-S ends {'higher' if end_s > end else 'lower'}, at {short(end_s)} per image against "
        f"{short(end)}; it is within 10% of its end after {fast} iterations, BCD after {slow}."
    )
    return Finding(text, end_s > end and 2 * fast <= slow)


@claim("Fig. 3b", "BCD has the lowest test error of all, below all six SGD solvers.")
def lowest_error(pair: Pair) -> Finding:
    return against_sgd(pair.results, pair.dense)


@claim("Fig. 3b", "BCD-S still has a lower test error than the SGD solvers.")
def lower_error(pair: Pair) -> Finding:
    return against_sgd(pair.results, pair.sparse)


@claim("Fig. 3c", f"BCD trains about {PAPER_SPEED_UP} times faster than the SGD solvers.")
def faster(pair: Pair) -> Finding:
    """Seconds of equal passes, as in the paper, for Alg. 1; of the whole training where fewer passes are needed."""
    results, dense = pair.results, pair.dense
    if not results.family("sgd"):
        return Finding("No SGD solver was run.", None)
    a_pass, in_all = results.median_sgd("pass_seconds"), results.median_sgd("seconds")
    text = f"A pass over 10,000 images: {short(dense.pass_seconds)} s, median SGD solver {short(a_pass)} s"
    if dense.family == "printed":
        ratio = a_pass / dense.pass_seconds
        return Finding(f"{text}; {ratio:.2g} times as fast.", ratio >= PAPER_SPEED_UP)
    ratio = in_all / dense.seconds
    text += f". The whole training: {short(dense.seconds)} s and {short(in_all)} s; {ratio:.2g} times as fast."
    return Finding(text, ratio >= PAPER_SPEED_UP)


@claim("Fig. 3d", f"BCD-S learns networks with {PAPER_NONZERO}% nonzero weights, BCD with 97.15%.")
def sparseness(pair: Pair) -> Finding:
    dense, sparse = pair.dense, pair.sparse
    text = f"BCD-S {sparse.density:.1f}% exactly nonzero, BCD {dense.density:.1f}%."
    if 2 * PAPER_NONZERO < sparse.density < dense.density:
        text += " Sparser, but not within a factor of two of the paper's figure."
    return Finding(text, sparse.density <= 2 * PAPER_NONZERO)


@claim("Sec. 3.3.1", f"BCD-S is only {PAPER_GAP} points less accurate than BCD.")
def sparse_gap(pair: Pair) -> Finding:
    dense, sparse = pair.dense, pair.sparse
    gap, noise = pair.results.difference(sparse, dense)
    if math.isnan(gap):
        return Finding("A run diverged.", None)
    noise = pair.results.noise(sparse.score, dense.score) if noise is None else noise
    text = (
        f"{abs(gap):.2f} points {'less' if gap >= 0 else 'more'} accurate than BCD, at {sparse.density:.1f}% nonzeros."
    )
    return Finding(text, gap <= PAPER_GAP + noise)


def against_sgd(results: Networks, row: NetworkRow) -> Finding:
    rivals, rival = results.family("sgd"), results.best("sgd")
    if rival is None or math.isnan(row.score):
        return Finding("There is nothing to compare with.", None)
    beaten = sum(row.score < other.score for other in rivals)
    text = f"{row.score:.2f}%, lower than {beaten} of {len(rivals)}; the best, {rival.title}, has {rival.score:.2f}%"
    untrained = results.rows.get("untrained")
    if untrained and not row.sparse:
        text += f", the untrained network {untrained.score:.2f}%"
    words, verdict = compared(results, row, rival)
    return Finding(f"{text} ({words}).", verdict)


def compared(results: Networks, row: NetworkRow, rival: NetworkRow) -> tuple[str, bool | None]:
    """The difference of two errors in words, and whether the first is lower.

    Paired by the test images, a difference within two standard errors cannot be told. Where records do not say which
    images were wrong, it is one standard error, the largest that there can be.
    """
    gap, error = results.difference(row, rival)
    if error is not None:
        return f"difference {gap:+.2f} ± {error:.2f} points, paired", None if abs(gap) < 2 * error else gap < 0
    noise = results.noise(row.score, rival.score)
    return f"standard error of a difference {noise:.2f}", None if abs(gap) < noise else gap < 0


def settled(row: NetworkRow) -> int:
    """The first pass after which the first trial stays within 10% of its last objective."""
    values = [value for value in row.records[0].objective if value is not None]
    return next(number for number, value in enumerate(values) if value <= 1.1 * values[-1])


COLUMNS = {
    "feasible": "feasible",
    "descent": "f falls",
    "promise": "as promised",
    "stationary": "stationary",
    "schedule": "can move on",
    "rate": "linear rate",
}
"""The keys of the certificates' checks, and the headings of their columns."""


Cell = tuple[str, str, str]
"""How many of the trials meet a claim of their certificates, the kind of mark that says so, and each one's figure."""


def certificate_rows(results: Networks) -> list[tuple[NetworkRow, list[Cell]]]:
    """A row a method, a cell a claim."""
    rows = [row for row in results.rows.values() if any(record.checks for record in row.records)]
    return [(row, [cell(row, key) for key in COLUMNS]) for row in rows]


def cell(row: NetworkRow, key: str) -> Cell:
    found = row.checks(key)
    if not found:
        return "", "none", ""
    held = row.holds(key)
    yes, known = held.count(True), len(held) - held.count(None)
    tip = "\n".join([f"{row.title}: {found[0][1]['claim']}", *(f"trial {t}: {c['figure']}" for t, c in found)])
    if not known:
        return "?", "unknown", tip
    if yes in (0, len(held)):
        return "✓" if yes else "✗", "yes" if yes else "no", tip
    return f"{yes}/{len(held)}", "some", tip
