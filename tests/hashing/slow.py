"""Retrieval measures by their definitions, ranking by ranking: for a handful of items."""

from itertools import pairwise, permutations

import numpy as np


def average_precision(ranking, k, total):
    """Of a list of booleans, best first."""
    found, score = 0, 0.0
    for place, relevant in enumerate(ranking[:k], 1):
        if relevant:
            found += 1
            score += found / place
    return score / min(total, k)


def precision(ranking, k):
    return sum(ranking[:k]) / k


def rankings(distances, relevant):
    """The ranking of every order of the items that sorts them by distance."""
    for order in permutations(range(len(distances))):
        if all(distances[a] <= distances[b] for a, b in pairwise(order)):
            yield [bool(relevant[item]) for item in order]


def over_orders(distances, relevant, measure):
    """Mean, least and greatest value over all those orders."""
    values = [measure(ranking) for ranking in rankings(distances, relevant)]
    return np.mean(values), min(values), max(values)


def neighbours(distances, ids):
    """All (distance, id) of each query, nearest first, then by id."""
    return [sorted(zip(row.tolist(), ids.tolist(), strict=True)) for row in distances]
