"""The ways from one node to others, each of which may be cut, and the streams that stand still meanwhile."""

import os
import socket
from collections.abc import Sequence

import trio

from quorate.runtime import Address, Buffer
from quorate.runtime.real import TcpStream


class Way:
    """The way to one address."""

    __slots__ = ("_changed", "_kept", "is_cut")

    def __init__(self) -> None:
        self.is_cut = False
        self._changed = trio.Event()
        self._kept: list[int] = []
        """Descriptors of closed streams. The other side must not learn of their end before the way is
        healed."""

    def set_cut(self, is_cut: bool) -> None:
        self.is_cut = is_cut
        if not is_cut:
            for each in self._kept:
                os.close(each)
            self._kept.clear()
        self.wake()

    def wake(self) -> None:
        """Let all that wait for a change look again."""
        self._changed.set()
        self._changed = trio.Event()

    async def wait_change(self) -> None:
        await self._changed.wait()

    async def wait_whole(self) -> None:
        """Return when the way is not cut."""
        while self.is_cut:
            await self.wait_change()

    def keep_open(self, stream: socket.socket) -> None:
        # A socket with TLS has no `dup` of its own.
        self._kept.append(os.dup(stream.fileno()))


class Ways:
    """The ways of one node, with TLS or without."""

    def __init__(self) -> None:
        self._by_address: dict[Address, Way] = {}

    def to(self, address: Address) -> Way:
        return self._by_address.setdefault(address, Way())

    def cut(self, addresses: frozenset[Address]) -> None:
        """Cut the ways to these addresses, and heal all others."""
        for address in addresses:
            self.to(address)
        for address, way in self._by_address.items():
            if way.is_cut != (address in addresses):
                way.set_cut(address in addresses)


class Cut:
    """What a stream has of the cuts of its way."""

    __slots__ = ("held", "way")

    def __init__(self, way: Way) -> None:
        self.way = way
        self.held: bytes | None = None
        """Bytes, or the end, that arrived while the way was cut."""


class Cuttable(TcpStream):
    """A stream that stands still while its way is cut: bytes in either direction arrive after the heal, as
    TCP's do after a partition. A class of it has the slot."""

    __slots__ = ()
    _cut: Cut

    async def receive_some(self, max_bytes: int = 65536) -> bytes:
        if self._cut.held is None:
            self._cut.held = await super().receive_some(max_bytes)
        await self._wait_whole()
        received, rest = self._cut.held[:max_bytes], self._cut.held[max_bytes:]
        self._cut.held = rest or None
        return received

    async def receive_into(self, buffer: memoryview) -> int:
        if self._cut.held is None and not self._cut.way.is_cut:
            count = await super().receive_into(buffer)
            if not self._cut.way.is_cut:
                return count
            self._cut.held = bytes(buffer[:count])
        received = await self.receive_some(len(buffer))
        buffer[: len(received)] = received
        return len(received)

    def send_nowait(self, buffers: Sequence[Buffer]) -> int:
        return 0 if self._cut.way.is_cut else super().send_nowait(buffers)

    async def send(self, buffers: Sequence[Buffer]) -> None:
        # A message that is partly sent when the cut begins still arrives, as packets under way may.
        await self._wait_whole()
        await super().send(buffers)

    async def _wait_whole(self) -> None:
        while self._cut.way.is_cut:
            self._open_or_raise()
            await self._cut.way.wait_change()

    def _open_or_raise(self) -> None:
        try:
            self._open()
        except trio.ClosedResourceError as error:
            raise self._broken(error) from error

    def close(self) -> None:
        if self._cut.way.is_cut and not self._closed:
            self._cut.way.keep_open(self._socket)
        super().close()
        self._cut.way.wake()


class CuttableStream(Cuttable):
    """One without TLS."""

    __slots__ = ("_cut",)

    def __init__(self, stream: TcpStream, way: Way) -> None:
        super().__init__(stream._socket, stream.peer)
        self._cut = Cut(way)
