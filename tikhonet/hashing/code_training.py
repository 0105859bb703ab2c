"""Training with codes as variables: rounds of the network's solver, and between them steps of the code block.

For hashing the targets of the network are codes, and the codes are variables too. With p_i = V u_{i,N} the network's
outputs, y_i what is known of a sample (its labels) and G a regression of it on the codes, the terms that hold B are

    h(B, G) = 1/2 sum_i w_i |b_i - p_i|^2 + alpha/2 (sum_i w_i |y_i - G' b_i|^2 + ridge |G|^2),    B in {-1, 1}.

The first is the squared loss of Eq. 4. Each bit of B and all of G have closed-form minimisers given the rest, so that
no step raises the objective. Every sum over samples ends in `reduce`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from tikhonet.descent.certificates import Check
from tikhonet.descent.result import History, Result, Status
from tikhonet.estimators.solvers import Course, Trained
from tikhonet.problem.objective import Blocks
from tikhonet.problem.samples import Reduce, keep
from tikhonet.trainer.batches import Batch
from tikhonet.trainer.run import Stochastic
from tikhonet.trainer.training import Training

ROUNDS = 5
"""Rounds of training, each but the last followed by a step of the codes."""
RIDGE = 1e-2
"""The ridge of the regression of the labels on the codes, relative to the samples' weight."""
SWEEPS = 3


def update_regression(B: Tensor, Y: Tensor, weight: Tensor, ridge: float, reduce: Reduce = keep) -> Tensor:
    """Minimise over G:  sum_i w_i |y_i - G' b_i|^2 + ridge |G|^2."""
    weighted = B * weight[:, None]
    H = reduce(weighted.T @ B)
    H.diagonal().add_(ridge)
    return torch.cholesky_solve(reduce(weighted.T @ Y), torch.linalg.cholesky(H))


def update_codes(B: Tensor, P: Tensor, Y: Tensor, G: Tensor, alpha: float) -> Tensor:
    """One bit after the other, minimise h over it:  b_l = sign(p_l + alpha <y - sum over k != l of b_k g_k, g_l>).

    Since b_l^2 = 1, h is linear in one bit and this is its exact minimiser; a tie leaves the bit as it is. A sample's
    weight multiplies all of its terms, so it plays no part.
    """
    B = B.clone()
    residual = Y - B @ G
    for bit, g in enumerate(G):
        old = B[:, bit].clone()
        field = P[:, bit] + alpha * (residual @ g + old * (g @ g))
        B[:, bit] = torch.where(field == 0, old, field.sign())
        residual -= torch.outer(B[:, bit] - old, g)
    return B


def code_objective(
    B: Tensor, P: Tensor, Y: Tensor, G: Tensor, weight: Tensor, *, alpha: float, ridge: float, reduce: Reduce = keep
) -> tuple[float, float]:
    """The two terms of h: the squared loss, and alpha times the regression's."""
    loss = 0.5 * float(reduce(weight @ (B - P).square().sum(1)))
    regression = 0.5 * alpha * float(reduce(weight @ (Y - B @ G).square().sum(1)) + ridge * G.square().sum())
    return loss, regression


@dataclass
class CodeBlock:
    """The codes B of the training rows, and the values of their terms of the objective on the way.

    `supervision` says how sure the network must be to turn a bit of a code that fits its labels: its output must lie
    at least that far on the other side.
    """

    B: Tensor
    Y: Tensor
    weight: Tensor
    supervision: float
    reduce: Reduce = keep
    beside: Tensor | None = None
    """Further targets of the network, which stay as they are."""
    values: list[float] = field(default_factory=list)
    """h after each step, begun anew (NaN) where the network has been trained in between."""
    turned: int = 0
    """Bits that are not what they were at the start."""

    def __post_init__(self) -> None:
        self.B, self.Y, self.weight = (part.double() for part in (self.B, self.Y, self.weight))
        self.start = self.B
        self.ridge = RIDGE * float(self.reduce(self.weight.sum()))
        self.G = update_regression(self.B, self.Y, self.weight, self.ridge, self.reduce)
        # A bit that fits has the field alpha |g|^2 of its labels. It is `supervision` for the least of them: where the
        # mean was, bits that tell the labels little were held weakly, and some ended constant.
        held = self.G.square().sum(1)
        self.alpha = self.supervision / max(float(held.min()), 1e-3 * float(held.mean()), 1e-12) if len(held) else 0.0

    @property
    def targets(self) -> Tensor:
        """All that the network learns."""
        return self.B if self.beside is None else torch.cat([self.B, self.beside.to(self.B)], dim=1)

    def update(self, P: Tensor) -> None:
        """Steps of G and of B for these outputs of the network."""
        P = P[:, : self.B.shape[1]].double()
        self.values += [math.nan, sum(self.terms(P))]
        for _ in range(SWEEPS):
            self.G = update_regression(self.B, self.Y, self.weight, self.ridge, self.reduce)
            self.values.append(sum(self.terms(P)))
            self.B = update_codes(self.B, P, self.Y, self.G, self.alpha)
            self.values.append(sum(self.terms(P)))
        self.turned = int(self.reduce((self.B * self.start < 0).sum()))

    def terms(self, P: Tensor) -> tuple[float, float]:
        """The squared loss for these outputs, and the part of the objective that the network does not see."""
        settings: dict[str, Any] = {"alpha": self.alpha, "ridge": self.ridge, "reduce": self.reduce}
        return code_objective(self.B, P, self.Y, self.G, self.weight, **settings)

    def check(self) -> Check:
        """Whether every step of B and G lowered the objective, by its values in float64."""
        rises = [
            after - before - 1e-12 * abs(before)
            for before, after in pairwise(self.values)
            if not math.isnan(before + after)
        ]
        figure = f"{len(rises)} steps, largest rise {max(0.0, *rises):.3g}; {self.turned} bits turned"
        return Check("codes", "f falls at every step of the codes", max(rises, default=0.0) <= 0, figure)


