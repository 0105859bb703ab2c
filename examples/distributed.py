"""
A run on two processes
======================

This script starts itself on two processes by torchrun. Each takes its share of the rows; only sums travel, so both
end with the same model. The full-batch solver even finds the same bits as one process.
"""

import json
import os
import subprocess
import sys

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from tikhonet import BlockDescent, Network, Problem, Proximal, Ranks

X, y = load_digits(return_X_y=True)
X = torch.tensor(X / 16).float()
problem = Problem(Network.chain([64, 30]), ridge_V=1.0)
targets = problem.loss.encode(y)


def work():
    """What one process does: the objective after each iteration, and what it sent."""
    with Ranks() as ranks:
        mine = ranks.shard(len(X))
        run = BlockDescent(Proximal(0.1), max_iter=15).run(problem, X[mine], targets[mine], seed=0, reduce=ranks)
    return {"f": list(run.history.objective), "rows": len(X[mine]), "sums": ranks.calls, "bytes": ranks.bytes}


if "TORCHELASTIC_RUN_ID" in os.environ:  # one of the two processes
    found = work()
    if os.environ["RANK"] == "0":
        print(json.dumps(found))
    sys.exit()

# %%
# Here is the process that starts the others, and afterwards does the same alone.

torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
ran = subprocess.run(
    [*torchrun, work.__code__.co_filename],
    capture_output=True,
    text=True,
    check=True,
    env={**os.environ, "OMP_NUM_THREADS": "1"},
)
two, one = json.loads(ran.stdout.splitlines()[-1]), work()
print(f"the first of two processes had {two['rows']} rows and sent {two['bytes']:,} bytes in {two['sums']} sums")
print(f"the same objective, to the last bit of all 15 iterations: {two['f'] == one['f']}")

# %%
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.semilogy(one["f"], color="#a3a8b0", lw=5, label="one process, 1,797 rows")
axes.semilogy(two["f"], color="#00805c", lw=1.5, label=f"two processes, {two['rows']} rows and the rest")
axes.set(xlabel="iteration", ylabel="objective f", title="Two processes do what one does")
axes.legend()
