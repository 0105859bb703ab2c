"""
What theta = 1/t^2 does
=======================

The paper's Alg. 1 goes :math:`\\theta_t = 1/t^2` of the way to the minimiser of each block. These numbers have a
finite sum, so the iterates come to rest wherever they happen to be. Proximal descent, with :math:`\\theta = 1` and a
small constant weight, goes on from the same start.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from tikhonet import BlockDescent, Network, Power, Problem, Proximal, certify

digits = load_digits()
X, y = torch.tensor(digits.data[:200] / 16).float(), digits.target[:200]
problem = Problem(Network.chain([64, 20]), gamma=0.1, ridge_V=0.01)
targets = problem.loss.encode(y)

schedules = {r"Alg. 1, $\theta_t = 1/t^2$": Power(2), r"proximal, $\theta = 1$": Proximal(0.1)}
runs = {name: BlockDescent(kind, max_iter=95).run(problem, X, targets, seed=0) for name, kind in schedules.items()}
for name, run in runs.items():
    print(f"{name}: {run.status.name}, f = {run.history.objective[-1]:.4f}")

# %%
# The objective of Alg. 1 looks settled, but what is left to gain tells otherwise: its steps shrink because the
# schedule says so, not because there is nothing left to gain.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for (name, run), colour in zip(runs.items(), ("#c8501e", "#1f6fb2"), strict=True):
    left.semilogy(run.history.objective, color=colour, label=name)
    left_over = {t: found.share for t, found in run.history.stationarity.items()}
    right.semilogy(left_over.keys(), left_over.values(), color=colour, label=name)
left.set(xlabel="iteration", ylabel="objective f", title="The same problem from the same start")
right.set(xlabel="iteration", ylabel="share of f", title="What exact block steps would still take")
left.legend()

# %%
# A certificate says what was reached, in float64 from the data.

for name, run in runs.items():
    print(f"{name}: {certify(run)['stationary'].figure}")
