"""Freed memory that stays with the process while a network of images is trained.

A step makes and frees arrays of many megabytes, and torch's convolutions take no arrays to write to. glibc's `malloc`
gives such memory back to the system at once, so that each step waits for the same pages again: 0.2 to 0.4 of the time
of an epoch (docs/log/images.md). It is told to keep them, and after the last run to give back what is free. The
numbers that are computed do not change. Other C libraries are left alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Numbers of `mallopt` in glibc's malloc.h."""
KEPT = 2**30
"""Free bytes that stay, and the size from which on an array has pages of its own, during a run."""
USUAL_TRIM, USUAL_MMAP = 2**26, 2**25
"""Both after it: as far as glibc raises them by itself, once a program has freed an array of 32 MB."""

_lock, _runs = Lock(), [0]


@cache
def glibc() -> Any:
    """The C library of this process, if it is glibc; else None."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    return library if hasattr(library, "gnu_get_libc_version") else None


@contextmanager
def kept_memory(wanted: bool) -> Iterator[None]:
    """Within, freed memory stays with the process, if that is wanted; runs may overlap in threads."""
    library = glibc() if wanted else None
    if library is None:
        yield
        return
    with _lock:
        _runs[0] += 1
        library.mallopt(TRIM_THRESHOLD, KEPT)
        if not library.mallopt(MMAP_THRESHOLD, KEPT):  # glibc before 2.35 allows no more than it reaches by itself
            library.mallopt(MMAP_THRESHOLD, USUAL_MMAP)
    try:
        yield
    finally:
        with _lock:
            _runs[0] -= 1
            if not _runs[0]:
                library.mallopt(TRIM_THRESHOLD, USUAL_TRIM)
                library.mallopt(MMAP_THRESHOLD, USUAL_MMAP)
                library.malloc_trim(0)
