"""Training: rows -> scaling -> targets -> `Problem` -> solver -> head, in one direction."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, Self

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from torch import Tensor

from tikhonet.descent.devices import check_device
from tikhonet.descent.full import BlockDescent
from tikhonet.descent.result import Status
from tikhonet.estimators.files import NotInFile
from tikhonet.estimators.parameters import Parameters
from tikhonet.estimators.rows import Floats, Mask, Rows, in_order, joined
from tikhonet.estimators.stream import Stream
from tikhonet.estimators.training import (
    HOLD_OUT_FROM,
    Data,
    Trained,
    build_problem,
    build_solver,
    cause_of_zeros,
    train,
)
from tikhonet.estimators.warned import users_level
from tikhonet.estimators.watching import watching
from tikhonet.model.heads import Head, HeadData, HeadKind
from tikhonet.model.model import Model
from tikhonet.model.scaling import Scaling
from tikhonet.trainer.batches import Batch, Validation
from tikhonet.trainer.run import Stochastic
from tikhonet.trainer.training import best_epoch

RETRAIN_BELOW = 1000
"""With fewer rows, those held out are missed: the network is trained again on all, as long as was best."""
FEW_STEPS = 50

REMEDIES = {
    Status.MAX_ITER: "raise max_iter, or fit again with warm_start=True to go on",
    Status.SCHEDULE_EXHAUSTED: 'use solver="proximal" or "stochastic"; the steps 1/t^2 of "alg1" run out',
    Status.NONFINITE: 'use dtype="float64", or look for extreme values in X, y or sample_weight',
    Status.INTERRUPTED: "the last finished epoch is used, with held-out rows the best one; "
    "fit again with warm_start=True to go on",
}


def whole_or_not_at_all(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A fit that fails, whatever it has set by then, leaves the estimator as it was."""

    @wraps(fit)
    def fit_or_restore(self: Any, *args: Any, **options: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *args, **options)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return fit_or_restore


