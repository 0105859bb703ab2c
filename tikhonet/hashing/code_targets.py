"""Targets of a hasher: labels, sets of labels, numbers or a similarity, all as one matrix Y, and codes of these.

Two samples are alike as far as <y_i, y_j> says: 1 for the same class, the number of common labels for sets of them,
and for a similarity S the entry s_ij itself, by the leading eigenpairs of its positive part, S ~ Y Y'.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import eigsh
from sklearn.utils import check_array
from sklearn.utils.multiclass import type_of_target
from torch import Tensor

from tikhonet.estimators.all_ranks import all_labels, anywhere, check_alone
from tikhonet.estimators.callbacks import users_level
from tikhonet.estimators.rows import Floats, Rows
from tikhonet.estimators.solvers import Course, Trained
from tikhonet.estimators.targets import Target, takes_numbers
from tikhonet.hashing.code_training import ROUNDS, CodeBlock, train_codes
from tikhonet.hashing.codes import CodeReport, code_report, pack
from tikhonet.hashing.codewords import codewords, likeness
from tikhonet.hashing.directions import rotations
from tikhonet.hashing.mixture import MixedCodes, Mixture, takes_experts
from tikhonet.hashing.opened import Opened, train_open
from tikhonet.model.heads import HeadKind, TrainedHead
from tikhonet.model.model import Model
from tikhonet.model.scaling import Standard, spread
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Network, Weights
from tikhonet.problem.losses import Squared
from tikhonet.problem.samples import Reduce, keep

SMALL = 2000
"""Samples up to which all eigenpairs of a similarity are computed at once."""


@dataclass(frozen=True)
class Supervision:
    """The knowledge of every row, as one matrix."""

    Y: Floats
    kind: Literal["classes", "sets", "numbers", "similarity", "nothing"]
    """One label a row or several, as columns that are 1 where a row has the label; numbers; a similarity; nothing."""
    classes: NDArray[Any] | None = None
    """The labels that the columns stand for, where y named them."""

    def share(self, structure: float | Literal["auto", "open"]) -> float | None:
        """The share of bits that know neighbours; None where held-out rows choose it."""
        if structure == "open":
            return 1.0
        if structure != "auto":
            return float(structure)
        return None if self.kind in ("classes", "sets") else float(self.kind == "nothing")

    def start(
        self, weight: Floats, n_bits: int, seed: int, reduce: Reduce = keep, alike: Floats | None = None
    ) -> Start:
        """(C, t) of the first codes, sign(Y C - t).

        A class starts with its codeword, nearer to those of classes that are `alike`. Sets of labels and numbers are
        cut by hyperplanes. Through zero, two sets would differ in as many bits as the angle between them is wide, most
        where they have no label in common; through the mean, bits would be balanced. Sets are cut halfway, numbers not
        far from their mean.
        """
        rng = np.random.default_rng(seed)
        if not n_bits:
            return Start(self.kind, np.zeros((self.Y.shape[1], 0)), np.zeros(0), classes=self.classes)
        if self.kind == "classes":
            # Half a vote decides for equal rows of two classes.
            words = codewords(self.Y.shape[1], n_bits, seed, alike)
            return Start(self.kind, words, rng.choice([-0.5, 0.5], n_bits), classes=self.classes)
        standard = Standard.fit(self.Y, weight, reduce) if self.kind == "numbers" else None
        Y = standard(self.Y) if standard else self.Y
        directions = rotations(Y.shape[1], n_bits, rng)
        mean, deviation = spread(Y @ directions, weight, reduce)
        if self.kind == "sets":
            return Start(self.kind, directions, mean / 2)
        threshold = mean + deviation * rng.uniform(-1, 1, n_bits) / Y.shape[1]
        return Start(self.kind, directions, threshold, standard)


@dataclass(frozen=True)
class Start:
    """How the first codes come from Y, less the mean and in units of the deviation where these are numbers."""

    kind: str
    directions: Floats
    threshold: Floats
    standard: Standard | None = None
    classes: NDArray[Any] | None = None

    def targets(self, Y: Floats) -> Floats:
        return self.standard(Y) if self.standard else Y

    def codes(self, Y: Floats) -> Floats:
        return np.where(self.targets(Y) @ self.directions - self.threshold > 0, 1.0, -1.0)

    def for_more(self, supervision: Supervision, n_bits: int) -> Start | None:
        """This start, where codes of so many bits that are stored stay comparable with those of new rows.

        With other codewords they would be worth nothing. Columns of a similarity mean nothing of their own.
        """
        if self.kind != supervision.kind:
            return None
        known, classes = self.classes, supervision.classes
        if known is not None and (classes is None or not np.array_equal(known, classes)):
            raise ArgumentError(
                "warm_start",
                f"warm_start needs the classes of the last fit ({known}), got {classes}; use warm_start=False",
            )
        fits = self.directions.shape == (supervision.Y.shape[1], n_bits)
        return self if fits and self.kind != "similarity" else None


@dataclass(frozen=True, eq=False)
class Codes(Target):
    """Codes of so many bits, of which some know the labels and the others the order of neighbours.

    The former are targets of the loss, and unless they are fixed a block of the descent.
    """

    supervision: Supervision
    n_bits: int
    learned: bool = True
    hold: float = 3.0
    """How far on the other side an output must lie to turn a learned bit that fits the labels."""
    share: float | None = 0.0
    """Of bits that know neighbours; None is chosen on rows kept aside."""
    units: str = "spread"
    """In which rows are neighbours: "given", or "spread" for each column's own."""
    opens: bool = False
    """Whether all bits come from coordinates that serve classes never seen."""
    related: bool = False
    """Whether classes that are alike start with codewords that are."""
    start: Start | None = None
    mixture: Mixture = Mixture()
    report: CodeReport | None = None

    loss = Squared()
    holds_out = False

    @property
    def label_bits(self) -> int:
        """Bits that are learned from labels.

        Where the share is chosen the last of them are not used as bits; nor are they where rows have a class each, but
        classes are read from all of them.
        """
        near = 0 if self.share is None else round(self.share * self.n_bits)
        taught = self.supervision.kind == "classes" and (self.opens or near < self.n_bits)
        return self.n_bits if taught else self.n_bits - near

    def begins(self, model: Model, network: Network) -> Weights | None:
        """The weights below the layer that tells rows of a class apart."""
        kept, layers = model.W, len(network.shapes)
        if model.network.shapes[:layers] != network.shapes or not set(network.learned) <= set(kept):
            return None
        return {pair: kept[pair] for pair in network.learned}

    def started(self, rows: Rows, seed: int, last: Target | None, reduce: Reduce = keep) -> Self:
        supervision = replace(self.supervision, Y=rows.Y)
        begun = last.start if isinstance(last, Codes) else None
        begun = begun.for_more(supervision, self.label_bits) if begun else None
        mixture = last.mixture if isinstance(last, Codes) and begun else Mixture()
        if begun is None:
            alike = likeness(rows.X, rows.Y, rows.weight, reduce) if self.related else None
            begun = supervision.start(rows.weight, self.label_bits, seed, reduce, alike)
        return replace(self, supervision=supervision, start=begun, mixture=mixture)

    def encode(self, Y: Floats) -> Tensor:
        """The codes to start with."""
        assert self.start is not None
        return torch.from_numpy(self.start.codes(Y))

    def outputs(self, Y: Floats) -> int:
        return 2 * self.n_bits if self.share is None else self.n_bits

    def head(self, V: Floats) -> HeadKind:
        return TrainedHead(V)

    def train(self, course: Course) -> Trained:
        """Train in rounds, with steps of the codes between them."""
        assert self.start is not None
        if self.opens:
            last = self.mixture.structure
            labels = torch.from_numpy(self.supervision.Y).to(course.X.device)
            last = last if isinstance(last, Opened) else None
            trained, found = train_open(course, labels, self.n_bits, last, given=self.units == "given")
            return replace(trained, kept=Mixture(self.n_bits, units=self.units, structure=found))
        targets = self.start.targets(self.supervision.Y)
        squares = torch.tensor([np.square(targets).sum(1).sum(), len(targets)], dtype=torch.float64)
        total, rows = course.reduce(squares).tolist()
        Y = torch.from_numpy(targets / np.sqrt(total / rows)).to(course.X.device, torch.float64)
        rounds = ROUNDS if self.learned else 1

        def block(part: slice = slice(None), beside: Tensor | None = None) -> CodeBlock:
            return CodeBlock(course.targets[part], Y[part], course.weight[part], self.hold, course.reduce, beside)

        if self.share == 0:
            return train_codes(course, block(), rounds)
        by_class = self.supervision.kind == "classes" and self.label_bits > 0 and takes_experts(course, Y.shape[1])
        mixed = MixedCodes(course, block, Y, self.n_bits, rounds, by_class, self.units)
        trained, mixture = mixed.train(self.share, self.mixture)
        return replace(trained, kept=mixture)

    def finished(self, trained: Trained) -> Self:
        """Without the rows, and with a report on the codes that the network gives them."""
        assert trained.outputs is not None
        report = code_report(pack(trained.outputs.cpu().numpy()), self.n_bits)
        if report.distinct == 1:
            warnings.warn(
                "all codes are equal, so they cannot be searched: X must have features that differ where labels do, "
                "and a similarity must hold alike pairs of different rows",
                stacklevel=users_level(),
            )
        supervision = replace(self.supervision, Y=self.supervision.Y[:0])
        return replace(self, supervision=supervision, report=report, mixture=trained.kept or self.mixture)


