"""A hasher: binary codes that are near where samples are alike (Sec. 3.3.2), learned from labels or a similarity."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import _fit_context
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _num_samples, validate_data
from torch import Tensor

from tikhonet.descent.full import BlockDescent
from tikhonet.estimators.base import BCDEstimator, dense
from tikhonet.estimators.checks import check_weights
from tikhonet.estimators.learning import whole_or_not_at_all
from tikhonet.estimators.parameters import POSITIVE, Parameters
from tikhonet.estimators.rows import Floats, Rows, canonical
from tikhonet.estimators.supervision import Start, Supervision, from_similarity, from_targets
from tikhonet.estimators.training import Data, build_problem, build_solver
from tikhonet.estimators.warned import users_level
from tikhonet.estimators.watching import watching
from tikhonet.hashing.codes import FEWEST_BITS, MOST_BITS, Codes, n_bytes, pack
from tikhonet.hashing.coding import ROUNDS, CodeBlock, train_codes
from tikhonet.hashing.quality import CodeReport, code_report
from tikhonet.hashing.relevance import check_no_sets
from tikhonet.model.heads import HeadKind, Trained
from tikhonet.model.scaling import Scaling


@dataclass(eq=False, repr=False, kw_only=True)
class BCDHasher(BCDEstimator):
    __doc__ = (
        """Binary codes for Hamming search, from a ReLU network trained by block coordinate descent.

    The bits are the signs of the network's outputs V u_N. The codes that these learn are variables of the objective:

        f(U, V, W, B, G) = Eq. 4 with targets B + alpha/2 (|Y - B G|^2 + ridge |G|^2),    B in {-1, 1},

    with Y the labels. It has no learning rate, and features may come in any units. All rows are trained on: of the
    parameters below, those of early stopping are not used.
    """
        + str(Parameters.__doc__).partition("\n")[2]
        + """    n_bits : int, default=48
        The length of the codes, 8 to 512.
    codes : {"learned", "classes"}, default="learned"
        The codes of the training rows are a block of the descent, or stay as they start: a codeword for each class,
        far from all others.
    supervision : float, default=3.0
        How far on the other side the network's output must at least lie to turn a learned bit that fits the labels.
    target : {"auto", "classes", "numbers"}, default="auto"
        What y holds; "auto" takes continuous numbers as numbers, everything else as classes (or labels, in a matrix).
    """
    )

    hidden_layer_sizes: Any = field(default=(256, 256), kw_only=False)
    n_bits: int = 48
    codes: str = "learned"
    supervision: float = 3.0
    target: str = "auto"

    report_: CodeReport = field(init=False)
    """Balance and correlation of the bits, and the number of distinct codes, of the training rows that differ."""
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Parameters._parameter_constraints,
        "loss": [StrOptions({"squared"})],
        "n_bits": [Interval(Integral, FEWEST_BITS, MOST_BITS, closed="both")],
        "codes": [StrOptions({"learned", "classes"})],
        "supervision": [POSITIVE],
        "target": [StrOptions({"auto", "classes", "numbers"})],
    }

    @_fit_context(prefer_skip_nested_validation=False)
    @whole_or_not_at_all
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, similarity: Any = None) -> Self:
        """Learn codes from labels y, or from a `similarity` of the rows of X in its place.

        y holds a class for each row, or an indicator matrix (rows x labels), or real numbers. `similarity` is a
        symmetric matrix, rows x rows, dense or sparse, positive for pairs that are alike.
        """
        X, y = self._checked(X, y, similarity)
        weight = check_weights(sample_weight, X)
        kept = np.flatnonzero(weight)
        if similarity is None:
            supervision = from_targets(y if weight.all() else y[kept], self.target)
        else:
            supervision = from_similarity(similarity, X.shape[0], self.n_bits, kept)
        X = X if weight.all() else X[kept]
        rows = canonical(dense(X), supervision.Y, weight[kept])
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        warm = self._warm(rows.X.shape[1])
        scaling = warm.scaling if warm else Scaling.fit(rows.X, rows.weight)
        rows = self._scaled(rows, scaling)
        supervision = replace(supervision, Y=rows.Y)
        last = self._last_start(supervision) if warm else None
        self._start = last or supervision.start(rows.weight, self.n_bits, seed)
        network = self._network(rows.X.shape[1])
        start = warm.W if warm and warm.network == network else None
        self._learn_codes(rows, scaling, seed, start)
        return self

    def _checked(self, X: Any, y: Any, similarity: Any) -> tuple[Any, Any]:
        """X and y, of which there is one if and only if there is no similarity."""
        name = type(self).__name__
        if similarity is None:
            if y is None:
                raise ValueError(f"{name} requires y to be passed, but the target y is None; or pass similarity")
            check_no_sets(y, "y")
            return validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, multi_output=True)  # type: ignore[no-any-return]
        if y is not None:
            raise ValueError(
                f"{name} learns from y or from similarity, got both: y of {_num_samples(y)} rows and a similarity of "
                f"shape {getattr(similarity, 'shape', np.shape(similarity))}; leave out one"
            )
        if self.codes == "classes":
            raise ValueError(f'codes="classes" needs labels y, got a similarity; use codes="learned" with {name}')
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64), None

    def _last_start(self, supervision: Supervision) -> Start | None:
        """What the last fit's codes began with: with other codewords, codes that are stored would be worth nothing."""
        start: Start | None = getattr(self, "_start", None)
        if start is None or start.kind != supervision.kind:
            return None
        known, classes = start.classes, supervision.classes
        if known is not None and (classes is None or not np.array_equal(known, classes)):
            raise ValueError(
                f"warm_start needs the classes of the last fit ({known}), got {classes}; use warm_start=False"
            )
        return start if start.suits(supervision, self.n_bits) else None

    def _learn_codes(self, rows: Rows, scaling: Scaling, seed: int, start: Any) -> None:
        problem = build_problem(self, self._network(rows.X.shape[1]), float(rows.weight.sum()))
        data = Data(*self._tensors(rows))
        targets = self._start.targets(rows.Y)
        Y = torch.from_numpy(targets / np.sqrt(np.mean(np.square(targets).sum(1)))).to(data.X.device, torch.float64)
        block = CodeBlock(data.targets, Y, data.weight, self.supervision)
        solver = build_solver(self, len(rows), problem.network)
        total = solver.max_iter if isinstance(solver, BlockDescent) else solver.epochs
        rounds = ROUNDS if self.codes == "learned" else 1
        with watching(self.callbacks, self.verbose, total) as watch:
            found = train_codes(self, problem, data, block, rounds=rounds, seed=seed, start=start, watch=watch)
        self._warn(found, watch.asked)
        self._finish(found, self._with_head(found, scaling, rows, 0.0))
        assert found.outputs is not None
        self.report_ = code_report(pack(found.outputs.cpu().numpy()), self.n_bits)
        if self.report_.distinct == 1:
            warnings.warn(
                "all codes are equal, so they cannot be searched: X must have features that differ where labels do, "
                "and a similarity must hold alike pairs of different rows",
                stacklevel=users_level(),
            )

    def transform(self, X: Any) -> Codes:
        """Packed codes, a row of ceil(n_bits / 8) bytes each (`np.packbits`); the bits after n_bits are zero."""
        return pack(self.decision_function(X))

    def decision_function(self, X: Any) -> Floats:
        """The network's outputs, whose signs are the bits: rows x n_bits."""
        data = self._check_inputs(X)
        return self._model.scores(data, self.device)

    @property
    def _n_features_out(self) -> int:
        return n_bytes(self.n_bits)

    def _encode(self, Y: Floats) -> Tensor:
        """The codes to start with."""
        return torch.from_numpy(self._start.codes(Y))

    def _head(self, V: Floats) -> HeadKind:
        return Trained(V)

    def _fitted(self) -> dict[str, Any]:
        bits = self._model.outputs
        if bits != self.n_bits:
            raise ValueError(f"n_bits must be {bits}, as it was when this was fitted, got {self.n_bits}; fit again")
        return {"report": self.report_.to_dict()}

    def _restore(self, fitted: dict[str, Any]) -> None:
        self.report_ = CodeReport(**fitted["report"])
        if self._model.outputs != self.n_bits:
            raise ValueError(f"there are {self._model.outputs} outputs for {self.n_bits} bits")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.transformer_tags.preserves_dtype = []
        return tags
