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
from tikhonet.hashing.frontier import BASE, FEWEST, QUERIES, SHARES, Pair, Share, chosen, frontier
from tikhonet.hashing.structure import Structure
from tikhonet.trainer.batches import add_numbers

RETRAIN_BELOW = 5000
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
    structure: Structure | None = field(default=None, repr=False, compare=False)

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
    block: Callable[[slice, Tensor], CodeBlock]
    """The codes of some rows, with further targets beside them."""
    labels: Tensor
    """A column for each label."""
    n_bits: int
    rounds: int

    def train(self, share: float | None, last: Mixture | None = None) -> tuple[Trained, Mixture]:
        """The network, whose V gives the bits alone, and the mixture; a `share` of None is chosen on rows kept aside.

        After a warm start it is the `last` mixture, so that codes stay comparable with those that are stored.
        """
        course, rows = self.course, len(self.course.X)
        found: list[Share] = []
        count = round((max(SHARES) if share is None else share) * self.n_bits)
        if last and last.structure:
            structure, share = last.structure, last.bits / self.n_bits
        else:
            structure = Structure.fit(course.X, course.weight, count, course.seed, course.reduce)
        of_all_ranks = add_numbers(course.reduce, rows)[0]
        if share is None and of_all_ranks < FEWEST:
            share = FEW_ROWS
        aside = max(1, min(QUERIES, rows // 10)) if share is None else 0
        trained = self.run(slice(aside, None), structure)
        assert trained.outputs is not None
        P = trained.outputs
        if share is None:
            queries = course.problem.network.features(course.X[:aside], trained.W) @ trained.V.T
            found = self.frontier(queries, P[:BASE], structure)
            share, P = chosen(found).structure, torch.cat([queries, P])
            if of_all_ranks < RETRAIN_BELOW and trained.status not in (Status.INTERRUPTED, Status.NONFINITE):
                trained = self.run(slice(None), structure)
                assert trained.outputs is not None
                P = trained.outputs
        bits = round(share * self.n_bits)
        if structure.rotation is None:
            structure = self.rotated(structure, P, bits)
        trained = replace(trained, V=self.select(trained.V.T, structure).T.contiguous())
        return replace(trained, outputs=self.select(P, structure)), Mixture(bits, tuple(found), structure)

    def run(self, part: slice, structure: Structure) -> Trained:
        """Train on some rows."""
        X, targets, weight = self.course.X[part], self.course.targets[part], self.course.weight[part]
        block = self.block(part, structure.coordinates(X))
        return train_codes(replace(self.course, X=X, targets=targets, weight=weight), block, self.rounds)

    def rotated(self, structure: Structure, P: Tensor, bits: int) -> Structure:
        """With so many bits of the coordinates as the network gives them."""
        Z = P[:, self.course.targets.shape[1] :]
        return structure.rotated(Z, bits, self.course.seed, self.course.reduce)

    def select(self, P: Tensor, structure: Structure) -> Tensor:
        """The columns that give the bits, from those that give all targets, labels first."""
        labels = self.course.targets.shape[1]
        near = structure.bits(P[:, labels:])
        return torch.cat([P[:, : self.n_bits - near.shape[1]], near], dim=1)

    def frontier(self, queries: Tensor, base: Tensor, structure: Structure) -> list[Share]:
        """What every share is worth on the rows kept aside, the first ones, for these outputs of the network."""
        aside, end = len(queries), len(queries) + len(base)
        X, Y = self.course.X, self.labels

        def outputs(share: float) -> Pair:
            mixed = self.rotated(structure, base, round(share * self.n_bits))
            return self.select(queries, mixed), self.select(base, mixed)

        return frontier((X[:aside], X[aside:end]), (Y[:aside], Y[aside:end]), outputs, self.course.reduce)
