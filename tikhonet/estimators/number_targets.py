"""Numbers to predict: in units of their spread, or counts in units of their mean, whose logarithm is the score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tikhonet.estimators.eval_metrics import EvalMetric
from tikhonet.estimators.monotone import Signs
from tikhonet.estimators.rows import Floats, Rows
from tikhonet.estimators.targets import Target
from tikhonet.model.head_data import HeadData
from tikhonet.model.heads import Head, HeadKind, make_head
from tikhonet.model.links import Link
from tikhonet.model.loss_head import LossHead
from tikhonet.model.monotone_head import MonotoneHead
from tikhonet.model.scaling import Standard, added
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.losses import Loss
from tikhonet.problem.samples import Reduce, keep
from tikhonet.trainer.batches import add_numbers


@dataclass(frozen=True, eq=False)
class Numbers(Target):
    """One real number a row or several, standardised for the loss."""

    loss: Loss
    chosen_head: Any = "ridge"
    single: bool = True
    """Whether y was a vector, so that predictions are one too."""
    standard: Standard | None = None
    metric: EvalMetric | None = None
    signs: Signs | None = None

    def started(self, rows: Rows, seed: int, last: Target | None, reduce: Reduce = keep) -> Self:
        if self.link.linear:
            return replace(self, standard=Standard.fit(rows.Y, rows.weight, reduce))
        if (least := float(rows.Y.min())) < 0:
            raise ArgumentError("y", f"y must not be negative for a loss with a logarithmic link, got {least:g}")
        share = rows.weight / add_numbers(reduce, rows.weight.sum())[0]
        mean = added(share @ rows.Y, reduce)
        return replace(self, standard=Standard(np.zeros_like(mean), np.where(mean > 0, mean, 1.0)))

    @property
    def link(self) -> Link:
        """How predictions come of scores; with a logarithm, a unit of y is a term of the intercept."""
        return Link.kinds[self.loss.link]()

    @property
    def units(self) -> Standard:
        assert self.standard is not None, "the units of y are learned from rows first"
        return self.standard

    def encode(self, Y: Floats) -> Tensor:
        return torch.from_numpy(self.units(Y))

    def rises(self, Y: Floats) -> list[int]:
        return [1] if Y.shape[1] == 1 else super().rises(Y)

    def head(self, V: Floats) -> HeadKind:
        if self.signs and self.chosen_head == "ridge":
            return MonotoneHead(V, 0, self.standard, trained_by=self.loss)
        by_name = isinstance(self.chosen_head, str)
        if by_name and self.chosen_head == "ridge" and not self.loss.quadratic:
            return LossHead(V, 0, self.standard, trained_by=self.loss)
        if not (by_name or self.link.linear):
            message = f'head must be "ridge" or "trained" for a loss with a logarithmic link, got {self.chosen_head!r}'
            raise ArgumentError("head", message)
        return make_head(self.chosen_head, V, standard=self.standard)

    def decode(self, T: Floats, S: Floats, weight: Floats, believed: bool) -> tuple[NDArray[Any], Floats, Floats]:
        y, predicted = (part * self.units.deviation + self.units.mean for part in (T, self.link(S)))
        return y, predicted, weight

    def score_loss(self, head: Head, data: HeadData) -> float:
        scores, unit = head(data.features), self.units.deviation
        scores = (scores - self.units.mean) / unit if self.link.linear else scores - np.log(unit)
        found = self.loss.sharpened().rows(torch.from_numpy(self.units(data.Y)), torch.from_numpy(scores))
        return float(data.sum(data.weight @ found.numpy()))

    def shares(self, losses: Sequence[float]) -> list[float]:
        """By the inverse squares of the losses; evenly, where a loss is no size."""
        if not min(losses) > 0:
            return super().shares(losses)
        powers = [(min(losses) / loss) ** 2 for loss in losses]
        return [power / sum(powers) for power in powers]

    def in_own_units(self, head: Head) -> Head:
        mean, deviation = self.units.mean, self.units.deviation
        if not self.link.linear:
            return Head(head.coef, head.intercept + np.log(deviation))
        return Head(head.coef * deviation[:, None], head.intercept * deviation + mean)

    def in_model(self) -> dict[str, Any]:
        return {"link": self.link}
