"""The claims about hashing (Sec. 3.3.2, and those asked of this library), judged by the records, and its figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

from tikhonet.hashing.frontier import unbeaten
from tikhonet.hashing.mixture import Mixture
from tikhonet.paper.comparison import Claim, Finding
from tikhonet.paper.figures import Axis, Line, Lines, Point
from tikhonet.paper.hashing_results import POOLED, SHOWN_BITS, Coding, Hashing
from tikhonet.paper.sheets import Figure, short

OURS = ("mixed", "open", "bcd", "fewer", "words", "nearest")
PAPER_SPEED_UP = 9.0
"""An hour against nine."""
GOAL_SPEED_UP = 2.5
GOAL = 0.975
"""mAP asked for on MNIST with codes of `SHOWN_BITS`."""
COST = 0.01
"""mAP that bits for neighbours may cost."""
NEAR = 0.1
"""Methods whose mAP is this near to the best are drawn once more on an axis of their own."""


def hashing_claims(hashing: Hashing) -> list[Claim]:
    """The paper's claims, then those asked of this library."""
    said, asked = "Sec. 3.3.2", "asked of this library"
    split = split_rival(hashing)
    found = [
        (said, "mAP is slightly better than that of ADMM.", compare(hashing, split, "mAP", expected)),
        (said, "Precision is slightly better than that of ADMM.", within(hashing, split, "precision")),
        (said, "Recall is slightly better than that of ADMM.", within(hashing, split, "recall")),
        (said, "Training takes 1 hour where ADMM takes 9.", faster(hashing, split, PAPER_SPEED_UP)),
    ]
    if hashing.first.data["name"] == "mnist":
        found.append((asked, f"mAP of at least {GOAL} on MNIST with {SHOWN_BITS} bits.", reaches(hashing)))
    speed = f"As good as Adam in at least {GOAL_SPEED_UP} times less time."
    found += [
        (asked, "mAP above every other method at every length.", above_all(hashing)),
        (asked, "mAP above that of the classifier used as a hash.", compare(hashing, "classifier", "mAP", expected)),
        (asked, "Learned codes beat class codewords.", compare(hashing, "words", "mAP", expected)),
        (asked, speed, faster(hashing, "adam", GOAL_SPEED_UP)),
        (asked, "Precision in the ball above that of the classifier.", within(hashing, "classifier", "precision")),
        (asked, f"Bits for neighbours cost at most {COST} of mAP.", cost(hashing)),
        (asked, "With them, true neighbours are found at least as often as by ITQ.", nearer(hashing)),
        (asked, "They are found so without any labels.", nearer(hashing, "nearest")),
    ]
    return [Claim(words, (finding,), where) for where, words, finding in found]


Value = Callable[[Coding, int], float]


def expected(way: Coding, bits: int) -> float:
    return way.at(bits).score


def split_rival(hashing: Hashing) -> str:
    """The way that stands for ADMM: itself or its quadratic penalties alone, whichever has the higher mAP here."""
    ways = [way for name in ("admm", "penalty") if (way := hashing.rows.get(name)) and not math.isnan(way.score)]
    return max(ways, key=lambda way: way.score).name if ways else "admm"


def within(hashing: Hashing, rival: str, name: str) -> Finding:
    """Precision or recall within the radius, against the rival's."""
    words = f"{name.capitalize()} within radius {hashing.first.retrieval.get('radius', 2)}"
    return compare(hashing, rival, words, lambda way, bits: way.at(bits).measure(f"{name}_within") or 0.0)


def common(hashing: Hashing, rival: str, own: str = "bcd") -> tuple[Coding, Coding, list[int]] | None:
    """This library's learned codes, the rival, and the lengths of both."""
    ours, theirs = hashing.rows.get(own), hashing.rows.get(rival)
    lengths = sorted(set(ours.lengths) & set(theirs.lengths)) if ours and theirs else []
    return (ours, theirs, lengths) if ours and theirs and lengths else None


def missing(rival: str) -> Finding:
    return Finding(f"bcd and {rival} were not run at one length, or diverged.", None)


def compare(hashing: Hashing, rival: str, words: str, value: Value) -> Finding:
    """Whether ours is higher on average over the lengths, by more than the noise of the queries."""
    found = common(hashing, rival)
    if not found:
        return missing(rival)
    ours, theirs, lengths = found
    pairs = [(value(ours, bits), value(theirs, bits)) for bits in lengths]
    gap, means = fmean(a - b for a, b in pairs), [fmean(side) for side in zip(*pairs, strict=True)]
    noise = hashing.noise(*means)
    parts = ", ".join(f"{bits} bits {a:.4f} against {b:.4f}" for bits, (a, b) in zip(lengths, pairs, strict=True))
    text = f"{words}, against {theirs.title}: {parts}; {gap:+.4f} on average, standard error at most {noise:.4f}."
    return Finding(text, None if abs(gap) < noise else gap > 0)


