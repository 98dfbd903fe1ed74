"""The time of small requests of another client at a broker process, while a test does something to it:

    with Pings(port, pid) as pings:
        ...
    assert pings.longest_ms < 50

A process of its own asks for the API versions every 5 ms. A ping does not count if a thread of the broker, or
that process, was ready to run for more than 10 ms in all while other programs had the processors, or if the
host of a virtual machine had one for that long: requests pile up meanwhile, and a thread that is stopped with
the interpreter's lock holds up the event loop. So busy neighbours make no test fail, and on a quiet machine
every ping counts.
"""

import json
import os
import select
import socket
import subprocess
import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

_EVERY_S = 0.005
_STARVED_S = 0.01
_REQUEST = b"\x00\x00\x00\x0b\x00\x12\x00\x00\x00\x00\x00\x01\x00\x01p"
"""ApiVersions, version 0, of the client `p`."""


class Pings:
    def __init__(self, port: int, pid: int) -> None:
        """Ping the broker that listens at `port`, in the process `pid`."""
        self._arguments = [sys.executable, "-S", __file__, str(port), str(pid)]
        self.count = 0
        self.longest_ms = 0.0

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        said, _ = self._process.communicate(timeout=60)
        if kind is None:
            self.count, self.longest_ms = json.loads(said)


def _waited_s(*pids: str) -> float:
    """The time for which threads of these processes waited for a processor, where the kernel counts it."""
    waited = 0
    for pid in pids:
        for thread in os.listdir(f"/proc/{pid}/task"):
            # A thread may have ended, and a kernel may count nothing.
            with (
                suppress(FileNotFoundError),
                open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as stat,
            ):
                waited += int(stat.read().split()[1])
    return waited / 1e9 + _stolen_s()


def _stolen_s() -> float:
    """The time for which the host let this machine's processors wait."""
    with open("/proc/stat", encoding="ascii") as stat:
        return int(stat.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def _receive(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = client.recv(size - len(data))
        if not part:
            raise EOFError("the broker closed the connection of the pings")
        data += part
    return data


def _ping(port: str, pid: str) -> None:
    own = str(os.getpid())
    client = socket.create_connection(("127.0.0.1", int(port)), timeout=30)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ended = select.poll()
    ended.register(sys.stdin, select.POLLHUP | select.POLLIN)
    count, longest = 0, 0.0
    print("began", flush=True)
    while not ended.poll(_EVERY_S * 1000):
        waited, began = _waited_s(pid, own), time.perf_counter()
        client.sendall(_REQUEST)
        _receive(client, int.from_bytes(_receive(client, 4), "big"))
        taken = time.perf_counter() - began
        if _waited_s(pid, own) - waited < _STARVED_S:
            longest = max(longest, taken)
        count += 1
    print(json.dumps([count, longest * 1000]))


if __name__ == "__main__":
    _ping(*sys.argv[1:])
