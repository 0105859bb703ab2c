"""Checkpoints: the states of a fit in a folder of sealed files, so that a fit that was killed goes on to the same bits.

    002-000000017.checkpoint    the 17th state that was kept, one of the second run of a solver
    finished.checkpoint         there once the fit has ended
    lock                        locked by the process that fits

Each file says which fit it belongs to: the estimator, its parameters, and a fingerprint of the rows. A fit that is
called again reads the rows anew, does again what takes no training, and each run of a solver goes on from its newest
state that is whole. Of several ranks the first one alone has the folder, and tells the others what it found there.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tikhonet.descent.full import DescentState
from tikhonet.descent.network_descent import NetworkState
from tikhonet.descent.result import BlockStep, History, Status
from tikhonet.descent.slots import Slot, State
from tikhonet.descent.stationarity import Stationarity
from tikhonet.estimators.callbacks import users_level
from tikhonet.estimators.checkpoints import Checkpoint, CheckpointWarning, Stopped, identify, locked
from tikhonet.estimators.rank_states import gathered, handed_out, rows_in, to_first
from tikhonet.estimators.rows import Mask, Rows
from tikhonet.model import storage
from tikhonet.model.model import Model
from tikhonet.model.reading import ModelFormatError, refusing
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.objective import Terms
from tikhonet.problem.ranks import Ranks, by_first
from tikhonet.problem.samples import Reduce, keep, rank_of
from tikhonet.trainer.batches import add_numbers
from tikhonet.trainer.saving import alike, from_parts, saved, to_parts

COST = 0.02
"""The share of the time that checkpoints may take."""
SHORTEST = 10.0
"""Seconds between two of them, at least, where nothing else is asked for."""
SPEED, LATENCY = 1e8, 0.05
"""Bytes a second that a disk is taken to write until that was measured, and seconds for the smallest file."""
HELD, NAMES = "held out", "rows"
"""The tensors beside those of a state: the names of rows that are held out, and of the rows of U."""

for cls in (DescentState, NetworkState, Terms, History, BlockStep, Stationarity):
    saved(cls)


class Session:
    """The runs of solvers of one fit, one after the other; this one keeps nothing of them."""

    def seed(self, draw: Callable[[], int]) -> int:
        """The seed of the runs that follow."""
        return draw()

    def hold_out(self, names: Callable[[], Tensor], draw: Callable[[], Mask]) -> Mask:
        """Which rows, of these names, are held out."""
        return draw()

    def slot(self, names: Callable[[], Tensor] | None = None) -> Slot:
        """The place of the next run, on rows of these names."""
        return Slot()


NO_SESSION = Session()


@contextmanager
def session_of(
    parameters: Any,
    rows: Rows,
    validation: Sequence[Rows] = (),
    last: Model | None = None,
    reduce: Reduce = keep,
    session: Session | None = None,
) -> Iterator[Session]:
    """The session that is given, or a new one in the folder that the parameters name."""
    if session or parameters.checkpoint is None:
        yield session or NO_SESSION
        return
    if rank_of(reduce)[1] > 1 and not isinstance(reduce, Ranks):
        raise ArgumentError("checkpoint", "checkpoint must be None with a reduce of your own; use `with Ranks()`")
    given = parameters.checkpoint
    checkpoint = given if isinstance(given, Checkpoint) else Checkpoint(given)
    identity = identify(parameters, [rows, *validation], last, reduce)
    with ExitStack() as held:
        place = Path(by_first(reduce, lambda: held.enter_context(locked(Path(checkpoint.path)))))
        kept = FolderSession(checkpoint, place, identity, reduce)
        by_first(reduce, kept.open)
        yield kept
        by_first(reduce, kept.finish)


class FolderSession(Session):
    """A session that keeps states in a folder."""

    def __init__(self, checkpoint: Checkpoint, place: Path, identity: Mapping[str, Any], reduce: Reduce = keep) -> None:
        self.checkpoint, self.place, self.identity, self.reduce = checkpoint, place, dict(identity), reduce
        self.begun = self.last = time.monotonic()
        self.spent, self.longest = 0.0, 0.0
        self.runs, self.ended, self.current_seed = 0, 0, 0
        self.ranks, self.held = rank_of(reduce)[1], torch.zeros(0, dtype=torch.int64)

    def open(self) -> None:
        """Raise where the states in the folder are those of another fit that has not ended; else that leaves."""
        for path in (self.mark, *self.files()):
            try:
                there = storage.load(path)[0]["fit"]
                differ = [name for name in {**self.identity, **there} if there.get(name) != self.identity.get(name)]
            except (OSError, ModelFormatError, KeyError, TypeError, AttributeError):
                continue
            if not differ:
                return
            if self.mark.exists():
                for old in (*self.files(), self.mark):
                    old.unlink()
                return
            self.refuse(differ[0], there)

    def refuse(self, name: str, there: Mapping[str, Any]) -> None:
        remedy = f"go on with those, or begin anew in another folder than {self.place}"
        if name == "rows":
            raise ArgumentError(
                "X",
                "X, y and sample_weight must be those that the checkpoint was made of, got others: their fingerprints "
                f"differ; {remedy}",
            )
        then, now = (str(found.get(name))[:80] for found in (there, self.identity))
        raise ArgumentError("checkpoint", f"checkpoint is that of a fit with {name}={then}, got {name}={now}; {remedy}")

    @property
    def mark(self) -> Path:
        return self.place / "finished.checkpoint"

    def files(self, run: int | None = None) -> list[Path]:
        """The files of a run, or of all, newest first."""
        pattern = f"{'*' if run is None else f'{run:03d}'}-*.checkpoint"
        return sorted(self.place.glob(pattern), key=lambda path: path.name, reverse=True)

    def newest(self) -> tuple[dict[str, Any], Mapping[str, Tensor]]:
        """Header and tensors of the newest whole file of the next run; empty where there is none."""
        for path in self.files(self.runs + 1):
            with suppress(ModelFormatError, OSError):
                return storage.load(path)
        return {}, {}

    def seed(self, draw: Callable[[], int]) -> int:
        found = None if rank_of(self.reduce)[0] else self.newest()[0].get("seed")
        self.current_seed = found if type(found) is int and 0 <= found < 2**31 else draw()
        return self.current_seed

    def hold_out(self, names: Callable[[], Tensor], draw: Callable[[], Mask]) -> Mask:
        """Those that were held out before, where the rows were spread over another number of ranks."""

        def before() -> Tensor | None:
            header, tensors = self.newest()
            return None if header.get("ranks", self.ranks) == self.ranks else tensors.get(HELD)

        held, found, mine = draw(), by_first(self.reduce, before), names()
        if found is not None:
            again = np.isin(mine.numpy(), found.numpy())
            lacking = bool(held.any() and (again.all() or not again.any()))  # on this rank, all or none of them
            held = held if add_numbers(self.reduce, lacking)[0] else again
        self.held = to_first(self.reduce, mine[torch.from_numpy(held)])
        return held

    def slot(self, names: Callable[[], Tensor] | None = None) -> Slot:
        self.runs += 1
        return FolderSlot(self, self.runs, names)

    def due(self, tensors: Mapping[str, Tensor]) -> bool:
        """Whether what states cost with one more is within bounds."""
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        expected = self.longest or LATENCY + size / SPEED
        return self.spent + expected <= COST * (time.monotonic() - self.begun)

    def write(self, run: int, text: Any, tensors: Mapping[str, Tensor], ended: list[str] | None) -> bool:
        """Keep a state; where that fails, say so and go on without. Whether it is kept."""
        files, clock = self.files(run), time.monotonic()
        number = int(files[0].stem.partition("-")[2]) + 1 if files else 1
        header = {"fit": self.identity, "seed": self.current_seed, "ended": ended, "state": text, "ranks": self.ranks}
        kept = self.save(self.place / f"{run:03d}-{number:09d}.checkpoint", header, {**tensors, HELD: self.held})
        for old in files[self.checkpoint.keep - 1 :] if kept else ():
            old.unlink(missing_ok=True)
        self.last = time.monotonic()
        self.spent, self.longest = self.spent + self.last - clock, max(self.longest, self.last - clock)
        return kept

    def finish(self) -> None:
        """Say in the folder that the fit has ended, where all of its runs have."""
        if self.ended == self.runs and self.files():
            self.save(self.mark, {"fit": self.identity}, {})

    def save(self, path: Path, header: dict[str, Any], tensors: Mapping[str, Tensor]) -> bool:
        """Write a file; where that fails, say so. Whether it is there."""
        try:
            storage.save(path, header, tensors)
        except (OSError, ModelFormatError) as error:
            cause = getattr(error, "strerror", None) or str(error)
            warnings.warn(
                CheckpointWarning(f"no checkpoint could be written to {self.place}: {cause}; training goes on without"),
                stacklevel=users_level(),
            )
            return False
        return True


class FolderSlot(Slot):
    """The states of one run, as files."""

    def __init__(self, session: FolderSession, run: int, names: Callable[[], Tensor] | None) -> None:
        self.session, self.run, self.names = session, run, names

    def resume(self, begin: State, check: Callable[[State], object]) -> State | None:
        session = self.session
        files = by_first(session.reduce, lambda: session.files(self.run))
        for path, before in zip(files, [*files[1:], None], strict=False):
            try:
                return self.read(path, begin, check)
            except (OSError, ModelFormatError) as error:
                other = "the one before it is used" if before else "the run begins anew"
                cause = str(error).partition(";")[0]
                if rank_of(session.reduce)[0] == 0:
                    warnings.warn(CheckpointWarning(f"{cause}; {other}"), stacklevel=users_level())
        return None

    def read(self, path: Path, begin: State, check: Callable[[State], object]) -> State:
        """The state in a file; an error on any rank is one on all."""
        reduce, ranks = self.session.reduce, self.session.ranks

        def load() -> tuple[State, Tensor | None, Any]:
            header, tensors = storage.load(path)
            with refusing(f"{path} holds no state of this run", "it is left aside"):
                if header["fit"] != self.session.identity:
                    raise ValueError("it is that of another fit")
                stored = tensors.get(NAMES) if header["ranks"] != ranks else None
                return from_parts(header["state"], tensors), stored, header["ended"]

        state, ended = handed_out(load, begin, self.names, reduce)
        mistake = None
        try:
            with refusing(f"{path} holds no state of this run", "it is left aside"):
                if not alike(state, begin):
                    raise ValueError("its matrices have other shapes")
                check(state)
                found = ended and (Status[ended[0]], str(ended[1]))
        except ModelFormatError as error:
            mistake = error
        if add_numbers(reduce, mistake is not None)[0]:
            raise mistake or ModelFormatError(f"{path} holds no state of the rows of another rank; it is left aside")
        self.ended = found
        return state

    def offer(self, state: Any, done: int | None = None) -> None:
        session, rule = self.session, self.session.checkpoint
        waited = time.monotonic() - session.last
        if rule.every_seconds is None and rule.every_epochs is None:
            due = waited >= SHORTEST and session.due(to_parts(state)[1])
        else:
            due = bool(rule.every_epochs and done and done % rule.every_epochs == 0)
            due |= rule.every_seconds is not None and waited >= rule.every_seconds
        asked = bool(rule.stop and rule.stop())
        # One rank that is asked to stop stops all of them; the clock is the first one's.
        stop, keep_it = add_numbers(session.reduce, asked, due and rank_of(session.reduce)[0] == 0)
        if stop:
            raise Stopped(session.place, self.keep(state))
        if keep_it:
            self.keep(state)

    def keep(self, state: Any, ended: list[str] | None = None) -> bool:
        """Write a state, on the first rank; all go on once that is done, and know whether it is kept."""
        session, clock = self.session, time.monotonic()
        whole, named = gathered(state, session.reduce), dict[str, Tensor]()
        if self.names and rows_in(state):
            named[NAMES] = to_first(session.reduce, self.names())
        session.spent += time.monotonic() - clock
        text, tensors = to_parts(whole)
        return by_first(session.reduce, lambda: session.write(self.run, text, tensors | named, ended))

    def end(self, state: Any, status: Status, detail: str = "") -> None:
        session, rule = self.session, self.session.checkpoint
        session.ended += 1
        if self.ended:  # it was there already
            return
        ended = None if status is Status.INTERRUPTED else [status.name, detail]
        due = rule.every_seconds is not None or rule.every_epochs is not None or session.due(to_parts(state)[1])
        if by_first(session.reduce, lambda: due):
            self.keep(state, ended)
