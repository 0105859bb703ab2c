"""What this library adds to the paper's experiment: less time to an error, zeros by a budget, certified points.

Verdicts are computed, as those of the paper's claims are.
"""

from __future__ import annotations

import math
from statistics import fmean

from tikhonet.paper.comparison import Claim, Finding, standard_error
from tikhonet.paper.figures import Axis, Line, Lines, Point
from tikhonet.paper.mnist_findings import compared
from tikhonet.paper.network_results import NetworkRow, Networks
from tikhonet.paper.sheets import short

BUDGET = "budget-"
"""How the names of methods with a budget begin; the percent of nonzeros follows."""
CERTIFIED = "certified"
LARGE = 10.0


def added_claims(results: Networks) -> list[Claim]:
    """The claims that there are records for."""
    ours, rival = results.rows.get("stochastic"), results.best("sgd")
    ball, budgets = results.rows.get("stochastic-s"), budget_rows(results)
    found: list[Claim] = []
    if ours and rival and rival.records[0].course:
        words = "It comes to the error of the best SGD solver in less time, its own epochs or fewer."
        found.append(Claim(words, (sooner(results, ours, rival),), "time"))
    if budgets:
        found.append(Claim("A budget of nonzero weights is met to the weight.", (met(budgets),), "zeros"))
        if ball:
            words = f"With {LARGE:g}% of the weights it errs less than the l1 ball of BCD-S, which keeps more of them."
            found.append(Claim(words, (less_than_the_ball(results, budgets, ball),), "zeros"))
    if certified := results.rows.get(CERTIFIED):
        words = "Descent on the network's own loss ends in a point that is certified to be stationary."
        found.append(Claim(words, (certificate(certified),), "certificate"))
    return found


def budget_rows(results: Networks) -> list[NetworkRow]:
    return [row for name, row in results.rows.items() if name.startswith(BUDGET) and not math.isnan(row.score)]


def met(budgets: list[NetworkRow]) -> Finding:
    checks = [check for row in budgets for _, check in row.checks("budget")]
    missed = [check["figure"].partition(";")[0] for check in checks if not check["holds"]]
    text = f"In {len(checks) - len(missed)} of {len(checks)} runs"
    return Finding(f"{text}; else {missed[0]}." if missed else f"{text}.", not missed)


def sooner(results: Networks, ours: NetworkRow, rival: NetworkRow) -> Finding:
    """Whether the shortest run that is no worse than the best SGD solver at its end is also shorter than it."""
    good = [(seconds, passes, fmean(errors)) for passes, seconds, errors in ours.runs if fmean(errors) <= rival.score]
    end = f"{rival.title}, the best of them, has {rival.score:.2f}% after {short(rival.seconds)} s"
    if not good:
        return Finding(f"{end}; no run of ours has as little.", False)
    seconds, passes, error = min(good)
    ratio = rival.seconds / seconds
    text = f"{end}; {passes:.0f} epochs of ours have {error:.2f}% after {short(seconds)} s, {ratio:.2g} times as fast."
    return Finding(text, ratio > 1)


def less_than_the_ball(results: Networks, budgets: list[NetworkRow], ball: NetworkRow) -> Finding:
    row = min(budgets, key=lambda row: abs(row.density - LARGE))
    text, verdict = compared(results, row, ball)
    return Finding(f"{text}; {row.density:.1f}% of the weights against {ball.density:.1f}%.", verdict)


def certificate(row: NetworkRow) -> Finding:
    checks = row.checks("stationary")
    held = [check["holds"] for _, check in checks]
    first = checks[0][1]["figure"].partition(" (")[0]
    text = (
        f"In {held.count(True)} of {len(held)} runs, after {row.passes:.0f} iterations. Trial {checks[0][0]}: {first}."
    )
    return Finding(f"{text} Test error {row.score:.2f}%.", all(held))


def time_to_error(results: Networks) -> Lines | None:
    """Error against seconds of runs with more and more epochs; None where there is one length only."""
    rows = [row for row in results.family("stochastic", "sgd") if row.records[0].course and not math.isnan(row.score)]
    if not rows:
        return None
    lines = []
    for row in rows:
        points = []
        for passes, seconds, errors in row.runs:
            mean, error = fmean(errors), standard_error(errors) if len(errors) > 1 else 0.0
            tip = f"{row.title}\n{passes:.0f} epochs, {short(seconds)} s: {mean:.2f} ± {error:.2f}%"
            points.append(Point(seconds, mean, mean - error, mean + error, tip))
        lines.append(Line(row.label, row.family, points, row.sparse))
    return Lines(
        name="e",
        title="(e) Time to error",
        caption="Test error against seconds of training, for runs of more and more epochs, each with steps of its own. "
        "Strokes are standard errors over the trials.",
        x=Axis("seconds", log=True),
        y=Axis("test error, %"),
        lines=lines,
        dots=True,
    )


def zeros_by_budget(results: Networks) -> Lines | None:
    """Error against nonzeros: budgets that are asked for, and the l1 balls whose zeros emerge."""
    budgets, dense = budget_rows(results), results.rows.get("stochastic")
    if not budgets or dense is None:
        return None
    falling = sorted([dense, *budgets], key=lambda row: row.density)[::-1]
    lines = [Line("budget", "stochastic", [nonzero_point(row) for row in falling])]
    for row in results.rows.values():
        if row.sparse and row not in budgets and not math.isnan(row.score):
            lines.append(Line(row.label, row.family, [nonzero_point(row)], lone=True))
    return Lines(
        name="f",
        title="(f) Zeros by budget",
        caption="Test error against exactly nonzero weights: a budget is asked for and met, the zeros of an l1 ball "
        "emerge. Strokes are standard errors over the test images.",
        x=Axis("exactly nonzero weights of the three W, %", log=True, falling=True),
        y=Axis("test error, %"),
        lines=lines,
        dots=True,
    )


def nonzero_point(row: NetworkRow) -> Point:
    error = row.standard_error or 0.0
    tip = f"{row.title}\n{row.density:.1f}% nonzero: {row.score:.2f} ± {error:.2f}%"
    return Point(row.density, row.score, row.score - error, row.score + error, tip, hollow=not row.sparse)
