"""Error against nonzeros: the curves of the five ways to zeros, and what they say. Verdicts are computed."""

from __future__ import annotations

import math
from statistics import fmean

from tikhonet.paper.comparison import Claim, Finding
from tikhonet.paper.figures import Axis, Line, Lines, Point
from tikhonet.paper.mnist_findings import PAPER_GAP, PAPER_NONZERO
from tikhonet.paper.network_results import NetworkRow, Networks

GOALS = ((2.42, 0.25), (1.0, 0.4))
"""Percent of nonzeros, and points of error over the dense network at most."""
SPARSE = 5.0
"""Pruning is compared with below this percent of nonzeros."""

DASHED = ("layered-", "one-shot-")
WAYS = (
    ("Budget (ours)", "stochastic", "dense", "budget-"),
    ("l1 ball alone", "proximal", None, "ball-"),
    ("Adam, gradually", "sgd", "adam", "gradual-"),
    ("Adam, by layer", "sgd", None, "layered-"),
    ("Adam, at once", "reference", "adam", "one-shot-"),
)


def frontier(results: Networks) -> Lines:
    """Test error against nonzeros, which fall to the right; each way runs from dense to sparse."""
    lines = []
    for label, family, whole, prefix in WAYS:
        rows = [row for row in results.rows.values() if row.name == whole or row.name.startswith(prefix)]
        rows = sorted((row for row in rows if not math.isnan(row.score)), key=lambda row: -row.density)
        if rows:
            points = [point(row) for row in rows]
            lines.append(Line(label, family, points, dashed=prefix in DASHED, lone=len(points) == 1))
    dense = results.rows.get("dense")
    if dense and not math.isnan(dense.score):
        error = dense.score + PAPER_GAP
        tip = f"The paper's BCD-S\n{PAPER_NONZERO:g}% nonzeros, {error:.2f}%: as far above dense as it reports"
        paper = Point(PAPER_NONZERO, error, error, error, tip)
        lines.append(Line("the paper's BCD-S", "printed", [paper], lone=True, cross=True))
    return Lines(
        name="frontier",
        title="Test error against nonzero weights",
        caption=f"Linear SVM refitted on the features, {results.first.data['test']:,} test images; mean of the trials "
        f"with their range. The cross is the paper's {PAPER_NONZERO}% nonzeros, drawn {PAPER_GAP} points above the "
        "dense network here: the distance that it reports.",
        x=Axis("exactly nonzero weights of the three W, %", log=True, falling=True),
        y=Axis("test error, %"),
        lines=lines,
        dots=True,
    )


def point(row: NetworkRow) -> Point:
    trials = ", ".join(f"{error:.2f}" for error in row.scores)
    tip = f"{row.title}\n{row.density:.2f}% nonzeros: {row.score:.2f}% ({trials}), {row.seconds:.3g} s"
    return Point(row.density, row.score, min(row.scores), max(row.scores), tip, hollow=not row.sparse)


def sparse_claims(results: Networks) -> list[Claim]:
    """Everything that is asked of a sparse network, judged."""
    found = [
        (f"The l1 ball alone leaves {PAPER_NONZERO}% nonzeros (the paper's BCD-S).", emergent(results)),
        (
            f"{PAPER_NONZERO}% nonzeros cost no more than the paper's {PAPER_GAP} points.",
            cost(results, 2.42, PAPER_GAP),
        ),
    ]
    for percent, points in GOALS:
        found.append((f"{percent:g}% nonzeros cost no more than {points:g} points.", cost(results, percent, points)))
    found.append((f"Below {SPARSE:g}% a budget has a lower error than pruned Adam at every density.", against(results)))
    found.append(("A budget takes less training time than pruned Adam.", faster(results)))
    found.append(("Every budget is met to the weight.", exact(results)))
    return [Claim(words, (finding,)) for words, finding in found]


def emergent(results: Networks) -> Finding:
    balls, dense = [row for row in results.rows.values() if row.name.startswith("ball-")], results.rows.get("dense")
    if not balls:
        return Finding("The ball was not run.", None)
    points = [
        f"radius {ball.name.removeprefix('ball-')}: {ball.density:.1f}% at {ball.score:.2f}% error" for ball in balls
    ]
    text = "; ".join(points) + (f" (dense {dense.score:.2f}%)." if dense else ".")
    return Finding(text, min(ball.density for ball in balls) <= PAPER_NONZERO)


def cost(results: Networks, percent: float, points: float) -> Finding:
    row, dense = results.rows.get(f"budget-{percent:g}"), results.rows.get("dense")
    if row is None or dense is None or math.isnan(row.score + dense.score):
        return Finding(f"A budget of {percent:g}%, or the dense network, was not run or diverged.", None)
    gap, noise = row.score - dense.score, results.noise(row.score, dense.score)
    noise /= math.sqrt(min(len(row.records), len(dense.records)))
    text = f"{gap:+.2f} points ({row.score:.2f}% against {dense.score:.2f}%) at {row.density:.2f}% nonzeros"
    return Finding(f"{text}; standard error about {noise:.2f}.", gap <= points)


def pairs(results: Networks, below: float = math.inf) -> list[tuple[float, NetworkRow, list[NetworkRow]]]:
    """Every density with its budget and the pruned networks beside it."""
    found = []
    for name, row in results.rows.items():
        percent = name.removeprefix("budget-")
        rivals = [
            results.rows[f"{way}-{percent}"]
            for way in ("gradual", "layered", "one-shot")
            if f"{way}-{percent}" in results.rows
        ]
        if name != percent and float(percent) < below and rivals:
            found.append((float(percent), row, rivals))
    return found


def against(results: Networks) -> Finding:
    compared = pairs(results, SPARSE)
    if not compared:
        return Finding("No pair of a budget and a pruned network below that density was run.", None)
    parts, won = [], []
    for percent, row, rivals in compared:
        best = min(rivals, key=lambda rival: math.inf if math.isnan(rival.score) else rival.score)
        won.append(row.score < best.score)
        parts.append(f"{percent:g}%: {row.score:.2f} against {best.score:.2f} ({best.title.partition(', ')[2]})")
    return Finding("; ".join(parts) + ".", all(won))


def faster(results: Networks) -> Finding:
    compared = pairs(results)
    if not compared:
        return Finding("Nothing to compare with was run.", None)
    ours = fmean(row.seconds for _, row, _ in compared)
    theirs = fmean(rival.seconds for _, _, rivals in compared for rival in rivals)
    return Finding(f"{ours:.3g} s against {theirs:.3g} s on average.", ours < theirs)


def exact(results: Networks) -> Finding:
    checks = [held for row in results.rows.values() for held in row.holds("budget")]
    if not checks:
        return Finding("No budget was run.", None)
    return Finding(f"In {checks.count(True)} of {len(checks)} runs.", all(checks))
