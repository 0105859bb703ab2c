"""The blocks of Alg. 1 over mini-batches, with running statistics: the trainer that learns.

Each batch makes one forward pass, one V-step, one backward sweep of the u-step and one W-step
(`minibatch.py`). There is no learning rate: a W-step's length is set by the relative change that it makes in
its layer's pre-activations, falls linearly to the end of the run, and is cut back when the loss on the same
rows rises after a step (which is then undone). Inputs are divided by their rms, so nothing depends on units.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tikhonet.network import BIAS, Weights
from tikhonet.objective import Blocks, Problem
from tikhonet.samples import Samples
from tikhonet.solvers.batches import Array, ArrayBatches, Batch, Batches, GivenBatches
from tikhonet.solvers.full import BlockDescent
from tikhonet.solvers.minibatch import (
    TINY,
    Gram,
    LayerState,
    Pass,
    RunningClassifier,
    forward,
    stacked_inputs,
    step_weights,
    targets_sweep,
)
from tikhonet.solvers.result import Epoch, Status, Training


@dataclass
class TrainingState:
    """All that a run carries from one epoch to the next; given back as `resume`, it goes on bit for bit."""

    W: Weights
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


@dataclass(frozen=True)
class Stochastic:
    """Mini-batch block coordinate descent.

    The constants hold for batches of 1000 rows and are converted for others, so that a setting means the
    same per sample. `change`: relative change of a layer's pre-activations per step, at the start.
    `damping_U`, `damping_W`, `ridge_V`: of the three blocks, relative to the mean eigenvalue of each.
    `memory`: of the running statistics. `drop_inputs`, `drop_features`: shares of the inputs and of the last
    hidden layer that are set to zero at random in training, as a regulariser. `patience`: epochs without a
    better validation loss before a run with validation data stops. `polish`: a full-batch solver to finish
    with, from the point reached.
    """

    epochs: int = 10
    batch_size: int = 1000
    change: float = 0.3
    momentum: float = 0.95
    damping_U: float = 30.0
    damping_W: float = 10.0
    ridge_V: float = 0.1
    memory: float = 0.94
    rank: int = 64
    initial_scale: float = 0.5
    drop_inputs: float = 0.1
    drop_features: float = 0.2
    patience: int = 10
    polish: BlockDescent | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "rank", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("momentum", "memory", "drop_inputs", "drop_features"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in [0, 1), got {getattr(self, name)}")
        for name in ("change", "damping_U", "damping_W", "ridge_V", "initial_scale"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {getattr(self, name)}")

    def run(
        self,
        problem: Problem,
        X: Array | Iterable[tuple[Tensor, ...]],
        targets: Array | None = None,
        *,
        weight: Array | None = None,
        validation: tuple[Tensor, Tensor] | None = None,
        start: Weights | None = None,
        resume: TrainingState | None = None,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        watch: Callable[[Epoch], bool | None] | None = None,
    ) -> Training:
        """Train on arrays X and targets, or on an iterable of batches given as X alone.

        `start` holds weights to begin with; `resume` the state of a run to go on with. `watch` is called
        after every epoch, and ends the run by returning True.
        """
        if targets is None:
            batches: Batches = GivenBatches(X, dtype, device)
        else:
            batches = ArrayBatches(X, targets, weight, self.batch_size, dtype, device)  # type: ignore[arg-type]
        return _Run(self, problem, batches, validation, start, resume, seed).go(watch)


class Dropout:
    """Masks with entries 0 or 1/(1 - p), cut from one pool of random numbers: drawing each anew is slow."""

    def __init__(self, p: float, size: int, generator: torch.Generator, like: Tensor) -> None:
        draw = torch.rand(size, generator=generator)
        self.pool = ((draw >= p).to(like.dtype) / (1 - p)).to(like.device)

    def __call__(self, rows: int, width: int, generator: torch.Generator) -> Tensor:
        offset = int(torch.randint(len(self.pool) - rows * width + 1, (1,), generator=generator))
        return self.pool[offset : offset + rows * width].view(rows, width)


class _Run:
    def __init__(
        self,
        solver: Stochastic,
        problem: Problem,
        batches: Batches,
        validation: tuple[Tensor, Tensor] | None,
        start: Weights | None,
        resume: TrainingState | None,
        seed: int,
    ) -> None:
        self.solver, self.problem, self.batches, self.validation = solver, problem, batches, validation
        self.generator = torch.Generator().manual_seed(seed)
        self.steps = solver.epochs * len(batches)
        first = next(iter(batches.epoch(torch.Generator().manual_seed(seed))), None)
        if first is None:
            raise ValueError("the iterable of batches must hold at least one batch")
        problem.check(Samples(*first))
        rows = len(first.X)
        self.scale_batch = rows / 1000
        width = max(problem.network.widths)
        network = problem.network
        # The masks are drawn before the state, so that a resumed run has the same ones.
        self.dropout = {
            layer: Dropout(p, max(4_000_000, 3 * rows * width), self.generator, first.X)
            for layer, p in ((0, solver.drop_inputs), (network.depth, solver.drop_features))
            if p > 0 and network.width(layer) > 1
        }
        self.state = deepcopy(resume) if resume else self.begin(first, start, seed)
        self.generator.set_state(self.state.generator)

    def begin(self, first: Batch, start: Weights | None, seed: int) -> TrainingState:
        solver, network, X = self.solver, self.problem.network, first.X
        scale = float(X.square().mean().sqrt()) or 1.0
        if start is None:
            W = network.random_weights(seed, solver.initial_scale, dtype=X.dtype, device=X.device)
            W = self.even_out(X / scale, W)
        else:
            network.check_weights(start)
            # In units of the scaled inputs a bias is smaller by their scale.
            W = {(n, m): M.to(X) / (scale if m == BIAS else 1.0) for (n, m), M in start.items()}
        W = {edge: self.problem.edge_set(edge).project(matrix) for edge, matrix in W.items()}
        layers = {}
        for n in network.hidden:
            sources = network.learned_sources(n)
            if sources:
                width = sum(network.width(m) for m in sources)
                gram = Gram.empty(width, solver.rank, self.generator, X)
                layers[n] = LayerState(gram, X.new_zeros(network.widths[n], width))
        last, outputs = network.widths[-1], first.targets.shape[1]
        classifier = RunningClassifier.start(X.new_zeros(outputs, last))
        return TrainingState(W, layers, classifier, scale, self.generator.get_state())

    def even_out(self, X: Tensor, W: Weights) -> Weights:
        """Scale random weights so that signals neither vanish nor grow with depth.

        A layer without identity sources gets pre-activations of rms `initial_scale` on the first batch.
        """
        network = self.problem.network
        U = network.layers(X)
        for n in network.hidden:
            Z = network.pre_activation(n, U, W)
            if "identity" not in {network.edges[n, m] for m in network.sources(n)}:
                factor = self.solver.initial_scale / (float(Z.square().mean().sqrt()) + TINY)
                W |= {(n, m): W[n, m] * factor for m in network.learned_sources(n)}
                Z *= factor
            U[n] = Z.relu_()
        return W

    def go(self, watch: Callable[[Epoch], bool | None] | None) -> Training:
        best, status, detail = self.state, Status.FINISHED, ""
        while len(self.state.epochs) < self.solver.epochs:
            before = deepcopy(self.state)
            # Also what a bad epoch goes back to; taken anew at each, so that a resumed run has the same.
            self.good = replace(deepcopy(before), loss=before.loss if before.step else math.inf)
            clock = time.perf_counter()
            try:
                loss = self.epoch()
            except KeyboardInterrupt:
                self.state, status = before, Status.INTERRUPTED
                break
            except FloatingPointError as error:
                status, detail = Status.NONFINITE, str(error)
                break
            self.state.generator = self.generator.get_state()
            epoch = self.measure(loss, time.perf_counter() - clock)
            self.state.epochs.append(epoch)
            lowest = min(self.state.epochs, key=lambda epoch: epoch.validation_loss)
            if epoch is lowest:
                best = deepcopy(self.state)
            if watch and watch(epoch):
                status = Status.INTERRUPTED
                break
            if self.validation and epoch.number - lowest.number >= self.solver.patience:
                status = Status.EARLY_STOPPED
                break
        return self.finish(best if self.validation and status is not Status.NONFINITE else self.state, status, detail)

    def epoch(self) -> float:
        """One pass over the batches; returns the mean training loss, each batch's before its step."""
        total, weight = 0.0, 0.0
        for index, batch in enumerate(self.batches.epoch(self.generator)):
            for name, values in (("X", batch.X), ("targets", batch.targets)):
                if not bool(values.isfinite().all()):
                    where = f"batch {index} of epoch {len(self.state.epochs) + 1}"
                    raise FloatingPointError(f"{where} holds NaN or infinity in {name}")
            loss, rows = self.step(batch)
            self.retreat(loss / max(rows, TINY))
            total, weight = total + loss, weight + rows
        return total / max(weight, TINY)

    def step(self, batch: Batch) -> tuple[float, float]:
        """One mini-batch; returns the summed loss before the step and the summed weight."""
        solver, problem, state, t = self.solver, self.problem, self.state, self.state.step
        X, targets, weight = batch.X / state.scale, batch.targets, batch.weight
        rows = float(len(X)) if weight is None else float(weight.sum())
        size = self.scale_batch
        beta, momentum = solver.memory**size, solver.momentum**size
        masks = {m: drop(len(X), problem.network.width(m), self.generator) for m, drop in self.dropout.items()}
        here = forward(problem, X, state.W, masks)
        features = here.A[problem.network.depth]
        loss = float(problem.loss.value(targets, features @ state.classifier.V.T, weight).sum())
        self.update_statistics(here, targets, weight, rows, beta, t, size)
        V = state.classifier.V
        scores = features @ V.T
        grad_Z = targets_sweep(problem, V, state.W, here, problem.loss.slope(targets, scores), solver.damping_U)
        done = t / self.steps
        # The layers' relative changes add up on the way, so deep networks take shorter steps.
        depth = min(1.0, (3 / problem.network.depth) ** 0.5)
        rate = state.trust * solver.change * min(1.5, size**0.5) * depth * (1 - 0.98 * done)
        old, new = state.W, dict(state.W)
        for n, layer in state.layers.items():
            residual = grad_Z[n] if weight is None else grad_Z[n] * weight[:, None]
            new |= step_weights(problem, n, old, layer, here, residual, rows, momentum=momentum, rate=rate)
        if t % 5 == 0 and not self.falls(X, targets, new, here, scores):
            for layer in state.layers.values():
                layer.momentum.zero_()
            new = old
            state.trust, state.rejected = 0.7 * state.trust, state.rejected + 1
        elif t % 5 == 0:
            state.trust = min(1.0, 1.03 * state.trust)
        state.W, state.step = new, t + 1
        return loss, rows

    def retreat(self, loss: float) -> None:
        """Go back to the last good state, with half the trust, when the running loss has risen far above its best."""
        state = self.state
        if state.step == 1:
            state.loss = state.first_loss = loss
        state.loss += 0.1 * (loss - state.loss)
        if not state.loss <= 2 * self.good.loss + 0.05 * state.first_loss:
            good, step, rejected = deepcopy(self.good), state.step, state.rejected + 1
            self.state = replace(good, step=step, trust=0.5 * state.trust, rejected=rejected, epochs=state.epochs)
            for layer in self.state.layers.values():
                layer.momentum.zero_()
            self.good.trust = self.state.trust
        elif state.step % 10 == 0 and state.loss <= 1.05 * self.good.loss:
            self.good = deepcopy(state)

    def update_statistics(
        self, here: Pass, targets: Tensor, weight: Tensor | None, rows: float, beta: float, t: int, size: float
    ) -> None:
        """V-step, and the Gram matrices of the W-steps: both only as often as they change."""
        solver, problem, state = self.solver, self.problem, self.state

        def weigh(A: Tensor) -> Tensor:
            return A if weight is None else A * weight[:, None]

        if t < 5 or t % max(1, round(3 / max(1.0, size))) == 0:
            A = here.A[problem.network.depth]
            state.classifier.update(problem.loss, A, targets, weigh(A), rows, beta=beta, ridge=solver.ridge_V)
        if t < 5 or t % max(1, round(6 / max(1.0, size))) == 0:
            for n, layer in state.layers.items():
                A = stacked_inputs(problem, n, here.A)
                layer.gram.update(A, weigh(A), rows, beta, solver.damping_W)

    def falls(self, X: Tensor, targets: Tensor, W: Weights, here: Pass, scores: Tensor) -> bool:
        """Whether the loss of some of the batch's rows is not much higher after the step than before."""
        some = slice(0, max(32, len(X) // 10))
        masks = {m: mask[some] for m, mask in here.masks.items()}
        after = forward(self.problem, X[some], W, masks).A[self.problem.network.depth] @ self.state.classifier.V.T
        loss = self.problem.loss
        before, now = (float(loss.rows(targets[some], part).sum()) for part in (scores[some], after))
        return now <= 1.1 * before + TINY

    def measure(self, loss: float, seconds: float) -> Epoch:
        state, number = self.state, len(self.state.epochs) + 1
        value, error = math.nan, math.nan
        if self.validation:
            X, targets = (part.to(state.classifier.V) for part in self.validation)
            scores = torch.cat([self.features(rows, state) @ state.classifier.V.T for rows in X.split(4096)])
            value = float(self.problem.loss.rows(targets, scores).mean())
            if targets.shape[1] > 1:
                error = float((scores.argmax(1) != targets.argmax(1)).double().mean())
        return Epoch(number, loss, value if self.validation else loss, error, seconds, state.trust, state.rejected)

    def features(self, X: Tensor, state: TrainingState) -> Tensor:
        """The last hidden layer without dropout, in the run's own units."""
        return self.problem.network.features(X / state.scale, state.W)

    def finish(self, state: TrainingState, status: Status, detail: str) -> Training:
        """The network of this state, in units of the inputs as given, its classifier refitted on clean features."""
        problem, scale = self.problem, state.scale
        V = self.refit(state) if status is not Status.NONFINITE else state.classifier.V
        W = {(n, m): M * scale if m == BIAS else M for (n, m), M in state.W.items()}
        V = problem.V_set.project(V / scale)
        training = Training(problem, Blocks({}, V, W), status, self.state.epochs, self.state, detail)
        if self.solver.polish is None or not isinstance(self.batches, ArrayBatches) or status is Status.NONFINITE:
            return training
        data = self.batches
        X, targets = (torch.as_tensor(part).to(V) for part in (data.X, data.targets))
        weight = None if data.weight is None else torch.as_tensor(data.weight).to(V)
        start = Blocks(problem.network.forward(X, W), V, W)
        polished = self.solver.polish.run(problem, X, targets, weight=weight, start=start)
        return replace(training, blocks=polished.blocks, polished=polished)

    def refit(self, state: TrainingState) -> Tensor:
        """V-step over all batches on the features without dropout."""
        clean = RunningClassifier.start(state.classifier.V)
        for batch in self.batches.epoch(torch.Generator().manual_seed(0)):
            A = self.features(batch.X, state)
            weighted = A if batch.weight is None else A * batch.weight[:, None]
            rows = float(len(A)) if batch.weight is None else float(batch.weight.sum())
            ridge = 0.01 * self.solver.ridge_V
            clean.update(self.problem.loss, A, batch.targets, weighted, rows, beta=1.0, ridge=ridge)
        return clean.V
