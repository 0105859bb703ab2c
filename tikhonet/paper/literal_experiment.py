"""Alg. 1 as printed at the paper's size, and every charitable reading of it: which converge, which learn.

Alg. 1 (theta_t = 1/t^2, gamma = 0.1, the Tikhonov lift, random U) sees all images for the paper's 100 iterations, dense
and with the rows of W in the l1 ball (BCD-S). Beside it stand other readings of what the paper leaves open, each on the
same first images: other powers of t, constant steps, restarts, the proximal weight 1 - theta that makes Lemma 2 true,
other gammas, U from the forward pass, sub-problems solved more or less exactly, 48 layers of 256. gamma = 0 needs no
run: nothing then ties W to U, so that the W-step leaves W as it was drawn, and that is the untrained network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from tikhonet import __version__
from tikhonet.descent.full import BlockDescent
from tikhonet.descent.result import History, Result, Status
from tikhonet.descent.schedules import After, Constant, LinearWeight, Power, Proximal, Restarted, Schedule
from tikhonet.estimators.checkpoints import Checkpoint, locked
from tikhonet.estimators.sessions import NO_SESSION, FolderSession, Session
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Network
from tikhonet.paper.comparison import ORDER, Claim
from tikhonet.paper.experiment import Column, Size, Watch
from tikhonet.paper.labelled_images import Images
from tikhonet.paper.literal_findings import DEEP, LiteralRecord, LiteralRow, Readings, literal_claims, literal_figures
from tikhonet.paper.network_results import NetworkExperiment
from tikhonet.paper.network_trials import FullBatch, MiniBatch, NetworkMethod, Outcome, Pixels, Untrained, refit
from tikhonet.paper.sheets import Figure
from tikhonet.problem.lifts import Fenchel
from tikhonet.problem.objective import Problem
from tikhonet.problem.sets import RowL1Ball
from tikhonet.trainer.run import Stochastic


@dataclass(frozen=True, kw_only=True)
class LiteralSize(Size):
    """How much is done.

    `dense` and `sparse` are the iterations of Alg. 1 and of BCD-S on all images. The readings get `readings` of them on
    the first `rows` images, and the network of `layers` x `width` gets `deep` of them.
    """

    dense: int = 100
    sparse: int = 100
    rows: int
    readings: int
    layers: int
    width: int
    deep: int
    trainer: dict[str, Any]


QUICK = LiteralSize(
    "quick",
    rows=1000,
    readings=30,
    layers=16,
    width=64,
    deep=5,
    trainer={"epochs": 30, "batch_size": 100},
    threads=1,
)
FULL = LiteralSize(
    "full",
    rows=2000,
    readings=30,
    layers=48,
    width=256,
    deep=3,
    trainer={"epochs": 30},
    threads=1,
)
"""On all 60,000 images one core takes nine minutes for the first ten iterations, most of it for the first one, and 23 s
for each later one."""

LONG = (1, 10)
"""The iterations after which a trial on all images is measured on its way; after ten there is little left of 1/t^2."""
KEPT_EVERY = 300.0
"""Seconds between two states of a run; one of all images has a gigabyte."""


@dataclass(frozen=True)
class Followed(FullBatch):
    """A full-batch run that is measured after some iterations, `marks`, and at its end.

    It is done in legs, each from the blocks where the one before ended. One that was stopped goes on from the last
    state in `place`.
    """

    marks: tuple[int, ...] = field(default=(1,), kw_only=True)
    place: Path | None = field(default=None, kw_only=True)

    def kept_in(self, place: Path) -> Self:
        return replace(self, place=place)

    def train(self, X: Tensor, targets: Tensor, seed: int, watch: Watch) -> Outcome:
        met, rows = [], (X[: self.rows], targets[: self.rows])
        with self.session(*rows, seed) as session:
            for result in self.legs(*rows, seed, watch, session):
                met.append((result.history, result.blocks.W))
        found = self.outcome(result)
        return replace(found, fields=found.fields | {"met": met})

    @contextmanager
    def session(self, X: Tensor, targets: Tensor, seed: int) -> Iterator[Session]:
        """Where the states of the legs are kept; of two processes at the same trial the first one keeps them."""
        if self.place is None:
            yield NO_SESSION
            return
        digests = [hashlib.sha256(part.contiguous().numpy().data).hexdigest() for part in (X, targets)]
        identity = {"tikhonet": __version__, "method": self.name, "seed": seed, **self.settings(), "rows": digests}
        with ExitStack() as held:
            try:
                held.enter_context(locked(self.place))
            except ArgumentError:
                yield NO_SESSION
                return
            kept = FolderSession(Checkpoint(self.place, every_seconds=KEPT_EVERY, keep=1), self.place, identity)
            kept.open()
            yield kept

    def legs(
        self, X: Tensor, targets: Tensor, seed: int, watch: Watch, session: Session = NO_SESSION
    ) -> Iterator[Result]:
        """The run as far as each mark."""
        start, past = None, None
        for mark in [*(mark for mark in self.marks if mark < self.steps), self.steps]:
            done = past.iterations if past else 0

            def heard(history: History, done: int = done) -> None:
                watch(done + history.iterations)

            leg = replace(self.solver, schedule=After(self.solver.schedule, done), max_iter=mark - done)
            result = leg.run(self.problem, X, targets, seed=seed, start=start, watch=heard, slot=session.slot())
            past, start = past.followed_by(result.history) if past else result.history, result.blocks
            yield replace(result, history=past, schedule=self.solver.schedule)
            if result.status is not Status.MAX_ITER:
                return


class Literal(NetworkExperiment):
    """Alg. 1 as printed, and the charitable readings of it."""

    name = "literal"
    title = "Alg. 1 to the letter"
    lead = (
        "The paper's recipe as printed, on all images for its 100 iterations; and beside it what a charitable reader "
        "could take it to mean. A run converges where exact block steps have nothing left to take off f, and learns "
        "where a linear SVM does better on its features than on the pixels."
    )
    sizes = (QUICK, FULL)
    record: ClassVar[Any] = LiteralRecord

    def methods(self, size: LiteralSize, data: Images, epochs: int | None = None) -> list[NetworkMethod]:
        """Alg. 1 and BCD-S on all images, then the readings; `epochs` sets the iterations of every one of them."""
        eq4 = Problem(Network.paper(data.X_train.shape[1]), gamma=0.1)
        ball, tight = replace(eq4, W_set=RowL1Ball(1.0)), replace(eq4, lift=Fenchel())
        dense, sparse = printed(epochs or size.dense), printed(epochs or size.sparse)
        found: list[NetworkMethod] = [
            Followed("alg1", "Alg. 1 as printed", "printed", problem=eq4, solver=dense, marks=LONG),
            Followed(
                "alg1-s", "Alg. 1 as printed, l1 ball", "printed", problem=ball, solver=sparse, sparse=True, marks=LONG
            ),
            Untrained("untrained-all", "Untrained network", problem=tight),
            Pixels("pixels-all", "Raw pixels", problem=tight),
        ]
        rows, proximal = size.rows, printed(epochs or size.readings, Proximal(0.1))
        found += [
            Followed(name, title, "printed", problem=problem, solver=solver, rows=rows)
            for name, title, problem, solver in readings(eq4, size, epochs)
        ]
        trainer = Stochastic(**size.trainer | ({"epochs": epochs} if epochs else {}))
        return [
            *found,
            Followed("proximal", "theta = 1, weight 0.1", "proximal", problem=eq4, solver=proximal, rows=rows),
            MiniBatch("trainer", "Stochastic BCD", "stochastic", problem=tight, solver=trainer, rows=rows),
            Untrained("untrained", "Untrained network", problem=tight, rows=rows),
            Pixels("pixels", "Raw pixels", problem=tight, rows=rows),
        ]

    def trial(self, method: NetworkMethod, data: Images, seed: int, watch: Watch) -> dict[str, Any]:
        """The SVM sees the images that the method saw."""
        data = replace(data, X_train=data.X_train[: method.rows], y_train=data.y_train[: method.rows])
        measured = super().trial(method, data, seed, watch)
        X, y = torch.tensor(data.X_train, dtype=torch.float32), torch.tensor(data.y_train, dtype=torch.int64)
        course = []
        for history, W in measured.pop("met", []):
            if history.iterations not in history.stationarity:
                break  # a number was not finite there
            last, outcome = history.iterations == measured["passes"], Outcome(W, None, {"status": ""})
            error = measured if last else refit(method.problem.network, outcome, X, y, data, seed)[0]
            course.append(waypoint(history, len(X)) | {"error": error["error"]})
        return measured | {"course": course}

    def pictures(self, found: dict[str, Any]) -> dict[str, Any]:
        return {}

    def compare(self, records: Any) -> Any:
        return Readings.of(records, LiteralRow, self.order)

    def order(self, row: Any) -> Any:
        """Those on all images first, each group by family and then by error."""
        return -row.records[0].samples, ORDER.index(row.family), row.score

    def findings(self, results: Readings) -> list[Claim]:
        return literal_claims(results)

    def figures(self, results: Readings) -> list[Figure]:
        return [*literal_figures(results)]

    def columns(self, results: Any) -> list[Column]:
        after, error = "after t = 1", self.score.form
        return [
            Column("images", lambda row: row.records[0].samples, "{:,}".format),
            Column("error %", lambda row: row.at_first("error"), error, under=after),
            Column("f", lambda row: row.at_first("objective"), wide=True, under=after),
            *super().columns(results),
        ]


def printed(iterations: int, schedule: Schedule | None = None) -> BlockDescent:
    """Alg. 1 as printed, but for its schedule where one is given; stationarity is measured at the marks."""
    return BlockDescent(schedule or Power(2), iterations, check_every=iterations)


def readings(eq4: Problem, size: LiteralSize, epochs: int | None) -> list[tuple[str, str, Problem, BlockDescent]]:
    """What a charitable reader could take Alg. 1 to mean: name, title, problem and solver of each."""
    count = epochs or size.readings
    plain, inputs = printed(count), eq4.network.widths[0]
    deep = replace(eq4, network=Network.chain([inputs, *[size.width] * size.layers]))
    return [
        ("printed", "as printed", eq4, plain),
        *((f"p-{p:g}", f"theta = 1/t^{p:g}", eq4, printed(count, Power(p))) for p in (1.01, 1.1, 1.5)),
        *((f"theta-{c:g}", f"theta = {c:g}", eq4, printed(count, Constant(c))) for c in (0.1, 0.5, 0.9)),
        ("ball", "rows in the l1 ball", replace(eq4, W_set=RowL1Ball(1.0)), plain),
        ("restarts", "restarts every 10", eq4, printed(count, Restarted(Power(2), 10))),
        ("weight", "weight 1 - theta", eq4, printed(count, LinearWeight(2))),
        *((f"gamma-{g:g}", f"gamma = {g:g}", replace(eq4, gamma=g), plain) for g in (0.01, 1.0, 10.0)),
        ("forward", "U from the forward pass", eq4, replace(plain, initial_features="forward")),
        *((f"inner-{tol:g}", f"inner tolerance {tol:g}", eq4, replace(plain, inner_tol=tol)) for tol in (1e-2, 1e-4)),
        (DEEP, f"{size.layers} layers of {size.width}", deep, printed(epochs or size.deep)),
    ]


def waypoint(history: History, images: int) -> dict[str, Any]:
    """Where a run stands."""
    t, found = history.iterations, history.stationarity[history.iterations]
    return {"iteration": t, "objective": found.objective / images, "share": found.share, "gradient": found.total}
