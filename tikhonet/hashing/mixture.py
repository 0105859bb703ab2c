"""Codes of both kinds of bits: one training for every share of them, of which rows kept aside choose one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from tikhonet.descent.result import Status
from tikhonet.estimators.solvers import Course, Trained
from tikhonet.hashing.code_training import CodeBlock, train_codes
from tikhonet.hashing.experts import MOST_CLASSES, Experts
from tikhonet.hashing.frontier import BASE, FEWEST, QUERIES, SHARES, Pair, Share, chosen, frontier
from tikhonet.hashing.opened import Opened
from tikhonet.hashing.structure import Structure
from tikhonet.trainer.batches import add_numbers

RETRAIN_BELOW = 20_000
"""With fewer rows, those kept aside are missed: the network is trained again on all."""
TINY = 1e-300
FEW_ROWS = 1 / 3
"""The share where there are too few rows to choose it by."""


@dataclass(frozen=True)
class Mixture:
    """The kinds of bits of a code: the last ones know neighbours, those before labels.

    Parameters
    ----------
    bits : int, default=0
        Those that know neighbours.
    frontier : tuple of Share, default=()
        What each share of them was worth on the rows kept aside; empty where none were.
    lean : float, default=0.0
        How much those bits lean towards labels.
    wanted : float, default=0.0
        The neighbours that codes without labels, of the same length, found on these rows.
    units : {"spread", "given"}, default="spread"
        Those in which rows are neighbours: of each column's own spread, or as given.
    structure : Structure, optional
        How they are made; a model file does not keep it, since V has it.

    Examples
    --------
    >>> from tikhonet.hashing import Mixture
    >>> Mixture(bits=16)
    Mixture(bits=16, frontier=(), lean=0.0, wanted=0.0, units='spread')
    """

    bits: int = 0
    frontier: tuple[Share, ...] = ()
    lean: float = 0.0
    wanted: float = 0.0
    units: str = "spread"
    structure: Structure | Experts | Opened | None = field(default=None, repr=False, compare=False)

    def taken(self, n_bits: int) -> Share | None:
        """What the share that was chosen was worth.

        Parameters
        ----------
        n_bits : int
            The length of the codes.

        Returns
        -------
        Share or None
            None where none was chosen.
        """
        taken = (self.bits, self.lean)
        return next((share for share in self.frontier if (round(share.structure * n_bits), share.lean) == taken), None)

    def to_dict(self) -> dict[str, Any]:
        """The mixture as plain numbers.

        Returns
        -------
        dict
            With the keys bits, frontier, lean, wanted and units.
        """
        shares = [share.to_dict() for share in self.frontier]
        numbers = {"bits": self.bits, "frontier": shares, "lean": self.lean, "wanted": self.wanted}
        return numbers | {"units": self.units}

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> Mixture:
        """The mixture that `to_dict` described.

        Parameters
        ----------
        kept : dict
            Its bits and its frontier.

        Returns
        -------
        Mixture
            An equal one.
        """
        shares = tuple(Share(**share) for share in kept["frontier"])
        # Version 0.1 had neither lean nor wanted, and its units were those of the spread, as they were for some time.
        lean, wanted = float(kept.get("lean", 0.0)), float(kept.get("wanted", 0.0))
        return cls(int(kept["bits"]), shares, lean, wanted, str(kept.get("units", "spread")))


@dataclass(frozen=True, eq=False)
class MixedCodes:
    """A training of codes of n_bits bits, towards labels and, beside them, the coordinates of a `Structure`."""

    course: Course
    block: Callable[[slice, Tensor | None], CodeBlock]
    """The codes of some rows, with further targets beside them."""
    labels: Tensor
    """A column for each label."""
    n_bits: int
    rounds: int
    by_class: bool = False
    """Whether each class has coordinates of its own."""
    units: str = "spread"
    """Those in which rows are neighbours."""

    def train(self, share: float | None, last: Mixture | None = None) -> tuple[Trained, Mixture]:
        """The network, whose V gives the bits alone, and the mixture; a `share` of None is chosen on rows kept aside.

        After a warm start it is the `last` mixture, so that codes stay comparable with those that are stored.
        """
        if last and last.structure and last.units != self.units:
            return replace(self, units=last.units).train(share, last)
        course, rows = self.course, len(self.course.X)
        found: list[Share] = []
        lean = wanted = 0.0
        near = last.structure if last else None
        if last and near and not isinstance(near, Opened):
            share, lean = last.bits / self.n_bits, last.lean
        else:
            near = self.axes(round((max(SHARES) if share is None else share) * self.n_bits))
        of_all_ranks = add_numbers(course.reduce, rows)[0]
        if share is None and of_all_ranks < FEWEST:
            share = FEW_ROWS
        aside = max(1, min(QUERIES, rows // 10)) if share is None else 0
        trained = self.run(slice(aside, None), near)
        assert trained.outputs is not None
        P = trained.outputs
        if trained.status is Status.NONFINITE:
            return replace(trained, V=trained.V[: self.n_bits], outputs=P[:, : self.n_bits]), Mixture()
        if share is None:
            queries = course.problem.network.features(course.X[:aside], trained.W) @ trained.V.T
            *found, alone = self.frontier(queries, P[:BASE], near)
            wanted, taken = alone.recall, chosen(found, alone.recall)
            share, lean, P = taken.structure, taken.lean, torch.cat([queries, P])
            if of_all_ranks < RETRAIN_BELOW and trained.status not in (Status.INTERRUPTED, Status.NONFINITE):
                trained = self.run(slice(None), near)
                assert trained.outputs is not None
                P = trained.outputs
        bits = round(share * self.n_bits)
        near = replace(self.turned(near, P, slice(None), bits, last=True), lean=lean)
        trained = near.attached(trained, course.problem.network, self.n_bits - bits, self.unit)
        mixture = Mixture(bits, tuple(found), lean, wanted, self.units, near)
        return replace(trained, outputs=self.columns(near, P, self.X)), mixture

    @cached_property
    def unit(self) -> Tensor:
        """What a feature is multiplied by, so that distances are those between neighbours."""
        if self.units == "spread":
            return torch.ones_like(self.course.X[0])
        return (self.course.units / self.course.units.max().clamp_min(TINY)).to(self.course.X)

    @cached_property
    def X(self) -> Tensor:
        """The rows as neighbours see them."""
        return self.course.X if self.units == "spread" else self.course.X * self.unit

    def axes(self, count: int) -> Structure | Experts:
        """What tells rows apart: coordinates of each class, or of all rows."""
        course = self.course
        if self.by_class:
            return Experts.fit(self.X, self.labels, course.weight, count, course.seed, course.reduce)
        before = course.targets.shape[1]
        return Structure.fit(self.X, course.weight, count, course.seed, course.reduce, before=before)

    def run(self, part: slice, near: Structure | Experts) -> Trained:
        """Train on some rows."""
        X, targets, weight = self.course.X[part], self.course.targets[part], self.course.weight[part]
        block = self.block(part, near.beside(self.X[part]))
        return train_codes(replace(self.course, X=X, targets=targets, weight=weight), block, self.rounds)

    def turned(
        self, near: Structure | Experts, P: Tensor, part: slice, bits: int, *, last: bool = False
    ) -> Structure | Experts:
        """With directions for so many bits, by these outputs of the network for these rows."""
        X, Y, weight = self.X[part], self.labels[part], self.course.weight[part]
        return near.turned(P, X, Y, weight, bits, seed=self.course.seed, reduce=self.course.reduce, last=last)

    def columns(self, near: Structure | Experts, P: Tensor, X: Tensor) -> Tensor:
        """The columns that give the bits, labels first."""
        bits = near.bits(P, X)
        return torch.cat([P[:, : self.n_bits - bits.shape[1]], bits], dim=1)

    def frontier(self, queries: Tensor, base: Tensor, near: Structure | Experts) -> list[Share]:
        """What every share is worth on the rows kept aside, the first ones, for these outputs of the network.

        The last one is that of codes of neighbours alone, which need no network.
        """
        aside, end = len(queries), len(queries) + len(base)
        X, Y, part = self.X, self.labels, slice(aside, end)

        def outputs() -> Iterator[tuple[float, float, Pair]]:
            for share in SHARES:
                mixed = self.turned(near, base, part, round(share * self.n_bits))
                asked, sought = self.columns(mixed, queries, X[:aside]), self.columns(mixed, base, X[part])
                labels = self.n_bits - round(share * self.n_bits)
                for lean in near.leans if share else (0.0,):
                    # Made once, since that takes longest: a lean adds to the columns of neighbours only.
                    leant = asked.clone(), sought.clone()
                    for columns, P in zip(leant, (queries, base), strict=True):
                        columns[:, labels:] += lean * P[:, labels : self.n_bits]
                    yield share, lean, leant
            course = self.course
            plain = Structure.fit(X[part], course.weight[part], self.n_bits, course.seed, course.reduce)
            asked, sought = plain.beside(X[:aside]), plain.beside(X[part])
            alone = self.turned(plain, sought, part, self.n_bits)
            yield 1.0, 0.0, (alone.bits(asked, X[:aside]), alone.bits(sought, X[part]))

        return frontier((X[:aside], X[part]), (Y[:aside], Y[part]), outputs(), self.course.reduce)


def takes_experts(course: Course, classes: int) -> bool:
    """Whether a layer of class coordinates can go on the network: by ReLU, and where no set or budget binds weights."""
    problem = course.problem
    free = all(problem.edge_set(pair).everything for pair in problem.network.penalised)
    relu = problem.network.activation.name == "relu"
    return free and relu and classes <= MOST_CLASSES and not getattr(course.solver, "budget", None)