def from_targets(y: Any, target: str = "auto") -> Supervision:
    """From classes (one column), an indicator matrix of labels, or real numbers."""
    y = y.toarray() if sparse.issparse(y) else np.asarray(y)
    if y.dtype == object and all(isinstance(label, Real) for label in y.flat):
        y = np.array(y.tolist())
    if y.dtype == object and (missing := [row for row, label in enumerate(y.flat) if label is None or label != label]):
        raise ArgumentError(
            "y", f"y must hold a label for every row, got {y.flat[missing[0]]} in row {missing[0]}; leave that row out"
        )
    if anywhere(takes_numbers(y, target)):
        return from_numbers(y)
    kind = type_of_target(y, input_name="y")
    if kind in ("binary", "multiclass"):
        classes = all_labels(np.unique(y))
        codes = np.searchsorted(classes, np.ravel(y))
        if len(classes) < 2:
            raise ArgumentError(
                "y",
                f"y must hold at least 2 classes, got 1 class: {classes[0].item()!r}; leave out y, so that all bits "
                "know neighbours",
            )
        return Supervision(np.eye(len(classes))[codes], "classes", classes)
    if kind == "multilabel-indicator":
        if not np.isin(y, (0, 1)).all():
            raise ArgumentError(
                "y", f"y must be 0 or 1 where labels have columns, got {y.min()} to {y.max()}; use y > 0"
            )
        if not (y != y[0]).any():
            raise ArgumentError(
                "y", "y must hold different sets of labels, got one class of rows only; codes would be equal"
            )
        return Supervision(np.asarray(y, np.float64), "sets" if anywhere((y.sum(1) != 1).any()) else "classes")
    raise ArgumentError(
        "y",
        f"Unknown label type: y must hold one class a row, an indicator matrix of labels (0 and 1), or real numbers, "
        f"got {kind}; use sklearn.preprocessing.MultiLabelBinarizer for sets of labels",
    )