def faster(hashing: Hashing, rival: str, times: float) -> Finding:
    """Whether training takes so many times less: that of the fewest passes whose mAP is not lower beyond the noise."""
    found = [pair for own in ("fewer", "bcd") if (pair := common(hashing, rival, own))]
    if not found:
        return missing(rival)
    for ours, theirs, lengths in found:
        mine, other = (fmean(way.at(bits).seconds for bits in lengths) for way in (ours, theirs))
        ratio = other / mine
        precision = [fmean(expected(way, bits) for bits in lengths) for way in (ours, theirs)]
        as_good = precision[0] >= precision[1] - hashing.noise(*precision)
        if as_good:
            break
    text = f"{ours.title}: {short(mine)} s against {short(other)} s, a ratio of {ratio:.2g}"
    text += f", at a mean mAP of {precision[0]:.4f} against {precision[1]:.4f}."
    return Finding(text, ratio >= times and as_good)


def reaches(hashing: Hashing) -> Finding:
    ours = hashing.rows.get("bcd")
    found = ours.at(SHOWN_BITS).precision if ours and SHOWN_BITS in ours.lengths else None
    if not found:
        return Finding(f"bcd-{SHOWN_BITS} was not run or diverged.", None)
    return Finding(f"{found}.", found.expected >= GOAL)


def cost(hashing: Hashing) -> Finding:
    """What labels lose where some bits know neighbours, and how many more codes differ."""
    found = common(hashing, "bcd", "mixed")
    if not found:
        return Finding("mixed and bcd were not run at one length, or diverged.", None)
    mixed, labels, lengths = found
    losses = {bits: expected(labels, bits) - expected(mixed, bits) for bits in lengths}
    parts = [
        f"{bits} bits {expected(mixed, bits):.4f} against {expected(labels, bits):.4f}, "
        f"{mixed.at(bits).measure('distinct') or 0:,.0f} distinct codes against "
        f"{labels.at(bits).measure('distinct') or 0:,.0f}"
        for bits in lengths
    ]
    return Finding("; ".join(parts) + ".", max(losses.values()) <= COST)


def nearer(hashing: Hashing, own: str = "mixed") -> Finding:
    """Whether the share of true neighbours that is found is at least that of ITQ at every length."""
    found = common(hashing, "itq", own)
    if not found:
        return Finding(f"{own} and itq were not run at one length, or diverged.", None)
    pairs = {bits: [way.at(bits).measure("neighbour_recall") or 0.0 for way in found[:2]] for bits in found[2]}
    text = ", ".join(f"{bits} bits {a:.4f} against {b:.4f}" for bits, (a, b) in pairs.items())
    return Finding(f"Of the nearest images of the query's class: {text}.", all(a >= b for a, b in pairs.values()))


def above_all(hashing: Hashing) -> Finding:
    """Strictly, by the expected mAP; says who is better and where."""
    ours = hashing.rows.get("bcd")
    others = [way for way in hashing.rows.values() if way.name not in OURS]
    if not ours or not ours.lengths or not others:
        return Finding("There is nothing to compare with.", None)
    better: dict[str, list[str]] = {}
    for way in others:
        for bits in sorted(set(ours.lengths) & set(way.lengths)):
            if expected(way, bits) >= expected(ours, bits):
                better.setdefault(way.title, []).append(f"{bits} ({expected(way, bits):.4f})")
    own = ", ".join(f"{bits} bits {expected(ours, bits):.4f}" for bits in ours.lengths)
    if not better:
        return Finding(f"{own}; above all {len(others)} others at the lengths of theirs.", True)
    parts = [f"{title} at {', '.join(lengths)}" for title, lengths in better.items()]
    return Finding(f"{own}. As good or better: {'; '.join(parts)}.", False)


def hashing_figures(hashing: Hashing) -> list[Figure]:
    found: list[Figure] = []
    if hashing.shown:
        whole = precision_by_length(hashing)
        best = upper_part(whole)
        mixed = frontier(hashing, hashing.shown)
        found += [
            whole,
            *([best] if best else []),
            precision_recall(hashing, hashing.shown),
            *([mixed] if mixed else []),
        ]
    return [*found, training_seconds(hashing)]


def shares(label: str, floor: float = 0.0) -> Axis:
    """An axis up to 1, and a little room."""
    return Axis(label, low=floor, high=1.0 + 0.02 * (1 - floor))


