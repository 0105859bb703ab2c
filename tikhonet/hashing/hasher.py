"""A hasher: binary codes that are near where samples are alike (Sec. 3.3.2), learned from labels or a similarity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _num_samples

from tikhonet.estimators.constraints import POSITIVE
from tikhonet.estimators.estimator import BCDEstimator
from tikhonet.estimators.fitting import fit
from tikhonet.estimators.parameters import Parameters
from tikhonet.estimators.rows import Floats
from tikhonet.estimators.tabular import Inputs
from tikhonet.hashing.code_targets import Codes, Supervision, from_similarity, from_targets
from tikhonet.hashing.codes import FEWEST_BITS, MOST_BITS, CodeReport, n_bytes, pack
from tikhonet.hashing.codes import Codes as PackedCodes
from tikhonet.hashing.mixture import Mixture
from tikhonet.hashing.neighbours import alike
from tikhonet.hashing.relevance import check_no_sets
from tikhonet.model.model import Model
from tikhonet.network.docstrings import with_inherited
from tikhonet.network.errors import ArgumentError


@with_inherited
@dataclass(eq=False, repr=False, kw_only=True)
class BCDHasher(BCDEstimator):
    """Binary codes for Hamming search, from a ReLU network trained in blocks, of which the codes are one.

    The bits are the signs of the network's outputs V u_N. The codes that these learn are variables too:

        ``f(U, V, W, B, G) = Eq. 4 with targets B + alpha/2 (|Y - B G|^2 + ridge |G|^2), B in {-1, 1}``

    with Y the labels. Codes that know labels alone give a whole class one code, and nothing orders it, so a part of the
    bits comes from coordinates of the rows: of each class by itself, by one more layer on the network; without classes,
    or with more than 40, the leading principal coordinates of all rows, which are then targets beside B. The network
    sees every column in units of its own spread; what is a neighbour goes by `units`. Of the parameters below, those of
    early stopping are not used.

    Parameters
    ----------
    n_bits : int, default=48
        The length of the codes, 8 to 512.
    codes : {"learned", "classes"}, default="learned"
        The codes of the training rows are a block of the descent, or stay as they start: a codeword for each class,
        far from all others.
    codewords : {"apart", "related"}, default="apart"
        The codes that the classes of y start with: all about equally far from each other, or nearer the more a linear
        regression takes one for the other. Rows that may be of either are then near both, which is worth most where
        classes are often confused.
    structure : "auto", "open" or float, default="auto"
        The share of the bits, 0 to 1, that know neighbours instead of labels. "auto" measures eight shares on up to
        a thousand rows kept aside, of which the bits may also lean towards labels, and takes the one that finds most
        true neighbours of those that lose no more than 0.0075 of the labels' mean average precision (`mixture_`). If
        codes without labels find more, it takes the one that finds as many and loses least, up to 0.03 (of those within
        0.005, the one that finds most). It is a third, without a lean, where there are fewer than 200 rows, 0 for
        numbers and for a similarity, whose codes have an order already. "open" is for queries whose classes y may not
        have: all bits are signs of directions of the inputs or of the network's first layer, turned by the labels, each
        as far as it helps classes held out. Without y all bits know neighbours: with "auto" they are signs of
        directions of the inputs, with 1 the network learns them, as it does where weights are few or bounded.
    units : {"auto", "given", "spread"}, default="auto"
        The units in which rows are near to each other: each column's as given, so that distances stay what they are, or
        that of its own spread. "auto" takes columns as given where they are numbers of one kind, such as pixels or
        embeddings: without names, or with names that differ by numbers alone (x0, x1). Other columns, such as age
        and height, have units that say nothing, and are divided by their spread.
    supervision : float, default=3.0
        How far on the other side the network's output must at least lie to turn a learned bit that fits the labels.
    target : {"auto", "classes", "numbers"}, default="auto"
        What y holds; "auto" takes continuous numbers as numbers, everything else as classes (or labels, in a
        matrix).

    Attributes
    ----------
    report_ : CodeReport
        Balance and correlation of the bits, and the number of distinct codes, of the training rows that differ.
    mixture_ : Mixture
        How many of the bits know neighbours, and what every share of them was worth on the rows kept aside.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhonet import BCDHasher, HammingIndex
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> hasher = BCDHasher((16,), n_bits=16, random_state=0).fit(X, X[:, 0] > 0)
    >>> codes = hasher.transform(X)
    >>> codes.shape
    (100, 2)
    >>> distances, ids = HammingIndex(16).add(codes).search(codes[:1], k=3)
    >>> int(distances[0, 0])
    0
    """

    n_bits: int = 48
    codes: str = "learned"
    codewords: str = "apart"
    structure: Any = "auto"
    units: str = "auto"
    supervision: float = 3.0
    target: str = "auto"

    _default_sizes: ClassVar[tuple[int, ...]] = (256, 256)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Parameters._parameter_constraints,
        "loss": [StrOptions({"squared"})],
        "n_bits": [Interval(Integral, FEWEST_BITS, MOST_BITS, closed="both")],
        "codes": [StrOptions({"learned", "classes"})],
        "codewords": [StrOptions({"apart", "related"})],
        "structure": [StrOptions({"auto", "open"}), Interval(Real, 0, 1, closed="both")],
        "units": [StrOptions({"auto", "given", "spread"})],
        "supervision": [POSITIVE],
        "target": [StrOptions({"auto", "classes", "numbers"})],
    }

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, similarity: Any = None) -> Self:
        """Learn codes from labels y, or from a `similarity` of the rows of X in its place, or from X alone.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame
            Samples x features.
        y : array-like, default=None
            A class for each row, or an indicator matrix (rows x labels), or real numbers.
        sample_weight : array-like, default=None
            A weight for each row; 1 where it is None.
        similarity : array or sparse matrix, default=None
            Rows x rows, symmetric, positive for pairs that are alike. Without y and without it, all bits know
            neighbours.

        Returns
        -------
        self : BCDHasher
            The fitted estimator.
        """
        inputs = Inputs(self)
        self._check_sources(y, similarity)
        if y is None:
            X, _, weight = inputs.fit(X, sample_weight=sample_weight)
        else:
            X, y, weight = inputs.fit(X, y, sample_weight, multi_output=True)
        kept = np.flatnonzero(weight)
        if similarity is not None:
            supervision = from_similarity(similarity, X.shape[0], self.n_bits, kept)
        elif y is None:
            supervision = Supervision(np.ones((len(kept), 1)), "nothing")
        else:
            supervision = from_targets(y if weight.all() else y[kept], self.target)
        rows = inputs.rows(X if weight.all() else X[kept], supervision.Y, weight[kept])
        units = self.units
        if units == "auto":
            units = "given" if inputs.columns is None and alike(inputs.names) else "spread"
        target = Codes(
            supervision,
            self.n_bits,
            self.codes == "learned",
            self.supervision,
            supervision.share(self.structure),
            units,
        )
        if self.codewords == "related":
            self._check_related(supervision.kind)
            target = replace(target, related=True)
        if self.structure == "open":
            self._check_open(supervision.kind)
        alone = supervision.kind == "nothing" and self.structure == "auto" and not self._limited()
        if alone or self.structure == "open":
            target = replace(target, opens=True)
        return self._keep(fit(inputs.shaped(self), rows, target, last=self._last), inputs)

    def _check_sources(self, y: Any, similarity: Any) -> None:
        """Raise where there is both a y and a similarity, or neither for what needs one."""
        name = type(self).__name__
        if y is not None and similarity is not None:
            raise ArgumentError(
                "similarity",
                f"{name} learns from y or from similarity, got both: y of {_num_samples(y)} rows and a similarity of "
                f"shape {getattr(similarity, 'shape', np.shape(similarity))}; leave out one",
            )
        if y is not None:
            check_no_sets(y, "y")
        elif self.codes == "classes":
            message = f'codes="classes" needs labels y, got none; use codes="learned" with {name}'
            raise ArgumentError("codes", message)
        elif similarity is None and self.structure not in ("auto", "open", 1):
            raise ArgumentError(
                "structure",
                f'structure must be "auto", "open" or 1 where there is no y, got {self.structure}; or pass y',
            )

    def _check_related(self, kind: str) -> None:
        """Raise where there are no classes that could be alike."""
        if kind != "classes":
            raise ArgumentError(
                "codewords",
                f'codewords="related" needs one class a row in y, got {kind}; use codewords="apart"',
            )

    def _check_open(self, kind: str) -> None:
        """Raise where directions of the inputs cannot be all that codes are made of."""
        if kind not in ("classes", "nothing"):
            raise ArgumentError(
                "structure",
                f'structure="open" needs one class a row in y, or no y, got {kind}; use structure="auto"',
            )
        if self._limited() or self.codes == "classes":
            raise ArgumentError(
                "structure",
                'structure="open" takes no constraint, no budget of weights and no codes="classes", since it keeps at '
                'most one layer of the network; leave them out or use structure="auto"',
            )

    def _limited(self) -> bool:
        """Whether few or certain weights are asked for, which are those of a network."""
        return self.constraint is not None or self._budget() is not None

    @property
    def report_(self) -> CodeReport:
        """Balance and correlation of the bits, and the number of distinct codes, of the training rows that differ."""
        report = self._codes().report
        assert report is not None
        return report

    @property
    def mixture_(self) -> Mixture:
        """How many of the bits know neighbours, and what every share of them was worth on the rows kept aside."""
        return self._codes().mixture

    def _codes(self) -> Codes:
        target = self._learned().target
        assert isinstance(target, Codes)
        return target

    def transform(self, X: Any) -> PackedCodes:
        """Packed codes.

        Parameters
        ----------
        X : array-like
            Samples x features.

        Returns
        -------
        array of uint8
            A row of ceil(n_bits / 8) bytes each (`np.packbits`); the bits after n_bits are zero.
        """
        return pack(self.decision_function(X))

    def decision_function(self, X: Any) -> Floats:
        """The network's outputs, whose signs are the bits.

        Parameters
        ----------
        X : array-like
            Samples x features.

        Returns
        -------
        array
            Samples x n_bits.
        """
        return self.model_.scores(self._check_inputs(X), self.device)

    @property
    def _n_features_out(self) -> int:
        return n_bytes(self.n_bits)

    def _check_savable(self) -> None:
        bits = self.model_.outputs
        if bits != self.n_bits:
            message = f"n_bits must be {bits}, as it was when this was fitted, got {self.n_bits}; fit again"
            raise ArgumentError("n_bits", message)

    def _target_to_file(self, target: Codes) -> dict[str, Any]:
        return {"report": self.report_.to_dict(), "mixture": target.mixture.to_dict()}

    def _target_from_file(self, kept: dict[str, Any], model: Model) -> Codes:
        if model.outputs != self.n_bits:
            raise ValueError(f"there are {model.outputs} outputs for {self.n_bits} bits")
        unknown = Supervision(np.empty((0, 0)), "similarity")
        mixture = Mixture.from_dict(kept["mixture"]) if "mixture" in kept else Mixture()  # version 0.1 had none
        return Codes(unknown, self.n_bits, report=CodeReport(**kept["report"]), mixture=mixture)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.transformer_tags.preserves_dtype = []
        return tags
