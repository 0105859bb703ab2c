"""What was learned, and all that prediction needs:  scores = head(features(scaling(x)))."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tikhonet.estimators.rows import CHUNK, Floats
from tikhonet.model.export import Forward
from tikhonet.model.heads import Head
from tikhonet.model.predictor import SPARSE_BELOW, Predictor
from tikhonet.model.scaling import Scaling
from tikhonet.network.graph import Network, Weights


@dataclass(frozen=True)
class Model:
    scaling: Scaling
    network: Network
    W: Weights
    V: Tensor
    """The classifier as the solver left it; predictions use the head."""
    head: Head

    def features(self, X: Floats, device: str = "cpu") -> Floats:
        """The last hidden layer (Eq. 1); of a sparse network by whichever kernel is faster for so many rows."""
        if torch.device(device).type == "cpu" and self.sparse_features is not None:
            return self.sparse_features(X)
        chunks = (X[start : start + CHUNK] for start in range(0, len(X), CHUNK))
        return np.concatenate([self.scaled_features(self.scaling(rows), device) for rows in chunks])

    def scaled_features(self, scaled: Floats, device: str = "cpu") -> Floats:
        """The same of scaled inputs, in float64, so that a row's features do not depend on its neighbours."""
        W = {edge: matrix.to(device, torch.float64) for edge, matrix in self.W.items()}
        features: Floats = self.network.features(torch.from_numpy(scaled).to(device, torch.float64), W).cpu().numpy()
        return features

    def scores(self, X: Floats, device: str = "cpu") -> Floats:
        return self.head(self.features(X, device))

    @cached_property
    def sparse_features(self) -> Predictor | None:
        """In float64, as above; None for a network that is not sparse."""
        if not all(bool(matrix.isfinite().all()) for matrix in self.W.values()):
            return None
        forward = Forward(network=self.network, W=self.W, **vars(self.scaling))
        return Predictor(forward, dtype="float64") if forward.nonzero < SPARSE_BELOW else None

    def to_forward(self) -> Forward:
        return Forward(network=self.network, W=self.W, **vars(self.scaling), **vars(self.head))

    def __getstate__(self) -> dict[str, Any]:
        """Pickles and copies leave out what is made on demand."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
