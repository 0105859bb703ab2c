"""One trial of the hashing experiment: codes are learned, the database is searched for the queries, and measured."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from tikhonet.hashing import HammingIndex, code_report, evaluate
from tikhonet.hashing.codes import Codes
from tikhonet.paper.experiments.coders import Rows, Way
from tikhonet.paper.experiments.databases import Database
from tikhonet.paper.experiments.records import HashingRecord, Pictures, finite, hardware, versions
from tikhonet.paper.experiments.runner import Identity
from tikhonet.paper.experiments.trials import Watch

NEIGHBOURS = 8
FIRST, HARDEST = 3, 3
"""Queries whose neighbours are kept as pictures: the first ones, and of the others those with most wrong ones."""


@dataclass(frozen=True)
class HashMethod:
    """One way of making codes, at one length."""

    way: str
    way_title: str
    family: str
    bits: int
    trainer: Way

    @property
    def name(self) -> str:
        return f"{self.way}-{self.bits}"

    @property
    def title(self) -> str:
        return f"{self.way_title}, {self.bits} bits"

    @property
    def steps(self) -> int:
        return self.trainer.steps

    def settings(self) -> dict[str, Any]:
        return self.trainer.settings()


def do_hash_trial(
    identity: Identity,
    method: HashMethod,
    data: Database,
    rows: tuple[Rows, Rows],
    description: dict[str, Any],
    trial: int,
    watch: Watch,
) -> tuple[HashingRecord, Pictures]:
    """`rows` are those of the database to learn from, with their labels."""
    clock, machine = time.perf_counter(), hardware()
    coder = method.trainer.train(*rows, method.bits, trial, watch)
    retrieval, quality, drawn = {}, {}, {}
    if coder.codes:
        base, queries = coder.codes(data.X), coder.codes(data.X_query)
        retrieval = evaluate(queries, data.y_query, base, data.y, n_bits=method.bits).to_dict()
        quality = code_report(base, method.bits).to_dict()
        drawn = neighbours(base, queries, method.bits, data)
    record = HashingRecord(
        experiment=identity[0],
        size=identity[1],
        method=method.name,
        title=method.way_title,
        family=method.family,
        way=method.way,
        bits=method.bits,
        trial=trial,
        seed=trial,
        data=description,
        settings=method.settings(),
        samples=len(rows[0]),
        passes=coder.passes,
        loss=[finite(value) for value in coder.loss],
        seconds=coder.seconds,
        wall=time.perf_counter() - clock,
        retrieval=retrieval,
        codes=quality,
        status=coder.status,
        message=coder.message,
        checks=list(coder.checks),
        versions=versions(),
        hardware=machine,
    )
    return record, drawn


def neighbours(base: Codes, queries: Codes, n_bits: int, data: Database) -> Pictures:
    """Some queries with the images nearest to them; ties go to those that come first in the database."""
    distances, ids = HammingIndex(n_bits).add(base).search(queries, min(NEIGHBOURS, len(base)))
    wrong = (data.y[ids] != data.y_query[:, None]).sum(1)
    hardest = FIRST + np.argsort(-wrong[FIRST:], kind="stable")[:HARDEST]
    shown = np.concatenate([np.arange(min(FIRST, len(queries))), hardest])
    return {
        "queries": data.query_images[shown],
        "query_labels": data.y_query[shown],
        "found": data.images[ids[shown]],
        "found_labels": data.y[ids[shown]],
        "found_distances": distances[shown],
    }
