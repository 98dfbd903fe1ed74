"""The machine's floor under a commit, with bare sockets and fdatasync: three processes and this one.

floor = client round trip + member round trip + the slower of the leader's and a follower's sync. No system
that syncs before it counts can be faster here; `commit_ms` is the same path walked whole, by blocking calls.
"""

import os
import select
import selectors
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

MESSAGE_BYTES = 128
_RESERVED_BYTES = 4 << 20
_SECONDS = struct.Struct(">d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Medians, in milliseconds."""

    client_round_trip_ms: float
    member_round_trip_ms: float
    sync_ms: float
    """Three nodes sync at once: the slower of the first's and the faster of the two others'."""
    sync_alone_ms: float
    sync_alone_p99_ms: float
    commit_ms: float
    """Client to leader; leader to both followers and its own sync; the first follower's sync; the answer."""

    @property
    def total_ms(self) -> float:
        return self.client_round_trip_ms + self.member_round_trip_ms + self.sync_ms


class _Node:
    """In a process of its own. Messages, by their first byte: echo, ping the first peer, sync, commit."""

    def __init__(self, file: str, peers: list[int]) -> None:
        self._peers = [_connect(port) for port in peers]
        self._synced = dict.fromkeys(self._peers, 0)
        self._commits = 0
        self._file = os.open(file, os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(self._file, 0, _RESERVED_BYTES)
        os.fsync(self._file)
        self._position = 0

    def answer(self, message: bytes) -> bytes:
        started = time.perf_counter()
        match message[:1]:
            case b"p":
                _ask(self._peers[0], b"e")
            case b"s":
                self._sync()
            case b"c":
                self._commit()
        return _message(_SECONDS.pack(time.perf_counter() - started))

    def _sync(self) -> None:
        os.pwrite(self._file, bytes(MESSAGE_BYTES), self._position)
        os.fdatasync(self._file)
        self._position = (self._position + MESSAGE_BYTES) % (_RESERVED_BYTES - MESSAGE_BYTES)

    def _commit(self) -> None:
        self._commits += 1
        for peer in self._peers:
            peer.sendall(_message(b"s"))
        self._sync()
        # A majority has it with the first follower that answers, for this commit or a later one.
        while True:
            for peer in select.select(self._peers, [], [])[0]:
                _receive(peer)
                self._synced[peer] += 1
            if max(self._synced.values()) >= self._commits:
                return


def measure(folder: Path, *, trials: int = 300) -> Floor:
    processes: list[subprocess.Popen[bytes]] = []
    try:
        ports: list[int] = []
        for number in (3, 2, 1):
            peers = [str(port) for port in ports] if number == 1 else []
            process = subprocess.Popen(
                [sys.executable, __file__, str(folder / f"floor-{number}"), *peers], stdout=subprocess.PIPE
            )
            processes.append(process)
            assert process.stdout is not None
            ports.append(int(process.stdout.readline()))
        follower, other, leader = (_connect(port) for port in ports)

        def timed(message: bytes) -> float:
            started = time.perf_counter()
            _ask(leader, message)
            return time.perf_counter() - started

        round_trips = [timed(b"e") for _ in range(trials)]
        member = [_SECONDS.unpack_from(_ask(leader, b"p"))[0] for _ in range(trials)]
        alone = [_SECONDS.unpack_from(_ask(leader, b"s"))[0] for _ in range(trials)]
        together = []
        for _ in range(trials):
            for each in (leader, follower, other):
                each.sendall(_message(b"s"))
            taken = [_SECONDS.unpack_from(_receive(each))[0] for each in (leader, follower, other)]
            together.append(max(taken[0], min(taken[1:])))
        commits = [timed(b"c") for _ in range(trials)]
        return Floor(
            client_round_trip_ms=median(round_trips) * 1000,
            member_round_trip_ms=median(member) * 1000,
            sync_ms=median(together) * 1000,
            sync_alone_ms=median(alone) * 1000,
            sync_alone_p99_ms=sorted(alone)[int(trials * 0.99)] * 1000,
            commit_ms=median(commits) * 1000,
        )
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _message(content: bytes) -> bytes:
    return content.ljust(MESSAGE_BYTES, b"\0")


def _receive(stream: socket.socket) -> bytes:
    return stream.recv(MESSAGE_BYTES, socket.MSG_WAITALL)


def _ask(stream: socket.socket, content: bytes) -> bytes:
    stream.sendall(_message(content))
    return _receive(stream)


def _connect(port: int) -> socket.socket:
    stream = socket.create_connection(("127.0.0.1", port))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def _serve(file: str, peers: list[int]) -> None:
    node = _Node(file, peers)
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        # Of two callers, a leader's and the harness's, each asks while the other is silent.
        selector = selectors.DefaultSelector()
        selector.register(server, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is server:
                    stream, _ = server.accept()
                    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    selector.register(stream, selectors.EVENT_READ)
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    stream = key.fileobj
                    message = _receive(stream)
                    if not message:
                        selector.unregister(stream)
                        continue
                    stream.sendall(node.answer(message))


if __name__ == "__main__":
    _serve(sys.argv[1], [int(port) for port in sys.argv[2:]])
