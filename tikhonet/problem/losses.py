"""The convex loss of Eq. 2 on the classifier's scores S, one row per sample."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from tikhonet.network.arguments import POSITIVE
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Array, tensor
from tikhonet.network.registry import Named, Registry


def one_hot(labels: Tensor, classes: int | None = None) -> Tensor:
    """Integer labels 0..k-1 as rows of the identity, in float32."""
    if labels.ndim != 1 or labels.is_floating_point() or labels.is_complex():
        raise ValueError(
            f"labels must be a vector of integers, got shape {tuple(labels.shape)} of {labels.dtype}; "
            "encode other labels with numpy.unique(y, return_inverse=True)"
        )
    if len(labels) == 0:
        raise ValueError("labels must not be empty")
    labels = labels.long()  # torch has no minimum of most unsigned types
    low, high = int(labels.min()), int(labels.max())
    count = high + 1 if classes is None else classes
    if low < 0 or high >= count:
        raise ValueError(f"labels must lie in 0..{count - 1}, got values from {low} to {high}")
    return torch.nn.functional.one_hot(labels, count).to(torch.float32)


class Loss(Named, ABC):
    """A convex loss of the classifier's scores S against targets T, one row per sample.

    A subclass with a `name` of its own is known to estimators and files by that. It gives `rows`, `slope` and
    `curvature`.

    Attributes
    ----------
    name : str
        By which estimators and files know it.
    for_numbers : bool
        Whether targets may be any numbers, not classes only.
    for_classes : bool
        Whether it makes sense for targets that stand for classes.
    link : str
        How predictions come of scores: "identity", or "log" where a score is the logarithm of a prediction.
    curvature : float
        A bound on the second derivative in S (its largest eigenvalue).
    quadratic : bool
        Whether that bound is the second derivative itself.

    Examples
    --------
    >>> from tikhonet import Loss
    >>> [name for name in ('logistic', 'softmax', 'poisson') if Loss.kinds[name].for_classes]
    ['logistic', 'softmax']
    """

    kinds: ClassVar[Registry[type[Loss]]] = Registry("loss")
    for_numbers: ClassVar[bool] = True
    for_classes: ClassVar[bool] = True
    link: ClassVar[str] = "identity"
    curvature: float
    quadratic: bool = False

    @abstractmethod
    def rows(self, T: Tensor, S: Tensor) -> Tensor:
        """The loss of each sample.

        Parameters
        ----------
        T : Tensor
            Targets, samples x outputs.
        S : Tensor
            Scores, samples x outputs.

        Returns
        -------
        Tensor
            A number for each sample.
        """

    @abstractmethod
    def slope(self, T: Tensor, S: Tensor) -> Tensor:
        """The gradient of each sample's loss in its scores.

        Parameters
        ----------
        T : Tensor
            Targets, samples x outputs.
        S : Tensor
            Scores, samples x outputs.

        Returns
        -------
        Tensor
            Samples x outputs.
        """

    def local_curvature(self, T: Tensor, S: Tensor) -> Tensor:
        """The curvature of each sample's loss around its scores: how far a step may hope to go.

        Parameters
        ----------
        T : Tensor
            Targets, samples x outputs.
        S : Tensor
            Scores, samples x outputs.

        Returns
        -------
        Tensor
            A number for each sample, at most `curvature`.
        """
        return S.new_full((len(S),), self.curvature)

    def sharpened(self) -> Loss:
        """The loss for a head, which needs no bound on its curvature: without what makes it smooth for the others.

        Returns
        -------
        Loss
            The loss itself, where nothing was smoothed.
        """
        return self

    def encode(self, y: Array, classes: int | None = None) -> Tensor:
        """Targets: integer vectors are class labels, floating-point arrays are taken as they are.

        Parameters
        ----------
        y : Tensor or array
            Labels 0..k-1, or numbers.
        classes : int, optional
            The number of classes; one more than the largest label where it is None.

        Returns
        -------
        Tensor
            Samples x outputs.
        """
        y = tensor(y)
        if y.is_floating_point():
            return y[:, None] if y.ndim == 1 else y
        return one_hot(y, classes)

    def marks(self, Y: Tensor) -> Tensor:
        """Targets of rows that have any number of labels.

        Parameters
        ----------
        Y : Tensor
            Samples x labels: 1 for each label that a row has, else 0.

        Returns
        -------
        Tensor
            Samples x labels.
        """
        return Y

    def check(self, T: Tensor) -> None:
        """Raise unless T are targets of this loss.

        Parameters
        ----------
        T : Tensor
            Targets, samples x outputs.
        """
        if T.ndim != 2 or T.shape[1] < 1:
            raise ValueError(f"targets must have shape (samples, outputs), got {tuple(T.shape)}; use loss.encode(y)")

    def value(self, T: Tensor, S: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of each sample, times its weight.

        Parameters
        ----------
        T : Tensor
            Targets, samples x outputs.
        S : Tensor
            Scores, samples x outputs.
        weight : Tensor, optional
            A weight for each sample; 1 where it is None.

        Returns
        -------
        Tensor
            A number for each sample.
        """
        rows = self.rows(T, S)
        return rows if weight is None else rows * weight

    def gradient(self, T: Tensor, S: Tensor, weight: Tensor | None = None) -> Tensor:
        """The gradient of each sample's weighted loss in its scores.

        Parameters
        ----------
        T : Tensor
            Targets, samples x outputs.
        S : Tensor
            Scores, samples x outputs.
        weight : Tensor, optional
            A weight for each sample; 1 where it is None.

        Returns
        -------
        Tensor
            Samples x outputs.
        """
        slope = self.slope(T, S)
        return slope if weight is None else slope * weight[:, None]


