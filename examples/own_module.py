"""
An optimiser for a module of your own
=====================================

A PyTorch module, trained by the Gram metric and the exact last layer, and by AdamW beside it.
"""

import math
import sys
import time

import matplotlib.pyplot as plt
import torch
from torch import nn

from tikhonet.data import load
from tikhonet.optim import GramDescent


def fresh_module(inputs: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def batches(X: torch.Tensor, y: torch.Tensor, size: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    order = torch.randperm(len(X))
    return [(X[rows], y[rows]) for rows in order.split(size)]


def by_gram_descent(X: torch.Tensor, y: torch.Tensor, loss: str, epochs: int = 3, size: int = 200) -> nn.Module:
    model = fresh_module(X.shape[1])
    optimizer = GramDescent(model, total_steps=epochs * math.ceil(len(X) / size), loss=loss)
    for _ in range(epochs):
        for rows, labels in batches(X, y, size):
            optimizer.zero_grad()
            optimizer.loss(model(rows), labels).backward()
            optimizer.step()
    optimizer.refit(model, [(X, y)])
    return model


def by_adamw(X: torch.Tensor, y: torch.Tensor, epochs: int, rate: float = 3e-3, size: int = 32) -> nn.Module:
    """Rate and batch size are the best of 1e-3 and 3e-3, 32 and 64 on training images that were held out."""
    model, criterion = fresh_module(X.shape[1]), nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, fused=True)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * math.ceil(len(X) / size))
    for _ in range(epochs):
        for rows, labels in batches(X, y, size):
            optimizer.zero_grad()
            criterion(model(rows), labels).backward()
            optimizer.step()
            decay.step()
    return model


# %%
# `python own_module.py mnist` takes 10,000 images of MNIST in place of the digits.

name = sys.argv[1] if len(sys.argv) > 1 else "digits"
train, test = load(name), load(name, "test")
X, X_test = (torch.tensor(part.X[:10_000], dtype=torch.float32) for part in (train, test))
y, y_test = (torch.tensor(part.y[:10_000], dtype=torch.int64) for part in (train, test))
ways = {
    "GramDescent, squared loss": lambda: by_gram_descent(X, y, "squared"),
    "GramDescent, cross-entropy": lambda: by_gram_descent(X, y, "softmax"),
    "AdamW, as many epochs": lambda: by_adamw(X, y, epochs=3),
    "AdamW, more epochs": lambda: by_adamw(X, y, epochs=8),
}
by_gram_descent(X[:400], y[:400], "squared", epochs=1)  # torch loads parts of itself when they are first used
found = {}
for title, way in ways.items():
    clock = time.process_time()
    model = way()
    seconds = time.process_time() - clock
    with torch.no_grad():
        wrong = (model(X_test).argmax(1) != y_test).double().mean()
    found[title] = (seconds, 100 * float(wrong))
    print(f"{title}: test error {100 * wrong:.2f}% in {seconds:.2f} CPU s")

# %%
# Further down is better, further left is faster. The digits have 1,297 training images, so that three epochs are hardly
# twenty steps of 200 rows; one seed, and 500 test images.

figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for title, (seconds, error) in found.items():
    axes.plot(seconds, error, "o", ms=9, color="#00805c" if title.startswith("Gram") else "#7a7f87")
    axes.annotate(title, (seconds, error), textcoords="offset points", xytext=(0, 10), ha="center", fontsize=9)
axes.set(xlabel="CPU seconds", ylabel="test error, percent")
axes.margins(x=0.4, y=0.3)
axes.set_ylim(bottom=0)
