"""Rules that see the inputs of every layer beside its gradient: one-sided K-FAC and LocoProp, our nearest relatives."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tikhonet.paper.baselines.rules import Product, Rule, gradient


class InputKFAC(Rule):
    """One-sided K-FAC: the Kronecker factor of the layer's inputs alone (FOOF, Benzing 2022).

        G = mean of the inputs' X'X / rows,   m = 0.9 m + (g + l w) (G + damping tr(G)/d)^-1,   w -= r m

    The mean forgets by 0.95; the inverse is renewed every tenth step. V is treated as all others.
    """

    name = "InputKFAC"
    layered = True
    momentum, memory, refresh = 0.9, 0.95, 10

    def __init__(
        self, V: Tensor, W: Sequence[Tensor], steps: int, decay: float | None = None, damping: float = 1.0
    ) -> None:
        super().__init__(V, W, steps, decay)
        self.damping = damping
        self.grams: list[Tensor] = []
        self.inverses: list[Tensor] = []
        self.M = [torch.zeros_like(parameter) for parameter in self.parameters]

    @torch.no_grad()
    def step(self, rate: float, products: Sequence[Product]) -> None:
        by_weight = {id(product.weight): product.inputs for product in products}
        inputs = [by_weight[id(parameter)] for parameter in self.parameters]
        if not self.grams:
            self.grams = [X.new_zeros(X.shape[1], X.shape[1]) for X in inputs]
        share = (1 - self.memory) / (1 - self.memory ** (self.done + 1))  # the mean of all so far, at first
        for G, X in zip(self.grams, inputs, strict=True):
            G.mul_(1 - share).addmm_(X.T, X, alpha=share / len(X))
        if self.done % self.refresh == 0:
            self.inverses = [damped_inverse(G, self.damping) for G in self.grams]
        self.done += 1
        for w, M, inverse in zip(self.parameters, self.M, self.inverses, strict=True):
            g = gradient(w)
            M.mul_(self.momentum).addmm_(torch.add(g, w, alpha=self.decay) if self.decay else g, inverse)
            w.sub_(M, alpha=rate)


def damped_inverse(G: Tensor, damping: float) -> Tensor:
    """(G + damping mean(diag G) I)^-1; NaN where it has none, which ends the run."""
    H = G + (damping * G.diagonal().mean() + 1e-30) * torch.eye(len(G), dtype=G.dtype, device=G.device)
    factor, failed = torch.linalg.cholesky_ex(H)
    return torch.full_like(G, torch.nan) if int(failed) else torch.cholesky_inverse(factor)


class LocoProp(Rule):
    """LocoProp-M (Amid, Anil and Warmuth 2022): every layer takes a few steps of its own towards local targets.

        T = f(Z) - pull dloss/dZ,   minimise over w:  F(X w') - <T, X w'>,   grad = (f(X w') - T)' X / rows

    with f = F' the activation after the layer (for V the loss's own link), Z = X w' at the start and the slope of each
    row's loss. `local` steps of RMSProp, r falling to a quarter of it among them; the first is back-propagation.
    """

    name = "LocoProp"
    layered = True
    memory, tiny = 0.9, 1e-6

    def __init__(
        self,
        V: Tensor,
        W: Sequence[Tensor],
        steps: int,
        decay: float | None = None,
        pull: float = 10.0,
        local: int = 5,
    ) -> None:
        super().__init__(V, W, steps, decay)
        self.pull, self.local = pull, local
        self.squares = {id(parameter): torch.zeros_like(parameter) for parameter in self.parameters}

    @torch.no_grad()
    def step(self, rate: float, products: Sequence[Product]) -> None:
        for product in products:
            w, X, Z = product.weight, product.inputs, product.outputs.detach()
            targets = product.link(Z).sub_(product.slope, alpha=self.pull * len(X))
            rest = Z - X @ w.T
            squares = self.squares[id(w)]
            w.mul_(1 - rate * self.decay)
            for step in range(self.local):
                residual = product.link(torch.addmm(rest, X, w.T)).sub_(targets).div_(len(X))
                g = residual.T @ X
                squares.mul_(self.memory).addcmul_(g, g, value=1 - self.memory)
                part = rate * max(0.25, 1 - step / self.local)
                w.addcdiv_(g, squares.sqrt().add_(self.tiny), value=-part)
