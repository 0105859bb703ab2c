"""Sec. 2.1: which layers feed which, and the order in which they are computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

Pair = tuple[int, int]
"""The target n and the source m of an edge."""

BIAS = -1
"""The constant layer: one column of ones."""


def group(pairs: Iterable[Pair]) -> dict[int, tuple[int, ...]]:
    """The second numbers by the first, in order."""
    groups: dict[int, tuple[int, ...]] = {}
    for first, second in pairs:
        groups[first] = (*groups.get(first, ()), second)
    return groups


def computing_order(depth: int, sources: Mapping[int, tuple[int, ...]]) -> tuple[int, ...]:
    """The hidden layers 1 to `depth`, each after its sources; raises where one lacks a source or a way to the last."""
    for n, found in sources.items():
        if not any(m != BIAS for m in found):
            raise ValueError(f"edges: layer {n} has no source; add an edge ({n}, m) from a layer m")
    graph = {n: [m for m in found if m > 0] for n, found in sources.items()}
    try:
        order = tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        cycle = " -> ".join(map(str, error.args[1]))
        raise ValueError(f"edges: they form a cycle through layers {cycle}; remove one of its edges") from None
    reaching = {depth}
    for n in reversed(order):
        if n not in reaching:
            raise ValueError(f"layer {n} does not reach the last layer {depth}; add an edge (k, {n}) or remove it")
        reaching.update(graph[n])
    return order