def train_codes(course: Course, block: CodeBlock, rounds: int) -> Trained:
    """Train the network towards the codes in rounds, updating them in between."""
    go = stochastic_rounds if course.method.goes_on else full_rounds
    trained = go(course, block, min(rounds, course.iterations))
    if not block.values:
        return trained
    certificate = trained.certificate
    return replace(trained, certificate=replace(certificate, checks=(*certificate.checks, block.check())))


def stochastic_rounds(course: Course, block: CodeBlock, rounds: int) -> Trained:
    """One run of the mini-batch solver, stopped for the codes at even distances."""
    X, solver, asked = course.X, replace(course.solver, refit=False), False

    def go(state: Any, until: int) -> Training:
        def stop(epoch: Any) -> bool:
            nonlocal asked
            asked = bool(course.watch and course.watch(epoch))
            return asked or until <= epoch.number < solver.epochs

        start = course.start[0] if course.start and not state else None
        options: dict[str, Any] = {"dtype": X.dtype, "device": X.device, "weight": course.weight}
        options |= {"start": start, "resume": state, "seed": course.seed, "watch": stop, "reduce": course.reduce}
        options["slot"] = course.slots()
        training: Training = solver.run(course.problem, X, block.targets.to(X), **options)
        return training

    state = None
    for number in range(1, rounds + 1):
        until = round(number * solver.epochs / rounds)
        training = go(state, until)
        state = training.state
        ended = asked or len(training.epochs) < until or training.status is Status.NONFINITE
        found = None
        try:
            found = outputs(solver, course, block, training)
            if number == rounds or ended:
                break
            block.update(found[1])
        except KeyboardInterrupt:
            break
    blocks, P = found or outputs(solver, course, block, training)
    return replace(Trained.from_training(replace(training, blocks=blocks)), outputs=P)


def outputs(solver: Stochastic, course: Course, block: CodeBlock, training: Training) -> tuple[Blocks, Tensor]:
    """V fitted to the codes on the features of all rows, and what the network then makes of them: one forward pass."""
    W, V = training.blocks.W, training.blocks.V
    A = course.problem.network.features(course.X, W)
    if training.status is not Status.NONFINITE:
        V = solver.refit_V(course.problem, V, [Batch(A, block.targets.to(A), course.weight)], reduce=course.reduce)
    return Blocks({}, V, W), A @ V.T


def full_rounds(course: Course, block: CodeBlock, rounds: int) -> Trained:
    """Runs of the full-batch solver, each from the last one's blocks; the codes see its lifted features U[N]."""
    problem, X, solver, history = course.problem, course.X, course.solver, None

    def joined(now: History) -> History:
        return history.followed_by(now) if history else now

    blocks: Blocks | None = None
    if W := course.start_weights():
        V = X.new_zeros(block.targets.shape[1], problem.network.widths[-1])
        blocks = Blocks(problem.network.forward(X, W), V, W)
    ends: list[tuple[float, float]] = []
    for number in range(1, rounds + 1):
        limit = number * solver.max_iter // rounds - (number - 1) * solver.max_iter // rounds
        result: Result = replace(solver, max_iter=limit).run(
            problem,
            X,
            block.targets.to(X),
            weight=course.weight,
            seed=course.seed,
            start=blocks,
            reduce=course.reduce,
            watch=lambda now: course.watch and course.watch(joined(now)),
            slot=course.slots(),
        )
        blocks = result.blocks
        hidden = block.terms(block.B)[1]
        ends.append((result.history.objective[0] + hidden, result.history.objective[-1] + hidden))
        if number == rounds or result.status in (Status.NONFINITE, Status.INTERRUPTED):
            break
        history = joined(result.history)
        block.update(blocks.U[problem.network.depth] @ blocks.V.T)
    trained, history = Trained.from_result(result), joined(result.history)
    certificate = replace(trained.certificate, checks=(*trained.certificate.checks, joint(ends)))
    P = problem.network.features(X, trained.W) @ trained.V.T
    iterations = max(1, history.iterations)
    return replace(trained, history=history, iterations=iterations, certificate=certificate, outputs=P)


def joint(ends: list[tuple[float, float]]) -> Check:
    """Whether f with the codes' terms fell from each round to the next: what rounds begin and end with."""
    values = [value for pair in ends for value in pair]
    rise = max((after - before for before, after in pairwise(values)), default=0.0)
    allowed = 1e-6 * abs(values[0])
    figure = f"{values[0]:.6g} to {values[-1]:.6g} in {len(ends)} rounds, largest rise {max(rise, 0.0):.3g}"
    return Check("rounds", "f with the codes falls from round to round", rise <= allowed, figure)
