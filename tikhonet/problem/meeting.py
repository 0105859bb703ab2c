"""How ranks meet: the process group of those that torchrun or another starter has started, and its connections.

torchrun that starts ranks again gives them the same store, which still has the addresses of those that died. So the
ranks agree on a new name first, under which they exchange theirs.

A process that dies closes its connections, and the others know at once. A machine that loses its power or its network
closes nothing: whoever waits for it would wait until the process group's timeout. So the system asks the other machine
every few seconds whether it is there. A machine answers while its processes compute: a slow rank is not a lost one.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

NOTICED = 9
"""Seconds after which a silent machine is given up."""
OPTIONS = {"TCP_KEEPIDLE": 3, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 1000 * NOTICED}
"""Ask after 3 seconds of silence, then every 2, three times; what was sent must be received in as long."""
PAUSE = 0.02
"""Seconds between two looks of the first rank for those that have not come yet."""


def meet(timeout: float) -> None:
    """Make the process group of all ranks; its sums wait so many seconds for each of them."""
    backend, limit = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timedelta(seconds=timeout)
    with watched_connections():
        store, rank, size = next(rendezvous("env://", timeout=limit))
        named = dist.PrefixStore(agreed_name(store, rank, size, timeout), store)  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=named, rank=rank, world_size=size, timeout=limit)


def agreed_name(store: Any, rank: int, size: int, timeout: float) -> str:
    """A new name that all of these ranks know, whatever others have left in the store.

    Each rank asks under a number of its own; the first answers every number that it finds, old or new, until all ranks
    have said that they know the answer.
    """
    mine, here = secrets.token_hex(8), "tikhonet"
    if rank:
        store.set(f"{here}/{rank} asks", mine)
        store.wait([f"{here}/{mine}"], timedelta(seconds=timeout))
        name = str(store.get(f"{here}/{mine}").decode())
        store.set(f"{here}/{name}/{rank}", "known")
        return name
    missing, end = list(range(1, size)), time.monotonic() + timeout
    while missing:
        for other in missing:
            if store.check([f"{here}/{other} asks"]):
                store.set(f"{here}/{store.get(f'{here}/{other} asks').decode()}", mine)
        missing = [other for other in missing if not store.check([f"{here}/{mine}/{other}"])]
        if missing and time.monotonic() > end:
            raise RuntimeError(f"rank {missing[0]} of {size} did not come within {timeout:g} seconds")
        time.sleep(PAUSE if missing else 0.0)
    return mine


@contextmanager
def watched_connections() -> Iterator[None]:
    """Connections that are made inside are watched, where the system is one that lists them (Linux)."""
    before = open_sockets()
    yield
    for number in open_sockets() - before:
        with suppress(OSError), socket.socket(fileno=os.dup(number)) as connection:
            if connection.type is socket.SOCK_STREAM and connection.family in (socket.AF_INET, socket.AF_INET6):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for name, value in OPTIONS.items():
                    connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def open_sockets() -> set[int]:
    """The numbers of this process's sockets; none where the system does not say."""
    found = set()
    with suppress(OSError):
        for path in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                if os.readlink(path).startswith("socket:"):
                    found.add(int(path.name))
    return found
