"""A network under virtual time: byte streams between named nodes, with the faults that real ones have.

Everything is computed from `trio.current_time` and one `random.Random`; there are no background tasks. A
segment of bytes carries the time at which it arrives, so a slow, stalled or partitioned link only ever holds
bytes back, in order. What a fault does to a connection:

- partition (one way or both): bytes wait until it heals, connects hang.
- cut: both ends get `NetworkError`.
- half-open: bytes vanish in both directions and neither end notices; sends fill the window and then wait.
- crash of a process: its peers are reset, and its port refuses.
- crash of a host (`silent`): no end notices, connects hang; when the node is back, old streams are reset.

No two arrivals fall on one instant: a seeded offset below a microsecond tells them apart, because trio orders
equal deadlines by object identity.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import trio

from quorate.runtime import (
    MEMBERS,
    Address,
    AddressInUseError,
    Buffer,
    CertificateEnd,
    ConnectRefusedError,
    NetworkError,
    TlsError,
    TlsFiles,
    TlsTerms,
    TlsUse,
)
from quorate.simulation.world.pipes import Last, Pipe
from quorate.simulation.world.pipes import LinkQuality as LinkQuality
from quorate.simulation.world.pipes import NetworkSettings as NetworkSettings

_BACKLOG: Final = 512
_FIRST_EPHEMERAL_PORT: Final = 49152
_OFFSET_S: Final = 1e-6


class SimulatedNetwork:
    """All links, and how to break them. Nodes are names; they need no introduction."""

    def __init__(self, source: random.Random, settings: NetworkSettings | None = None) -> None:
        self._random = source
        self._settings = settings or NetworkSettings()
        self._links: dict[tuple[str, str], LinkQuality] = {}
        self._blocked: dict[tuple[str, str], None] = {}
        self._down: dict[str, bool] = {}
        """Crashed nodes; the value says whether silently."""
        self._listeners: dict[Address, SimulatedListener] = {}
        self._owners: dict[Address, str] = {}
        self._pipes: list[tuple[Pipe, Pipe]] = []
        self._next_port = _FIRST_EPHEMERAL_PORT
        self._changed = trio.Event()
        self.room: int | None = None
        """The number of further connections that listeners allow. None is unlimited."""
        self.on_receive: Callable[[str, str, bytes], None] | None = None
        """Called with the source, the target and the bytes that a receiver gets. For traces."""

    def for_node(self, name: str) -> "NodeNetwork":
        """Return the network as the node sees it."""
        return NodeNetwork(self, name)

    # Faults

    def set_link(self, source: str, target: str, quality: LinkQuality) -> None:
        """Set the latency and rate of the link from `source` to `target`, from now on."""
        self._links[source, target] = quality

    def block(self, source: str, target: str) -> None:
        """Hold back all bytes from `source` to `target`, those on their way included."""
        self._blocked[source, target] = None

    def partition(self, left: Sequence[str], right: Sequence[str]) -> None:
        """Block every link between the two groups, both ways."""
        for a in left:
            for b in right:
                self.block(a, b)
                self.block(b, a)

    def heal(self, source: str | None = None, target: str | None = None) -> None:
        """Unblock one direction, or everything. Held bytes arrive a fresh latency later, in order."""
        if source is not None and target is not None:
            self._blocked.pop((source, target), None)
            healed = {(source, target): None}
        else:
            healed = self._blocked
            self._blocked = {}
        for pair in self._pipes:
            for pipe in pair:
                if (pipe.source, pipe.target) in healed:
                    self._reschedule(pipe)
                pipe.notify()
        self._wake()

    def cut(self, left: str, right: str) -> None:
        """Reset every stream between two nodes, at once. New ones can be opened."""
        for pair in self._between(left, right):
            for pipe in pair:
                pipe.fail("connection reset")

    def half_open(self, left: str, right: str) -> None:
        """Let the streams between two nodes swallow all bytes from now on, unseen by both ends."""
        for pair in self._between(left, right):
            for pipe in pair:
                pipe.swallow()

    def crash_node(self, name: str, *, silent: bool) -> None:
        """Kill listeners and streams of a node at once. Its own tasks get `NetworkError`. Its peers are
        reset as soon as that can reach them, or learn nothing if `silent` (the host died with it)."""
        self._down[name] = silent
        for listener in [each for each in self._listeners.values() if each.node == name]:
            listener.shut("the node crashed")
        for pair in self._pipes_of(name):
            for incoming, outgoing in (pair, pair[::-1]):
                if incoming.target != name:
                    continue
                if silent:
                    incoming.swallow()
                    outgoing.swallow()
                self.leave(incoming, outgoing, "the node crashed", None if silent else Last.RESET)
        self._wake()

    def restart_node(self, name: str) -> None:
        """The node may connect and listen again. Streams from before a silent crash are reset."""
        silent = self._down.pop(name, False)
        for pair in self._pipes_of(name) if silent else ():
            for incoming, outgoing in (pair, pair[::-1]):
                if incoming.target == name and outgoing.last is None:
                    outgoing.vanishing = False
                    self._finish(outgoing, Last.RESET)
                    incoming.deaf_at = outgoing.last_arrival
                    incoming.notify()
        self._wake()

    # What streams and listeners call

    def listen(
        self, node: str, address: Address, files: TlsFiles | None = None, use: TlsUse = TlsUse.REQUIRED
    ) -> "SimulatedListener":
        """Open a listener. `files`: with TLS. Raises `AddressInUseError`, or `NetworkError` on a node that
        is down."""
        if node in self._down:
            raise NetworkError(f"{address}: {node} is down")
        if address.port == 0:
            address = Address(address.host, self._draw_port())
        if address in self._listeners:
            raise AddressInUseError(f"{address} is in use by {self._listeners[address].node}")
        listener = SimulatedListener(self, node, address, files, use)
        self._listeners[address] = listener
        self._owners[address] = node
        return listener

    def _draw_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def unlisten(self, address: Address) -> None:
        """Close the listener at `address`, if there is one."""
        self._listeners.pop(address, None)

    async def connect(self, node: str, address: Address, files: TlsFiles | None = None) -> "SimulatedStream":
        """Open a stream, after both latencies. `files`: with TLS. Raises `ConnectRefusedError`,
        `NetworkError`."""
        owner = self._owners.get(address)
        await trio.sleep(self._latency(node, owner or node))
        while owner is not None and self._unreachable(node, owner):
            await self._changed.wait()
        if node in self._down:
            raise NetworkError(f"{address}: {node} is down")
        await trio.sleep(self._latency(owner or node, node))
        listener = self._listeners.get(address)
        if listener is None:
            raise ConnectRefusedError(f"can't connect to {address}: connection refused")
        there, back = Pipe(node, listener.node), Pipe(listener.node, node)
        ours = SimulatedStream(self, back, there, str(address), files, listener.files)
        port = self._draw_port()
        theirs = SimulatedStream(self, there, back, f"{node}:{port}", listener.files_for(files), files)
        if not listener.offer(theirs):
            raise NetworkError(f"can't connect to {address}: its backlog is full")
        self._pipes = [pair for pair in self._pipes if not all(pipe.over for pipe in pair)]
        self._pipes.append((there, back))
        return ours

    def _unreachable(self, node: str, owner: str) -> bool:
        return (
            (node, owner) in self._blocked
            or (owner, node) in self._blocked
            or (self._down.get(owner, False) and node not in self._down)
        )

    def send_nowait(self, pipe: Pipe, data: bytes, peer: str) -> int:
        """Send as many bytes as the window takes, and return their number. Raises `NetworkError`."""
        if pipe.send_error is not None:
            raise NetworkError(f"{peer}: {pipe.send_error}")
        deaf_at = self._deaf_at(pipe)
        if deaf_at is not None and deaf_at <= trio.current_time():
            raise NetworkError(f"{peer}: connection reset by peer")
        segment = data[: max(0, self._settings.window_bytes - pipe.in_flight)]
        pipe.in_flight += len(segment)
        if segment and not pipe.vanishing:
            pipe.segments.append((self._arrival(pipe, len(segment)), segment))
            pipe.notify()
        return len(segment)

    async def send(self, pipe: Pipe, data: bytes, peer: str) -> None:
        """Send all bytes, and wait while the window is full. Raises `NetworkError`."""
        await trio.lowlevel.checkpoint()
        while True:
            data = data[self.send_nowait(pipe, data, peer) :]
            if not data:
                return
            await self._wait(pipe, self._deaf_at(pipe))

    def _deaf_at(self, pipe: Pipe) -> float | None:
        return None if (pipe.target, pipe.source) in self._blocked else pipe.deaf_at

    async def receive(self, pipe: Pipe, max_bytes: int, peer: str) -> bytes:
        """Return the bytes that have arrived, none at the end of the stream. Raises `NetworkError`."""
        await trio.lowlevel.checkpoint()
        while True:
            if pipe.receive_error is not None:
                raise NetworkError(f"{peer}: {pipe.receive_error}")
            arrival = self._next_arrival(pipe)
            if arrival is None or arrival > trio.current_time():
                await self._wait(pipe, arrival)
            elif pipe.segments:
                return self._take(pipe, max_bytes)
            elif pipe.last is Last.END:
                return b""
            else:
                raise NetworkError(f"{peer}: connection reset by peer")

    async def _wait(self, pipe: Pipe, until: float | None) -> None:
        changed = pipe.changed
        if until is None:
            await changed.wait()
        else:
            with trio.move_on_at(until):
                await changed.wait()

    def _next_arrival(self, pipe: Pipe) -> float | None:
        if (pipe.source, pipe.target) in self._blocked:
            return None
        if pipe.segments:
            return pipe.segments[0][0]
        return None if pipe.last is None else pipe.last_arrival

    def _take(self, pipe: Pipe, max_bytes: int) -> bytes:
        if self._random.random() < self._settings.short_read_chance:
            max_bytes = self._random.randint(1, max_bytes)
        now = trio.current_time()
        parts: list[bytes] = []
        room = max_bytes
        while room and pipe.segments and pipe.segments[0][0] <= now:
            arrival, segment = pipe.segments.popleft()
            if len(segment) > room:
                pipe.segments.appendleft((arrival, segment[room:]))
                segment = segment[:room]
            parts.append(segment)
            room -= len(segment)
        data = b"".join(parts)
        pipe.in_flight -= len(data)
        pipe.notify()
        if self.on_receive is not None:
            self.on_receive(pipe.source, pipe.target, data)
        return data

    def leave(self, incoming: Pipe, outgoing: Pipe, reason: str, last: Last | None) -> None:
        """Close one end of a stream. Its sent bytes still arrive, then `last`; None sends nothing."""
        outgoing.fail(reason, receiver=False)
        incoming.fail(reason, sender=False)
        # Nobody receives the bytes that the peer still sends.
        incoming.vanishing = True
        if last is not None and not outgoing.vanishing:
            self._finish(outgoing, last)
            incoming.deaf_at = outgoing.last_arrival
            incoming.notify()

    def _finish(self, pipe: Pipe, last: Last) -> None:
        if pipe.last is None:
            self._arrival(pipe, 0)
            pipe.last = last
            pipe.notify()

    # Times

    def _quality(self, source: str, target: str) -> LinkQuality:
        if source == target:
            return self._settings.loopback
        return self._links.get((source, target), self._settings.link)

    def _latency(self, source: str, target: str) -> float:
        quality = self._quality(source, target)
        return self._random.uniform(quality.latency_min_s, quality.latency_max_s) + self._offset()

    def _offset(self) -> float:
        return self._random.random() * _OFFSET_S

    def _arrival(self, pipe: Pipe, size: int) -> float:
        now = trio.current_time()
        quality = self._quality(pipe.source, pipe.target)
        sending = size / quality.bytes_per_s if quality.bytes_per_s else 0.0
        arrival = max(
            now + self._latency(pipe.source, pipe.target) + sending,
            pipe.last_arrival + sending + self._offset(),
        )
        pipe.last_arrival = arrival
        return arrival

    def _reschedule(self, pipe: Pipe) -> None:
        """Let the delayed bytes arrive from now on, in order."""
        arrival = trio.current_time() + self._latency(pipe.source, pipe.target)
        moved = deque[tuple[float, bytes]]()
        for due, segment in pipe.segments:
            arrival = max(due, arrival + self._offset())
            moved.append((arrival, segment))
        pipe.segments = moved
        pipe.last_arrival = max(pipe.last_arrival, arrival + self._offset())

    # Which streams

    def _pipes_of(self, name: str) -> list[tuple[Pipe, Pipe]]:
        return [pair for pair in self._pipes if name in (pair[0].source, pair[0].target)]

    def _between(self, left: str, right: str) -> list[tuple[Pipe, Pipe]]:
        ends = ((left, right), (right, left))
        return [pair for pair in self._pipes if (pair[0].source, pair[0].target) in ends]

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class SimulatedStream:
    """`quorate.runtime.network.Stream` between two simulated nodes."""

    __slots__ = (
        "_closed", "_files", "_incoming", "_network", "_outgoing", "_peer", "_peers_files", "identities"
    )  # fmt: skip

    def __init__(
        self,
        network: SimulatedNetwork,
        incoming: Pipe,
        outgoing: Pipe,
        peer: str,
        files: TlsFiles | None,
        peers_files: TlsFiles | None,
    ) -> None:
        """`files` and `peers_files`: of this end and of the other one, if it speaks TLS. A simulated
        certificate has one URI, which is its path."""
        self._files = files
        self._peers_files = peers_files
        self.identities: tuple[str, ...] | None = None if files is None else ()
        self._network = network
        self._incoming = incoming
        self._outgoing = outgoing
        self._peer = peer
        self._closed = False

    @property
    def peer(self) -> str:
        return self._peer

    @property
    def subject(self) -> str | None:
        return None

    @property
    def certificate_end_ms(self) -> int | None:
        return None

    async def handshake(self) -> None:
        if self._files is None:
            return
        await trio.lowlevel.checkpoint()
        if self._peers_files is None:
            raise TlsError(f"{self._peer}: it does not speak TLS")
        if self._peers_files.authorities != self._files.authorities:
            raise TlsError(f"{self._peer}: its certificate is not accepted: of another authority")
        self.identities = (self._peers_files.certificate,)

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

    __slots__ = ("_address", "_arrived", "_backlog", "_network", "_use", "closed", "files", "node")

    def __init__(
        self, network: SimulatedNetwork, node: str, address: Address, files: TlsFiles | None, use: TlsUse
    ) -> None:
        self._network = network
        self.node = node
        self.files = files
        self._use = use
        self._address = address
        self._backlog: deque[SimulatedStream] = deque()
        self._arrived = trio.Event()
        self.closed: str | None = None

    @property
    def address(self) -> Address:
        return self._address

    def files_for(self, theirs: TlsFiles | None) -> TlsFiles | None:
        """Return the files with which this end greets one that has `theirs`. None: without TLS."""
        return self.files if theirs is not None or self._use is TlsUse.REQUIRED else None

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

    __slots__ = ("_files", "_network", "_use", "name")

    def __init__(
        self,
        network: SimulatedNetwork,
        name: str,
        files: TlsFiles | None = None,
        use: TlsUse = TlsUse.REQUIRED,
    ) -> None:
        self._network = network
        self.name = name
        self._files = files
        self._use = use

    @property
    def identities(self) -> tuple[str, ...] | None:
        return None if self._files is None else (self._files.certificate,)

    @property
    def certificates(self) -> Sequence[CertificateEnd]:
        return ()

    async def connect(self, address: Address) -> SimulatedStream:
        files = None if self._use is TlsUse.ACCEPTED else self._files
        stream = await self._network.connect(self.name, address, files)
        try:
            await stream.handshake()
        except BaseException:
            stream.close()
            raise
        return stream

    async def listen(self, address: Address) -> SimulatedListener:
        await trio.lowlevel.checkpoint()
        return self._network.listen(self.name, address, self._files, self._use)

    def secured(self, files: TlsFiles, terms: TlsTerms = MEMBERS) -> "NodeNetwork":
        return NodeNetwork(self._network, self.name, files, terms.use)
