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


Judge = Callable[[Networks, NetworkRow, NetworkRow], Finding]
"""Judges a claim by a dense method and its sparse form."""


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
    return judge(results, dense, sparse)


def falls(results: Networks, dense: NetworkRow, sparse: NetworkRow) -> Finding:
    checks = dense.holds("descent") + sparse.holds("descent")
    parts = [f"{name} {short(start(row))} → {short(row.objective)}" for name, row in named(dense, sparse)]
    text = (
        f"f per image: {', '.join(parts)}. It fell at every block step in {checks.count(True)} of {len(checks)} runs."
    )
    return Finding(text, every(checks))


def stationary(results: Networks, dense: NetworkRow, sparse: NetworkRow) -> Finding:
    checks = dense.holds("stationary") + sparse.holds("stationary")
    parts = [f"{name} {short(row.residual)}" for name, row in named(dense, sparse)]
    text = f"Projected gradient: {', '.join(parts)}. Stationary in {checks.count(True)} of {len(checks)} runs"
    if all(checks):
        return Finding(f"{text}.", True)
    left = steps_left(dense)
    if left < STANDSTILL:
        return Finding(f"{text}; all steps still to come go {100 * left:.1f}% of the way to the next minimiser.", False)
    return Finding(f"{text}; the others used up their iterations.", None)


def linear_rate(results: Networks, dense: NetworkRow, sparse: NetworkRow) -> Finding:
    checks = dense.holds("rate") + sparse.holds("rate")
    if steps_left(dense) < STANDSTILL and not all(dense.holds("stationary")):
        return Finding("The gradient stays away from zero, so no stationary point is approached at any rate.", False)
    figures = [check["figure"] for _, check in dense.checks("rate")]
    text = f"Geometric fits best in {checks.count(True)} of {len(checks)} runs; trial 0 of BCD: {figures[0]}."
    return Finding(text, True if all(checks) else None)


def sparse_is_faster_and_higher(results: Networks, dense: NetworkRow, sparse: NetworkRow) -> Finding:
    (name, slow), (name_s, fast) = ((name, settled(row)) for name, row in named(dense, sparse))
    higher = sparse.objective > dense.objective
    text = (
        f"{name_s} ends {'higher' if higher else 'lower'}, at {short(sparse.objective)} per image against "
        f"{short(dense.objective)}; it is within 10% of its end after {fast} iterations, {name} after {slow}."
    )
    return Finding(text, higher and 2 * fast <= slow)


def against_sgd(results: Networks, row: NetworkRow) -> Finding:
    rivals, rival = results.family("sgd"), results.best("sgd")
    if rival is None or math.isnan(row.score):
        return Finding("There is nothing to compare with.", None)
    beaten, noise = sum(row.score < other.score for other in rivals), results.noise(row.score, rival.score)
    text = f"{row.score:.2f}%, lower than {beaten} of {len(rivals)}; the best, {rival.title}, has {rival.score:.2f}%"
    untrained = results.rows.get("untrained")
    if untrained and not row.sparse:
        text += f", the untrained network {untrained.score:.2f}%"
    gap = row.score - rival.score
    verdict = None if abs(gap) < noise else gap < 0
    return Finding(f"{text} (standard error of a difference {noise:.2f}).", verdict)


def faster(results: Networks, dense: NetworkRow, sparse: NetworkRow) -> Finding:
    """Seconds of equal passes, as in the paper, for Alg. 1; of the whole training where fewer passes are needed."""
    if not results.family("sgd"):
        return Finding("No SGD solver was run.", None)
    a_pass = results.median_sgd("pass_seconds")
    in_all = results.median_sgd("seconds")
    text = f"A pass over 10,000 images: {short(dense.pass_seconds)} s, median SGD solver {short(a_pass)} s"
    if dense.family == "printed":
        ratio = a_pass / dense.pass_seconds
        return Finding(f"{text}; {ratio:.2g} times as fast.", ratio >= PAPER_SPEED_UP)
    ratio = in_all / dense.seconds
    text += f". The whole training: {short(dense.seconds)} s and {short(in_all)} s; {ratio:.2g} times as fast."
    return Finding(text, ratio >= PAPER_SPEED_UP)


