"""The race with rivals: error against CPU seconds, and the two goals judged. Verdicts are computed."""

from __future__ import annotations

import math
from statistics import fmean

from tikhonet.paper.comparison import CHANCE, Claim, Finding
from tikhonet.paper.figures import Axis, Line, Lines, Point
from tikhonet.paper.rivals_results import Paired, Race, Rival
from tikhonet.paper.sheets import short

SOONER = 2.5
"""How many times sooner the trainer should be at an error than the fastest rival."""
SURE = 2.0
"""Standard errors by which its error should be the lowest."""
SHOWN = 5
"""Rivals whose curves are drawn at each length: the best."""


def race_claims(race: Race) -> list[Claim]:
    sooner = [Claim(f"{goal:g}% at least {SOONER:g} times sooner.", (reached(race, goal),)) for goal in race.goals]
    words = f"the lowest error, by more than {SURE:g} standard errors."
    return sooner + [Claim(f"After {n} epochs {words}", (lowest(race, n),)) for n in race.lengths]


def reached(race: Race, goal: float) -> Finding:
    """Time to an error, over the lengths of run that reach it; SVMs count where they are the classifier."""
    sides = {
        ours: sorted((row.seconds_to(goal), row.title) for row in race.rows.values() if row.ours is ours)
        for ours in (True, False)
    }
    if not sides[True] or not sides[False]:
        return Finding("One of the sides was not run.", None)
    (mine, _), (other, title) = sides[True][0], sides[False][0]
    if math.isinf(mine):
        rival = "no rival was either" if math.isinf(other) else f"{title} was after {short(other)} s"
        return Finding(f"Never there; {rival}.", False)
    if math.isinf(other):
        ends = min(row.total for row in race.rows.values() if not row.ours)
        text = f"After {short(mine)} CPU s; no rival was there when its run ended, the first after {short(ends)} s."
        return Finding(text, True if ends >= SOONER * mine else None)
    text = f"{short(mine)} CPU s, {title} {short(other)}: {other / mine:.2f} times sooner."
    return Finding(text, other >= SOONER * mine)


def lowest(race: Race, length: int) -> Finding:
    ours, others = race.at(length, ours=True), race.at(length, ours=False)
    if not ours or not others:
        return Finding("One of the sides was not run.", None)
    paired = Paired.of(ours[0], others[0])
    text = f"{ours[0].score:.2f}%, {others[0].title} {others[0].score:.2f}%"
    if paired is None:
        return Finding(f"{text}; two seeds of both at least would tell.", None)
    lower = paired.difference < -SURE * paired.error
    if lower and paired.t_test >= CHANCE:
        return Finding(f"{text}: {paired}. More seeds would tell.", None)
    return Finding(f"{text}: {paired}.", lower)


def race_figures(race: Race) -> list[Lines]:
    test, heads = (
        f"{race.first.data['test']:,} test images",
        "CPU seconds of one thread, of the SVM too where it counts",
    )
    x, y = Axis("CPU seconds of one thread", log=True), Axis("test error, %", log=True)
    ends = Lines(
        name="ends",
        title="Error and CPU seconds at the end",
        caption=f"{test}; mean of the seeds with their range, a dot for each length of run; {heads}.",
        x=x,
        y=y,
        lines=[Line(title, family, points) for (title, family), points in by_contender(race).items()],
        dots=True,
    )
    return [ends, *(curves(race, length, x, y) for length in race.lengths)]


def by_contender(race: Race) -> dict[tuple[str, str], list[Point]]:
    found: dict[tuple[str, str], list[Point]] = {}
    for row in race.rows.values():
        if not math.isnan(row.score):
            record = row.records[0]
            tip = f"{row.title}\n{row.score:.2f}% of {len(row.records)} seeds, {row.total:.3g} s"
            point = Point(row.total, row.score, min(row.scores), max(row.scores), tip)
            found.setdefault((record.title, record.family), []).append(point)
    return found


def curves(race: Race, length: int, x: Axis, y: Axis) -> Lines:
    rows = [*race.at(length, ours=True), *race.at(length, ours=False)[:SHOWN]]
    return Lines(
        name=f"curves-{length}",
        title=f"Error during runs of {length} epochs",
        caption=f"The trainer and the {SHOWN} best rivals; means of the seeds after every epoch that was measured.",
        x=x,
        y=y,
        lines=[Line(row.records[0].title, row.family, curve_points(row)) for row in rows],
    )


def curve_points(row: Rival) -> list[Point]:
    points = []
    for steps in zip(*(record.curve for record in row.records), strict=False):
        seconds, errors = (list(values) for values in zip(*steps, strict=True))
        spent, error = fmean(seconds), fmean(errors)
        tip = f"{row.title}\n{error:.2f}% after {spent:.3g} s"
        points.append(Point(spent, error, min(errors), max(errors), tip))
    return points
