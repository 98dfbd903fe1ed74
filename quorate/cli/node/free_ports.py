"""Ports for clusters on this machine."""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import Final

from quorate.cli.console.cli_errors import CommandError

_LOWEST: Final = 20_000


def free_ports(count: int) -> list[int]:
    """Return free ports. Raises `CommandError` if there are not as many.

    The kernel takes the ports of connections, and of listeners that ask for port 0, from a range of its own.
    These are below it. And each call, of whatever process, continues behind the ports of the last one. So
    they stay free until a node listens on them, and while it restarts. Each temporary folder has calls of its
    own, of which the first draws its place.
    """
    size = max(_first_of_the_kernels() - _LOWEST, 1000)
    ports: list[int] = []
    tried = 0
    path = Path(tempfile.gettempdir()) / f"quorate-ports-{os.getuid()}"
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+") as given:
        fcntl.flock(given, fcntl.LOCK_EX)
        text = given.read()
        place = int(text) if text.isdecimal() else random.randrange(size)
        while len(ports) < count:
            if tried == size:
                raise CommandError(
                    f"{count} free ports are needed, and of {_LOWEST} to {_LOWEST + size - 1} only "
                    f"{len(ports)} are free; stop programs that listen there"
                )
            tried += 1
            place = (place + 1) % size
            if _is_free(_LOWEST + place):
                ports.append(_LOWEST + place)
        given.seek(0)
        given.truncate()
        given.write(str(place))
    return ports


def _first_of_the_kernels() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 32768


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