def from_numbers(y: NDArray[Any]) -> Supervision:
    try:
        numbers = np.asarray(y, np.float64).reshape(len(y), -1)
    except ValueError:
        raise ArgumentError(
            "y", f'y must hold numbers where target="numbers", got {y.dtype}; use target="classes"'
        ) from None
    if not np.ptp(numbers, axis=0).any():
        raise ArgumentError("y", "y must hold different numbers, got one value only; codes would all be equal")
    return Supervision(numbers, "numbers")


def from_similarity(S: Any, rows: int, n_bits: int, kept: NDArray[np.intp]) -> Supervision:
    """S ~ Y Y' for the rows that are kept, from at most n_bits leading eigenpairs with positive eigenvalues."""
    check_alone("similarity")
    coarse = getattr(S, "dtype", None) in (np.float32, np.float16)
    S = check_array(S, accept_sparse="csr", dtype=np.float64, input_name="similarity")
    if S.shape[0] != S.shape[1]:
        raise ArgumentError("similarity", f"similarity must be a square matrix, rows x rows, got shape {S.shape}")
    if S.shape[0] != rows:
        raise ArgumentError(
            "similarity", f"similarity must have a row and a column for each row of X ({rows}), got shape {S.shape}"
        )
    if abs(S - S.T).max() > (1e-5 if coarse else 1e-8) * max(abs(S).max(), 1e-300):
        raise ArgumentError("similarity", "similarity must be symmetric, got one that is not; use (S + S.T) / 2")
    if len(kept) < rows:
        S, rows = S[kept][:, kept], len(kept)
    S = (S + S.T) / 2
    if rows <= max(SMALL, n_bits + 1):
        values, vectors = np.linalg.eigh(S.toarray() if sparse.issparse(S) else S)
    else:
        values, vectors = eigsh(S, k=n_bits, which="LA", v0=np.ones(rows))
    values, vectors = values[-n_bits:], vectors[:, -n_bits:]
    keep = values > 1e-9 * float(abs(S).sum(axis=1).max())  # a bound on every eigenvalue
    if not keep.any():
        raise ArgumentError(
            "similarity", "similarity must be positive for some pairs of rows, got none; similar pairs have values > 0"
        )
    Y: Floats = vectors[:, keep] * np.sqrt(values[keep])
    if np.abs(Y - Y[0]).max() <= 1e-9 * np.abs(Y).max():
        raise ArgumentError(
            "similarity", "similarity must tell rows apart, got one class of rows only; codes would all be equal"
        )
    return Supervision(Y, "similarity")
