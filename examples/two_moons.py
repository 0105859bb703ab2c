"""
Two moons, iteration by iteration
=================================

How the decision of a small network bends while it is trained. Every frame is a fit that was ended after so many
epochs; the same seed makes them frames of one film.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation
from sklearn.datasets import make_moons

from tikhonet import Fenchel, Network, Problem, Stochastic

X, y = make_moons(400, noise=0.15, random_state=0)
X = (X - X.mean(0)).astype(np.float32)
problem = Problem(Network.chain([2, 100, 100], bias=True), lift=Fenchel())

# %%
# `watch` sees every epoch, and ends the run by returning True. A resumed run goes on, to the bit, as if there had
# been no
# break, so each epoch can be looked at.

solver = Stochastic(epochs=40, batch_size=100, drop_inputs=0.0)
across, up = np.meshgrid(np.linspace(-2, 2, 80), np.linspace(-1.4, 1.4, 60))
plane = np.c_[across.ravel(), up.ravel()].astype(np.float32)
targets = problem.loss.encode(y)
frames, state = [], None
for _ in range(40):
    run = solver.run(problem, X, targets, seed=0, resume=state, watch=lambda seen: True)
    state = run.state
    scores = problem.network.features(plane, run.blocks.W) @ run.blocks.V.T
    frames.append((scores[:, 1] - scores[:, 0]).reshape(across.shape).numpy())
    wrong = (problem.network.features(X, run.blocks.W) @ run.blocks.V.T).argmax(1).numpy() != y
print(f"training rows that are wrong after the last epoch: {wrong.mean():.1%}")

# %%
# The line is where the scores of both classes are equal.

figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")


def draw(epoch):
    axes.clear()
    axes.contourf(across, up, frames[epoch], levels=np.linspace(-1.5, 1.5, 13), cmap="RdBu_r", extend="both")
    axes.contour(across, up, frames[epoch], levels=[0], colors="black")
    axes.scatter(*X.T, c=y, cmap="RdBu_r", edgecolors="white", s=18, linewidths=0.5)
    axes.set(title=f"after epoch {epoch + 1}", xlabel="first feature", ylabel="second feature")


film = FuncAnimation(figure, draw, frames=[0, 1, 2, 3, 5, 7, 9, 12, 15, 19, 24, 29, 34, 39], interval=300)
