"""The claims about codes where the classes that are searched were kept from the training, judged by the records."""

from __future__ import annotations

import math
from statistics import fmean

from tikhonet.paper.comparison import Claim, Finding, standard_error
from tikhonet.paper.hashing_findings import OURS, Value, common, expected, nearer
from tikhonet.paper.hashing_results import Coding, Hashing


def unseen_claims(hashing: Hashing) -> list[Claim]:
    """What is asked of codes where the classes that are searched were kept from the training."""
    found = [
        ("Codes open to new classes: label mAP above every rival.", unseen(hashing, expected)),
        ("The same where queries keep their real scores.", unseen(hashing, by_scores)),
        ("They find true neighbours at least as often as ITQ.", nearer(hashing, "open")),
    ]
    return [Claim(words, (finding,), "asked of this library") for words, finding in found]


def by_scores(way: Coding, bits: int) -> float:
    return way.at(bits).measure("asymmetric_precision") or math.nan


def unseen(hashing: Hashing, value: Value) -> Finding:
    """Whether open codes are above every rival by more than the standard error, paired over the draws of classes.

    The draws are what differs most between trials, and are the same for all.
    """
    parts, verdicts = [], []
    for rival in (way for way in hashing.rows.values() if way.name not in OURS):
        ours, theirs, lengths = common(hashing, rival.name, "open") or (rival, rival, [])
        for bits in lengths:
            sides = [{r.seed: value(Coding((r,)), bits) for r in way.at(bits).records} for way in (ours, theirs)]
            less = [sides[0][seed] - other for seed, other in sides[1].items() if seed in sides[0]]
            gap, error = fmean(less), standard_error(less)
            verdicts.append(None if not abs(gap) > error else gap > 0)
            parts.append((gap, f"{rival.title} at {bits} bits {gap:+.4f} ± {error:.4f} ({len(less)} draws)"))
    if not parts:
        return Finding("open codes and a rival were not run at one length, or diverged.", None)
    holds = False if False in verdicts else None if None in verdicts else True
    return Finding(f"Open codes less the nearest rivals: {'; '.join(text for _, text in sorted(parts)[:3])}.", holds)