@dataclass(frozen=True)
class Squared(Loss):
    """The squared loss ``1/2 |s - t|^2``, the paper's mean squared error up to its factor.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Squared
    >>> Squared().rows(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 0.0]]))
    tensor([2.])
    """

    name = "squared"
    curvature = 1.0
    quadratic = True

    def rows(self, T: Tensor, S: Tensor) -> Tensor:
        return 0.5 * (S - T).square().sum(1)

    def slope(self, T: Tensor, S: Tensor) -> Tensor:
        return S - T


@dataclass(frozen=True)
class Huber(Loss):
    """The squares of small differences and the sizes of large ones, added up over outputs.

        ``e^2 / 2 for |e| <= delta, else delta (|e| - delta / 2), with e = s - t``

    Parameters
    ----------
    delta : float, default=1.0
        The difference from which on the loss is straight.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Huber
    >>> Huber(1).rows(torch.zeros(2, 1), torch.tensor([[1.0], [3.0]]))
    tensor([0.5000, 2.5000])
    """

    delta: float = 1.0
    name = "huber"
    curvature = 1.0

    def __post_init__(self) -> None:
        POSITIVE.check("delta", self.delta)

    def rows(self, T: Tensor, S: Tensor) -> Tensor:
        return torch.nn.functional.huber_loss(S, T, reduction="none", delta=self.delta).sum(1)

    def slope(self, T: Tensor, S: Tensor) -> Tensor:
        return (S - T).clamp_(-self.delta, self.delta)

    def local_curvature(self, T: Tensor, S: Tensor) -> Tensor:
        return (self.delta / (S - T).abs()).amax(1).clamp_(max=1.0)


@dataclass(frozen=True)
class Quantile(Loss):
    """The pinball loss, whose minimiser is a quantile, added up over outputs.

        ``q e for e > 0, (q - 1) e for e < 0, with e = t - s``

    Solvers need a curvature, so it is rounded off where it bends (Moreau's envelope): ``e^2 / (2 width)`` from
    e = (q - 1) width to q width, and straight beyond.

    Parameters
    ----------
    quantile : float, default=0.5
        The quantile q, between 0 and 1.
    width : float, default=0.1
        Over which differences the bend is rounded.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Quantile
    >>> Quantile(0.9).slope(torch.zeros(2, 1), torch.tensor([[-5.0], [5.0]])).flatten()
    tensor([-0.9000,  0.1000])
    """

    quantile: float = 0.5
    width: float = 0.1
    name = "quantile"
    for_classes = False

    def __post_init__(self) -> None:
        POSITIVE.check("width", self.width)
        if not 0 < self.quantile < 1:
            raise ArgumentError("quantile", f"quantile must lie between 0 and 1, got {self.quantile}")

    @property
    def curvature(self) -> float:  # type: ignore[override]
        """The largest second derivative, 1 / width."""
        return 1 / self.width

    def sharpened(self) -> Quantile:
        return replace(self, width=self.width / 10)

    def rows(self, T: Tensor, S: Tensor) -> Tensor:
        slope = -self.slope(T, S)
        return (slope * (T - S) - 0.5 * self.width * slope.square()).sum(1)

    def slope(self, T: Tensor, S: Tensor) -> Tensor:
        return ((S - T) / self.width).clamp_(-self.quantile, 1 - self.quantile)

    def local_curvature(self, T: Tensor, S: Tensor) -> Tensor:
        bend = torch.where(T > S, self.quantile, 1 - self.quantile) / (T - S).abs()
        return bend.amax(1).clamp_(max=self.curvature)


