"""One step of the stochastic trainer on a mini-batch, and what guards it.

A step's length is set by the relative change that it makes in its layer's pre-activations and falls linearly to the
end of the run. Nothing may make the run diverge: a step after which the loss on the same rows is higher is undone
and later ones are shorter, and when the running loss has risen far above its best the last good state comes back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tikhonet.network.graph import BIAS, Weights
from tikhonet.network.initial import initial_weights
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.trainer.batches import Batch
from tikhonet.trainer.recipe import LONG, Recipe
from tikhonet.trainer.sparsity.budget import Support, bring_into
from tikhonet.trainer.sparsity.pruner import Pruner
from tikhonet.trainer.statistics import (
    TINY,
    FullGram,
    Gram,
    LayerState,
    Pass,
    RunningClassifier,
    forward,
    project_onto,
    stacked_inputs,
    step_weights,
    targets_sweep,
)
from tikhonet.trainer.training import Epoch

SILENT = 1e-12


@dataclass
class TrainingState:
    """All that a run carries from one epoch to the next; given back as `resume`, it goes on bit for bit."""

    W: Weights
    average: Blocks
    """The running average of V and W (without U), which is what a user sees."""
    layers: dict[int, LayerState]
    classifier: RunningClassifier
    scale: float
    """The rms of the inputs, by which they are divided."""
    generator: Tensor
    step: int = 0
    trust: float = 1.0
    """The factor by which steps are cut back after a rise."""
    rejected: int = 0
    loss: float = math.nan
    """The running mean loss, and the loss of the first batch as its scale."""
    first_loss: float = math.nan
    epochs: list[Epoch] = field(default_factory=list)
    support: Support | None = None
    """Where weights may be nonzero under a budget, and the share of them that this is."""
    density: float = 1.0
    best: TrainingState | None = None
    """The state after the epoch with the least validation loss; None without validation data."""

    def copy(self) -> TrainingState:
        """Only what steps change in place is cloned: W and V are new tensors after every step."""
        W = {edge: matrix.clone() for edge, matrix in self.average.W.items()}
        return replace(
            self,
            average=Blocks({}, self.average.V.clone(), W),
            layers={n: layer.copy() for n, layer in self.layers.items()},
            classifier=self.classifier.copy(),
            epochs=list(self.epochs),
        )


class Dropout:
    """Masks with entries 0 or 1/(1 - p), cut from one pool of random numbers: drawing each anew is slow."""

    def __init__(self, p: float, mask: int, generator: torch.Generator, like: Tensor) -> None:
        draw = torch.rand(max(3 * mask, min(16 * mask, 4_000_000)), generator=generator)
        self.pool = ((draw >= p).to(like.dtype) / (1 - p)).to(like.device)

    def __call__(self, rows: int, width: int, generator: torch.Generator) -> Tensor:
        pool, size = self.pool, rows * width
        if size > len(pool):  # batches may be larger than the first one, for which the pool was made
            pool = pool.repeat(size // len(pool) + 1)
        offset = int(torch.randint(len(pool) - size + 1, (1,), generator=generator))
        return pool[offset : offset + size].view(rows, width)


class Steps:
    """Holds the state of a run and moves it on, batch by batch."""

    def __init__(
        self,
        recipe: Recipe,
        problem: Problem,
        first: Batch,
        total: int,
        start: Weights | None,
        resume: TrainingState | None,
        seed: int,
    ) -> None:
        self.recipe, self.problem, self.total = recipe, problem, total
        self.pruner = Pruner(recipe.budget, problem, total) if recipe.budget else None
        self.place = bring_into if self.pruner else project_onto
        self.generator = torch.Generator().manual_seed(seed)
        rows = len(first.X)
        self.size = rows / 1000
        network = problem.network
        self.preset = preset = recipe.preset(network, total * self.size > LONG)
        # The masks are drawn before the state, so that a resumed run has the same ones.
        self.dropout = {
            layer: Dropout(p, rows * network.width(layer), self.generator, first.X)
            for layer, p in ((0, preset.drop_inputs), (network.depth, preset.drop_features))
            if p > 0 and network.width(layer) > 1
        }
        self.state = resume.copy() if resume else self.begin(first, start, seed)
        self.generator.set_state(self.state.generator)

    def begin_epoch(self) -> TrainingState:
        """Remember the state, also as what a bad stretch goes back to; so a resumed run has the same."""
        before = self.state.copy()
        self.good = replace(before, loss=before.loss if before.step else math.inf)
        return before

    def begin(self, first: Batch, start: Weights | None, seed: int) -> TrainingState:
        recipe, network, X = self.recipe, self.problem.network, first.X
        scale = float(X.double().square().mean().sqrt()) or 1.0
        if start is None:
            W = initial_weights(network, recipe.initial, seed, recipe.initial_scale, dtype=X.dtype, device=X.device)
            W = self.even_out(X / scale, W)
        else:
            network.check_weights(start)
            # In units of the scaled inputs a bias is smaller by their scale.
            W = {(n, m): M.to(X) / (scale if m == BIAS else 1.0) for (n, m), M in start.items()}
        W = {edge: self.place(self.problem.edge_set(edge), matrix) for edge, matrix in W.items()}
        layers = {}
        for n in network.hidden:
            sources = network.learned_sources(n)
            if sources:
                width = sum(network.width(m) for m in sources)
                layers[n] = LayerState(self.empty_gram(width, X), X.new_zeros(network.widths[n], width))
        last, outputs = network.widths[-1], first.targets.shape[1]
        classifier = RunningClassifier.start(X.new_zeros(outputs, last))
        average = Blocks({}, classifier.V.clone(), {edge: matrix.clone() for edge, matrix in W.items()})
        return TrainingState(W, average, layers, classifier, scale, self.generator.get_state())

    def empty_gram(self, width: int, like: Tensor) -> Gram | FullGram:
        if self.preset.metric == "full":
            return FullGram.empty(width, self.preset.damping_W, like)
        return Gram.empty(width, self.recipe.rank, self.preset.damping_W, self.generator, like)

    def even_out(self, X: Tensor, W: Weights) -> Weights:
        """Scale random weights so that signals neither vanish nor grow with depth.

        A layer without identity sources gets pre-activations of rms `initial_scale` on the first batch.
        """
        network = self.problem.network
        U = network.layers(X)
        for n in network.hidden:
            Z = network.pre_activation(n, U, W)
            if not network.fixed_sources(n):
                size = float(Z.square().mean().sqrt())
                # No scale makes anything of a layer that is silent on all rows.
                factor = self.recipe.initial_scale / size if size > SILENT else 1.0
                W |= {(n, m): W[n, m] * factor for m in network.learned_sources(n)}
                Z *= factor
            U[n] = network.activation.value_(Z)
        return W

    def step(self, batch: Batch) -> tuple[float, float]:
        """One mini-batch; returns the summed loss before the step and the summed weight."""
        recipe, problem, state, t = self.recipe, self.problem, self.state, self.state.step
        X, targets, weight = batch.X / state.scale, batch.targets, batch.weight
        rows = float(len(X)) if weight is None else float(weight.sum())
        size = self.size
        beta, momentum = recipe.memory**size, self.preset.momentum**size
        masks = {m: drop(len(X), problem.network.width(m), self.generator) for m, drop in self.dropout.items()}
        here = forward(problem, X, state.W, masks)
        features = here.A[problem.network.depth]
        loss = float(problem.loss.value(targets, features @ state.classifier.V.T, weight).sum())
        self.update_statistics(here, targets, weight, rows, beta)
        V = state.classifier.V
        scores = features @ V.T
        grad_Z = targets_sweep(problem, V, state.W, here, problem.loss.slope(targets, scores), recipe.damping_U)
        done = t / self.total
        # The layers' relative changes add up on the way, so deep networks take shorter steps.
        depth = min(1.0, (3 / problem.network.depth) ** self.preset.depth_power)
        # Relative changes add up over the steps too, like a random walk: long runs take shorter ones.
        length = min(1.0, (LONG / (self.total * size)) ** 0.5)
        rate = state.trust * self.preset.change * min(1.5, size**0.5) * depth * length * (1 - 0.98 * done)
        old, new = state.W, dict(state.W)
        for n, layer in state.layers.items():
            residual = grad_Z[n] if weight is None else grad_Z[n] * weight[:, None]
            lengths = {"momentum": momentum, "rate": rate}
            new |= step_weights(problem, n, old, layer, here, residual, rows, **lengths, place=self.place)
        if t % 5 == 0 and not self.falls(X, targets, new, here, scores):
            for layer in state.layers.values():
                layer.momentum.zero_()
            new = old
            state.trust, state.rejected = 0.7 * state.trust, state.rejected + 1
        elif t % 5 == 0:
            state.trust = min(1.0, 1.03 * state.trust)
        if self.pruner:
            new = self.pruner(new, state, here.A, t + 1)
        state.W, state.step = new, t + 1
        self.take_average()
        self.retreat(loss / max(rows, TINY))
        return loss, rows

    def take_average(self) -> None:
        """Move the average of V and W on: over 1 / (1 - averaging) steps, and over ever fewer towards the end."""
        state, t = self.state, self.state.step
        keep = min(self.recipe.averaging**self.size, t / (t + 9)) * max(0.0, 1 - t / self.total)
        state.average.V.lerp_(state.classifier.V, 1 - keep)
        for edge, matrix in state.average.W.items():
            matrix.lerp_(state.W[edge], 1 - keep)
        if self.pruner:
            self.pruner.restrict_average(state)

    def retreat(self, loss: float) -> None:
        """Go back to the last good state, with half the trust, when the running loss has risen far above its best."""
        state = self.state
        if state.step == 1:
            state.loss = state.first_loss = loss
        state.loss += 0.1 * (loss - state.loss)
        if not state.loss <= 2 * self.good.loss + 0.05 * state.first_loss:
            good, step, rejected = self.good.copy(), state.step, state.rejected + 1
            self.state = replace(good, step=step, trust=0.5 * state.trust, rejected=rejected, epochs=state.epochs)
            for layer in self.state.layers.values():
                layer.momentum.zero_()
            self.good.trust = self.state.trust
        elif state.step % 10 == 0 and state.loss <= 1.05 * self.good.loss:
            self.good = state.copy()

    def update_statistics(self, here: Pass, targets: Tensor, weight: Tensor | None, rows: float, beta: float) -> None:
        """V-step, and the Gram matrices of the W-steps: both only as often as they change."""
        problem, state, t, size = self.problem, self.state, self.state.step, self.size

        def weigh(A: Tensor) -> Tensor:
            return A if weight is None else A * weight[:, None]

        if t < 5 or t % max(1, round(3 / max(1.0, size))) == 0:
            A = here.A[problem.network.depth]
            state.classifier.update(problem.loss, A, targets, weigh(A), rows, beta=beta, ridge=self.preset.ridge_V)
        if t < 5 or t % max(1, round(6 / max(1.0, size))) == 0:
            for n, layer in state.layers.items():
                A = stacked_inputs(problem, n, here.A)
                layer.gram.update(A, weigh(A), rows, beta)

    def falls(self, X: Tensor, targets: Tensor, W: Weights, here: Pass, scores: Tensor) -> bool:
        """Whether the loss of some of the batch's rows is not much higher after the step than before."""
        some = slice(0, max(32, len(X) // 10))
        masks = {m: mask[some] for m, mask in here.masks.items()}
        after = forward(self.problem, X[some], W, masks).A[self.problem.network.depth] @ self.state.classifier.V.T
        loss = self.problem.loss
        before, now = (float(loss.rows(targets[some], part).sum()) for part in (scores[some], after))
        return now <= 1.1 * before + TINY
