"""Eq. 4 at a saved network: its weights, its V, and as U the features of its own forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray

from tikhonet.cli.errors import Failure
from tikhonet.cli.progress import bar
from tikhonet.descent.start import initial_blocks
from tikhonet.problem.objective import Blocks, Stationarity
from tikhonet.problem.samples import Samples


@dataclass(frozen=True)
class WatchedSamples(Samples):
    """Samples that tell how many rows were passed over."""

    watch: Callable[[int], None] = print

    def chunks(self) -> Iterator[slice]:
        for rows in super().chunks():
            yield rows
            self.watch(rows.stop - rows.start)


def relative_stationarity(estimator: Any, X: NDArray[Any], y: NDArray[Any]) -> tuple[Stationarity, Stationarity]:
    """The projected gradient at the saved network, and at a random one, in float64."""
    from tikhonet.estimators.parameters import build_problem

    model = estimator.model_
    problem = build_problem(estimator, model.network, estimator._loss(), float(len(X)))
    scaled = torch.from_numpy(model.scaling(X.astype(float), estimator.dtype))
    targets = encoded(estimator, y).to(scaled)
    seed = estimator.random_state if isinstance(estimator.random_state, int) else 0
    with bar("measuring stationarity", 2 * len(X)) as shown:
        samples, watched = Samples(scaled, targets), WatchedSamples(scaled, targets, watch=shown.advance)
        shown.update(0)  # making them was a pass too, to check the values
        W = {edge: matrix.to(scaled) for edge, matrix in model.W.items()}
        here = problem.stationarity(Blocks(model.network.forward(scaled, W), model.V.to(scaled), W), watched)
        start = problem.stationarity(initial_blocks(problem, samples, seed, "forward"), watched)
    return here, start


def encoded(estimator: Any, y: NDArray[Any]) -> torch.Tensor:
    """The targets that the loss was trained on."""
    try:
        targets: torch.Tensor = estimator._fitted.target.encode(estimator._fitted.target.in_numbers(y))
    except ValueError as error:
        raise Failure(f"the labels do not fit the model: {error}; name another --label or --data") from None
    return targets