class Learning(Parameters):
    """How an estimator learns; what differs between estimators are the hooks at the top."""

    _model: Model
    history_: Any = NotInFile()
    certificate_: Any = NotInFile()

    @abstractmethod
    def _encode(self, Y: Floats) -> Tensor:
        """Targets of the loss, one row for each row of Y."""

    @abstractmethod
    def _head(self, V: Floats) -> HeadKind:
        """The kind of linear map that goes on the features."""

    def _in_own_units(self, head: Head) -> Head:
        """The head whose scores are in the units of y."""
        return head

    def _score_loss(self, head: Head, data: HeadData) -> float:
        """How far the scores of a head in the units of y are from the targets."""
        return 0.0

    def _calibrate(self, model: Model, scaled: Floats, data: HeadData) -> None:
        """Learn how far scores are to be believed, from rows that were not trained on where there are any."""

    def _start_targets(self, rows: Rows) -> None:
        """Learn from the training rows what `_encode` needs."""

    def _warm(self, features: int) -> Model | None:
        """The last fit's model where `fit` goes on from it; other features begin anew."""
        model: Model | None = getattr(self, "_model", None) if self.warm_start else None
        return model if model and model.network.widths[0] == features else None

    def _learn(self, rows: Rows, validation: Rows | None = None) -> Self:
        """Train the network on canonical rows, then the head on its features."""
        warm = self._warm(rows.X.shape[1])
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        scaling = warm.scaling if warm else Scaling.fit(rows.X, rows.weight)
        rows = self._scaled(rows, scaling)
        self._start_targets(rows)
        if validation:
            judge = np.repeat([False, True], [len(rows), len(validation)])
            rows, final = joined(rows, self._scaled(validation, scaling)), ~judge
        else:
            judge, final = self._hold_out(rows, seed), np.ones(len(rows), bool)
        start = (warm.W, warm.V) if warm and warm.network == self._network(rows.X.shape[1]) else None
        held_out = rows.take(np.flatnonzero(judge)) if judge.any() else None
        trained = self._run(rows.take(np.flatnonzero(~judge)), held_out, seed, start=start)
        strength = self._judge(self._model_of(trained, scaling), rows, judge, final)
        ended_well = trained.status in (Status.FINISHED, Status.EARLY_STOPPED)
        if held_out and not validation and len(rows) < RETRAIN_BELOW and ended_well:
            trained = self._retrain(trained, rows, seed, start)
        rows = rows.take(np.flatnonzero(final))
        self._finish(trained, self._with_head(trained, scaling, rows, strength))
        self._stream = Stream.after_fit(trained.state, rows, strength)
        return self

    def _learn_more(self, rows: Rows) -> Self:
        """One epoch over these rows from the last state; the head is refitted on a sample of all rows seen."""
        if self.solver != "stochastic":
            raise ValueError(
                f'partial_fit needs solver="stochastic", got {self.solver!r}; use fit with warm_start=True'
            )
        first = not hasattr(self, "_model")
        if not first:
            self._check_network(rows.X.shape[1])
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        scaling = Scaling.fit(rows.X, rows.weight) if first else self._model.scaling
        rows = self._scaled(rows, scaling)
        if first:
            self._start_targets(rows)
        stream = getattr(self, "_stream", Stream())
        state = stream.state if stream.suits(self.dtype, self.device) else None
        start = None if first or state else (self._model.W, self._model.V)
        trained = self._run(rows, None, seed, state=state, start=start, epochs=1)
        rows = stream.with_rows(rows)
        whole = first or stream.whole or self._outdoes_model(trained, scaling, rows)
        self._stream = replace(stream, state=trained.state, rows=rows, whole=whole, of_fit=False)
        if whole:
            trained = self._refit_V(trained, rows)
            everything = np.ones(len(rows), bool)
            model = self._model_of(trained, scaling)
            strength = self._judge(model, rows, ~everything, everything, stream.strength)
            self._finish(trained, self._with_head(trained, scaling, rows, strength))
        return self

    def _check_network(self, features: int) -> None:
        network, last = self._network(features), self._model.network
        if network != last:
            raise ValueError(
                "hidden_layer_sizes, network and skip must be those of the last fit for partial_fit to go on, "
                f"with widths {last.widths}, got {network.widths}; use fit to begin anew"
            )

    def _refit_V(self, trained: Trained, rows: Rows) -> Trained:
        """With V fitted to these rows: the solver fits it to those of one call only, which may be very few."""
        if trained.status is Status.NONFINITE:
            return trained
        solver = build_solver(self, len(rows))
        assert isinstance(solver, Stochastic)
        X, targets, weight = (part.to(trained.V) for part in self._tensors(rows))
        problem = build_problem(self, self._network(X.shape[1]), float(weight.sum()))
        features = problem.network.features(X, trained.W)
        return replace(trained, V=solver.refit_V(problem, trained.V, [Batch(features, targets, weight)]))

    def _outdoes_model(self, trained: Trained, scaling: Scaling, rows: Rows) -> bool:
        """Whether this network, with a head fitted on two thirds of the rows, beats the last model on the others.

        It is asked where the rows that the last model learned from are gone: a few new ones make a worse one.
        """
        if len(rows) < HOLD_OUT_FROM or trained.status is Status.NONFINITE:
            return False
        judge = np.arange(len(rows)) % 3 == 0  # the order is as good as random
        test, rest = (rows.take(np.flatnonzero(mask)) for mask in (judge, ~judge))
        trained = self._refit_V(trained, rest)
        strength = self._head(trained.V.cpu().double().numpy()).default
        models = self._with_head(trained, scaling, rest, strength), self._model
        new, old = (self._score_loss(model.linear_head, self._head_data(model, test)) for model in models)
        return new < old

    def _scaled(self, rows: Rows, scaling: Scaling) -> Rows:
        """Scaled inputs, in an order that has nothing to do with the units they came in."""
        return in_order(replace(rows, X=scaling(rows.X, self.dtype)))

    def _hold_out(self, rows: Rows, seed: int) -> Mask:
        """A share of the rows, evenly over the targets, to stop early by and to choose the head's strength on."""
        held = np.zeros(len(rows), bool)
        wanted = len(rows) >= HOLD_OUT_FROM if self.early_stopping == "auto" else self.early_stopping
        count = min(round(self.validation_fraction * len(rows)), len(rows) - 1)
        if not wanted or count < 1:
            return held
        order = np.random.default_rng(seed).permutation(len(rows))
        order = order[np.argsort(rows.Y[order, 0], kind="stable")]
        held[order[((np.arange(count) + 0.5) * len(rows) / count).astype(int)]] = True
        return held

    def _run(self, rows: Rows, held_out: Rows | None, seed: int, **options: Any) -> Trained:
        network = self._network(rows.X.shape[1])
        problem = build_problem(self, network, float(rows.weight.sum()))
        data = Data(*self._tensors(rows), held_out=self._validation(held_out) if held_out else None)
        solver = build_solver(self, len(rows))
        total = solver.max_iter if isinstance(solver, BlockDescent) else solver.epochs
        with watching(self.callbacks, self.verbose, total) as watch:
            trained = train(self, problem, data, seed=seed, watch=watch, **options)
        if not options.get("epochs"):
            self._warn(trained, watch.asked)
        return trained

    def _tensors(self, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
        X = torch.from_numpy(rows.X).to(check_device(self.device))
        return X, self._encode(rows.Y).to(X), torch.from_numpy(rows.weight).to(X)

    def _validation(self, rows: Rows) -> Validation:
        """What epochs are judged by; weights that are all alike say nothing, and are left out."""
        X, targets, weight = self._tensors(rows)
        return (X, targets, weight) if np.ptp(rows.weight) > 0 else (X, targets)

    def _warn(self, trained: Trained, asked: bool) -> None:
        """Say so, with a remedy, where training stopped short."""
        status, remedy = trained.status, REMEDIES.get(trained.status)
        if trained.state and status is Status.FINISHED and trained.state.step < FEW_STEPS:
            remedy = f"raise max_iter: {trained.iterations} epochs were only {trained.state.step} mini-batch steps"
        if remedy and not (asked and status is Status.INTERRUPTED):
            text = (
                f"{type(self).__name__} stopped short after {trained.iterations} iterations ({status.name}): {remedy}"
            )
            warnings.warn(text, ConvergenceWarning, stacklevel=users_level())

    def _retrain(self, trained: Trained, rows: Rows, seed: int, start: Any) -> Trained:
        """The same training on all rows, up to the epoch that was best on those held out."""
        assert isinstance(trained.history, list)
        best = best_epoch(trained.history).number
        problem = build_problem(self, self._network(rows.X.shape[1]), float(rows.weight.sum()))
        data = Data(*self._tensors(rows))
        again = train(self, problem, data, seed=seed, start=start, watch=lambda epoch: epoch.number >= best)
        if again.iterations < best:  # interrupted
            return trained
        return replace(trained, W=again.W, V=again.V, state=again.state)

    def _model_of(self, trained: Trained, scaling: Scaling) -> Model:
        W = {edge: matrix.cpu() for edge, matrix in trained.W.items()}
        V = trained.V.cpu()
        return Model(scaling, self._network(len(scaling.shift)), W, V, Head(V.double().numpy(), np.zeros(len(V))))

    def _judge(self, model: Model, rows: Rows, judge: Mask, final: Mask, last: float | None = None) -> float:
        """The head's strength, and how far its scores are to be believed, by the rows to judge by.

        Without any it is the last one, where this kind of head knows it.
        """
        kind = self._head(model.linear_head.coef)
        if not judge.any():
            judge = final
            strength = last if last in kind.grid else kind.default
            rest = data = self._head_data(model, rows)
        else:
            data, rest = (self._head_data(model, rows.take(np.flatnonzero(mask))) for mask in (judge, ~judge))
            strength = kind.choose(rest, data, float(rows.weight[final].sum()))
        if not kind.calibrated:
            model = replace(model, head=kind.fit(rest, strength))
        self._calibrate(model, rows.X[judge], data)
        return strength

    def _head_data(self, model: Model, rows: Rows) -> HeadData:
        return HeadData(lambda: model.scaled_features(rows.X, self.device), rows.Y, rows.weight)

    def _with_head(self, trained: Trained, scaling: Scaling, rows: Rows, strength: float) -> Model:
        """The model with a head fitted on these rows."""
        model = self._model_of(trained, scaling)
        head = self._head(model.linear_head.coef).fit(self._head_data(model, rows), strength)
        return replace(model, head=self._in_own_units(head))

    def _finish(self, trained: Trained, model: Model) -> None:
        """Keep what was learned."""
        self._model, self.network_ = model, model.network
        self._cause_of_zeros = cause_of_zeros(self, model)
        self.n_iter_, self.status_ = trained.iterations, trained.status
        self.history_, self.certificate_ = trained.history, trained.certificate