@dataclass(frozen=True)
class Poisson(Loss):
    """The loss of counts t, of which exp(s) is the mean: ``exp(s) - t s``, added up over outputs.

    Targets are in units in which the mean is about 1.

    Parameters
    ----------
    cap : float, default=5.0
        Where exp(s) exceeds it, the loss goes on as the parabola that touches it there, so that its curvature has a
        bound.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Poisson
    >>> Poisson().slope(torch.tensor([[1.0]]), torch.tensor([[0.0]]))
    tensor([[0.]])
    """

    cap: float = 5.0
    name = "poisson"
    for_classes = False
    link = "log"

    def __post_init__(self) -> None:
        POSITIVE.check("cap", self.cap)

    @property
    def curvature(self) -> float:  # type: ignore[override]
        """The largest second derivative, the cap."""
        return self.cap

    def sharpened(self) -> Poisson:
        return Poisson(1e9)

    def check(self, T: Tensor) -> None:
        super().check(T)
        if bool((T < 0).any()):
            raise ValueError(f"targets of the Poisson loss must not be negative, got {float(T.min()):g}")

    def rows(self, T: Tensor, S: Tensor) -> Tensor:
        most = math.log(self.cap)
        above = (S - most).relu()
        value = S.clamp(max=most).exp() * (1 + above + 0.5 * above.square())
        return (value - T * S).sum(1)

    def slope(self, T: Tensor, S: Tensor) -> Tensor:
        most = math.log(self.cap)
        return S.clamp(max=most).exp() * (1 + (S - most).relu()) - T

    def local_curvature(self, T: Tensor, S: Tensor) -> Tensor:
        return S.amax(1).clamp(max=math.log(self.cap)).exp().clamp_(max=self.cap)


@dataclass(frozen=True)
class Softmax(Loss):
    """Cross-entropy of the softmax: ``log sum exp(s) - <t, s>``, each target row a distribution.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Softmax
    >>> loss = Softmax()
    >>> targets = loss.encode(torch.tensor([1, 0]))
    >>> loss.rows(targets, torch.tensor([[0.0, 9.0], [0.0, 9.0]])).round(decimals=3)
    tensor([0., 9.])
    """

    name = "softmax"
    for_numbers = False
    curvature = 0.5

    def encode(self, y: Array, classes: int | None = None) -> Tensor:
        y = tensor(y)
        return y if y.is_floating_point() and y.ndim == 2 else one_hot(y, classes)

    def marks(self, Y: Tensor) -> Tensor:
        raise ArgumentError("loss", 'loss="softmax" is for one class a row, got several labels; use "logistic"')

    def check(self, T: Tensor) -> None:
        super().check(T)
        if T.shape[1] < 2 or bool((T < 0).any()) or not torch.allclose(T.sum(1), T.new_ones(()), atol=1e-4):
            raise ValueError(
                "targets of the softmax loss must be rows of at least two non-negative numbers with sum 1; "
                "use loss.encode(labels)"
            )

    def rows(self, T: Tensor, S: Tensor) -> Tensor:
        return torch.logsumexp(S, 1) - (T * S).sum(1)

    def slope(self, T: Tensor, S: Tensor) -> Tensor:
        return torch.softmax(S, 1) - T

    def local_curvature(self, T: Tensor, S: Tensor) -> Tensor:
        return (1 - torch.softmax(S, 1).square().sum(1)).clamp_(0.0, self.curvature)


@dataclass(frozen=True)
class Logistic(Loss):
    """One class against all: ``log(1 + exp(s)) - t s``, added up over classes, with t from 0 to 1.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Logistic
    >>> Logistic().slope(torch.tensor([[1.0, 0.0]]), torch.zeros(1, 2))
    tensor([[-0.5000,  0.5000]])
    """

    name = "logistic"
    for_numbers = False
    curvature = 0.25

    def check(self, T: Tensor) -> None:
        super().check(T)
        if bool(((T < 0) | (T > 1)).any()):
            raise ValueError("targets of the logistic loss must lie between 0 and 1; use loss.encode(labels)")

    def rows(self, T: Tensor, S: Tensor) -> Tensor:
        return (torch.nn.functional.softplus(S) - T * S).sum(1)

    def slope(self, T: Tensor, S: Tensor) -> Tensor:
        return torch.sigmoid(S) - T

    def local_curvature(self, T: Tensor, S: Tensor) -> Tensor:
        p = torch.sigmoid(S)
        return (p * (1 - p)).amax(1)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """One class against all: ``max(0, 1 - t s)^2``, added up over classes, with t = +1 or -1.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import SquaredHinge
    >>> loss = SquaredHinge()
    >>> loss.encode(torch.tensor([0, 1]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """

    name = "squared_hinge"
    for_numbers = False
    curvature = 2.0

    def encode(self, y: Array, classes: int | None = None) -> Tensor:
        y = tensor(y)
        return y if y.is_floating_point() and y.ndim == 2 else self.marks(one_hot(y, classes))

    def marks(self, Y: Tensor) -> Tensor:
        return 2 * Y - 1

    def check(self, T: Tensor) -> None:
        super().check(T)
        if bool((T.abs() != 1).any()):
            raise ValueError("targets of the squared hinge must be +1 or -1; use loss.encode(labels)")

    def rows(self, T: Tensor, S: Tensor) -> Tensor:
        return (1 - T * S).relu().square().sum(1)

    def slope(self, T: Tensor, S: Tensor) -> Tensor:
        return -2 * T * (1 - T * S).relu()

    def local_curvature(self, T: Tensor, S: Tensor) -> Tensor:
        return 2.0 * (T * S < 1).any(1).to(S)
