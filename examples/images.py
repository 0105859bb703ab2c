"""
A torch module for images
=========================

A PyTorch module for images is read, fitted from a `DataLoader` and written back: three lines. Steps over all images as
they are then end at a stationary point of its own loss, as a certificate says, and it becomes C99 for a small device.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader

from tikhonet import BCDClassifier, Blocks, NetworkDescent, Problem, Stochastic, certify, from_torch
from tikhonet.data import AugmentedImages
from tikhonet.model.export import to_c

if __name__ == "__main__":
    digits = load_digits()
    X, y = torch.tensor(digits.images / 16).float()[:, None], torch.tensor(digits.target)
    torch.manual_seed(0)
    first = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2))
    second = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten())
    module = nn.Sequential(first, second, nn.Linear(64, 10))
    loader = DataLoader(AugmentedImages(X[:1200], y[:1200], padding=1, flip=False), batch_size=100, shuffle=True)

    read = from_torch(module, (1, 8, 8))
    fitted = read.fit(loader, solver=Stochastic(epochs=15))
    fitted.write(module)
    print(read.network)
    print(f"test accuracy of the module {(module(X[1200:]).argmax(1) == y[1200:]).double().mean():.3f}")

    # Its own loss over the images as they are, with ridges, falls with every step and ends where no step lowers it.
    problem = Problem(read.network, lift="fenchel", gamma=1.0, ridge_V=1.0, ridge_W=1.0)
    targets = problem.loss.encode(y[:1200], 10)
    start = Blocks({}, fitted.V, fitted.W)
    finished = NetworkDescent(max_iter=300, tol=1e-3).run(problem, X[:1200], targets, start=start)
    print(certify(finished))
    certified = read.with_blocks(finished.blocks)
    certified.write(module)
    print(f"test accuracy of the certified module {(module(X[1200:]).argmax(1) == y[1200:]).double().mean():.3f}")
    made = to_c(certified.to_model(), "digits", int8=True)
    print(f"as C99 with int8 weights: {made.flash:,} bytes of flash, {made.ram:,} of RAM")

    # The same network and images in an estimator, with scaling, a head, labels and probabilities.
    model = BCDClassifier(network=read.network, max_iter=15, random_state=0).fit(loader)
    print(f"test accuracy of the estimator {model.score(X[1200:], y[1200:]):.3f}")
