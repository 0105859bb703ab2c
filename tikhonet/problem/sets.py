"""The convex sets V and W of Eq. 4 (that of U is the activation's interval)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import torch
from torch import Tensor

from tikhonet.network.arguments import POSITIVE, check_type
from tikhonet.network.registry import Named, Registry


class ConvexSet(Named, ABC):
    """A closed convex set of matrices, which V or W must stay in.

    A subclass gives `project` and `violation`; with a `name` of its own estimators know it by that. A projection leaves
    every point of the set as it is, bit for bit, and its result is in the set as stored, rounding included.

    Attributes
    ----------
    name : str
        By which estimators know it.
    everything : bool
        Whether it holds all matrices, so that nothing needs to be projected.
    cone : bool
        Whether it holds all multiples of its matrices, so that units do not matter.

    Examples
    --------
    >>> from tikhonet import ConvexSet
    >>> {'frobenius', 'l1', 'l2', 'nonnegative'} <= set(ConvexSet.kinds)
    True
    """

    kinds: ClassVar[Registry[type[ConvexSet]]] = Registry("constraint")
    everything: ClassVar[bool] = False

    cone: ClassVar[bool] = False

    @property
    def bounded(self) -> bool:
        """Whether no matrix of the set is larger than some number."""
        return False

    @abstractmethod
    def project(self, M: Tensor) -> Tensor:
        """The nearest point of the set.

        Parameters
        ----------
        M : Tensor
            A matrix.

        Returns
        -------
        Tensor
            M itself where it is in the set.
        """

    def project_(self, M: Tensor) -> Tensor:
        """The nearest point of the set, written over M.

        Parameters
        ----------
        M : Tensor
            A matrix; overwritten.

        Returns
        -------
        Tensor
            M itself.
        """
        return M.copy_(self.project(M))

    def shrink(self, M: Tensor) -> Tensor:
        """A point of the set near M that has the zeros of M; a ball scales M down and makes no others.

        Parameters
        ----------
        M : Tensor
            A matrix.

        Returns
        -------
        Tensor
            A matrix of the set.
        """
        return self.project(M)

    @abstractmethod
    def violation(self, M: Tensor) -> float:
        """How far M breaks the set's inequality, in its own units.

        Parameters
        ----------
        M : Tensor
            A matrix.

        Returns
        -------
        float
            At most 0 inside.
        """

    def contains(self, M: Tensor, tol: float = 0.0) -> bool:
        """Whether M is in the set.

        Parameters
        ----------
        M : Tensor
            A matrix.
        tol : float, default=0.0
            By how much it may break the inequality.

        Returns
        -------
        bool
            The answer.
        """
        return self.violation(M) <= tol

    def check(self, shape: tuple[int, int], name: str) -> None:
        """Raise if matrices of this shape cannot be in the set.

        Parameters
        ----------
        shape : (int, int)
            Rows and columns.
        name : str
            What the matrix is called, for the error.
        """


@dataclass(frozen=True)
class Everything(ConvexSet):
    """All matrices: no constraint.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Everything
    >>> Everything().contains(torch.tensor([[1e9]]))
    True
    """

    everything: ClassVar[bool] = True
    cone: ClassVar[bool] = True

    def project(self, M: Tensor) -> Tensor:
        return M

    def violation(self, M: Tensor) -> float:
        return 0.0 if bool(M.isfinite().all()) else float("nan")


@dataclass(frozen=True)
class NonNegative(ConvexSet):
    """The matrices without negative entries: M >= 0.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import NonNegative
    >>> NonNegative().project(torch.tensor([[-1.0, 2.0]]))
    tensor([[0., 2.]])
    """

    name = "nonnegative"
    cone: ClassVar[bool] = True

    def project(self, M: Tensor) -> Tensor:
        return M.clamp(min=0)

    def project_(self, M: Tensor) -> Tensor:
        return M.clamp_(min=0)

    def violation(self, M: Tensor) -> float:
        return float(-M.min()) if bool(M.isfinite().all()) else float("nan")


@dataclass(frozen=True)
class Box(ConvexSet):
    """The matrices between two bounds: lower <= M <= upper.

    Parameters
    ----------
    lower : float or Tensor, default=-1.0
        A number, or a matrix of M's shape.
    upper : float or Tensor, default=1.0
        A number, or a matrix of M's shape.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Box
    >>> Box(0, 1).project(torch.tensor([[-1.0, 0.5, 2.0]]))
    tensor([[0.0000, 0.5000, 1.0000]])
    """

    lower: float | Tensor = -1.0
    upper: float | Tensor = 1.0

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            check_type(name, getattr(self, name), Real, Tensor)
        shapes = [tuple(bound.shape) for bound in (self.lower, self.upper) if isinstance(bound, Tensor) and bound.ndim]
        if len(set(shapes)) > 1:
            raise ValueError(f"lower and upper must have one shape, got {shapes[0]} and {shapes[1]}")
        if not bool((torch.as_tensor(self.lower) <= torch.as_tensor(self.upper)).all()):
            raise ValueError(f"lower must not exceed upper, got {self.lower} and {self.upper}")

    @property
    def bounded(self) -> bool:
        return all(bool(torch.as_tensor(bound).isfinite().all()) for bound in (self.lower, self.upper))

    def check(self, shape: tuple[int, int], name: str) -> None:
        for side, bound in (("lower", self.lower), ("upper", self.upper)):
            if isinstance(bound, Tensor) and bound.ndim and tuple(bound.shape) != shape:
                raise ValueError(
                    f"the {side} bound of the box for {name} must be a number or have shape {shape}, "
                    f"got {tuple(bound.shape)}"
                )

    def project(self, M: Tensor) -> Tensor:
        lower, upper = self._bounds(M)
        return torch.minimum(torch.maximum(M, lower), upper)

    def violation(self, M: Tensor) -> float:
        lower, upper = self._bounds(M)
        return float(torch.maximum(lower - M, M - upper).max())

    def _bounds(self, M: Tensor) -> tuple[Tensor, Tensor]:
        # A bound that M's type cannot hold is rounded inwards, so that what is stored is inside it.
        lower, upper = (torch.as_tensor(bound, dtype=torch.float64) for bound in (self.lower, self.upper))
        low, high = lower.to(M), upper.to(M)
        low = torch.where(low.double() < lower.to(M.device), low.nextafter(low.new_tensor(torch.inf)), low)
        high = torch.where(high.double() > upper.to(M.device), high.nextafter(high.new_tensor(-torch.inf)), high)
        return low, torch.maximum(low, high)


@dataclass(frozen=True)
class Signed(ConvexSet):
    """M_ij signs_ij >= 0: entries that must not be negative, or not positive, and any where the sign is 0."""

    signs: Tensor
    cone: ClassVar[bool] = True

    def check(self, shape: tuple[int, int], name: str) -> None:
        if tuple(self.signs.shape) != shape:
            raise ValueError(f"the signs for {name} must have shape {shape}, got {tuple(self.signs.shape)}")

    def project(self, M: Tensor) -> Tensor:
        return torch.where(M * self.signs.to(M) < 0, 0.0, M)

    def violation(self, M: Tensor) -> float:
        return float(-(M * self.signs.to(M)).min()) if bool(M.isfinite().all()) else float("nan")


@dataclass(frozen=True)
class Ball(ConvexSet):
    """Shared by the norm balls: a positive radius, and rescaling into the ball after rounding."""

    radius: float = 1.0

    def __post_init__(self) -> None:
        POSITIVE.check("radius", self.radius)

    @property
    def bounded(self) -> bool:
        return True

    @abstractmethod
    def norm(self, M: Tensor) -> Tensor:
        """The norm of each row (a column vector) or of the whole, computed in float64.

        Parameters
        ----------
        M : Tensor
            A matrix.

        Returns
        -------
        Tensor
            The norms.
        """

    def violation(self, M: Tensor) -> float:
        return float(self.norm(M).max()) - self.radius

    def project(self, M: Tensor) -> Tensor:
        return self.shrink(M)

    def shrink(self, M: Tensor) -> Tensor:
        # What is outside is scaled down until it is inside as stored.
        for margin in (1, 2, 4, 8, torch.inf):  # once is nearly always enough; subnormals end at zero
            norm = self.norm(M)
            outside = norm > self.radius
            if not bool(outside.any()):
                break
            scale = self.radius / (norm * (1 + margin * torch.finfo(M.dtype).eps))
            M = M * torch.where(outside, scale, 1.0).to(M.dtype)
        return M


@dataclass(frozen=True)
class FrobeniusBall(Ball):
    """The matrices whose squares add up to at most ``radius^2``: ``|M|_F <= radius``.

    Parameters
    ----------
    radius : float, default=1.0
        The largest norm of the matrix.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import FrobeniusBall
    >>> FrobeniusBall(5.0).project(torch.tensor([[6.0], [8.0]]))
    tensor([[3.0000],
            [4.0000]])
    """

    name = "frobenius"

    def norm(self, M: Tensor) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(M.contiguous(), dtype=torch.float64)
        return norm


@dataclass(frozen=True)
class RowL2Ball(Ball):
    """The matrices each of whose rows has a Euclidean norm of at most `radius`: ``|M_k|_2 <= radius``.

    Parameters
    ----------
    radius : float, default=1.0
        The largest norm of a row.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import RowL2Ball
    >>> RowL2Ball(5.0).project(torch.tensor([[3.0, 4.0], [6.0, 8.0]]))
    tensor([[3.0000, 4.0000],
            [3.0000, 4.0000]])
    """

    name = "l2"

    def norm(self, M: Tensor) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(M.contiguous(), dim=1, keepdim=True, dtype=torch.float64)
        return norm


@dataclass(frozen=True)
class RowL1Ball(Ball):
    """The matrices each of whose rows has absolute values that add up to at most `radius`: ``|M_k|_1 <= radius``.

    The set of the paper's BCD-S (Sec. 3.3.1), where the radius is 1. Its projection makes zeros.

    Parameters
    ----------
    radius : float, default=1.0
        The largest sum of a row.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import RowL1Ball
    >>> RowL1Ball(1.0).project(torch.tensor([[2.0, 0.5]]))
    tensor([[1., 0.]])
    """

    name = "l1"

    def norm(self, M: Tensor) -> Tensor:
        return M.contiguous().abs().sum(1, keepdim=True, dtype=torch.float64)

    def project(self, M: Tensor) -> Tensor:
        outside = (self.norm(M) > self.radius).squeeze(1)
        if not bool(outside.any()):
            return M
        if bool(outside.all()):
            return self.shrink(self._soft_threshold(M))
        P = M.clone()
        P[outside] = self.shrink(self._soft_threshold(M[outside]))
        return P

    def _soft_threshold(self, M: Tensor) -> Tensor:
        """sign(M) max(0, |M| - tau), each row's tau by Newton on its piecewise linear equation.

        tau rises and the entries above it become fewer, until they stay: finitely many steps, without a sort.
        """
        size = M.abs()
        largest = size.amax(1, keepdim=True)
        # Nothing further than the radius below the largest survives; measured from there, huge rows lose nothing.
        if bool((largest > self.radius).any()):
            size = torch.where(largest > self.radius, (size - largest) + self.radius, size).relu_()
        tau, count = torch.zeros_like(largest), torch.full_like(largest, torch.inf)
        above = torch.empty_like(size)
        fewer = True
        while fewer:
            excess = torch.sub(size, tau, out=above).relu_().sum(1, keepdim=True)
            former, count = count, above.sign_().sum(1, keepdim=True).clamp_(min=1)
            tau = torch.maximum(tau, tau + (excess - self.radius) / count)
            fewer = bool((count < former).any())
        return torch.sub(size, tau, out=above).relu_().mul_(M.sign())


@dataclass(frozen=True)
class Columns(ConvexSet):
    """Side by side matrices, each in its own set: the learned sources of one layer."""

    sets: tuple[ConvexSet, ...]
    widths: tuple[int, ...]

    def project(self, M: Tensor) -> Tensor:
        parts = M.split(self.widths, dim=1)
        return torch.cat([set_.project(part) for set_, part in zip(self.sets, parts, strict=True)], dim=1)

    def violation(self, M: Tensor) -> float:
        parts = M.split(self.widths, dim=1)
        return float(
            torch.tensor(
                [s.violation(part) for s, part in zip(self.sets, parts, strict=True)], dtype=torch.float64
            ).max()
        )


@dataclass(frozen=True)
class Grouped(ConvexSet):
    """Matrices of a set whose rows fall into equal groups, given with one more dimension in front."""

    whole: ConvexSet

    def project(self, M: Tensor) -> Tensor:
        return self.whole.project(M.flatten(0, 1)).view_as(M)

    def violation(self, M: Tensor) -> float:
        return self.whole.violation(M.flatten(0, 1))


def in_groups(set_: ConvexSet, H: Tensor) -> ConvexSet:
    """The set of matrices as the Hessians H see them: one for all rows, or one for each of several groups."""
    return set_ if set_.everything or H.ndim == 2 else Grouped(set_)
