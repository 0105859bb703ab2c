"""Ctrl-C during training: the first one lets the epoch end before the model is saved; the second does not."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NOTE = b"\ntikhonet: stopping after this epoch, the model will be saved; Ctrl-C again to drop the epoch\n"


class Stop:
    """A callback of the estimators: true once the end was asked for."""

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
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    former = signal.signal(signal.SIGINT, stop.hear)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, former)
