"""HammingIndex against raw faiss: 1,000 queries, k = 100, among 1e6 random codes of 64 bits.

Raw faiss is the faster of IndexBinaryFlat's two ways (heaps, counters), called directly. All are timed in turn, in one
process, by CPU time, so that other work on the machine does not count; a ratio is that of the medians. The order by
scores among 1,000 candidates, the balls (all within a radius), the NumPy fallback and the approximate kinds follow.
Usage: python benchmarks/hamming_search.py [--codes 1000000] [--queries 1000] [--k 100] [--rounds 5]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import faiss
import numpy as np
from machine import arguments, describe, record

from tikhonet.hashing import HammingIndex, signs

N_BITS, RADIUS, CANDIDATES = 64, 16, 1000


def clock(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def in_turn(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each, after a first round that does not count; they are printed, too."""
    times = [{name: clock(work) for name, work in works.items()} for _ in range(rounds + 1)]
    found = {name: median(row[name] for row in times[1:]) for name in works}
    for name, seconds in found.items():
        print(f"{name:28} {seconds:8.3f} s")
    return found


def raw_faiss(codes: np.ndarray, use_heap: bool) -> faiss.IndexBinaryFlat:
    index = faiss.IndexBinaryFlat(N_BITS)
    index.use_heap = use_heap
    index.add(codes)
    return index


def compare(codes: np.ndarray, queries: np.ndarray, k: int, rounds: int) -> dict[str, float]:
    heaps, counters, ours = raw_faiss(codes, True), raw_faiss(codes, False), HammingIndex(N_BITS).add(codes)
    answers = zip(ours.search(queries, k), counters.search(queries, k), strict=True)
    print(f"same answers: {all(np.array_equal(own, raw) for own, raw in answers)}")
    seconds = in_turn(
        {
            "faiss, heaps": lambda: heaps.search(queries, k),
            "faiss, counters": lambda: counters.search(queries, k),
            "HammingIndex": lambda: ours.search(queries, k),
        },
        rounds,
    )
    fastest = min(value for name, value in seconds.items() if name != "HammingIndex")
    print(f"search(k), times the faster raw faiss: {seconds['HammingIndex'] / fastest:.3f}")
    scores = np.random.default_rng(1).exponential(size=(len(queries), N_BITS)) * signs(queries, N_BITS)
    by_scores = in_turn(
        {
            "HammingIndex, k = candidates": lambda: ours.search(queries, CANDIDATES),
            f"HammingIndex, by scores of {CANDIDATES}": lambda: ours.search(
                queries, k, scores=scores, candidates=CANDIDATES
            ),
        },
        rounds,
    )
    print(f"by scores, times the plain search: {list(by_scores.values())[1] / seconds['HammingIndex']:.3f}")
    balls = in_turn(
        {
            "faiss, range_search": lambda: heaps.range_search(queries, RADIUS + 1),
            f"HammingIndex, within {RADIUS}": lambda: ours.within(queries, RADIUS),
        },
        rounds,
    )
    raw, own = balls.values()
    print(f"within(radius), times raw faiss: {own / raw:.3f}")
    return seconds | by_scores | balls


def others(codes: np.ndarray, queries: np.ndarray, k: int) -> dict[str, float]:
    """CPU seconds of 100 queries by the other kinds."""
    few, seconds = queries[:100], {}
    exact = HammingIndex(N_BITS).add(codes).search(few, k)[1]
    for kind in ("numpy", "hash", "ivf"):
        index = HammingIndex(N_BITS, kind)
        built = clock(lambda index=index: index.fit(codes[:50_000]).add(codes))
        taken = clock(lambda index=index: index.search(few, k))
        found = index.search(few, k)[1]
        share = np.mean([np.isin(row, other).mean() for row, other in zip(exact, found, strict=True)])
        print(f"{kind:8} built in {built:6.2f} s, {len(few)} nearest in {taken:6.3f} s, {100 * share:5.1f}% of them")
        seconds[kind] = taken
    return seconds


def bytes_a_code(codes: np.ndarray) -> dict[str, float]:
    """Of codes and ids in memory, and of the file; the order by scores needs nothing else of the index."""
    index = HammingIndex(N_BITS).add(codes)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        index.save(path)
        found = {"in memory": index.codes.nbytes + index.ids.nbytes, "in the file": path.stat().st_size}
    return {name: total / len(codes) for name, total in found.items()}


def main() -> None:
    parser = arguments(__doc__)
    for name, value in (("codes", 1_000_000), ("queries", 1_000), ("k", 100), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    settings = parser.parse_args()
    rng = np.random.default_rng(0)
    codes, queries = (
        rng.integers(0, 256, (rows, N_BITS // 8), dtype=np.uint8) for rows in (settings.codes, settings.queries)
    )
    print(f"{describe()}, faiss {faiss.__version__}; {len(queries):,} queries, {len(codes):,} codes, k = {settings.k}")
    found = compare(codes, queries, settings.k, settings.rounds)
    taken = {"seconds": found, "of 100 queries": others(codes, queries, settings.k)}
    record(settings, taken | {"bytes a code": bytes_a_code(codes)})


if __name__ == "__main__":
    main()
