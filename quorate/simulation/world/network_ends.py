"""A simulated node's part of the network: its view of it, its streams, its listeners."""

from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

import trio

from quorate.runtime import Address, Buffer, NetworkError
from quorate.simulation.world.pipes import Last, Pipe

_BACKLOG: Final = 512


class Wires(Protocol):
    """The calls of the ends to the network between them."""

    room: int | None

    async def receive(self, pipe: Pipe, max_bytes: int, peer: str) -> bytes: ...

    def send_nowait(self, pipe: Pipe, data: bytes, peer: str) -> int: ...

    async def send(self, pipe: Pipe, data: bytes, peer: str) -> None: ...

    def leave(self, incoming: Pipe, outgoing: Pipe, reason: str, last: Last | None) -> None: ...

    async def connect(self, node: str, address: Address) -> "SimulatedStream": ...

    def listen(self, node: str, address: Address) -> "SimulatedListener": ...

    def unlisten(self, address: Address) -> None: ...


class SimulatedStream:
    """`quorate.runtime.network.Stream` between two simulated nodes."""

    __slots__ = ("_closed", "_incoming", "_network", "_outgoing", "_peer")

    def __init__(self, network: Wires, incoming: Pipe, outgoing: Pipe, peer: str) -> None:
        self._network = network
        self._incoming = incoming
        self._outgoing = outgoing
        self._peer = peer
        self._closed = False

    @property
    def peer(self) -> str:
        return self._peer

    async def receive_some(self, max_bytes: int = 65536) -> bytes:
        return await self._network.receive(self._incoming, max_bytes, self._peer)

    async def receive_into(self, buffer: memoryview) -> int:
        data = await self._network.receive(self._incoming, len(buffer), self._peer)
        buffer[: len(data)] = data
        return len(data)

    def send_nowait(self, buffers: Sequence[Buffer]) -> int:
        return self._network.send_nowait(self._outgoing, b"".join(buffers), self._peer)

    async def send(self, buffers: Sequence[Buffer]) -> None:
        # Copied once, now: the caller may reuse its buffers when this returns.
        await self._network.send(self._outgoing, b"".join(buffers), self._peer)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._network.leave(self._incoming, self._outgoing, "closed here", Last.END)


class SimulatedListener:
    """`quorate.runtime.network.Listener` of a simulated node."""

    __slots__ = ("_address", "_arrived", "_backlog", "_network", "closed", "node")

    def __init__(self, network: Wires, node: str, address: Address) -> None:
        self._network = network
        self.node = node
        self._address = address
        self._backlog: deque[SimulatedStream] = deque()
        self._arrived = trio.Event()
        self.closed: str | None = None

    @property
    def address(self) -> Address:
        return self._address

    async def accept(self) -> SimulatedStream:
        await trio.lowlevel.checkpoint()
        while not self._backlog:
            if self.closed is not None:
                raise NetworkError(f"{self._address}: {self.closed}")
            await self._arrived.wait()
        return self._backlog.popleft()

    def room(self) -> int | None:
        return self._network.room

    def close(self) -> None:
        self.shut("closed")

    def offer(self, stream: SimulatedStream) -> bool:
        if len(self._backlog) >= _BACKLOG:
            return False
        self._backlog.append(stream)
        self._wake()
        return True

    def shut(self, reason: str) -> None:
        if self.closed is not None:
            return
        self.closed = reason
        self._network.unlisten(self._address)
        for stream in self._backlog:
            stream.close()
        self._backlog.clear()
        self._wake()

    def _wake(self) -> None:
        self._arrived.set()
        self._arrived = trio.Event()


class NodeNetwork:
    """`quorate.runtime.network.Network` as one node sees it."""

    __slots__ = ("_network", "name")

    def __init__(self, network: Wires, name: str) -> None:
        self._network = network
        self.name = name

    async def connect(self, address: Address) -> SimulatedStream:
        return await self._network.connect(self.name, address)

    async def listen(self, address: Address) -> SimulatedListener:
        await trio.lowlevel.checkpoint()
        return self._network.listen(self.name, address)