def sparseness(results: Networks, dense: NetworkRow, sparse: NetworkRow) -> Finding:
    text = f"BCD-S {sparse.density:.1f}% exactly nonzero, BCD {dense.density:.1f}%."
    if 2 * PAPER_NONZERO < sparse.density < dense.density:
        text += " Sparser, but not within a factor of two of the paper's figure."
    return Finding(text, sparse.density <= 2 * PAPER_NONZERO)


def sparse_gap(results: Networks, dense: NetworkRow, sparse: NetworkRow) -> Finding:
    gap, noise = sparse.score - dense.score, results.noise(sparse.score, dense.score)
    if math.isnan(gap):
        return Finding("A run diverged.", None)
    text = (
        f"{abs(gap):.2f} points {'less' if gap >= 0 else 'more'} accurate than BCD, at {sparse.density:.1f}% nonzeros."
    )
    return Finding(text, gap <= PAPER_GAP + noise)


CLAIMS: tuple[tuple[str, str, str, Judge], ...] = (
    ("Fig. 3a", "The objectives of BCD and BCD-S decrease monotonically.", "proximal", falls),
    ("Thm. 1", "BCD converges globally to a stationary point.", "proximal", stationary),
    ("Thm. 1", "The rate of convergence is R-linear.", "proximal", linear_rate),
    (
        "Fig. 3a",
        "BCD-S converges much faster than BCD, to a higher objective.",
        "proximal",
        sparse_is_faster_and_higher,
    ),
    (
        "Fig. 3b",
        "BCD has the lowest test error of all, below all six SGD solvers.",
        "stochastic",
        lambda results, dense, sparse: against_sgd(results, dense),
    ),
    (
        "Fig. 3b",
        "BCD-S still has a lower test error than the SGD solvers.",
        "stochastic",
        lambda results, dense, sparse: against_sgd(results, sparse),
    ),
    ("Fig. 3c", f"BCD trains about {PAPER_SPEED_UP} times faster than the SGD solvers.", "stochastic", faster),
    (
        "Fig. 3d",
        f"BCD-S learns networks with {PAPER_NONZERO}% nonzero weights, BCD with 97.15%.",
        "stochastic",
        sparseness,
    ),
    ("Sec. 3.3.1", f"BCD-S is only {PAPER_GAP} points less accurate than BCD.", "stochastic", sparse_gap),
)


def every(checks: list[bool | None]) -> bool | None:
    if False in checks:
        return False
    return None if None in checks or not checks else True


def named(dense: NetworkRow, sparse: NetworkRow) -> list[tuple[str, NetworkRow]]:
    return [("BCD", dense), ("BCD-S", sparse)]


def start(row: NetworkRow) -> float:
    return row.mean(lambda record: record.objective[0] if record.objective else None)


def steps_left(row: NetworkRow) -> float:
    """The sum of all theta_t still to come: without end where theta = 1."""
    return Power(2).tail(round(row.passes) + 1) if row.family == "printed" else math.inf


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


@dataclass(frozen=True)
class Cell:
    """How many of the trials meet a claim of their certificates, and each one's figure."""

    text: str
    kind: str
    tip: str


def certificate_rows(results: Networks) -> list[tuple[NetworkRow, list[Cell]]]:
    """A row a method, a cell a claim."""
    rows = [row for row in results.rows.values() if any(record.checks for record in row.records)]
    return [(row, [cell(row, key) for key in COLUMNS]) for row in rows]


def cell(row: NetworkRow, key: str) -> Cell:
    found = row.checks(key)
    if not found:
        return Cell("", "none", "")
    held = row.holds(key)
    yes, known = held.count(True), len(held) - held.count(None)
    tip = "\n".join([f"{row.title}: {found[0][1]['claim']}", *(f"trial {t}: {c['figure']}" for t, c in found)])
    if not known:
        return Cell("?", "unknown", tip)
    if yes in (0, len(held)):
        return Cell("✓" if yes else "✗", "yes" if yes else "no", tip)
    return Cell(f"{yes}/{len(held)}", "some", tip)
