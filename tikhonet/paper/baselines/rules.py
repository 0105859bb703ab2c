"""The rules by which back-propagated gradients become steps: the paper's six (Sec. 3.3.1) and the rivals of today.

A rule is one class with its formula. It moves V and the matrices W of the hidden layers in place after every backward
pass: g is the gradient of the mean loss of the batch, r the rate at that step, l the decay.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from tikhonet.network.registry import Registry


@dataclass(frozen=True)
class Product:
    """One product of the forward pass with a learned matrix: outputs = inputs weight' (+ other sources of the layer).

    `link` is the function after it: the activation, or for V that of which the loss is the matching one, the identity
    or the softmax. The slope of the loss in the outputs is there after the backward pass.
    """

    weight: Tensor
    inputs: Tensor
    outputs: Tensor
    link: Callable[[Tensor], Tensor]

    @property
    def slope(self) -> Tensor:
        assert self.outputs.grad is not None
        return self.outputs.grad


class Rule(ABC):
    """A rule for V and the matrices W; `steps` is the length of the run, `decay` of None is none."""

    name: ClassVar[str]
    kinds: ClassVar[Registry[type[Rule]]] = Registry("solver")
    layered: ClassVar[bool] = False
    """Whether it asks for the products of the forward pass."""
    annealed: ClassVar[bool] = True
    """Whether the rate follows the run's schedule."""

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            cls.kinds.add(cls.name, cls)

    def __init__(self, V: Tensor, W: Sequence[Tensor], steps: int, decay: float | None = None) -> None:
        self.V, self.W, self.steps, self.decay = V, list(W), steps, decay or 0.0
        self.done = 0

    @property
    def parameters(self) -> list[Tensor]:
        return [self.V, *self.W]

    @abstractmethod
    def step(self, rate: float, products: Sequence[Product]) -> None:
        """One step by the gradients that the parameters hold."""

    @contextmanager
    def at_answer(self) -> Iterator[None]:
        """Within, the parameters are those that the rule returns, where they differ from those it is trained at."""
        yield


def gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


class TorchRule(Rule):
    """A rule of torch.optim, by its fastest kernel: fused where there is one.

    Where there is none, the loop over matrices is faster on a CPU than `foreach` (5.6 against 8.9 ms a step of AdaDelta
    on the paper's network, one thread).
    """

    kind: ClassVar[Any]
    options: ClassVar[dict[str, Any]]

    def __init__(self, V: Tensor, W: Sequence[Tensor], steps: int, decay: float | None = None) -> None:
        super().__init__(V, W, steps, decay)
        self.optimizer = self.kind(self.parameters, weight_decay=self.decay, **self.options)

    def step(self, rate: float, products: Sequence[Product]) -> None:
        step_torch(self.optimizer, rate)


def step_torch(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()


class SGD(TorchRule):
    """m = 0.9 m + g + l w,  w -= r m."""

    name, kind, options = "SGD", torch.optim.SGD, {"momentum": 0.9, "fused": True}


class Nesterov(TorchRule):
    """m = 0.9 m + g + l w,  w -= r (g + l w + 0.9 m)."""

    name, kind, options = "Nesterov", torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "fused": True}


class AdaGrad(TorchRule):
    """s += g^2,  w -= r g / sqrt(s)."""

    name, kind, options = "AdaGrad", torch.optim.Adagrad, {"fused": True}


class AdaDelta(TorchRule):
    """s = mean of g^2, d = sqrt(mean of d^2 / s) g,  w -= r d;  the means forget by 0.9."""

    name, kind, options = "AdaDelta", torch.optim.Adadelta, {"foreach": False}


class RMSProp(TorchRule):
    """s = 0.99 s + 0.01 g^2,  w -= r g / sqrt(s)."""

    name, kind, options = "RMSProp", torch.optim.RMSprop, {"foreach": False}


class Adam(TorchRule):
    """m = 0.9 m + 0.1 g,  s = 0.999 s + 0.001 g^2,  w -= r m / sqrt(s), both without their bias;  g has l w in it."""

    name, kind, options = "Adam", torch.optim.Adam, {"fused": True}


class AdamW(TorchRule):
    """Adam with  w -= r l w  apart from the gradient (Loshchilov and Hutter 2019)."""

    name, kind, options = "AdamW", torch.optim.AdamW, {"fused": True}


class ScheduleFree(Rule):
    """Schedule-free AdamW (Defazio et al. 2024): the gradient is taken at y, and x is returned.

        y = (1 - 0.9) z + 0.9 x,   z -= r (g(y) / sqrt(s) + l y),   x = (1 - c) x + c z

    with s of Adam, r constant after a linear warm-up, and c = r^2 / sum of all r^2 so far.
    """

    name = "ScheduleFree"
    annealed = False
    momentum, warm_up = 0.9, 0.05

    def __init__(self, V: Tensor, W: Sequence[Tensor], steps: int, decay: float | None = None) -> None:
        super().__init__(V, W, steps, decay)
        self.X, self.Z = ([p.detach().clone() for p in self.parameters] for _ in range(2))
        self.adam = torch.optim.Adam(self.Z, betas=(0.0, 0.999), fused=True)
        self.squares = 0.0

    @torch.no_grad()
    def step(self, rate: float, products: Sequence[Product]) -> None:
        self.done += 1
        rate *= min(1.0, self.done / max(1.0, self.warm_up * self.steps))
        self.squares += rate * rate
        share = rate * rate / self.squares
        for y, z in zip(self.parameters, self.Z, strict=True):
            z.grad = y.grad
            if self.decay:
                z.sub_(y, alpha=rate * self.decay)
        step_torch(self.adam, rate)
        for x, y, z in zip(self.X, self.parameters, self.Z, strict=True):
            x.lerp_(z, share)
            torch.lerp(z, x, self.momentum, out=y.data)

    @contextmanager
    def at_answer(self) -> Iterator[None]:
        trained = [y.detach().clone() for y in self.parameters]
        for y, x in zip(self.parameters, self.X, strict=True):
            y.data.copy_(x)
        yield
        for y, kept in zip(self.parameters, trained, strict=True):
            y.data.copy_(kept)


