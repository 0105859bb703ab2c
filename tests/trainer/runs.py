"""Networks for the digits, and what runs are compared by."""

import torch

from tikhonet import Network

SMALL64 = Network.chain([64, 30, 30], bias=True)
DEEP64 = Network.chain([64] + [40] * 24, bias=True)


def error(problem, training, X, y):
    scores = problem.network.features(X, training.blocks.W) @ training.blocks.V.T
    return float((scores.argmax(1) != y).float().mean())


def same(first, second):
    pairs = [(first.blocks.V, second.blocks.V), *((first.blocks.W[e], second.blocks.W[e]) for e in first.blocks.W)]
    return all(torch.equal(a, b) for a, b in pairs)
