"""Sec. 2.1: the bias of a layer, an edge from the constant layer."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tikhonet.network.edges import Dense, Edge
from tikhonet.network.operations import Constant, Operation
from tikhonet.network.shapes import channels_of


class Bias(Dense):
    """A vector added to all samples: ``z = b``, one column times the constant layer.

    It starts at zero, and no set, ridge or budget acts on it. An image has one number for each channel.

    Parameters
    ----------
    source : tuple of int, default=()
        The shape of the source layer, (1,); filled in by `join`.
    target : tuple of int, default=()
        The shape of the target layer; filled in by `join`.

    Examples
    --------
    >>> from tikhonet import Bias
    >>> Bias().join(1, (16, 8, 8)).shape
    (16, 1)
    """

    name = "bias"
    penalised = False
    constant = True

    @property
    def shape(self) -> tuple[int, int]:
        return self.target[0], 1

    @property
    def positions(self) -> int:
        return math.prod(self.target[1:])

    @property
    def fan_in(self) -> int:
        return 0

    def spread(self, W: Tensor | None) -> Tensor:
        """The column W with each channel's number at all of its positions.

        Parameters
        ----------
        W : Tensor or None
            The bias, a column.

        Returns
        -------
        Tensor
            A column with a number for each unit.
        """
        assert W is not None
        return W.repeat_interleave(self.positions, 0)

    def apply(self, U: Tensor, W: Tensor | None, out: Tensor | None = None) -> Tensor:
        if out is None or (self.positions == 1 and out.ndim == 2):
            return super().apply(U, self.spread(W), out)
        assert W is not None
        shift = (U @ W.T)[:, :, None]
        if out.ndim == 2:
            out.unflatten(1, (-1, self.positions)).add_(shift)
        else:
            out.add_(shift[..., None])
        return out

    def adjoint(self, R: Tensor, W: Tensor | None, out: Tensor | None = None, alpha: float = 1.0) -> Tensor:
        return super().adjoint(R, self.spread(W), out, alpha)

    def product(self, R: Tensor, U: Tensor) -> Tensor:
        return (R.unflatten(1, (-1, self.positions)) if R.ndim == 2 else R.flatten(2)).sum(2).T @ U

    def gram_inputs(self, U: Tensor) -> Tensor:
        return U.repeat_interleave(self.positions, 0)

    def feeds(self, W: Tensor | None) -> Tensor:
        return super().feeds(self.spread(W))

    def onward(self, W: Tensor | None) -> Tensor:
        return super().onward(self.spread(W))

    def random(self, generator: torch.Generator, deviation: float) -> Tensor:
        return super().random(generator, 0.0)  # drawn all the same, so that other edges have the same with and without

    def select(self, W: Tensor | None, rows: Tensor, columns: Tensor) -> tuple[Edge, Tensor | None]:
        assert W is not None
        channels = channels_of(rows, self.target)
        return self.join(1, (len(channels), *self.target[1:])), W[channels]

    def multiplied(self, power: Tensor) -> Tensor:
        return power.new_ones(1)

    def export(self, W: Tensor | None) -> Operation:
        return Constant(self.spread(W)[:, 0])

    def term(self, n: int, m: int) -> str:
        return f"b{n}"
