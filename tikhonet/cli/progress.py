"""Work that takes its time: rows by chunks and training with a bar, Ctrl-C or SIGTERM during training."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import typer
from numpy.typing import NDArray

from tikhonet.cli.mistakes import Failure
from tikhonet.data.bar import Bar
from tikhonet.descent.result import Status
from tikhonet.estimators.callbacks import describe
from tikhonet.estimators.checkpoints import Checkpoint, CheckpointWarning, Stopped
from tikhonet.estimators.fitting import most_iterations
from tikhonet.estimators.stopping import StoppedShort
from tikhonet.problem.ranks import Ranks

CHUNK = 4096
NOTE = b"\ntikhonet: stopping after this epoch, the model will be saved; Ctrl-C again to drop the epoch\n"
REMEDIES = {
    Status.SCHEDULE_EXHAUSTED: "use --solver proximal or stochastic",
    Status.MAX_ITER: "raise --max-iter",
    Status.NONFINITE: "use --dtype float64, or look for extreme values in the data",
    Status.INTERRUPTED: "run it again to train to the end",
}
KEPT_NOTE = b"\ntikhonet: stopping after this step, whose state is kept as a checkpoint\n"


def by_chunks(function: Callable[[NDArray[Any]], NDArray[Any]], X: Any, text: str) -> NDArray[Any]:
    """The function of all rows, some thousands at a time."""
    parts, pieces = [], X.pieces(CHUNK) if hasattr(X, "pieces") else (X[k : k + CHUNK] for k in range(0, len(X), CHUNK))
    with Bar(text, len(X)) as shown:
        for piece in pieces:
            parts.append(function(piece))
            shown.update(CHUNK)
    return np.concatenate(parts)


def memory_now() -> float:
    """Bytes of memory that this process has; its peak so far where the system does not say."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * float(os.sysconf("SC_PAGE_SIZE"))
    return memory_peak()


def memory_peak() -> float:
    """The most bytes of memory that this process ever had; 0 where the system does not say."""
    with suppress(OSError):  # Linux; what it says otherwise may be the peak of the process before
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        return 1024.0 * int(found[1]) if found else 0.0
    try:
        import resource
    except ImportError:
        return 0.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)


class Stop:
    """Whether Ctrl-C or SIGTERM asked for the end of training; as a callback of estimators it ends it."""

    def __init__(self, kept: bool) -> None:
        self.note, self.signal = KEPT_NOTE if kept else NOTE, 0

    def hear(self, number: int, *_: Any) -> None:
        if self.signal:
            raise KeyboardInterrupt
        self.signal = number
        if os.environ.get("RANK", "0") == "0":
            os.write(2, self.note)  # unlike print, this may come in the middle of another print

    def asked(self) -> bool:
        return bool(self.signal)

    def __call__(self, record: Any) -> bool:
        return self.asked()

    @property
    def exit_code(self) -> int:
        """What shells expect of a process that a signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + (self.signal or signal.SIGINT)


@contextmanager
def stoppable(kept: bool) -> Iterator[Stop]:
    """Hear the first Ctrl-C or SIGTERM, and do not wait for the second; `kept` says that there are checkpoints."""
    stop, numbers = Stop(kept), (signal.SIGINT, signal.SIGTERM)
    former = [signal.signal(number, stop.hear) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, former, strict=True):
            signal.signal(number, handler)


def train(estimator: Any, X: NDArray[Any], y: NDArray[Any] | None, ranks: Ranks) -> tuple[float, str, int]:
    """The seconds that it took, what to do where it stopped short, and the exit code.

    A run in which no epoch ended is an error, and one that was stopped and kept its state.
    """
    estimator._validate_params()
    network, place = estimator._network(X.shape[1]) if estimator.network else None, estimator.checkpoint
    clock, total = time.perf_counter(), most_iterations(estimator, len(X), network)
    with ranks, stoppable(bool(place)) as stop, warnings.catch_warnings(record=True) as caught, ExitStack() as shown:
        bar, mine = Bar("training", total), ranks.shard(len(X))
        if ranks.rank == 0:
            shown.enter_context(bar)

        def watch(record: Any) -> None:
            done, text = describe(record)
            if done < total:
                bar.move(done, text)
            else:
                bar.pulse(f"{text}  fitting the head")

        warnings.simplefilter("always", StoppedShort)
        warnings.simplefilter("always", CheckpointWarning)
        kept = Checkpoint(place, stop=stop.asked) if place else None
        ended = None
        try:
            estimator.set_params(checkpoint=kept, callbacks=[watch] if kept else [watch, stop])
            estimator.fit(X[mine], None if y is None else y[mine])
        except Stopped as stopped:
            ended = stopped
        stop.signal = round(max(ranks.each(stop.signal)))  # any rank may have heard it
    advice = told_again(caught)
    if ended:
        raise_stopped(place, ended.kept, stop.exit_code, ranks.rank)
    estimator.set_params(callbacks=None, checkpoint=None)
    status, advice = estimator.status_, REMEDIES.get(estimator.status_, advice)
    if status is Status.INTERRUPTED and estimator.n_iter_ == 0:
        raise Failure("interrupted before the first epoch was done; no output was written", exit_code=stop.exit_code)
    if status is Status.NONFINITE and estimator.n_iter_ <= 1:
        raise Failure(f"training gave numbers that are not finite; {advice}")
    code = stop.exit_code if status is Status.INTERRUPTED else int(status is Status.NONFINITE)
    return time.perf_counter() - clock, advice, code


def raise_stopped(place: Any, kept: bool, code: int, rank: int) -> NoReturn:
    """End a command whose fit was stopped; of several processes the first one says why."""
    if rank:
        raise typer.Exit(code)
    if kept:
        raise Failure(
            f"stopped; the state of the fit is kept in {place}, and the same command goes on from there", exit_code=code
        )
    raise Failure(f"stopped; the state of the fit could not be kept in {place}; make room there", exit_code=code)


def told_again(caught: list[warnings.WarningMessage]) -> str:
    """Show the warnings of a training, but for what the command itself says of a run that stopped short: the remedy."""
    advice = ""
    for warning in caught:
        if isinstance(warning.message, StoppedShort):
            advice = advice or warning.message.remedy.replace("max_iter", "--max-iter")
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return advice
