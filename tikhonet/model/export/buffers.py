"""Where the layers stand in one block of memory, such that a layer's place is used again when it is done with."""

from __future__ import annotations

from dataclasses import dataclass

from tikhonet.network.graph import Network


@dataclass(frozen=True)
class Buffers:
    offset: dict[int, int]
    """The first number of each layer."""
    length: int
    """Numbers in all."""


def assign(network: Network) -> Buffers:
    """A layer stands where one that is no longer needed stood, or grows a place, whichever takes the least memory.

    A sum that has an identity edge from a layer that is needed nowhere else is made in that layer's own place.
    """
    order = (0, *network.hidden)
    rank = {n: place for place, n in enumerate(order)}
    last = {m: max((n for n in network.targets(m)), key=rank.__getitem__, default=m) for m in order}
    last[network.depth] = -1  # the head reads it
    sizes: list[int] = []
    place: dict[int, int] = {}
    for n in order:
        width = network.widths[n]
        ending = [m for m in network.sources(n) if m >= 0 and last[m] == n]
        inside = [m for m in ending if not network.edges[n, m].learned]
        busy = {place[m] for m in place if last[m] == -1 or rank[last[m]] >= rank[n]}
        free = [slot for slot in range(len(sizes)) if slot not in busy]
        if inside:
            place[n] = place[inside[0]]
        elif free:
            place[n] = min(free, key=lambda slot: (max(width - sizes[slot], 0), sizes[slot]))
            sizes[place[n]] = max(width, sizes[place[n]])
        else:
            place[n] = len(sizes)
            sizes.append(width)
    starts = [sum(sizes[:slot]) for slot in range(len(sizes))]
    return Buffers({n: starts[slot] for n, slot in place.items()}, sum(sizes))
