"""Sec. 3.3.1: the six stochastic gradient solvers that the paper compares with, on the same networks.

The same `Network`, inputs, loss and initial weights as the block solvers, trained by back-propagation with
torch.optim's fastest kernels. Dropout on the inputs and the last features is there for these solvers too, so
that a comparison can give both sides the same regulariser.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from tikhonet.descent.result import Status
from tikhonet.network.graph import Weights
from tikhonet.network.initial import Initial, check_initial, initial_weights
from tikhonet.paper.baselines.pruning import PrunedWeights, Pruning
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Samples
from tikhonet.trainer.batches import ArrayBatches
from tikhonet.trainer.training import Epoch, Training

Watch = Callable[[Epoch, Blocks], None]
Pass = tuple[float, float, Blocks]
"""The mean loss of a pass over the data, its seconds, and the blocks after it."""
Make = Callable[[Iterable[Tensor], float], torch.optim.Optimizer]


def _optimizer(kind: Any, **settings: Any) -> Make:
    return lambda parameters, rate: kind(parameters, lr=rate, **settings)


SOLVERS: dict[str, Make] = {
    "SGD": _optimizer(torch.optim.SGD, momentum=0.9, fused=True),
    "Nesterov": _optimizer(torch.optim.SGD, momentum=0.9, nesterov=True, fused=True),
    "AdaGrad": _optimizer(torch.optim.Adagrad, fused=True),
    "AdaDelta": _optimizer(torch.optim.Adadelta, foreach=False),
    "RMSProp": _optimizer(torch.optim.RMSprop, foreach=False),
    "Adam": _optimizer(torch.optim.Adam, fused=True),
}
"""The paper's six, each with its usual settings; what is tuned is the learning rate and what `Backprop` holds.
Fused kernels where torch has them; of the other two, the loop over matrices is faster on a CPU than `foreach` (5.6
against 8.9 ms a step of AdaDelta on the paper's network, one thread)."""


@dataclass(frozen=True)
class Backprop:
    """Train a network by back-propagation with one of `SOLVERS`; the mean loss of a batch is minimised.

    `initial` and `initial_scale` are those of `initial_weights`; "gaussian" with sqrt(2) is He's start.
    """

    solver: str = "Adam"
    rate: float = 1e-3
    epochs: int = 10
    batch_size: int = 128
    schedule: Literal["cosine", "constant"] = "cosine"
    initial: Initial = "gaussian"
    initial_scale: float = 0.5
    drop_inputs: float = 0.0
    drop_features: float = 0.0
    pruning: Pruning | None = None
    """Zeros by magnitude; one-shot pruning anneals the rate twice, before and after."""

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, got {self.solver!r}")
        check_initial(self.initial)
        if not 0 < self.rate < math.inf:
            raise ValueError(f"rate must be positive and finite, got {self.rate}")
        if self.schedule not in ("cosine", "constant"):
            raise ValueError(f"schedule must be 'cosine' or 'constant', got {self.schedule!r}")
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    def run(
        self,
        problem: Problem,
        X: Tensor,
        targets: Tensor,
        *,
        start: Weights | None = None,
        seed: int = 0,
        watch: Watch | None = None,
    ) -> Training:
        """`watch` is called after every epoch with its record and copies of V and W.

        Where NaN or infinity ends the run, these and what is returned are of the last epoch without, or the start.
        """
        targets = targets.to(X)
        problem.check(Samples(X, targets))
        network, generator = problem.network, torch.Generator().manual_seed(seed)
        if start is not None:
            network.check_weights(start)
        W = start or initial_weights(network, self.initial, seed, self.initial_scale, dtype=X.dtype, device=X.device)
        W = {edge: matrix.clone().requires_grad_() for edge, matrix in W.items()}
        last = network.widths[-1]
        V = torch.randn(targets.shape[1], last, generator=generator, dtype=torch.float64).to(X) / last**0.5
        first = snapshot(V, W)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
            words = f"epoch {{}}; a rate below {self.rate:g} may help"
            return watched(problem, first, self.passes(problem, X, targets, V, W, generator), watch, words)

    def passes(
        self, problem: Problem, X: Tensor, targets: Tensor, V: Tensor, W: Weights, generator: torch.Generator
    ) -> Iterator[Pass]:
        """The epochs, which change V and W in place."""
        batches = ArrayBatches(X, targets, size=self.batch_size, dtype=X.dtype, device=X.device)
        steps = self.epochs * len(batches)
        pruned = PrunedWeights(self.pruning, W, steps) if self.pruning else None
        optimizer = SOLVERS[self.solver](
            [V.requires_grad_(), *(pruned.parameters if pruned else W.values())], self.rate
        )
        decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: self.annealed(step / steps))
        for _ in range(self.epochs):
            clock, total = time.perf_counter(), X.new_zeros(())
            for batch in batches.epoch(generator):
                if pruned:
                    W = pruned.weights()
                loss = problem.loss.rows(batch.targets, self.scores(problem, batch.X, V, W)).mean()
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                decay.step()
                if pruned:
                    pruned.advance()
                total += loss.detach() * len(batch.X)
            mean, seconds = float(total) / len(X), time.perf_counter() - clock
            yield mean, seconds, snapshot(V, pruned.weights() if pruned else W)

    def annealed(self, done: float) -> float:
        """The share of the rate when this share of the run is done."""
        if self.schedule == "constant":
            return 1.0
        if self.pruning and self.pruning.one_shot:
            begin = self.pruning.begin
            done = done / begin if done < begin else (done - begin) / (1 - begin)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))

    def scores(self, problem: Problem, X: Tensor, V: Tensor, W: Weights) -> Tensor:
        """V u_N, differentiably."""
        network = problem.network
        U = network.layers(torch.dropout(X, self.drop_inputs, train=True) if self.drop_inputs else X)
        for n in network.hidden:
            parts = [network.edges[n, m].apply(U[m], W.get((n, m))) for m in network.sources(n)]
            Z = parts[0]
            for part in parts[1:]:
                Z = Z + part
            U[n] = network.activation.value(Z)
        features = U[network.depth]
        if self.drop_features:
            features = torch.dropout(features, self.drop_features, train=True)
        return features @ V.T


def snapshot(V: Tensor, W: Weights) -> Blocks:
    """Copies, which the optimiser's next steps leave as they are."""
    return Blocks({}, V.detach().clone(), {edge: matrix.detach().clone() for edge, matrix in W.items()})


def watched(
    problem: Problem, start: Blocks, passes: Iterable[Pass | None], watch: Watch | None, words: str, state: Any = None
) -> Training:
    """The training that these passes make, until one of them is not finite or, as None, could not be done.

    `words` say where it ended then; the blocks are those of the last pass that was finite, or the start.
    """
    epochs: list[Epoch] = []
    blocks, status, detail = start, Status.FINISHED, ""
    for number, done in enumerate(passes, 1):
        finite = False
        if done:
            loss, seconds, found = done
            epochs.append(Epoch(number, loss, loss, math.nan, seconds, 1.0, 0))
            finite = math.isfinite(loss) and all(bool(M.isfinite().all()) for M in (found.V, *found.W.values()))
            blocks = found if finite else blocks
            if watch:
                watch(epochs[-1], blocks)
        if not finite:
            status, detail = Status.NONFINITE, words.format(number)
            break
    return Training(problem, blocks, status, epochs, state, detail)
