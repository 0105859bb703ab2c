"""Faults of `tikhonet fit --checkpoint` on two ranks: `python -m tests.faults.many` prints what came of each as JSON.

Each rank is a forked process that runs the command itself. The signals come at the end of an epoch, from the rank's own
hand, so that nothing depends on the clock.
"""

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from tests.faults.forked import on_ranks
from tikhonet.cli import fit as _  # noqa: F401 (imported once, before the processes are forked)
from tikhonet.cli import progress
from tikhonet.cli.app import app

SMALL = 4096
"""Bytes of the largest file of a full disk: the message of a command fits, a state does not."""


def table(change=0.0):
    X = np.random.default_rng(0).normal(size=(160, 4))
    X[7, 2] += change
    np.savez("table.npz", X=X, y=(X[:, 0] * X[:, 1] > 0).astype(int))


def run(name, *words, ranks=2, rank=0, epoch=2, number=None, limit=None, solver="stochastic"):
    """The exit codes and the last lines of stderr of all ranks, and the seconds from the signal to the end."""
    describe, begun = progress.describe, Path(f"{name}.begun")

    def told(record):
        found = describe(record)
        if number and found[0] == epoch:
            begun.touch()
            os.kill(os.getpid(), number)
        return found

    def work(mine):
        os.dup2(os.open(f"{name}.{mine}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC), 2)
        os.dup2(2, 1)
        if mine == rank:
            progress.describe = told
            if limit:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        more = ["--hidden", "6", "--max-iter", "6", "--batch-size", "40", "--solver", solver]
        app(["fit", "--data", "table.npz", *more, *words])

    codes = on_ranks(ranks, work)
    seconds = time.time() - begun.stat().st_mtime if begun.exists() else 0.0
    lines = [Path(f"{name}.{mine}").read_text().strip().splitlines() for mine in range(ranks)]
    return {"codes": codes, "lines": lines, "seconds": seconds}


def damaged(path):
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)


def main():
    found, kept = {}, ("--checkpoint", "states", "-o", "model")
    for solver in ("stochastic", "proximal"):
        table()
        found[f"{solver}: whole"] = run("whole", "-o", "whole.model", solver=solver)
        found[f"{solver}: sigterm"] = run("sigterm", *kept, rank=1, number=signal.SIGTERM, solver=solver)
        found[f"{solver}: sigint"] = run("sigint", *kept, epoch=3, number=signal.SIGINT, solver=solver)
        damaged(max(Path("states").glob("0*.checkpoint")))
        found[f"{solver}: damaged"] = run("damaged", *kept, solver=solver)
        found[f"{solver}: same"] = Path("model").read_bytes() == Path("whole.model").read_bytes()
        shutil.rmtree("states")
    found["full disk"] = run("full", *kept, number=signal.SIGTERM, limit=SMALL)
    found["killed"] = run("killed", *kept, rank=1, number=signal.SIGKILL)
    run("begun", *kept, number=signal.SIGTERM)
    table(1e-9)
    found["changed"] = run("changed", *kept)
    print(json.dumps(found))


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        main()
    sys.stdout.flush()
