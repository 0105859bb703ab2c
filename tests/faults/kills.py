"""Fits that are killed at random, and go on: each ends with the bits of one that was left alone.

    python -m tests.faults.kills COUNT SEED [RANKS]

A child process fits with a checkpoint after every step, and kills itself by SIGKILL: at a random one of the calls that
a checkpoint is written by (opened, half written, written, synced, renamed, old ones removed), between two steps, or
by a timer wherever it then is. Further children go on, each killed in its turn, until one is left to the end.

With several ranks each fit has as many children, which share its rows; one of them is killed, and the others must end
by themselves, with the error that says so.
"""

import json
import os
import random
import signal
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from tests.faults.forked import on_ranks
from tikhonet import BCDClassifier, BCDHasher, BCDRegressor, Ranks
from tikhonet.estimators import sessions
from tikhonet.estimators.checkpoints import Checkpoint
from tikhonet.model import storage
from tikhonet.problem.ranks import RanksError

KILLS = 3
"""Times that one fit is killed before it is left alone."""
LOST = 3
"""The exit code of a process that has lost another rank."""
X = np.random.default_rng(0).normal(size=(160, 4))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
QUICK = {"max_iter": 3, "random_state": 0, "n_jobs": 1}
FITS = {
    "two networks": lambda **given: BCDClassifier((6,), n_networks=2, batch_size=80, **QUICK, **given),
    "under a budget": lambda **given: BCDClassifier((8,), sparsity=0.3, batch_size=80, **QUICK, **given),
    "stopped early": lambda **given: BCDClassifier(
        (6,), n_networks=1, batch_size=80, n_iter_no_change=1, **QUICK | {"max_iter": 9}, **given
    ),
    "numbers": lambda **given: BCDRegressor((6,), batch_size=80, **QUICK, **given),
    "codes": lambda **given: BCDHasher((6,), n_bits=8, batch_size=80, **QUICK, **given),
    "proximal": lambda **given: BCDClassifier((6,), solver="proximal", **QUICK | {"max_iter": 8}, **given),
    "alg1": lambda **given: BCDClassifier((6,), solver="alg1", **QUICK | {"max_iter": 8}, **given),
    "certified": lambda **given: BCDClassifier((6,), solver="certified", **QUICK | {"max_iter": 8}, **given),
}


class Points:
    """The calls at which a process may end, counted; at the one that is chosen it does."""

    def __init__(self, chosen=None):
        self.chosen, self.names = chosen, []

    def reach(self, name):
        self.names.append(name)
        if len(self.names) == self.chosen:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self):
        """Put a point before and after every call that a checkpoint is written by, and one within a write."""

        def around(owner, attribute, name):
            function = getattr(owner, attribute)

            def called(*arguments, **options):
                self.reach(f"before {name}")
                found = function(*arguments, **options)
                self.reach(f"after {name}")
                return found

            setattr(owner, attribute, called)

        write = storage.write_atomically

        def in_halves(path, parts):
            halves = [half for part in parts for half in (part[: len(part) // 2], part[len(part) // 2 :])]

            def one_by_one():
                for half in halves:
                    self.reach("within a write")
                    yield half

            write(path, one_by_one())

        storage.write_atomically = in_halves
        around(os, "fsync", "a sync")
        around(os, "replace", "the renaming")
        around(Path, "unlink", "a removal")
        around(sessions.FolderSlot, "offer", "a step's end")
        return self


def fit(name, folder, points=None, seconds=None, ranks=1, chosen=0):
    """The exit codes of processes that share a fit and save its model; `points` and `seconds` end the chosen one."""

    def work(rank):
        warnings.simplefilter("ignore")
        reached = (points if points and rank == chosen else Points()).watch()
        try:
            with Ranks() as here:
                if seconds and rank == chosen:
                    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
                    signal.setitimer(signal.ITIMER_REAL, seconds)
                mine = here.shard(len(X))
                model = FITS[name](checkpoint=Checkpoint(folder / "states", every_seconds=0)).fit(X[mine], Y[mine])
        except RanksError:
            sys.exit(LOST)
        if rank == 0:
            model.save(folder / "model")
        (folder / f"points-{rank}").write_text(json.dumps(reached.names))

    return on_ranks(ranks, work)


def reference(name, ranks):
    """The model file of a fit that nobody kills, and the points that each rank passes."""
    with tempfile.TemporaryDirectory() as place:
        assert fit(name, Path(place), ranks=ranks) == [0] * ranks
        points = [json.loads(Path(place, f"points-{rank}").read_text()) for rank in range(ranks)]
        return Path(place, "model").read_bytes(), points


def run(count, seed, ranks=1):
    """The mistakes that were found, and how often each kind of point was the end."""
    draw, mistakes, ends, known = random.Random(seed), [], Counter(), {}
    while ends.total() < count and not mistakes:
        name = draw.choice(list(FITS))
        known[name] = known.get(name) or reference(name, ranks)
        whole, passed = known[name]
        with tempfile.TemporaryDirectory() as place:
            for _ in range(min(KILLS, count - ends.total())):
                rank = draw.randrange(ranks)
                points = passed[rank]
                kind = draw.choice([*sorted(set(points)), "by a timer"])
                chosen = [number for number, point in enumerate(points, start=1) if point == kind]
                seconds = None if chosen else draw.uniform(0.001, 0.2)
                codes = fit(name, Path(place), Points(draw.choice(chosen) if chosen else None), seconds, ranks, rank)
                if codes[rank] == -signal.SIGKILL:
                    ends[kind] += 1
                    codes = [0 if code in (LOST, -signal.SIGKILL) else code for code in codes]
                if any(codes):
                    mistakes.append(f"{name}: children ended with {codes}")
            if any(fit(name, Path(place), ranks=ranks)) or Path(place, "model").read_bytes() != whole:
                mistakes.append(f"{name} with seed {seed}: other bits after {ends.total()} kills")
    return mistakes, ends


if __name__ == "__main__":
    torch.set_num_threads(1)
    found, counts = run(*map(int, sys.argv[1:]))
    print(*found, json.dumps(counts), sep="\n")
