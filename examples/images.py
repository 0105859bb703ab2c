"""
A torch module for images
=========================

A PyTorch module for images is read, fitted by block coordinate descent and written back; a certificate, and C99.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

from tikhonet import BCDClassifier, BlockDescent, Blocks, Problem, Stochastic, certify, from_torch

if __name__ == "__main__":
    digits = load_digits()
    X, y = torch.tensor(digits.images / 16).float()[:, None], torch.tensor(digits.target)
    targets = nn.functional.one_hot(y).float()
    torch.manual_seed(0)
    first = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2))
    second = nn.Sequential(nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten())
    module = nn.Sequential(first, second, nn.Linear(128, 10))

    read = from_torch(module, (1, 8, 8))
    problem = Problem(read.network, lift="fenchel", gamma=1.0, ridge_V=1.0)
    training = Stochastic(epochs=10, batch_size=100).run(problem, X[:1200], targets[:1200], start=read.W)
    read.with_blocks(training.blocks).write(module)
    print(read.network)
    print(f"test accuracy of the module {(module(X[1200:]).argmax(1) == y[1200:]).double().mean():.3f}")

    # Two steps of all blocks over some rows, from where the mini-batches ended.
    V, W = training.blocks.V, training.blocks.W
    start = Blocks(read.network.forward(X[:200].flatten(1), W), V, W)
    print(certify(BlockDescent(max_iter=2).run(problem, X[:200], targets[:200], start=start)))

    # The same network in an estimator, with scaling, a head and labels, and as C99 for a small device.
    model = BCDClassifier(network=read.network, max_iter=10, random_state=0).fit(X[:1200], y[:1200])
    made = model.to_c("digits", int8=True)
    print(f"test accuracy of the estimator {model.score(X[1200:], y[1200:]):.3f}")
    print(f"as C99 with int8 weights: {made.flash:,} bytes of flash, {made.ram:,} of RAM")
