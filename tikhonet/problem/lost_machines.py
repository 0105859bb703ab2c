"""Connections between ranks that notice when the other machine is gone.

A process that dies closes its connections, and the others know at once. A machine that loses its power or its network
closes nothing: whoever waits for it would wait until the process group's timeout. So the system asks the other machine
every few seconds whether it is there. A machine answers while its processes compute: a slow rank is not a lost one.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NOTICED = 9
"""Seconds after which a silent machine is given up."""
OPTIONS = {"TCP_KEEPIDLE": 3, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 1000 * NOTICED}
"""Ask after 3 seconds of silence, then every 2, three times; what was sent must be received in as long."""


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
