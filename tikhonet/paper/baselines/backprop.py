"""Sec. 3.3.1: the solvers by back-propagation that block descent is compared with, on the same networks.

The same `Network`, inputs, loss and initial weights as the block solvers; what differs is the rule of the step
(`rules.py`, `layer_rules.py`). Dropout on the inputs and the last features is there for these solvers too, so
that a comparison can give both sides the same regulariser.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from tikhonet.descent.result import Status
from tikhonet.network.graph import Weights
from tikhonet.network.initial import Initial, check_initial, initial_weights
from tikhonet.paper.baselines import layer_rules  # noqa: F401  # its rules become known
from tikhonet.paper.baselines.pruning import PrunedWeights, Pruning
from tikhonet.paper.baselines.rules import Product, Rule
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Samples
from tikhonet.trainer.batches import ArrayBatches
from tikhonet.trainer.training import Epoch, Training

Watch = Callable[[Epoch, Blocks], None]
Pass = tuple[float, float, Blocks]
"""The mean loss of a pass over the data, its seconds, and the blocks after it."""
Annealing = Literal["cosine", "linear", "constant"]


@dataclass(frozen=True)
class Backprop:
    """Train a network by back-propagation with one of `Rule.kinds`; the mean loss of a batch is minimised.

    `initial` and `initial_scale` are those of `initial_weights`; "gaussian" with sqrt(2) is He's start.
    """

    solver: str = "Adam"
    rate: float = 1e-3
    epochs: int = 10
    batch_size: int = 128
    schedule: Annealing = "cosine"
    initial: Initial = "gaussian"
    initial_scale: float = 0.5
    drop_inputs: float = 0.0
    drop_features: float = 0.0
    pruning: Pruning | None = None
    """Zeros by magnitude; one-shot pruning anneals the rate twice, before and after."""
    decay: float | None = None
    options: dict[str, Any] | None = None
    """Settings that the rule alone has, such as the damping of one-sided K-FAC."""

    def __post_init__(self) -> None:
        if Rule.kinds[self.solver].layered and self.pruning:
            raise ValueError(f"pruning must be None for {self.solver}, whose layers must be the weights themselves")
        check_initial(self.initial)
        if not 0 < self.rate < math.inf:
            raise ValueError(f"rate must be positive and finite, got {self.rate}")
        if self.schedule not in get_args(Annealing):
            raise ValueError(f"schedule must be one of {', '.join(get_args(Annealing))}, got {self.schedule!r}")
        if self.decay is not None and not 0 <= self.decay < math.inf:
            raise ValueError(f"decay must be None, 0 or positive and finite, got {self.decay}")
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
        learned = pruned.parameters if pruned else list(W.values())
        rule = Rule.kinds[self.solver](V.requires_grad_(), learned, steps, self.decay, **self.options or {})
        done = 0
        for _ in range(self.epochs):
            clock, total = time.perf_counter(), X.new_zeros(())
            for batch in batches.epoch(generator):
                if pruned:
                    W = pruned.weights()
                products: list[Product] | None = [] if rule.layered else None
                loss = problem.loss.rows(batch.targets, self.scores(problem, batch.X, V, W, products)).mean()
                for parameter in rule.parameters:
                    parameter.grad = None
                loss.backward()
                rule.step(self.rate * (self.annealed(done / steps) if rule.annealed else 1.0), products or ())
                done += 1
                if pruned:
                    pruned.advance()
                total += loss.detach() * len(batch.X)
            mean, seconds = float(total) / len(X), time.perf_counter() - clock
            with rule.at_answer():
                found = snapshot(V, pruned.weights() if pruned else W)
            yield mean, seconds, found

    def annealed(self, done: float) -> float:
        """The share of the rate when this share of the run is done."""
        if self.schedule == "constant":
            return 1.0
        if self.pruning and self.pruning.one_shot:
            begin = self.pruning.begin
            done = done / begin if done < begin else (done - begin) / (1 - begin)
        done = min(1.0, done)
        return 1 - done if self.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * done))

    def scores(
        self, problem: Problem, X: Tensor, V: Tensor, W: Weights, products: list[Product] | None = None
    ) -> Tensor:
        """V u_N, differentiably; every product with a learned matrix on the way is added to `products`."""
        network = problem.network
        U = network.layers(torch.dropout(X, self.drop_inputs, train=True) if self.drop_inputs else X)
        for n in network.hidden:
            parts = [network.edges[n, m].apply(U[m], W.get((n, m))) for m in network.sources(n)]
            Z = parts[0]
            for part in parts[1:]:
                Z = Z + part
            if products is not None:
                Z.retain_grad()
                own = network.learned_sources(n)
                products += [Product(W[n, m], U[m].detach(), Z, network.activation.value) for m in own]
            U[n] = network.activation.value(Z)
        features = U[network.depth]
        if self.drop_features:
            features = torch.dropout(features, self.drop_features, train=True)
        scores = features @ V.T
        if products is not None:
            scores.retain_grad()
            # The slope of the squared loss is s - t, and that of the cross-entropy softmax(s) - t.
            link = partial(problem.loss.slope, torch.zeros_like(scores))
            products.append(Product(V, features.detach(), scores, link))
        return scores


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
