"""
A convolutional torch module, trained and written back
======================================================

The module is read, fitted by the block trainer, and gets its new weights in place; torch goes on with it as if it had
trained it itself.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

from tikhonet import Problem, Stochastic, from_torch

digits = load_digits()
X, y = torch.tensor(digits.images / 16).float()[:, None], torch.tensor(digits.target)
targets = nn.functional.one_hot(y).float()
torch.manual_seed(0)
first = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2))
second = nn.Sequential(nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten())
module = nn.Sequential(first, second, nn.Linear(128, 10))
before = module[0][0].weight.detach().clone()

read = from_torch(module, (1, 8, 8))
problem = Problem(read.network, lift="fenchel", gamma=1.0, ridge_V=1.0)
training = Stochastic(epochs=10, batch_size=100).run(problem, X[:1200], targets[:1200], start=read.W)
read.with_blocks(training.blocks).write(module)
print(read.network)
print(f"test accuracy of the module {(module(X[1200:]).argmax(1) == y[1200:]).double().mean():.3f}")

# %%
# The sixteen filters of the first convolution, before and after.

figure = plt.figure(figsize=(9, 5), layout="constrained")
for part, (words, filters) in zip(
    figure.subfigures(2, 1), {"before": before, "after": module[0][0].weight.detach()}.items(), strict=True
):
    part.suptitle(words, x=0.01, ha="left")
    for axes, image in zip(part.subplots(2, 8).flat, filters, strict=True):
        axes.imshow(image[0].numpy(), cmap="RdBu_r", vmin=-1, vmax=1)
        axes.set_axis_off()
