"""How many of the bits tell neighbours apart: what each share gives and takes, measured on rows kept aside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tikhonet.hashing.codes import pack
from tikhonet.hashing.neighbours import NEAREST, recall, true_neighbours
from tikhonet.hashing.ties import average_precision, count
from tikhonet.problem.samples import Reduce, keep

QUERIES, BASE = 1000, 20_000
"""Rows that are asked for, at most a tenth of all, and rows that they are sought in."""
PART = 100
"""Of few rows, the nearest one in so many is a neighbour."""
FEWEST = 200
"""With fewer rows nothing is kept aside: the few queries would tell nothing."""
SHARES = (0.0, 1 / 24, 1 / 12, 1 / 6, 1 / 3, 5 / 12, 1 / 2, 7 / 12)
"""The shares that are measured."""
SLACK = 0.0075
"""What of the labels' mean average precision may be lost for neighbours."""


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

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


Pair = tuple[Tensor, Tensor]
"""Something of the queries, and of the rows that they are sought in."""


def frontier(X: Pair, labels: Pair, outputs: Callable[[float], Pair], reduce: Reduce = keep) -> list[Share]:
    """The worth of every share, by means over the queries, of all ranks where there are several.

    `labels` has a column for each label; `outputs` gives the numbers whose signs are the bits, for a share.
    """
    same = labels[0] @ labels[1].T > 0
    k = max(1, min(NEAREST, len(X[1]) // PART))
    near, same_label = true_neighbours(*X, k, same), same.cpu().numpy()
    found = []
    for share in SHARES:
        queries, base = (pack(part.cpu().numpy()) for part in outputs(share))
        average = average_precision(count(queries, base, lambda rows: same_label[rows])).expected
        average, nearest = average[np.isfinite(average)], recall(queries, base, near, k).expected
        different = len(np.unique(queries, axis=0))
        sums = [average.sum(), len(average), nearest.sum(), len(nearest), different]
        total, known, sum_, asked, codes = reduce(torch.tensor(sums, dtype=torch.float64)).tolist()
        found.append(Share(share, total / max(known, 1), sum_ / max(asked, 1), codes))
    return found


def chosen(found: Sequence[Share]) -> Share:
    """The one that finds most neighbours among those that lose little of what labels are worth."""
    best = max(share.mean_average_precision for share in found)
    return max((s for s in found if s.mean_average_precision >= best - SLACK), key=lambda s: (s.recall, -s.structure))
