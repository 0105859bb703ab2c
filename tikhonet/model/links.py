"""From the scores of a head to what a model gives: these themselves, or what a generalised linear model makes of them.

scores = link(coef u_N + intercept)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from tikhonet.model.scaling import Floats
from tikhonet.network.registry import Named, Registry


class Link(Named, ABC):
    """A function of each score; files and exports know it by its `name`, C by its `loop`."""

    loop: ClassVar[str] = ""
    linear: ClassVar[bool] = False
    """Whether it leaves scores as they are."""
    kinds: ClassVar[Registry[type[Link]]] = Registry("link")

    @abstractmethod
    def of(self, scores: Tensor) -> Tensor:
        """What it makes of scores, in torch."""

    @abstractmethod
    def onnx(self, graph: Any, scores: str, output: str) -> None:
        """Add its nodes to a graph of ONNX, from the one to the other name."""

    def __call__(self, scores: Floats) -> Floats:
        found: Floats = self.of(torch.from_numpy(np.ascontiguousarray(scores))).numpy()
        return found


@dataclass(frozen=True)
class Linear(Link):
    """The scores."""

    name, linear = "identity", True

    def of(self, scores: Tensor) -> Tensor:
        return scores

    def onnx(self, graph: Any, scores: str, output: str) -> None:
        graph.node("Identity", [scores], output)

    def __call__(self, scores: Floats) -> Floats:
        return scores


@dataclass(frozen=True)
class Exponential(Link):
    """exp(score), positive; scores above 80 count as 80, so that it stays finite in float32 too."""

    name, loop = "log", "exponential"
    most: ClassVar[float] = 80.0

    def of(self, scores: Tensor) -> Tensor:
        return scores.clamp(max=self.most).exp()

    def onnx(self, graph: Any, scores: str, output: str) -> None:
        most = graph.constant("most", np.array(self.most, np.float32))
        graph.node("Exp", [graph.node("Min", [scores, most])], output)


@dataclass(frozen=True)
class Sigmoid(Link):
    """1 / (1 + exp(-score)): the probability of each label by itself."""

    name, loop = "logit", "sigmoid"

    def of(self, scores: Tensor) -> Tensor:
        return scores.sigmoid()

    def onnx(self, graph: Any, scores: str, output: str) -> None:
        graph.node("Sigmoid", [scores], output)
