"""Work that takes its time: rows by chunks with a bar, and Ctrl-C or SIGTERM during training."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.data.bar import Bar

CHUNK = 4096
NOTE = b"\ntikhonet: stopping after this epoch, the model will be saved; Ctrl-C again to drop the epoch\n"
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
def stoppable(kept: bool = False) -> Iterator[Stop]:
    """Hear the first Ctrl-C or SIGTERM, and do not wait for the second; `kept` says that there are checkpoints."""
    stop, numbers = Stop(kept), (signal.SIGINT, signal.SIGTERM)
    former = [signal.signal(number, stop.hear) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, former, strict=True):
            signal.signal(number, handler)
