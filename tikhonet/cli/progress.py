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


@contextmanager
def stoppable() -> Iterator[Callable[[Any], bool]]:
    """A callback for the estimators that is true once Ctrl-C asked for the end; the second Ctrl-C does not wait."""
    asked = threading.Event()

    def hear(*_: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        os.write(2, NOTE)  # unlike print, this may come in the middle of another print

    former = signal.signal(signal.SIGINT, hear)
    try:
        yield lambda record: asked.is_set()
    finally:
        signal.signal(signal.SIGINT, former)
