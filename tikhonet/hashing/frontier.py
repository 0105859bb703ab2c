"""How many of the bits tell neighbours apart: what each share gives and takes, measured on rows kept aside.

The share to take finds as many neighbours as codes of the same length that know nothing else (iterative quantisation,
made of the same rows), for the least of the labels' mean average precision; and more, as long as they are cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tikhonet.hashing.codes import pack
from tikhonet.hashing.neighbours import NEAREST, blocks, recall, true_neighbours
from tikhonet.hashing.ties import average_precision, count
from tikhonet.problem.samples import Reduce, keep

QUERIES, BASE = 1000, 60_000
"""Rows that are asked for, at most a tenth of all, and rows that they are sought in: among fewer rows than will be
searched, a few bits seem to be enough."""
PART = 100
"""Of few rows, the nearest one in so many is a neighbour."""
FEWEST = 200
"""With fewer rows nothing is kept aside: the few queries would tell nothing."""
SHARES = (0.0, 1 / 12, 1 / 6, 1 / 4, 1 / 3, 5 / 12, 1 / 2, 7 / 12)
"""The shares that are measured."""
SLACK, MOST = 0.0075, 0.03
"""What of the labels' mean average precision may be lost for neighbours, and for as many as without labels."""
ALIKE = 0.005
"""Shares whose precision differs by less cannot be told apart by so few queries."""


@dataclass(frozen=True)
class Share:
    """A share of the bits, and what codes with it are worth."""

    structure: float
    mean_average_precision: float
    """By labels."""
    recall: float
    """Of the truly nearest rows that share the query's labels, among as many that are found first."""
    distinct: float
    """Different codes among those of the queries."""
    lean: float = 0.0
    """How much these bits lean towards labels."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


Pair = tuple[Tensor, Tensor]
"""Something of the queries, and of the rows that they are sought in."""


def frontier(X: Pair, labels: Pair, outputs: Iterable[tuple[float, float, Pair]], reduce: Reduce = keep) -> list[Share]:
    """The worth of every share, by means over the queries, of all ranks where there are several.

    `labels` has a column for each label; `outputs` gives shares, leans, and the numbers whose signs are the bits.
    """
    same = labels[0] @ labels[1].T > 0
    k = max(1, min(NEAREST, len(X[1]) // PART))
    parts = [true_neighbours(X[0][rows], X[1], k, same[rows]) for rows in blocks(len(X[0]), len(X[1]))]
    near, same_label = np.concatenate(parts), same.cpu().numpy()
    found = []
    for share, lean, numbers in outputs:
        queries, base = (pack(part.cpu().numpy()) for part in numbers)
        average = average_precision(count(queries, base, lambda rows: same_label[rows])).expected
        average, nearest = average[np.isfinite(average)], recall(queries, base, near, k).expected
        different = len(np.unique(queries, axis=0))
        sums = [average.sum(), len(average), nearest.sum(), len(nearest), different]
        total, known, sum_, asked, codes = reduce(torch.tensor(sums, dtype=torch.float64)).tolist()
        found.append(Share(share, total / max(known, 1), sum_ / max(asked, 1), codes, lean))
    return found


def chosen(found: Sequence[Share], wanted: float = 0.0) -> Share:
    """The one that finds most neighbours among those that lose little of what labels are worth.

    Where none of these finds as many as `wanted`, it is the one that does and loses least, unless it loses `MOST`; of
    those that lose as little, the one that finds most.
    """
    best = max(share.mean_average_precision for share in found)
    cheap = max((s for s in found if s.mean_average_precision >= best - SLACK), key=lambda s: (s.recall, -s.structure))
    enough = [s for s in found if s.recall >= wanted and s.mean_average_precision >= best - MOST]
    if cheap.recall >= wanted or not enough:
        return cheap
    least = max(s.mean_average_precision for s in enough)
    return max((s for s in enough if s.mean_average_precision >= least - ALIKE), key=lambda s: s.recall)


def unbeaten(found: Iterable[Share]) -> list[Share]:
    """Those that no other beats by labels and by neighbours, the best by labels first."""
    kept: list[Share] = []
    for share in sorted(found, key=lambda s: (-s.mean_average_precision, -s.recall)):
        if not kept or share.recall > kept[-1].recall:
            kept.append(share)
    return kept
