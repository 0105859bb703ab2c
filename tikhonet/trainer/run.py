"""The blocks of Alg. 1 over mini-batches, with running statistics: the trainer that learns.

Each batch makes one step (`step.py`), whose length is a relative change of each layer (`pace.py`). Here are the epochs:
early stopping, going on, finishing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from types import NoneType
from typing import ClassVar

import torch
from torch import Tensor

from tikhonet.descent.full import BlockDescent
from tikhonet.descent.result import Status
from tikhonet.descent.slots import NOWHERE, Slot
from tikhonet.network.arguments import COUNT, SEED, check_numbers, check_type
from tikhonet.network.docstrings import with_inherited
from tikhonet.network.graph import Array, Weights
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Reduce, Samples, keep
from tikhonet.trainer.batches import ArrayBatches, Batch, Batches, Validation, as_batches, checked
from tikhonet.trainer.first_batch import input_scale
from tikhonet.trainer.judge import Judge, Metric
from tikhonet.trainer.kept_memory import kept_memory
from tikhonet.trainer.recipe import Recipe
from tikhonet.trainer.saving import changed
from tikhonet.trainer.sparsity.refit import Refit, refit_on_support
from tikhonet.trainer.sparsity.scopes import restrict
from tikhonet.trainer.sparsity.zeros import measure_sparsity
from tikhonet.trainer.state import TrainingState, check_resumed
from tikhonet.trainer.statistics import fit_classifier, is_finite
from tikhonet.trainer.step import NUMERICAL, Stepper
from tikhonet.trainer.sweep import TINY
from tikhonet.trainer.training import Epoch, Training, best_epoch

CLEAN_RIDGE = 0.01
"""The ridge of the last V-step relative to that of the others: all rows at once, without dropout, need less of it."""

Watch = Callable[[Epoch], bool | None]


@with_inherited
@dataclass(frozen=True, kw_only=True)
class Stochastic(Recipe):
    """The blocks of Alg. 1 over mini-batches: to first order preconditioned back-propagation with an exact last layer.

    It is a relative of one-sided K-FAC, FOOF and LocoProp, and no theorem says that it converges. Each batch makes one
    step of the blocks. The u-step gives every layer a target; V is solved for on running sums; each W takes the damped
    least-squares step towards its target, as long as a relative change of the layer allows:

        ``dW = -R (G + damping I)^-1, G the running Gram matrix of the layer's inputs``

    With a `budget` the run ends with a least-squares refit on its support. Constants that are None are those that suit
    network and run. They hold for batches of 1000 rows and are converted for others.

    Parameters
    ----------
    epochs : int, default=10
        Passes over the data.
    batch_size : int, default=1000
        Rows of a mini-batch.
    patience : int, default=10
        Epochs without a better validation loss after which a run with validation data goes back to the best one,
        anneals its steps from there, and stops.
    polish : BlockDescent, optional
        A full-batch solver to finish with, from the point reached.
    refit : bool, default=True
        Whether V is at last fitted to the features without dropout, one more forward pass (of images, over as many
        rows as the fit needs); else it is the running average.
    keep_memory : bool, default=True
        Whether memory that is freed stays with the process while a network of images is trained, where the C library
        is glibc (`kept_memory.py`): it is a setting of the whole process, and saves much of the time.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Network, Problem, Stochastic
    >>> X = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    >>> y = (X[:, 0] * X[:, 1] > 0).long()
    >>> problem = Problem(Network.chain([4, 16], bias=True), lift="fenchel", gamma=1.0)
    >>> training = Stochastic(epochs=5, batch_size=50).run(problem, X, problem.loss.encode(y))
    >>> training.blocks.V.shape, training.status.name
    (torch.Size([2, 16]), 'FINISHED')
    """

    epochs: int = 10
    batch_size: int = 1000
    patience: int = 10
    polish: BlockDescent | None = None
    refit: bool = True
    keep_memory: bool = True
    stepper: ClassVar[type[Stepper]] = Stepper  # a subclass may have other steps

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, COUNT, ["epochs", "batch_size", "patience"])
        check_type("polish", self.polish, BlockDescent, NoneType)
        check_type("refit", self.refit, bool)
        check_type("keep_memory", self.keep_memory, bool)
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
        validation: Validation | list[Validation] | None = None,
        metric: Metric | None = None,
        start: Weights | None = None,
        resume: TrainingState | None = None,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        reduce: Reduce = keep,
        watch: Watch | None = None,
        slot: Slot = NOWHERE,
    ) -> Training:
        """Train on arrays X and targets, or on an iterable of batches given as X alone.

        Parameters
        ----------
        problem : Problem
            Network, loss, lift and sets.
        X : Tensor, array or iterable of tuple of Tensor
            Inputs, samples x width, or batches of (X, targets) or (X, targets, weight).
        targets : Tensor or array, optional
            Encoded targets, samples x outputs; `problem.loss.encode(y)` makes them of labels.
        weight : Tensor or array, optional
            A number for each sample.
        validation : tuple or list of tuple, optional
            (X, targets) or (X, targets, weight), or a list of such, of which the last decides: the epoch with the least
            loss on it is returned, or with the best `metric`.
        metric : Metric, optional
            A measure of targets, scores and weights, which epochs are compared by in place of the loss.
        start : dict of (n, m) to Tensor, optional
            Weights to begin with.
        resume : TrainingState, optional
            The state of a run to go on with, also one from within an epoch.
        seed : int, default=0
            Fixes the start and the order of the rows.
        dtype : torch.dtype, default=torch.float32
            The type to compute in.
        device : torch.device or str, default="cpu"
            Where to compute.
        reduce : callable, default=keep
            Adds up over the ranks of a run on many machines (`Ranks`), each with rows of its own, batches of
            `batch_size` of them, the same seed and answers of `watch`.
        watch : callable, optional
            Called after every epoch; it ends the run by returning True.
        slot : Slot, default=NOWHERE
            Keeps the state between steps; a state that it has is gone on from, before all others.

        Returns
        -------
        Training
            The network, its epochs, and how the run ended.
        """
        check_type("problem", problem, Problem)
        check_type("resume", resume, TrainingState, NoneType)
        check_type("slot", slot, Slot)
        SEED.check("seed", seed)
        X = problem.network.rows(X)
        batches = as_batches(X, targets, weight, self.batch_size, dtype, device, self.polish is not None, reduce)
        if (first := next(iter(batches.epoch(torch.Generator().manual_seed(seed))), None)) is None:
            raise ValueError("the iterable of batches must hold at least one batch")
        problem.check(Samples(first.X, first.targets))
        check_resumed(problem, resume, first)
        scale = resume.scale if resume else input_scale(first.X, reduce)
        # Hidden values are smaller by the scale too, which an activation with a bound must know.
        network = problem.network.with_activation(problem.network.activation.scaled(1 / scale))
        generator = torch.Generator().manual_seed(seed)  # masks come before the state: a resumed run has the same ones
        scaled = replace(problem, network=network)
        stepper = self.stepper.of(scaled, self, first, self.epochs * len(batches), generator, reduce)
        if resume:  # steps are counted by whole epochs, since the batches may have another size now
            state = replace(resume.copy(), step=resume.passes * len(batches) + resume.batches)
        else:
            state = stepper.begin(first, start, scale, seed, generator)
        judge = Judge.of(problem, validation, metric, first, reduce)
        with kept_memory(self.keep_memory and network.has_images):
            return _Run(self, problem, batches, first, judge, stepper, slot).go(state, watch)

    def refit_V(
        self, problem: Problem, V: Tensor, batches: Iterable[Batch], unit: float = 1.0, reduce: Reduce = keep
    ) -> Tensor:
        """The V-step on the features of all rows.

        Losses that are not quadratic begin at V and iterate the batches many times.

        Parameters
        ----------
        problem : Problem
            Its loss and the set of V.
        V : Tensor
            Where to begin.
        batches : iterable of Batch
            With features in place of X.
        unit : float, default=1.0
            The unit of the features, so that no square overflows.
        reduce : callable, default=keep
            Adds up over the ranks of a run on many machines.

        Returns
        -------
        Tensor
            The classifier.
        """
        ridge = CLEAN_RIDGE * self.preset(problem.network).ridge_V
        return fit_classifier(problem, V, batches, ridge, unit, reduce)


@dataclass(frozen=True)
class _Run:
    solver: Stochastic
    problem: Problem
    """In units of the inputs as given; the stepper's is in those of the scaled ones."""
    batches: Batches
    first: Batch
    judge: Judge | None
    stepper: Stepper
    slot: Slot

    def go(self, state: TrainingState, watch: Watch | None) -> Training:
        try_out = self.stepper.try_out(state, self.first)

        def check(found: TrainingState) -> None:
            if not 0 <= found.end <= self.solver.epochs:
                raise ValueError(f"its end must lie in 0 to {self.solver.epochs} epochs, got {found.end}")
            try_out(found)

        found = self.slot.resume(state, check)
        state, (status, detail) = found or state, self.slot.ended or (None, "")
        if found and not status and state.epochs and state.opened is None and watch and watch(state.epochs[-1]):
            status = Status.INTERRUPTED  # as it was when the state was kept
        while status is None:
            if len(state.epochs) >= (state.end or self.solver.epochs):
                status = Status.EARLY_STOPPED if state.end else Status.FINISHED
                break
            before, clock = state.copy(), time.perf_counter()
            state = state if state.opened is not None else state.open_epoch(before)
            try:
                for after in self.steps(state):
                    state = after
                    self.slot.offer(state)
                epoch = self.measure(state, time.perf_counter() - clock)
            except KeyboardInterrupt:
                return self.ended(before, Status.INTERRUPTED)
            except FloatingPointError as error:
                opened = before.generator if before.opened is None else before.opened
                state = changed((state if state.finite else before).close_epoch(), generator=opened)
                status, detail = Status.NONFINITE, str(error)
                break
            state = changed(state.close_epoch(), epochs=[*state.epochs, epoch])
            lowest = best_epoch(state.epochs)
            if self.judge and epoch is lowest:
                state = changed(state, best=changed(state.copy(), best=None))
            asked = watch and watch(epoch)
            late = epoch.number - lowest.number >= self.solver.patience and epoch.number < self.solver.epochs
            if self.judge and late and not state.end:
                state = self.shortened(state)
            if asked and epoch.number != state.end:
                status = Status.INTERRUPTED
            else:
                self.slot.offer(state, epoch.number)
        self.slot.end(state, status, detail)
        return self.ended(state, status, detail)

    def ended(self, state: TrainingState, status: Status, detail: str = "") -> Training:
        """The training that ended in this state."""
        best = state.best if self.judge and status is not Status.NONFINITE else None
        try:
            return self.finish(best or state, state, status, detail)
        except NUMERICAL as error:
            return self.finish(best or state, state, Status.NONFINITE, str(error))

    def shortened(self, state: TrainingState) -> TrainingState:
        """Back to the best epoch, from which steps anneal to the end of a run half as long again, or as is left."""
        assert state.best
        now, passes = len(state.epochs), state.best.passes
        end = min(self.solver.epochs, now + max(1, passes // 2))
        kept = {"epochs": state.epochs, "best": state.best, "generator": state.generator}
        return changed(state.best.copy(), undone=now - passes, end=end, **kept)

    def steps(self, state: TrainingState) -> Iterator[TrainingState]:
        """The states after the steps of an epoch, or of what is left of it."""
        generator, done, stepper = torch.Generator(), state.batches, self.stepper
        if state.end:
            total = (state.end - state.undone) * len(self.batches)
            stepper = replace(stepper, pace=replace(stepper.pace, total=total))
        assert state.opened is not None
        generator.set_state(state.opened)
        for index, batch in self.epoch(generator, len(state.epochs) + 1):
            if index >= done:
                if state.batches == 0:  # the order of the rows has been drawn now
                    state = changed(state, generator=generator.get_state())
                state = changed(stepper(state, batch), batches=index + 1)
                yield state

    def epoch(self, generator: torch.Generator, number: int = 1) -> Iterator[tuple[int, Batch]]:
        return checked(self.batches.epoch(generator), self.first, number, self.stepper.reduce)

    def measure(self, state: TrainingState, seconds: float) -> Epoch:
        if not state.finite:
            raise FloatingPointError(f"epoch {len(state.epochs) + 1} gave NaN or infinity")
        number, loss = len(state.epochs) + 1, state.epoch_loss / max(state.epoch_rows, TINY)
        network, (W, V) = self.stepper.problem.network, (state.average.W, state.average.V)
        found = self.judge(lambda X: network.features(X / state.scale, W) @ V.T) if self.judge else []
        judged = (found[-1].loss, found[-1].error) if found else (loss, math.nan)
        return Epoch(number, loss, *judged, seconds, state.trust, state.rejected, state.density, found)

    def finish(self, best: TrainingState, last: TrainingState, status: Status, detail: str) -> Training:
        """The network of the best state, in units of the inputs as given, its classifier refitted on clean features."""
        problem, solver, scale, broken = self.problem, self.solver, best.scale, status is Status.NONFINITE
        W, refit = self.within_budget(best, broken)
        edges = problem.network.edges
        W = {pair: M * scale if edges[pair].constant else M for pair, M in W.items()}
        W = {pair: problem.edge_set(pair).project(matrix) for pair, matrix in W.items()}
        V = problem.V_set.project(best.average.V / scale)
        if solver.refit and not broken:
            V = solver.refit_V(problem, V, _Features(self, W, scale), scale, self.stepper.reduce)
        if not is_finite(V, *W.values()) and not broken:
            raise FloatingPointError("the last fit of the classifier gave NaN or infinity")
        sparsity = measure_sparsity(problem, W, solver.budget, refit)
        training = Training(problem, Blocks({}, V, W), status, last.epochs, last, detail, sparsity=sparsity)
        return training if solver.polish is None or broken else self.polished(training, solver.polish)

    def polished(self, training: Training, polish: BlockDescent) -> Training:
        """The training finished by full-batch steps from where it ended."""
        data, problem, W, V = self.batches, self.problem, training.blocks.W, training.blocks.V
        assert isinstance(data, ArrayBatches)
        X, targets = (torch.as_tensor(part).to(V) for part in (data.X, data.targets))
        weight = None if data.weight is None else torch.as_tensor(data.weight).to(V)
        start = Blocks(problem.network.forward(X, W), V, W)
        result = polish.run(problem, X, targets, weight=weight, start=start, reduce=self.stepper.reduce)
        return replace(training, blocks=result.blocks, polished=result)

    def within_budget(self, state: TrainingState, broken: bool) -> tuple[Weights, Refit | None]:
        """The averaged weights; under a budget, those of a least-squares refit on the support that meets it."""
        budget, average, problem = self.solver.budget, state.average, self.stepper.problem
        if budget is None:
            return average.W, None
        if broken:
            return restrict(average.W, state.support or budget.choose(problem.network, average.W, average.V)), None

        def epoch() -> Iterator[Batch]:
            for _, batch in self.epoch(torch.Generator().manual_seed(0)):
                yield batch._replace(X=batch.X / state.scale)

        support = state.support if state.density <= budget.share else None
        damping, reduce = self.solver.damping_U, self.stepper.reduce
        return refit_on_support(problem, epoch, average, budget, support, damping, reduce)


@dataclass(frozen=True)
class _Features:
    """The features of the rows that V is fitted to at last, by batches, in this unit; each pass computes them anew."""

    run: _Run
    W: Weights
    unit: float

    def __iter__(self) -> Iterator[Batch]:
        network, pace = self.run.problem.network, self.run.stepper.pace
        every = pace.refit_every(len(self.run.batches), network.widths[-1])
        for _, batch in islice(self.run.epoch(torch.Generator().manual_seed(0)), 0, None, every):
            yield batch._replace(X=network.features(batch.X, self.W).div_(self.unit))
