"""Faults inside a node: a network that is cut and a disk that is slow or full, without root.

A node's runtime is the real one with these in the place of its network and its disk. One of two nodes opens
each stream between them with its runtime, so a node that holds back its own streams cuts both directions.
Clients open theirs without it, and aren't affected.
"""

import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import trio

from quorate.runtime import (
    MEMBERS,
    Address,
    Buffer,
    DiskFullError,
    DiskSpace,
    Network,
    Runtime,
    TlsFiles,
    TlsTerms,
)
from quorate.runtime.real import (
    DiskThreads,
    RealDisk,
    RealFile,
    RealNetwork,
    SyncStrategy,
    TcpStream,
    real_runtime,
)
from quorate.testing.cut_ways import CuttableStream, Ways

MESSAGE_MAX_BYTES: Final = 64 * 1024
"""The size of a message to a node, or from one."""
READY: Final = b"ready"
"""The message of a node that serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFaults:
    """All faults of one node. A new value replaces the old one."""

    unreachable: frozenset[Address] = frozenset()
    """The listeners of nodes that this one is cut off from."""
    sync_ms: int = 0
    """The time that each sync of a file or a folder takes."""
    disk_is_full: bool = False

    def encode(self, number: int) -> bytes:
        """Return a message for a node. Its answer repeats `number`."""
        unreachable = sorted((each.host, each.port) for each in self.unreachable)
        return json.dumps([number, unreachable, self.sync_ms, self.disk_is_full]).encode()

    @classmethod
    def decode(cls, message: bytes) -> "tuple[int, NodeFaults]":
        number, unreachable, sync_ms, disk_is_full = json.loads(message)
        addresses = frozenset(Address(host, port) for host, port in unreachable)
        return number, cls(unreachable=addresses, sync_ms=sync_ms, disk_is_full=disk_is_full)


class CuttableNetwork(RealNetwork):
    """Connections to unreachable addresses wait, and those that are open stand still."""

    __slots__ = ("_ways",)

    def __init__(self) -> None:
        super().__init__()
        self._ways = Ways()

    def cut(self, addresses: frozenset[Address]) -> None:
        """Cut the ways to these addresses, and heal all others. It holds for networks with TLS made of this
        one too."""
        self._ways.cut(addresses)

    async def connect(self, address: Address) -> TcpStream:
        way = self._ways.to(address)
        await way.wait_whole()
        return CuttableStream(await super().connect(address), way)

    def secured(self, files: TlsFiles, terms: TlsTerms = MEMBERS) -> Network:
        # An open cluster needs no `ssl`.
        from quorate.runtime.real import ExpiryLog
        from quorate.testing.cut_tls import CuttableTlsNetwork

        self._expiry = self._expiry or ExpiryLog()
        return CuttableTlsNetwork(files, terms, self._expiry, self._ways)


@dataclass(slots=True)
class _DiskState:
    sync_ms: int = 0
    is_full: bool = False


class FaultyFile(RealFile):
    """A file on a `FaultyDisk`."""

    __slots__ = ("_state",)

    def __init__(self, path: str, fd: int, reads: DiskThreads, state: _DiskState) -> None:
        super().__init__(path, fd, None, reads)
        self._state = state

    def _check_room(self, end: int) -> None:
        if self._state.is_full and end > self.size:
            raise DiskFullError("no space left on the device", path=self.path)

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._check_room(self.size + sum(map(len, buffers)))
        return super().append(buffers)

    def write_at(self, position: int, data: Buffer) -> None:
        self._check_room(position + len(data))
        super().write_at(position, data)

    def reserve(self, size_bytes: int) -> None:
        if not self._state.is_full:
            super().reserve(size_bytes)

    async def sync(self) -> None:
        await trio.sleep(self._state.sync_ms / 1000)

    def sync_at_once(self) -> bool:
        return not self._state.sync_ms


class FaultyDisk(RealDisk):
    """The real disk for data that nobody needs after the test: no sync waits for the device.

    A killed process loses nothing by that; only a crash of the machine would. So a test does not wait for the
    machine's own disk.
    """

    def __init__(self) -> None:
        super().__init__(sync=SyncStrategy.THREAD)
        self.state: Final = _DiskState()

    def _opened(self, path: str, fd: int) -> RealFile:
        return FaultyFile(path, fd, self._reads, self.state)

    async def sync_folder(self, path: str) -> None:
        await trio.sleep(self.state.sync_ms / 1000)

    def space(self, path: str) -> DiskSpace:
        space = super().space(path)
        return replace(space, usable=0) if self.state.is_full else space


class FaultyRuntime:
    """The runtime of a node under the faults that its control asks for.

    The control brings `NodeFaults`, the first of them before the node opens. It takes the number of those
    that hold, and `READY` when the node serves.
    """

    def __init__(self, control: socket.socket) -> None:
        """Wait for the first faults."""
        self._control = control
        self._network = CuttableNetwork()
        self._disk = FaultyDisk()
        self.runtime: Final[Runtime] = replace(
            real_runtime(sync=SyncStrategy.THREAD), network=self._network, disk=self._disk
        )
        self._apply(control.recv(MESSAGE_MAX_BYTES))

    async def obey(self) -> None:
        """Have the faults that the control asks for, until the test run has ended. Then the host of this
        process kills it."""
        while True:
            await trio.lowlevel.wait_readable(self._control)
            message = self._control.recv(MESSAGE_MAX_BYTES)
            if not message:
                return
            self._apply(message)

    def report_ready(self) -> None:
        """Report that the node serves."""
        self._control.send(READY)

    def _apply(self, message: bytes) -> None:
        number, faults = NodeFaults.decode(message)
        self._network.cut(faults.unreachable)
        self._disk.state.sync_ms = faults.sync_ms
        self._disk.state.is_full = faults.disk_is_full
        self._control.send(b"%d" % number)
