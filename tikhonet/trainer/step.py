"""One step of the stochastic trainer: the blocks of Alg. 1 on a mini-batch, as a function from state to state.

The u-step gives every layer its target (`sweep.py`), a regression on running sums gives V (`statistics.py`), and each
W moves along its least-squares step in the metric of its inputs' running Gram matrix, as far as `pace.py` allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from tikhonet.network.graph import Layers, Weights
from tikhonet.network.initial import initial_weights
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Reduce, added_up, keep, rank_of
from tikhonet.trainer.batches import Batch, add_numbers, largest_of
from tikhonet.trainer.first_batch import LOUD, SILENT, evened_out
from tikhonet.trainer.pace import OF_IMAGES, Pace, follow
from tikhonet.trainer.rank_sums import mean_squares, with_inputs
from tikhonet.trainer.recipe import Recipe
from tikhonet.trainer.saving import alike, changed
from tikhonet.trainer.sparsity.budget import Pruner
from tikhonet.trainer.sparsity.scopes import restrict
from tikhonet.trainer.state import TrainingState
from tikhonet.trainer.statistics import Gram, LayerState, RunningClassifier, metric_inputs
from tikhonet.trainer.sweep import TINY, Dropout, Pass, forward, targets_sweep
from tikhonet.trainer.turning import against_mean, mean_inputs, turned

NUMERICAL = FloatingPointError, torch.linalg.LinAlgError  # type: ignore[attr-defined]
"""Errors of steps and fits that NaN or infinity has reached."""
LEARNED = "W", "average", "classifier", "loss", "first_loss", "support", "density"
"""The fields of a state, with its layers, that come back from the last good one."""


@dataclass(frozen=True)
class Stepper:
    """`stepper(state, batch)` is the state after a step; nothing else changes.

    The step writes over matrices of the state that it is given, so that state is used up: `state.copy()` keeps one.
    `problem` is in units of the scaled inputs. Every sum over rows goes through `reduce`.
    """

    problem: Problem
    recipe: Recipe
    pace: Pace
    dropout: Mapping[int, Dropout]
    pruner: Pruner | None = None
    reduce: Reduce = keep

    @classmethod
    def of(
        cls,
        problem: Problem,
        recipe: Recipe,
        first: Batch,
        total: int,
        generator: torch.Generator,
        reduce: Reduce = keep,
    ) -> Stepper:
        """The steps of a run of `total` batches like the `first`; the pools of dropout masks are drawn here."""
        network = problem.network
        size, largest = add_numbers(reduce, len(first.X))[0] / 1000, int(largest_of(reduce, len(first.X)))
        confined = not all(problem.edge_set(pair).cone for pair in network.learned)
        preset = recipe.preset(network, total * size, confined)
        constants = OF_IMAGES if any(edge.positions > 1 for edge in network.edges.values()) else {}
        pace = Pace(preset, total, size, network.depth, recipe.averaging, **constants)
        dropout = {
            layer: Dropout.draw(p, largest * network.width(layer), generator, first.X)
            for layer, p in ((0, preset.drop_inputs), (network.depth, preset.drop_features))
            if p > 0 and network.width(layer) > 1
        }
        if recipe.budget:
            recipe.budget.check(problem)
        pruner = Pruner(recipe.budget, network, total) if recipe.budget else None
        return cls(problem, recipe, pace, dropout, pruner, reduce)

    def begin(
        self, first: Batch, start: Weights | None, scale: float, seed: int, generator: torch.Generator
    ) -> TrainingState:
        """Where a run begins: at the weights `start`, which are in units of the inputs as given, or at random ones."""
        recipe, preset, network, X = self.recipe, self.pace.preset, self.problem.network, first.X
        if start is None:
            W = initial_weights(network, recipe.initial, seed, recipe.initial_scale, dtype=X.dtype, device=X.device)
            even_out = partial(evened_out, network, X / scale, size=recipe.initial_scale, reduce=self.reduce)
            W = self.placed(even_out(W, above=SILENT))
            # In its set a deep network may be loud: without negative weights signals grow from layer to layer.
            W = even_out(W, above=LOUD)
        else:
            network.check_weights(start)
            # In units of the scaled inputs a bias is smaller by their scale.
            W = {pair: M.to(X) / (scale if network.edges[pair].constant else 1.0) for pair, M in start.items()}
        W = self.placed(W)
        layers = {}
        for n in network.hidden:
            if network.learned_sources(n):
                momentum = torch.zeros_like(network.stacked_weights(n, W))
                metric, damping = preset.metric_of(momentum.shape[1])
                gram = Gram.kinds[metric].empty(momentum.shape[1], recipe.rank, damping, generator, X)
                layers[n] = LayerState(gram, momentum)
        classifier = RunningClassifier.start(X.new_zeros(first.targets.shape[1], network.widths[-1]))
        average = Blocks({}, classifier.V.clone(), {pair: matrix.clone() for pair, matrix in W.items()})
        return TrainingState(W, average, layers, classifier, scale, generator.get_state())

    def placed(self, W: Weights) -> Weights:
        """The weights in their sets."""
        return {pair: self.recipe.place(self.problem.edge_set(pair), matrix) for pair, matrix in W.items()}

    def __call__(self, state: TrainingState, batch: Batch) -> TrainingState:
        """One mini-batch: a step that is guarded."""
        state = state if state.good else state.open_epoch()
        try:
            return self.guard(*self.move(state, batch))
        except NUMERICAL:
            return self.guard(changed(state, step=state.step + 1), math.nan)

    def try_out(self, begin: TrainingState, batch: Batch) -> Callable[[TrainingState], object]:
        """A check of states from files, for a run that begins so: a step from a copy, which raises if it cannot be."""

        def check(state: TrainingState) -> None:
            for part in (state, state.good, state.best):
                if part and not alike(part, begin):
                    raise ValueError("the last good state and the best one must be of the same network")
            if not self(state.copy(), batch).finite:
                raise ValueError("a step from it does not give numbers")

        return check

    def move(self, state: TrainingState, batch: Batch) -> tuple[TrainingState, float]:
        """One mini-batch: u-, V- and W-step, a check of the step, support, average; with the loss before."""
        problem, t = self.problem, state.step
        batch = batch._replace(X=problem.network.seen(batch.X / state.scale))
        masks, generator = self.masks(state.generator, len(batch.X))
        here = forward(problem, batch.X, state.W, masks, self.recipe.operand)
        features = here.A[problem.network.depth].flatten(1)
        value = problem.loss.value(batch.targets, features @ state.classifier.V.T, batch.weight)
        probed: float = min(len(batch.X), self.pace.probe_rows)
        loss, rows, probed = add_numbers(self.reduce, float(value.sum()), batch.total, probed)
        if not math.isfinite(loss):
            raise FloatingPointError("the loss of a batch is no number")
        state = self.update_statistics(state, here, batch, rows)
        V = state.classifier.V
        scores = features @ V.T
        slope = problem.loss.slope(batch.targets, scores)
        grad_Z = self.residuals(state, here, slope)
        residuals = {n: batch.weigh(grad_Z[n]) for n in state.layers}
        W, layers = self.step_weights(state, here, residuals, rows, probed)
        trust, rejected = state.trust, state.rejected
        if self.pace.checks(t):
            if self.falls(batch, W, V, here, scores):
                trust = min(1.0, self.pace.recovery * trust)
            else:
                W, trust, rejected = state.W, self.pace.cut * trust, rejected + 1
                layers = stopped(layers)
        state = changed(
            state,
            W=W,
            layers=layers,
            generator=generator,
            step=t + 1,
            trust=trust,
            rejected=rejected,
            epoch_loss=state.epoch_loss + loss,
            epoch_rows=state.epoch_rows + rows,
        )
        state = self.prune(state, here.A) if self.pruner else state
        self.move_average(state)
        return state, loss / max(rows, TINY)

    def masks(self, random: Tensor, rows: int) -> tuple[Layers, Tensor]:
        """Dropout masks by layer, and the state of the random numbers after them."""
        if not self.dropout:
            return {}, random
        generator = torch.Generator()
        generator.set_state(random)
        widths, place = self.problem.network.width, rank_of(self.reduce)
        masks = {m: drop(rows, widths(m), generator, *place) for m, drop in self.dropout.items()}
        return masks, generator.get_state()

    def update_statistics(self, state: TrainingState, here: Pass, batch: Batch, rows: float) -> TrainingState:
        """V-step, and the Gram matrices of the W-steps: both only as often as they change."""
        problem, pace, classifier, layers = self.problem, self.pace, state.classifier, state.layers
        fresh = not classifier.weight  # also where a bad begin has come back to the start
        if fresh or pace.renews(state.step, pace.classifier_every):
            features, ridge = batch._replace(X=here.A[problem.network.depth].flatten(1)), pace.preset.ridge_V
            classifier = classifier.update(
                features, rows, problem.loss, beta=pace.beta, ridge=ridge, reduce=self.reduce
            )
            if problem.V_set.cone:  # features are in units of their own, which other sets would have to know
                classifier = classifier.within(problem, ridge)
        if fresh or pace.renews(state.step, pace.gram_every):
            designs = {n: problem.network.design(n, here.A) for n in layers}
            inputs = {n: metric_inputs(design, batch, rows, self.reduce) for n, design in designs.items()}
            layers = with_inputs(layers, inputs, pace.beta, self.reduce)
        return changed(state, classifier=classifier, layers=layers)

    def residuals(self, state: TrainingState, here: Pass, slope: Tensor) -> Layers:
        """u-step: the gradient in every layer's Z at its target, from the loss's slope in the scores."""
        recipe = self.recipe
        return targets_sweep(self.problem, state.classifier.V, state.W, here, slope, recipe.damping_U, recipe.operand)

    def step_weights(
        self, state: TrainingState, here: Pass, residuals: Layers, rows: float, probed: float
    ) -> tuple[Weights, dict[int, LayerState]]:
        """W-step: each layer's damped least-squares step, scaled to the relative change in Z that the pace allows.

        `residuals` are the (weighted) gradients in Z at the targets; `rows` is the summed weight and `probed` the
        number of probed rows over all ranks. The new matrices are in their sets. The sums of layers travel together.
        """
        network, pace, rate = self.problem.network, self.pace, self.pace.rate(state.step, state.trust)
        designs = {n: network.design(n, here.A) for n in state.layers}
        pulls = added_up(self.reduce, {n: design.product(residuals[n]) for n, design in designs.items()})
        steps = {n: layer.direction(pulls[n]).div_(-rows) for n, layer in state.layers.items()}
        turns, probes = pace.preset.turns, list[Tensor]()
        means = {n: mean_inputs(network, n, layer.gram) for n, layer in state.layers.items()} if turns else {}
        for n, R in steps.items():
            if turns:
                against_mean(R, means[n])
            probes += designs[n][: pace.probe_rows].scores(R), here.Z[n][: pace.probe_rows]
        sizes = iter(mean_squares(self.reduce, probed, *probes) if probes else ())
        W, layers = dict(state.W), {}
        for n, R in steps.items():
            length, layers[n] = pace.advance(state.layers[n], R, next(sizes), next(sizes), rate)
            M, direction = network.stacked_weights(n, state.W), layers[n].momentum
            M = turned(network, n, M, direction, length, means[n]) if turns else M.add_(direction, alpha=length)
            moved = network.split_weights(n, M)
            W |= self.placed({pair: self.decayed(pair, part.contiguous(), rate) for pair, part in moved.items()})
        return W, layers

    def decayed(self, pair: tuple[int, int], M: Tensor, rate: float) -> Tensor:
        """The weights of an edge, written over, after the decay of a step of this relative change."""
        decay = self.pace.preset.decay
        return M.mul_(1 - decay * rate) if decay and pair in self.problem.network.penalised else M

    def falls(self, batch: Batch, W: Weights, V: Tensor, here: Pass, scores: Tensor) -> bool:
        """Whether the loss of some of the batch's rows is not much higher after the step than before."""
        problem, pace = self.problem, self.pace
        some = slice(0, max(pace.check_rows, len(batch.X) // pace.check_share))
        masks = {m: mask[some] for m, mask in here.masks.items()}
        last = forward(problem, batch.X[some], W, masks, self.recipe.operand).A[problem.network.depth]
        after = last.flatten(1) @ V.T
        losses = (float(problem.loss.rows(batch.targets[some], part).sum()) for part in (scores[some], after))
        return pace.falls(*add_numbers(self.reduce, *losses))

    def prune(self, state: TrainingState, A: Layers) -> TrainingState:
        """The state within its support, which is chosen anew where that is due."""
        assert self.pruner
        t, support, density = state.step, state.support, state.density
        due = self.pruner.due(t, density)
        if due:
            density = self.pruner.density(t, density)
            rows = add_numbers(self.reduce, len(A[0]))[0]
            squares = added_up(self.reduce, {m: part.square().sum(0).flatten() for m, part in A.items()})
            power = {m: square / rows for m, square in squares.items()}
            network, V = self.problem.network, state.classifier.V
            support = self.pruner.budget.choose(network, state.W, V, power, density)
        if support is None:
            return state
        layers = self.pruner.restrict(state.layers, support, density, t, due)
        return changed(state, W=restrict(state.W, support), layers=layers, support=support, density=density)

    def move_average(self, state: TrainingState) -> None:
        """Move the average of V and W on, in place, with the zeros of the support."""
        kept = self.pace.kept(state.step)
        state.average.V.lerp_(state.classifier.V, 1 - kept)
        for pair, matrix in state.average.W.items():
            matrix.lerp_(state.W[pair], 1 - kept)
            if state.support is not None:
                matrix.mul_(state.support[pair])

    def guard(self, state: TrainingState, loss: float) -> TrainingState:
        """The state with its running loss moved on; where that has risen far, the last good state with less trust."""
        pace, good = self.pace, state.good
        assert good
        mean, first = (loss, loss) if state.step == 1 else (state.loss, state.first_loss)
        mean = follow(mean, loss, pace.loss_speed)
        if pace.retreats(mean, good.loss, first):
            if not math.isfinite(loss) and state.trust < pace.least_trust:
                raise FloatingPointError(f"step {state.step} gives NaN or infinity, however short")
            back = good.copy()
            learned = {name: getattr(back, name) for name in LEARNED} | {"layers": stopped(back.layers)}
            return changed(state, trust=pace.retreat_cut * state.trust, rejected=state.rejected + 1, **learned)
        state = changed(state, loss=mean, first_loss=first)
        if pace.is_good(state.step, mean, good.loss) and state.finite:
            return changed(state, good=changed(state.copy(), good=None, best=None))
        return state


def stopped(layers: Mapping[int, LayerState]) -> dict[int, LayerState]:
    """The layers with their momentum gone."""
    return {n: changed(layer, momentum=layer.momentum.zero_()) for n, layer in layers.items()}
