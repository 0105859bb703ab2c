"""Error against nonzeros: the curves of the four ways to zeros, and what they say. Verdicts are computed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

from tikhonet.paper.report.claims import PAPER_GAP, PAPER_NONZERO, Finding
from tikhonet.paper.report.summary import Row, Summary

GOALS = ((2.42, 0.25), (1.0, 0.4))
"""Percent of nonzeros, and points of error over the dense network at most."""
SPARSE = 5.0
"""Pruning is compared with below this percent of nonzeros."""


@dataclass(frozen=True)
class Curve:
    """One way to zeros: a network a point, from dense to sparse."""

    label: str
    family: str
    rows: list[Row]


@dataclass(frozen=True)
class Frontier:
    name: str
    title: str
    caption: str
    x_label: str
    y_label: str
    curves: list[Curve]
    paper: tuple[float, float] | None
    """The paper's nonzeros, at its distance above the dense network of this library."""


WAYS = (
    ("Budget (ours)", "stochastic", "dense", "budget-"),
    ("l1 ball alone", "proximal", None, "ball-"),
    ("Adam, gradually", "sgd", "adam", "gradual-"),
    ("Adam, at once", "reference", "adam", "one-shot-"),
)


def frontier(summary: Summary) -> Frontier:
    curves = []
    for label, family, whole, prefix in WAYS:
        rows = [row for row in summary.rows.values() if row.name == whole or row.name.startswith(prefix)]
        rows = sorted((row for row in rows if not math.isnan(row.error)), key=lambda row: -row.density)
        if rows:
            curves.append(Curve(label, family, rows))
    dense = summary.rows.get("dense")
    point = (PAPER_NONZERO, dense.error + PAPER_GAP) if dense and not math.isnan(dense.error) else None
    return Frontier(
        "frontier",
        "Test error against nonzero weights",
        f"Linear SVM refitted on the features, {summary.first.data['test']:,} test images; mean of the trials with "
        f"their range. The cross is the paper's {PAPER_NONZERO}% nonzeros, drawn {PAPER_GAP} points above the dense "
        "network here: the distance that it reports.",
        "exactly nonzero weights of the three W, %",
        "test error, %",
        curves,
        point,
    )


def findings(summary: Summary) -> list[tuple[str, Finding]]:
    """What is asked of a sparse network, and what was measured."""
    found = [
        (f"The l1 ball alone leaves {PAPER_NONZERO}% nonzeros (the paper's BCD-S).", emergent(summary)),
        (
            f"{PAPER_NONZERO}% nonzeros cost no more than the paper's {PAPER_GAP} points.",
            cost(summary, 2.42, PAPER_GAP),
        ),
    ]
    for percent, points in GOALS:
        found.append((f"{percent:g}% nonzeros cost no more than {points:g} points.", cost(summary, percent, points)))
    found.append((f"Below {SPARSE:g}% a budget has a lower error than pruned Adam at every density.", against(summary)))
    found.append(("A budget takes less training time than pruned Adam.", faster(summary)))
    found.append(("Every budget is met to the weight.", exact(summary)))
    return found


def emergent(summary: Summary) -> Finding:
    balls, dense = [row for row in summary.rows.values() if row.name.startswith("ball-")], summary.rows.get("dense")
    if not balls:
        return Finding("The ball was not run.", None)
    points = [
        f"radius {ball.name.removeprefix('ball-')}: {ball.density:.1f}% at {ball.error:.2f}% error" for ball in balls
    ]
    text = "; ".join(points) + (f" (dense {dense.error:.2f}%)." if dense else ".")
    return Finding(text, min(ball.density for ball in balls) <= PAPER_NONZERO)


def cost(summary: Summary, percent: float, points: float) -> Finding:
    row, dense = summary.rows.get(f"budget-{percent:g}"), summary.rows.get("dense")
    if row is None or dense is None or math.isnan(row.error + dense.error):
        return Finding(f"A budget of {percent:g}%, or the dense network, was not run or diverged.", None)
    gap, noise = row.error - dense.error, summary.noise(row.error, dense.error)
    noise /= math.sqrt(min(len(row.records), len(dense.records)))
    text = f"{gap:+.2f} points ({row.error:.2f}% against {dense.error:.2f}%) at {row.density:.2f}% nonzeros"
    return Finding(f"{text}; standard error about {noise:.2f}.", gap <= points)


def pairs(summary: Summary, below: float = math.inf) -> list[tuple[float, Row, list[Row]]]:
    """Every density with its budget and the pruned networks beside it."""
    found = []
    for name, row in summary.rows.items():
        percent = name.removeprefix("budget-")
        rivals = [
            summary.rows[f"{way}-{percent}"] for way in ("gradual", "one-shot") if f"{way}-{percent}" in summary.rows
        ]
        if name != percent and float(percent) < below and rivals:
            found.append((float(percent), row, rivals))
    return found


def against(summary: Summary) -> Finding:
    compared = pairs(summary, SPARSE)
    if not compared:
        return Finding("No pair of a budget and a pruned network below that density was run.", None)
    parts, won = [], []
    for percent, row, rivals in compared:
        best = min(rivals, key=lambda rival: math.inf if math.isnan(rival.error) else rival.error)
        won.append(row.error < best.error)
        parts.append(f"{percent:g}%: {row.error:.2f} against {best.error:.2f} ({best.title.partition(', ')[2]})")
    return Finding("; ".join(parts) + ".", all(won))


def faster(summary: Summary) -> Finding:
    compared = pairs(summary)
    if not compared:
        return Finding("Nothing to compare with was run.", None)
    ours = fmean(row.seconds for _, row, _ in compared)
    theirs = fmean(rival.seconds for _, _, rivals in compared for rival in rivals)
    return Finding(f"{ours:.3g} s against {theirs:.3g} s on average.", ours < theirs)


def exact(summary: Summary) -> Finding:
    checks = [held for row in summary.rows.values() for held in row.holds("budget of nonzeros")]
    if not checks:
        return Finding("No budget was run.", None)
    return Finding(f"In {checks.count(True)} of {len(checks)} runs.", all(checks))
