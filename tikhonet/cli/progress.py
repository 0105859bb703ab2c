"""Work that takes its time: rows by chunks with a bar, and Ctrl-C during training."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.data.bar import Bar

CHUNK = 4096
NOTE = b"\ntikhonet: stopping after this epoch, the model will be saved; Ctrl-C again to drop the epoch\n"


def by_chunks(function: Callable[[NDArray[Any]], NDArray[Any]], X: NDArray[Any], text: str) -> NDArray[Any]:
    """The function of all rows, some thousands at a time."""
    parts = []
    with Bar(text, len(X)) as shown:
        for start in range(0, len(X), CHUNK):
            parts.append(function(X[start : start + CHUNK]))
            shown.update(CHUNK)
    return np.concatenate(parts)


class Stop:
    """A callback of the estimators: true once Ctrl-C asked for the end. The second Ctrl-C does not wait."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, record: Any = None) -> bool:
        return self.asked

    def hear(self, *_: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        os.write(2, NOTE)  # unlike print, this may come in the middle of another print


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Within it the first Ctrl-C lets the epoch that is running end."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    former = signal.signal(signal.SIGINT, stop.hear)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, former)
