"""Ports for clusters on this machine."""

import itertools
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_LOWEST: Final = 20_000
_APART: Final = 64
"""Between the places where two processes begin to look."""


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on.

    The kernel takes the ports of connections, and of listeners that ask for port 0, from a range of its own.
    These are below it. So they stay free until a node listens on them, and while it restarts.
    """
    return list(itertools.islice((port for port in _candidates if _is_free(port)), count))


def _below_the_kernels() -> Iterator[int]:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        first = 32768
    size = max(first - _LOWEST, 1000)
    return (_LOWEST + place % size for place in itertools.count(os.getpid() * _APART))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


_candidates: Final = _below_the_kernels()
