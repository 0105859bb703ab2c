from dataclasses import dataclass

import numpy as np

from tikhonet import Activation, BCDClassifier


@dataclass(frozen=True)
class HardTanh(Activation):
    """min(cap, max(-cap, z)): the projection onto the interval from -cap to cap."""

    cap: float = 1.0
    name = "hard_tanh"
    upper = property(lambda self: self.cap)
    lower = property(lambda self: -self.cap)

    def scaled(self, factor):
        return HardTanh(self.cap * factor)

    def formula(self, text):
        return f"hard_tanh({text})"


X = np.random.default_rng(0).normal(size=(80, 4))
model = BCDClassifier(activation="hard_tanh").fit(X, X[:, 0] * X[:, 1] > 0)
assert abs(model.model_.features(X)).max() <= 1  # and `tikhonet fit --activation hard_tanh`, all exports, all files
