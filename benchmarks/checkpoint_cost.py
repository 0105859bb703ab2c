"""What checkpoints at their default spacing cost a long fit: fits with and without them, in turn.

    python benchmarks/checkpoint_cost.py [--record] [--epochs 60] [--turns 2]

A classifier with two hidden layers of 500 on random rows. Beside the seconds of both sides it measures those that the
fit spends in checkpoints, which tells more where other work on the machine changes the seconds of a fit.
"""

import tempfile
import time
import warnings
from contextlib import ExitStack
from functools import partialmethod
from pathlib import Path
from unittest.mock import patch

import numpy as np
from machine import arguments, record

from tikhonet import BCDClassifier
from tikhonet.estimators.sessions import FolderSlot

ROWS, COLUMNS, HIDDEN = 20_000, 200, (500, 500)


class Clocked:
    """The CPU and the clock's seconds that are spent in a function, and how often it was called."""

    def __init__(self, function):
        self.function, self.cpu, self.wall, self.calls = function, 0.0, 0.0, 0

    def __call__(self, *arguments, **options):
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            return self.function(*arguments, **options)
        finally:
            self.cpu, self.wall = self.cpu + time.process_time() - cpu, self.wall + time.perf_counter() - wall
            self.calls += 1


def fit(X, y, epochs, folder=None):
    """Seconds of a fit, and of its checkpoints; each call of `offer` asks whether a state is due, `keep` writes it."""
    offer, keep, end = clocks = [Clocked(getattr(FolderSlot, name)) for name in ("offer", "keep", "end")]
    model = BCDClassifier(HIDDEN, max_iter=epochs, n_iter_no_change=epochs, random_state=0, n_jobs=1, checkpoint=folder)
    whole = Clocked(model.fit)
    with ExitStack() as patched:
        for clocked in clocks:
            patched.enter_context(patch.object(FolderSlot, clocked.function.__name__, partialmethod(clocked)))
        whole(X, y)
    spent = {"cpu_spent": offer.cpu + end.cpu, "wall_spent": offer.wall + end.wall, "states": keep.calls}
    return {"cpu": whole.cpu, "wall": whole.wall} | (spent if folder else {})


def main(options):
    random = np.random.default_rng(0)
    X = random.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    y = (X[:, :10] * X[:, 10:20]).argmax(1)
    warnings.simplefilter("ignore")
    fit(X[:500], y[:500], 1)
    sides = {"without": [], "with": []}
    for _ in range(options.turns):
        sides["without"].append(fit(X, y, options.epochs))
        with tempfile.TemporaryDirectory() as folder:
            sides["with"].append(fit(X, y, options.epochs, Path(folder, "states")))
        print(sides["without"][-1], sides["with"][-1], flush=True)
    found = {
        side: {name: float(np.median([run[name] for run in runs])) for name in runs[0]} for side, runs in sides.items()
    }
    values = {"rows": ROWS, "columns": COLUMNS, "hidden": HIDDEN, "epochs": options.epochs, "sides": found}
    ended = found["with"]
    values["share_cpu"], values["share_wall"] = (ended[f"{kind}_spent"] / ended[kind] for kind in ("cpu", "wall"))
    print(values)
    record(options, values)


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--turns", type=int, default=2)
    main(parser.parse_args())
