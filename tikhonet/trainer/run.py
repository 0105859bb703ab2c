"""The blocks of Alg. 1 over mini-batches, with running statistics: the trainer that learns.

Each batch makes one forward pass, one V-step, one backward sweep of the u-step and one W-step (`minibatch.py`),
whose length needs no learning rate (`steps.py`). Here are the epochs: early stopping, going on, finishing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tikhonet.descent.full import BlockDescent
from tikhonet.descent.result import Status
from tikhonet.network.graph import BIAS, Array, Weights, tensor
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Samples
from tikhonet.trainer.batches import ArrayBatches, Batch, Batches, GivenBatches, Validation, check_weight
from tikhonet.trainer.recipe import Recipe
from tikhonet.trainer.sparsity.budget import Budget, restrict
from tikhonet.trainer.sparsity.measure import measure_sparsity
from tikhonet.trainer.sparsity.refit import Refit, refit_on_support
from tikhonet.trainer.statistics import TINY, RunningClassifier
from tikhonet.trainer.step import Steps, TrainingState
from tikhonet.trainer.training import Epoch, Training, best_epoch


@dataclass(frozen=True, kw_only=True)
class Stochastic(Recipe):
    """Mini-batch block coordinate descent.

    `patience`: epochs without a better validation loss before a run with validation data stops. `polish`: a
    full-batch solver to finish with, from the point reached. `refit`: whether V is at last fitted to the features
    without dropout, one more forward pass; else it is the running average. The other constants are those of `Recipe`.
    With a `budget` the run ends with a least-squares refit on its support.
    """

    epochs: int = 10
    batch_size: int = 1000
    patience: int = 10
    polish: BlockDescent | None = None
    refit: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("epochs", "batch_size", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.polish and self.budget:
            raise ValueError("polish and budget cannot go together: full-batch steps know no budget; leave one out")

    @torch.no_grad()
    def run(
        self,
        problem: Problem,
        X: Array | Iterable[tuple[Tensor, ...]],
        targets: Array | None = None,
        *,
        weight: Array | None = None,
        validation: Validation | None = None,
        start: Weights | None = None,
        resume: TrainingState | None = None,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        watch: Callable[[Epoch], bool | None] | None = None,
    ) -> Training:
        """Train on arrays X and targets, or on an iterable of batches given as X alone.

        `validation` is (X, targets) or (X, targets, weight): the epoch with the least loss on it is returned. `start`
        holds weights to begin with; `resume` the state of a run to go on with. `watch` is called after every epoch,
        and ends the run by returning True.
        """
        if targets is not None:
            batches: Batches = ArrayBatches(X, targets, weight, self.batch_size, dtype, device)  # type: ignore[arg-type]
        elif weight is not None or self.polish or isinstance(X, Array):
            raise ValueError(
                "targets must be given with an array X, with weight and with polish; "
                "an iterable of batches holds its targets and weights itself, and cannot be polished"
            )
        else:
            batches = GivenBatches(X, dtype, device)
        return _Run(self, problem, batches, validation, start, resume, seed).go(watch)

    def refit_V(self, problem: Problem, V: Tensor, batches: Iterable[Batch], unit: float = 1.0) -> Tensor:
        """V-step on features, which the batches hold in place of X, in this unit, so that no square overflows.

        Losses that are not quadratic begin at V.
        """
        clean = RunningClassifier.start(V * unit)
        ridge = 0.01 * self.preset(problem.network).ridge_V
        for A, targets, weight in batches:
            weighted = A if weight is None else A * weight[:, None]
            rows = float(len(A)) if weight is None else float(weight.sum())
            clean.update(problem.loss, A, targets, weighted, rows, beta=1.0, ridge=ridge)
        return clean.within(problem.V_set, problem.loss, ridge, unit)


class _Run:
    def __init__(
        self,
        solver: Stochastic,
        problem: Problem,
        batches: Batches,
        validation: Validation | None,
        start: Weights | None,
        resume: TrainingState | None,
        seed: int,
    ) -> None:
        self.solver, self.problem, self.batches = solver, problem, batches
        first = next(iter(batches.epoch(torch.Generator().manual_seed(seed))), None)
        if first is None:
            raise ValueError("the iterable of batches must hold at least one batch")
        problem.check(Samples(first.X, first.targets))
        self.first = first
        self.validation = self.check_validation(validation) if validation else None
        if resume:
            check_resumed(problem, resume, first)
            # Steps are counted by whole epochs, since the batches may have another size now.
            resume = replace(resume, step=len(resume.epochs) * len(batches))
        self.steps = Steps(solver, problem, first, solver.epochs * len(batches), start, resume, seed)

    def go(self, watch: Callable[[Epoch], bool | None] | None) -> Training:
        steps, status, detail = self.steps, Status.FINISHED, ""
        while len(steps.state.epochs) < self.solver.epochs:
            before = steps.begin_epoch()
            clock = time.perf_counter()
            try:
                loss = self.epoch()
                steps.state.generator = steps.generator.get_state()
                epoch = self.measure(loss, time.perf_counter() - clock)
            except KeyboardInterrupt:
                steps.state, status = before, Status.INTERRUPTED
                break
            except FloatingPointError as error:
                status, detail = Status.NONFINITE, str(error)
                break
            steps.state.epochs.append(epoch)
            lowest = best_epoch(steps.state.epochs)
            if self.validation and epoch is lowest:
                steps.state.best = replace(steps.state.copy(), best=None)
            asked = watch and watch(epoch)
            if self.validation and epoch.number - lowest.number >= self.solver.patience:
                status = Status.EARLY_STOPPED
                break
            if asked:
                status = Status.INTERRUPTED
                break
        best = steps.state.best if self.validation and status is not Status.NONFINITE else None
        return self.finish(best or steps.state, status, detail)

    def epoch(self) -> float:
        """One pass over the batches; returns the mean training loss, each batch's before its step."""
        total, weight = 0.0, 0.0
        for batch in self.checked_batches(self.steps.generator):
            loss, rows = self.steps.step(batch)
            total, weight = total + loss, weight + rows
        return total / max(weight, TINY)

    def checked_batches(self, generator: torch.Generator) -> Iterator[Batch]:
        """One pass; batches whose rows all have weight zero are left out."""
        for index, batch in enumerate(self.batches.epoch(generator)):
            where = f"batch {index} of epoch {len(self.steps.state.epochs) + 1}"
            for name, values, like in (("X", batch.X, self.first.X), ("targets", batch.targets, self.first.targets)):
                if values.shape != (len(batch.X), like.shape[1]) or not len(values):
                    shape = (max(1, len(batch.X)), like.shape[1])
                    raise ValueError(f"{name} of {where} must have shape {shape}, got {tuple(values.shape)}")
                if not bool(torch.stack(values.aminmax()).isfinite().all()):
                    raise FloatingPointError(f"{where} holds NaN or infinity in {name}")
            if batch.weight is not None:
                check_weight(f"weight of {where}", batch.weight, len(batch.X), zero=True)
                if not bool(batch.weight.any()):
                    continue
            yield batch

    def measure(self, loss: float, seconds: float) -> Epoch:
        state, number = self.steps.state, len(self.steps.state.epochs) + 1
        value, error = math.nan, math.nan
        if self.validation:
            V = state.average.V
            X, targets, weight = self.validation
            scores = torch.cat([self.features(rows, state) @ V.T for rows in X.split(4096)])
            value = mean(self.problem.loss.rows(targets, scores), weight)
            if targets.shape[1] > 1:
                error = mean((scores.argmax(1) != targets.argmax(1)).double(), weight)
        value = value if self.validation else loss
        return Epoch(number, loss, value, error, seconds, state.trust, state.rejected, state.density)

    def features(self, X: Tensor, state: TrainingState) -> Tensor:
        """The last hidden layer without dropout, in the run's own units."""
        return self.problem.network.features(X / state.scale, state.average.W)

    def finish(self, state: TrainingState, status: Status, detail: str) -> Training:
        """The network of this state, in units of the inputs as given, its classifier refitted on clean features."""
        problem, scale, budget, refit = self.problem, state.scale, self.solver.budget, None
        if budget and status is Status.NONFINITE:
            support = state.support or budget.choose(problem.network, state.average.W, state.average.V)
            state = replace(state, average=replace(state.average, W=restrict(state.average.W, support)))
        elif budget:
            W, refit = self.refit_weights(state, budget)
            state = replace(state, average=replace(state.average, W=W))
        W = {(n, m): M * scale if m == BIAS else M for (n, m), M in state.average.W.items()}
        W = {edge: problem.edge_set(edge).project(matrix) for edge, matrix in W.items()}
        V = problem.V_set.project(state.average.V / scale)
        if self.solver.refit and status is not Status.NONFINITE:
            V = self.solver.refit_V(problem, V, self.clean_batches(W, scale), scale)
        sparsity = measure_sparsity(problem, W, budget, refit)
        blocks, state = Blocks({}, V, W), self.steps.state
        training = Training(problem, blocks, status, state.epochs, state, detail, sparsity=sparsity)
        if self.solver.polish is None or status is Status.NONFINITE:
            return training
        data = self.batches
        assert isinstance(data, ArrayBatches)
        X, targets = (torch.as_tensor(part).to(V) for part in (data.X, data.targets))
        weight = None if data.weight is None else torch.as_tensor(data.weight).to(V)
        start = Blocks(problem.network.forward(X, W), V, W)
        polished = self.solver.polish.run(problem, X, targets, weight=weight, start=start)
        return replace(training, blocks=polished.blocks, polished=polished)

    def refit_weights(self, state: TrainingState, budget: Budget) -> tuple[Weights, Refit]:
        """Least squares on the support; where the budget has not been met yet, on the support that meets it."""

        def epoch() -> Iterator[Batch]:
            for batch in self.checked_batches(torch.Generator().manual_seed(0)):
                yield batch._replace(X=batch.X / state.scale)

        support = state.support if state.density <= budget.share else None
        return refit_on_support(self.problem, epoch, state.average, budget, support, self.solver.damping_U)

    def clean_batches(self, W: Weights, unit: float) -> Iterator[Batch]:
        """All batches with the features without dropout in place of X."""
        for batch in self.checked_batches(torch.Generator().manual_seed(0)):
            yield batch._replace(X=self.problem.network.features(batch.X, W).div_(unit))

    def check_validation(self, validation: Validation) -> Batch:
        """The same rows in the run's type and on its device."""
        like = self.first.X
        try:
            rows = Batch(*(tensor(part).to(like) for part in validation))
            self.problem.check(Samples(*rows))
            outputs = self.first.targets.shape[1]
            if rows.targets.shape[1] != outputs:
                raise ValueError(f"targets must have {outputs} columns, got {rows.targets.shape[1]}")
        except ValueError as error:
            raise ValueError(f"validation: {error}") from None
        return rows


def check_resumed(problem: Problem, state: TrainingState, first: Batch) -> None:
    try:
        problem.network.check_weights(state.W)
    except ValueError as error:
        raise ValueError(f"resume must be the state of a run of the same network: {error}") from None
    V, new = state.classifier.V, first.targets
    then, now = f"{len(V)} targets in {V.dtype}", f"{new.shape[1]} targets in {new.dtype}"
    if now != then:
        raise ValueError(f"resume must be the state of a run with {now}, got one with {then}")


def mean(values: Tensor, weight: Tensor | None) -> float:
    return float(values.mean() if weight is None else values @ weight.to(values) / weight.to(values).sum())
