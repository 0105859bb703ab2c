"""The dense kernel: products of whole matrices, in torch."""

from __future__ import annotations

import numpy as np
import torch

from tikhonet.model.export.forward import Floats, Forward

CHUNK = 4096


class DenseKernel:
    """Eq. 1 and the head, with the weights converted once."""

    def __init__(self, forward: Forward, dtype: str = "float32") -> None:
        self.forward, self.dtype = forward, getattr(torch, dtype)
        self.W = {edge: matrix.detach().to("cpu", self.dtype) for edge, matrix in forward.W.items()}
        self.head = None
        if forward.coef is not None and forward.intercept is not None:
            self.head = tuple(torch.from_numpy(part).to(self.dtype) for part in (forward.coef, forward.intercept))

    @torch.no_grad()
    def __call__(self, X: Floats) -> Floats:
        chunks = (X[start : start + CHUNK] for start in range(0, len(X), CHUNK))
        return np.concatenate([self._scores(rows) for rows in chunks])

    def _scores(self, X: Floats) -> Floats:
        forward = self.forward
        scaled = (np.minimum(np.maximum(X, forward.low), forward.high) - forward.shift) / forward.scale
        features = forward.network.features(torch.from_numpy(scaled).to(self.dtype), self.W)
        scores: Floats = (features if self.head is None else features @ self.head[0].T + self.head[1]).numpy()
        return scores
