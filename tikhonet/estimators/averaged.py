"""Estimators of tables: how many networks are averaged, which inputs each takes, and how wide they are, by the rows."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context

from tikhonet.estimators.all_ranks import row_count
from tikhonet.estimators.constraints import COUNT, auto_or
from tikhonet.estimators.estimator import BCDEstimator
from tikhonet.estimators.fitting import fit
from tikhonet.estimators.monotone import Signs, column_signs
from tikhonet.estimators.parameters import MOST_CUT, Parameters
from tikhonet.estimators.rows import Rows
from tikhonet.estimators.several import fit_several
from tikhonet.estimators.tabular import Inputs
from tikhonet.estimators.targets import Target
from tikhonet.network.errors import ArgumentError

Given = tuple[Any, Any, Any]
"""X, y and the weights of rows, or X_val, y_val and eval_set."""
AVERAGE_FROM = 300
"""Different rows from which two networks are averaged by themselves: a fit of fewer stays a fraction of a second."""
AVERAGE_BELOW = 10_000
"""Different rows from which one network is enough: more data average by themselves, and a second costs seconds."""
DECAY_FROM = 3000
"""Different rows from which the weights on many columns decay by themselves; fewer were not tried."""


@dataclass(eq=False, repr=False, kw_only=True)
class AveragedEstimator(BCDEstimator):
    """An estimator that may average networks, with pieces of the numbers (`n_bins`) and without.

    Parameters
    ----------
    n_networks : "auto" or int, default="auto"
        Networks that are trained one after the other, side by side in one model. For classes the mean of their scores
        decides; for numbers a network counts by its held-out loss to the power of -2. With `n_bins="auto"` the first,
        third, ... of them have pieces beside the numbers. `history_` and all that belongs to training is that of the
        first. "auto" is 2 for 300 to 10,000 different rows where X has at most 100 columns and neither `n_bins`,
        `network`, `skip`, `sparsity`, `constraint` or `warm_start` nor another solver, head or decision is given; else
        1.
    monotonic_cst : array-like of int or dict, default=None
        Whether predictions (the probability of the second class) rise with a column (1), fall (-1) or may do both (0),
        as in scikit-learn's histogram gradient boosting: a number for each column, or by the names of columns. For two
        classes or one target, columns of numbers, `solver="stochastic"` and the heads "logistic", "ridge" and
        "trained"; not with `network`, `skip`, `constraint`, `sparsity`, `decision="energy"`, `memory_budget` or
        `partial_fit`.
    """

    n_networks: Any = "auto"
    monotonic_cst: Any = None

    _wide_decay: ClassVar[float] = 0.0
    """The decay of weights on many columns: flat images, descriptors (docs/log/estimators.md)."""
    _own_head: ClassVar[str]
    """The name of the default head."""
    _by_rows: ClassVar[tuple[tuple[float, dict[str, Any]], ...]]
    """What "auto" is, by parameter, for tables with fewer different rows than this."""
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Parameters._parameter_constraints,
        "n_networks": auto_or(COUNT),
        "monotonic_cst": ["array-like", dict, None],
    }

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        eval_set: Any = None,
    ) -> Self:
        """Train on X and y; with `X_val` and `y_val` training stops where the loss on these is least.

        Parameters
        ----------
        X : array-like, sparse matrix, DataFrame or DataLoader
            Samples x features; columns may hold text, categories and missing numbers. With `memory_budget` also a file,
            a data set of Arrow or an iterable of pieces. A torch `DataLoader` gives batches (X, y), anew at every
            epoch; nothing of it is held out.
        y : array-like, default=None
            For a classifier a class a row, or a matrix of 0 and 1 with a column for each label that a row may have; for
            a regressor a number a row, or samples x targets.
        sample_weight : array-like, default=None
            A weight for each row; 1 where it is None.
        X_val : array-like or DataLoader, default=None
            Validation rows.
        y_val : array-like, default=None
            Their classes, which count by the weights of these, or their numbers.
        eval_set : list of (X, y), default=None
            Several sets of validation rows, of which the last decides; `history_` has what each says of every epoch.

        Returns
        -------
        self : estimator
            The fitted estimator.
        """
        if (fitted := self._fit_by_batches(X, y, sample_weight, X_val, y_val, eval_set)) is not None:
            return fitted
        inputs = Inputs(self)
        return self._fit_networks(inputs, *self._training(inputs, (X, y, sample_weight), (X_val, y_val, eval_set)))

    def _training(self, inputs: Inputs, given: Given, held_out: Given) -> tuple[Rows, Target, list[Rows]]:
        """The canonical rows that are given (X, y, weight), their target, and the sets of validation rows."""
        raise NotImplementedError

    def _fit_networks(self, inputs: Inputs, rows: Rows, target: Target, validation: Sequence[Rows]) -> Self:
        """Train one network on these rows, or several."""
        if self.monotonic_cst is not None:
            signs = Signs(column_signs(self, inputs), target.rises(rows.Y))
            target = replace(target, signs=signs if signs.inputs.any() else None)  # type: ignore[type-var]
        different = row_count(len(rows))
        parameters = self._sized(different, inputs)
        if (count := self._networks(different, inputs)) == 1:
            return self._keep(fit(parameters, rows, target, validation=validation, last=self._last), inputs)
        return self._keep(fit_several(parameters, rows, target, self._members(count, inputs), validation), inputs)

    def _sized(self, rows: int, inputs: Inputs) -> Self:
        """This estimator with what suits so many different rows and its columns in place of "auto"."""
        sized = inputs.shaped(self)
        if isinstance(self.n_bins, str) and self._bins(inputs.seen.n_features_in_):
            suited = next(suited for below, suited in self._by_rows if rows < below)
            for name, value in suited.items():
                setattr(sized, name, value if isinstance(getattr(self, name), str) else getattr(self, name))
        wide = inputs.seen.n_features_in_ > MOST_CUT and rows >= DECAY_FROM
        if isinstance(self.decay, str) and wide and self._plain():
            sized.decay = self._wide_decay
        return sized

    def _plain(self) -> bool:
        """Whether the network is a chain of a few dense layers whose weights may be anything."""
        few = isinstance(self.hidden_layer_sizes, str) or np.size(self.hidden_layer_sizes) <= 3
        return few and self.network is None and not self.skip and self.constraint is None and self.sparsity is None

    def _going_on(self) -> Self:
        """This estimator with the widths of the last fit where they are "auto"."""
        if self.monotonic_cst is not None:
            raise ArgumentError("monotonic_cst", "monotonic_cst must be None for partial_fit; use fit")
        if not (isinstance(self.hidden_layer_sizes, str) and self._last and self.network is None):
            return self
        sized = copy(self)
        sized.hidden_layer_sizes = tuple(self._last.model.network.widths[1:])
        return sized

    def _lone(self) -> str | None:
        """The parameter that only one network at a time knows, if one is given."""
        given = {name: getattr(self, name) for name in ("network", "skip", "warm_start", "constraint")}
        given["decision"] = None if (rule := getattr(self, "decision", "forward")) == "forward" else rule
        if self.n_networks == "auto":
            given["head"] = None if isinstance(self.head, str) and self.head == self._own_head else self.head
        return next((name for name, value in given.items() if value is not None and value is not False), None)

    def _networks(self, rows: int, inputs: Inputs) -> int:
        """The networks for so many different rows."""
        if self.n_networks == "auto":
            cut = self.n_bins == "auto" and inputs.columns and len(inputs.columns.encoding.pieces)
            return 2 if cut and AVERAGE_FROM <= rows < AVERAGE_BELOW and not self._lone() else 1
        if self.n_networks > 1 and (name := self._lone()):
            raise ArgumentError("n_networks", f"n_networks must be 1 with {name}, got {self.n_networks}; leave out one")
        return int(self.n_networks)

    def _members(self, count: int, inputs: Inputs) -> list[NDArray[np.int64]]:
        """The inputs that each network takes; the first takes all."""
        encoding = inputs.columns.encoding if inputs.columns else None
        everything = plain = np.arange(encoding.outputs if encoding else inputs.seen.n_features_in_)
        if encoding and isinstance(self.n_bins, str):
            plain = encoding.without_pieces
        return [plain if k % 2 else everything for k in range(count)]
