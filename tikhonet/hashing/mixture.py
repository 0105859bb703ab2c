"""Codes of both kinds of bits: one training for every share of them, of which rows kept aside choose one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
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
    structure : Structure, optional
        How they are made; a model file does not keep it, since V has it.

    Examples
    --------
    >>> from tikhonet.hashing import Mixture
    >>> Mixture(bits=16)
    Mixture(bits=16, frontier=())
    """

    bits: int = 0
    frontier: tuple[Share, ...] = ()
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
        return next((share for share in self.frontier if round(share.structure * n_bits) == self.bits), None)

    def to_dict(self) -> dict[str, Any]:
        """The mixture as plain numbers.

        Returns
        -------
        dict
            With the keys bits and frontier.
        """
        return {"bits": self.bits, "frontier": [share.to_dict() for share in self.frontier]}

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
        return cls(int(kept["bits"]), tuple(Share(**share) for share in kept["frontier"]))


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

    def train(self, share: float | None, last: Mixture | None = None) -> tuple[Trained, Mixture]:
        """The network, whose V gives the bits alone, and the mixture; a `share` of None is chosen on rows kept aside.

        After a warm start it is the `last` mixture, so that codes stay comparable with those that are stored.
        """
        course, rows = self.course, len(self.course.X)
        found: list[Share] = []
        near = last.structure if last else None
        if last and near and not isinstance(near, Opened):
            share = last.bits / self.n_bits
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
            found = self.frontier(queries, P[:BASE], near)
            share, P = chosen(found).structure, torch.cat([queries, P])
            if of_all_ranks < RETRAIN_BELOW and trained.status not in (Status.INTERRUPTED, Status.NONFINITE):
                trained = self.run(slice(None), near)
                assert trained.outputs is not None
                P = trained.outputs
        bits = round(share * self.n_bits)
        near = self.turned(near, P, slice(None), bits, last=True)
        trained = near.attached(trained, course.problem.network, self.n_bits - bits)
        return replace(trained, outputs=self.columns(near, P, course.X)), Mixture(bits, tuple(found), near)

    def axes(self, count: int) -> Structure | Experts:
        """What tells rows apart: coordinates of each class, or of all rows."""
        course = self.course
        if self.by_class:
            return Experts.fit(course.X, self.labels, course.weight, count, course.seed, course.reduce)
        before = course.targets.shape[1]
        return Structure.fit(course.X, course.weight, count, course.seed, course.reduce, before=before)

    def run(self, part: slice, near: Structure | Experts) -> Trained:
        """Train on some rows."""
        X, targets, weight = self.course.X[part], self.course.targets[part], self.course.weight[part]
        block = self.block(part, near.beside(X))
        return train_codes(replace(self.course, X=X, targets=targets, weight=weight), block, self.rounds)

    def turned(
        self, near: Structure | Experts, P: Tensor, part: slice, bits: int, *, last: bool = False
    ) -> Structure | Experts:
        """With directions for so many bits, by these outputs of the network for these rows."""
        X, Y, weight = self.course.X[part], self.labels[part], self.course.weight[part]
        return near.turned(P, X, Y, weight, bits, seed=self.course.seed, reduce=self.course.reduce, last=last)

    def columns(self, near: Structure | Experts, P: Tensor, X: Tensor) -> Tensor:
        """The columns that give the bits, labels first."""
        bits = near.bits(P, X)
        return torch.cat([P[:, : self.n_bits - bits.shape[1]], bits], dim=1)

    def frontier(self, queries: Tensor, base: Tensor, near: Structure | Experts) -> list[Share]:
        """What every share is worth on the rows kept aside, the first ones, for these outputs of the network."""
        aside, end = len(queries), len(queries) + len(base)
        X, Y = self.course.X, self.labels

        def outputs(share: float) -> Pair:
            mixed = self.turned(near, base, slice(aside, end), round(share * self.n_bits))
            return self.columns(mixed, queries, X[:aside]), self.columns(mixed, base, X[aside:end])

        return frontier((X[:aside], X[aside:end]), (Y[:aside], Y[aside:end]), outputs, self.course.reduce)


def takes_experts(course: Course, classes: int) -> bool:
    """Whether a layer of class coordinates can go on the network: by ReLU, and where no set or budget binds weights."""
    problem = course.problem
    free = all(problem.edge_set(pair).everything for pair in problem.network.penalised)
    relu = problem.network.activation.name == "relu"
    return free and relu and classes <= MOST_CLASSES and not getattr(course.solver, "budget", None)
