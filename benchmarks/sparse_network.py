"""A network with a given share of nonzeros, by pruning a trained one: the largest weights of each row, refitted.

Layer by layer, each row keeps the entries with the largest |W_ij| rms(u_j), and their values minimise

    sum over the samples of (z_i - w_i . u)^2 + ridge |w_i|^2

where z is what the dense network had there and u what the pruned one has. Then the head is fitted again.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import torch

from tikhonet.estimators import BCDClassifier
from tikhonet.estimators.head import Head
from tikhonet.heads import choose_svm

RIDGE = 1e-3


def refit_rows(W: torch.Tensor, inputs: torch.Tensor, target: torch.Tensor, keep: int) -> torch.Tensor:
    """All rows at once: one small system for each."""
    gram = inputs.T @ inputs / len(inputs)
    cross = target.T @ inputs / len(inputs)
    support = (W.abs() * gram.diagonal().sqrt()).topk(keep, dim=1).indices
    systems = gram[support[:, :, None], support[:, None, :]]
    systems += RIDGE * gram.diagonal().mean() * torch.eye(keep, dtype=gram.dtype)
    values = torch.linalg.solve(systems, cross.gather(1, support)[:, :, None])[:, :, 0]
    return torch.zeros_like(W).scatter_(1, support, values)


def pruned(model: BCDClassifier, X: np.ndarray, y: np.ndarray, nonzero: float) -> BCDClassifier:
    """A copy with this share of nonzeros in every learned matrix, refitted on X and y."""
    old = model._model
    network, dense = old.network, {edge: matrix.double() for edge, matrix in old.W.items()}
    U = network.forward(torch.from_numpy(old.scaling(X.astype(np.float64))), dense)
    W, V = dict(dense), {0: U[0], **network.layers(U[0])}
    for n in network.hidden:
        target = network.pre_activation(n, U, dense)
        for m in network.learned_sources(n):
            others = [source for source in network.sources(n) if source != m]
            rest = target - network.pre_activation(n, V, W, others) if others else target
            W[n, m] = refit_rows(dense[n, m], V[m], rest, max(1, round(nonzero * dense[n, m].shape[1])))
        V[n] = network.pre_activation(n, V, W).relu_()
    svm = choose_svm(V[network.depth], torch.from_numpy(np.searchsorted(model.classes_, y)))
    found = copy.copy(model)
    single = {edge: matrix.to(old.W[edge]) for edge, matrix in W.items()}
    found._model = replace(old, W=single, head=Head((svm.V / svm.norm).numpy(), svm.intercept.numpy()))
    return found