def precision_by_length(hashing: Hashing) -> Lines:
    lines = []
    for way in hashing.rows.values():
        points = []
        for row in map(way.at, way.lengths):
            if found := row.precision:
                trials = ", ".join(f"{value:.4f}" for value in row.scores)
                tip = f"{way.title}\n{row.bits} bits: mAP {found}; trials {trials}"
                points.append(Point(row.bits, found.expected, found.lower, found.upper, tip, way.sparse))
        if points:
            lines.append(Line(way.label, way.family, points, way.sparse))
    return Lines(
        name="map",
        title="Mean average precision by code length",
        caption=f"Over the whole ranking of {hashing.count('database')} images, "
        f"{hashing.count('queries')} queries, mean of the trials. Bars: what the order of tied images could "
        "make of it, from all wrong ones first to all right ones first.",
        x=Axis("bits", ticks=[float(bits) for bits in hashing.lengths]),
        y=shares("mAP"),
        lines=lines,
        dots=True,
    )


def upper_part(figure: Lines) -> Lines | None:
    """The best methods alone, where they are too near each other to be seen among all; else None."""
    best = max(line.points[-1].y for line in figure.lines)
    lines = [line for line in figure.lines if min(point.y for point in line.points) >= best - NEAR]
    if len(lines) < 2:
        return None
    lowest = min(point.low for line in lines for point in line.points)
    return replace(
        figure,
        name="map-best",
        title="The same, the best methods alone",
        caption=f"Those within {NEAR} of the highest mAP at every length; the axis does not begin at zero.",
        lines=lines,
        y=shares("mAP", max(0.0, math.floor(20 * lowest) / 20)),
    )


def precision_recall(hashing: Hashing, bits: int) -> Lines:
    return Lines(
        name="pr",
        title=f"Precision against recall, {bits} bits",
        caption="Of the balls of radius 0, 1, 2, and so on, all pairs of queries and images together. A ball has no "
        "order, so ties play no part.",
        x=Axis("recall", ticks=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        y=shares("precision"),
        lines=[balls(way, bits) for way in hashing.rows.values() if bits in way.lengths and way.name != "pq"],
        key=True,
    )


def balls(way: Coding, bits: int) -> Line:
    """Precision and recall of the balls of every radius, mean of the trials; from the first that is not empty."""
    curves = [record.retrieval["curve"] for record in way.at(bits).records]
    means = ([fmean(values) for values in zip(*(curve[name] for curve in curves), strict=True)] for name in POOLED)
    points = [
        Point(r, p, p, p, f"{way.title}\nradius {radius}: precision {p:.4f}, recall {r:.4f}")
        for radius, (p, r) in enumerate(zip(*means, strict=True))
        if r > 0
    ]
    return Line(way.label, way.family, points, way.sparse)


def frontier(hashing: Hashing, bits: int) -> Lines | None:
    """Labels against neighbours for every share of bits, as training images that were kept aside saw it."""
    way = hashing.rows.get("mixed")
    if not way or bits not in way.lengths:
        return None
    lines = []
    for record in way.at(bits).records:
        mixture = Mixture.from_dict(record.mixture) if record.mixture else Mixture()
        points = [
            Point(
                share.recall,
                share.mean_average_precision,
                share.mean_average_precision,
                share.mean_average_precision,
                f"trial {record.trial}, {100 * share.structure:.0f}% of the bits for neighbours"
                f"{', taken' if share == mixture.taken(bits) else ''}: label mAP "
                f"{share.mean_average_precision:.4f}, neighbours found {share.recall:.4f}",
            )
            for share in unbeaten(mixture.frontier)
        ]
        if points:
            lines.append(Line(f"trial {record.trial}", way.family, points))
    if not lines:
        return None
    lowest = min(point.y for line in lines for point in line.points)
    return Lines(
        name="frontier",
        title=f"Labels against neighbours, {bits} bits",
        caption="Shares of bits for neighbours, from none (left) to seven twelfths, measured on training images kept "
        "aside; of all those tried the ones that no other beats. The share that is taken finds as many neighbours as "
        "codes without labels for the least of label mAP, or more where these are cheap.",
        x=Axis("true neighbours found first", low=0.0),
        y=shares("label mAP", max(0.0, math.floor(20 * lowest) / 20)),
        lines=lines,
        dots=True,
    )


def training_seconds(hashing: Hashing) -> Figure:
    caption = (
        "Seconds of training alone, every length and trial; the classifier is trained once for all lengths. Coding, "
        "search and measures are not counted."
    )
    return hashing.seconds(list(hashing.rows.values()), name="seconds", title="Training time", caption=caption)
