"""What `partial_fit` goes on with: the solver's state, and rows to refit the head on."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch

from tikhonet.estimators.rows import Rows, canonical, in_order, joined
from tikhonet.trainer.state import TrainingState

MEMORY = 10_000
"""Rows that are remembered, to refit the head on: a uniform sample of all that were seen."""


@dataclass(frozen=True)
class Stream:
    state: TrainingState | None = None
    rows: Rows | None = None
    """A uniform sample of the rows that were seen, scaled."""
    whole: bool = False
    """Whether it is one of all rows that the head has learned from; a model file has none of them."""
    strength: float | None = None
    """That of the head, as `fit` chose it on rows held out."""
    of_fit: bool = False
    """Whether these are the rows of a plain `fit`: nobody expects them in a pickle, so pickles leave them out."""

    @classmethod
    def after_fit(cls, state: TrainingState | None, rows: Rows, strength: float) -> Stream:
        return cls(state, sample(rows), True, strength, of_fit=True)

    def with_rows(self, rows: Rows) -> Rows:
        """The sample with these rows added."""
        if self.rows is None:
            return sample(rows)
        both = joined(self.rows, rows)
        return sample(in_order(canonical(both.X, both.Y, both.weight)))

    def suits(self, dtype: str, device: str) -> bool:
        """Whether the state can go on with this type on this device; if not, its statistics begin anew."""
        if self.state is None:
            return False
        V = self.state.classifier.V
        return V.dtype == getattr(torch, dtype) and V.device.type == torch.device(device).type

    def __getstate__(self) -> dict[str, Any]:
        kept = Stream(self.state, strength=self.strength) if self.of_fit else self
        return {field.name: getattr(kept, field.name) for field in fields(self)}


def sample(rows: Rows) -> Rows:
    """The first of rows in order: fingerprints are as good as random numbers, so that these are a uniform sample."""
    return rows.take(np.arange(min(MEMORY, len(rows))))