class Muon(Rule):
    """Muon (Jordan et al. 2024) for the matrices of hidden layers, AdamW for V and the biases.

        m = 0.95 m + g,   w -= r (0.2 sqrt(longer side) O(g + 0.95 m) + l w),   O(U S V') = about U V'

    by five Newton-Schulz iterations in float32; the factor makes r mean what it does in AdamW (Liu et al. 2025).
    """

    name = "Muon"
    momentum = 0.95

    def __init__(self, V: Tensor, W: Sequence[Tensor], steps: int, decay: float | None = None) -> None:
        super().__init__(V, W, steps, decay)
        self.matrices = [matrix for matrix in W if min(matrix.shape) > 1]
        chosen = set(map(id, self.matrices))
        others = [parameter for parameter in self.parameters if id(parameter) not in chosen]
        self.adamw = torch.optim.AdamW(others, weight_decay=self.decay, fused=True)
        self.M = [torch.zeros_like(matrix) for matrix in self.matrices]

    @torch.no_grad()
    def step(self, rate: float, products: Sequence[Product]) -> None:
        step_torch(self.adamw, rate)
        for matrix, M in zip(self.matrices, self.M, strict=True):
            g = gradient(matrix)
            M.mul_(self.momentum).add_(g)
            matrix.mul_(1 - rate * self.decay)
            matrix.sub_(orthogonalised(g + self.momentum * M), alpha=rate * 0.2 * max(matrix.shape) ** 0.5)


def orthogonalised(G: Tensor) -> Tensor:
    """About U V' of G = U S V': singular values end between 0.7 and 1.2, by the quintic a s + b s^3 + c s^5."""
    a, b, c = 3.4445, -4.7750, 2.0315
    X: Tensor = G / (G.norm() + 1e-7)
    if wide := len(X) > X.shape[1]:
        X = X.T
    for _ in range(5):
        A = X @ X.T
        X = torch.addmm(X, torch.addmm(A, A, A, beta=b, alpha=c), X, beta=a)
    return X.T if wide else X


class SOAP(Rule):
    """SOAP (Vyas et al. 2024): AdamW in the eigenbasis of Shampoo's two factors.

        L = mean of g g',  R = mean of g' g,   h = Q_L' g Q_R,   w -= r (Q_L (m / sqrt(s)) Q_R' + l w)

    with m and s the means of h and h^2, all forgetting by 0.95; every tenth step Q is the orthogonal factor of
    L Q (one power iteration), and m turns with it. The first gradient only starts the factors.
    """

    name = "SOAP"
    memory, refresh, tiny = 0.95, 10, 1e-8

    def __init__(self, V: Tensor, W: Sequence[Tensor], steps: int, decay: float | None = None) -> None:
        super().__init__(V, W, steps, decay)
        self.state: list[dict[str, Tensor]] = [{} for _ in self.parameters]

    @torch.no_grad()
    def step(self, rate: float, products: Sequence[Product]) -> None:
        self.done += 1
        for parameter, state in zip(self.parameters, self.state, strict=True):
            self.move(parameter, state, rate)

    def move(self, w: Tensor, state: dict[str, Tensor], rate: float) -> None:
        g = gradient(w)
        left, right = g @ g.T, g.T @ g
        if not state:
            QL, QR = (torch.linalg.eigh(factor)[1].flip(1) for factor in (left, right))
            share = 1 - self.memory
            state |= {"L": share * left, "R": share * right, "QL": QL, "QR": QR}
            state |= {"m": torch.zeros_like(g), "s": torch.zeros_like(g)}
            return
        QL, QR, m, s = (state[name] for name in ("QL", "QR", "m", "s"))
        h = QL.T @ g @ QR
        m.lerp_(h, 1 - self.memory)
        s.mul_(self.memory).addcmul_(h, h, value=1 - self.memory)
        bias = 1 - self.memory ** (self.done - 1)
        direction = (m / bias) / (s / bias).sqrt().add_(self.tiny)
        w.mul_(1 - rate * self.decay).sub_(QL @ direction @ QR.T, alpha=rate)
        for name, outer in (("L", left), ("R", right)):
            state[name].lerp_(outer, 1 - self.memory)
        if self.done % self.refresh == 0:
            self.turn(state)

    def turn(self, state: dict[str, Tensor]) -> None:
        """New bases, in the order of the eigenvalues as they are estimated, with m and s in them."""
        m, s = state["QL"] @ state["m"] @ state["QR"].T, state["s"]
        for axis, (factor, basis) in enumerate((("L", "QL"), ("R", "QR"))):
            Q = state[basis]
            order = ((state[factor] @ Q) * Q).sum(0).argsort(descending=True)
            s = s.index_select(axis, order)
            state[basis] = torch.linalg.qr(state[factor] @ Q[:, order])[0]
        state |= {"s": s, "m": state["QL"].T @ m @ state["QR"]}
