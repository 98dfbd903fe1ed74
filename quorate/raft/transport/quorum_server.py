"""The controller listener: answers other nodes' quorum requests, appends, and the application's requests. The
client listener serves some of them."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

import trio

from quorate.raft.core import Message, VoterChange
from quorate.raft.quorum_errors import (
    InvalidAppendError,
    NotLeaderError,
    OutcomeUnknownError,
    PeerProtocolError,
    QuorumError,
)
from quorate.raft.state_machine.append_queue import QueuedAppend
from quorate.raft.transport.append_frames import (
    RemoteAppendWaiter,
    RemoteIndexWaiter,
    decode_request,
    encode_failure,
    size_of,
)
from quorate.raft.transport.begun_stream import BegunStream
from quorate.raft.transport.caller import CallerHandler, KafkaHandler
from quorate.raft.transport.connections import CONNECTIONS_MAX, Connections, PeerConnection
from quorate.raft.transport.description_frames import QuorumView, encode_view
from quorate.raft.transport.frames import (
    RESPONSE,
    Frame,
    FrameKind,
    FrameReader,
    OtherProtocolError,
    encode_frame,
)
from quorate.raft.transport.identities import check_claims, identity_at, node_at
from quorate.raft.transport.leader_frames import (
    decode_cluster_id,
    decode_transfer,
    decode_voter_change,
    describe_request,
    encode_done,
    encode_snapshot,
)
from quorate.raft.transport.outbox import Outbox
from quorate.raft.transport.raft_codec import decode, encode, is_core_message
from quorate.raft.transport.snapshot_frames import (
    ListedSnapshot,
    SnapshotRead,
    decode_snapshot_read,
    encode_chunk,
    encode_listed,
)
from quorate.raft.transport.turnstile import PAUSE_SECONDS, Turnstile
from quorate.raft.waiters import IndexWaiter
from quorate.runtime import Buffer, Listener, NetworkError, Stream, TlsError, get_logger
from quorate.types import Epoch, NodeId, SnapshotId

log = get_logger(__name__)

_FIRST_FRAME_SECONDS = 10
"""A connection without a request after so long is closed."""
_FIRST_OF_KAFKA: Final = 0
"""The first byte of a request of Kafka's protocol: its length is less than 16 MiB."""
_SLOW_KINDS: Final = (
    FrameKind.APPLICATION,
    FrameKind.CHANGE_VOTERS,
    FrameKind.TRANSFER_LEADERSHIP,
    FrameKind.TAKE_SNAPSHOT,
)
CLIENT_KINDS: Final = frozenset((FrameKind.APPLICATION, FrameKind.DESCRIBE_QUORUM))
"""The requests on a listener for clients."""
_FRAME_HEADER_BYTES: Final = 1024
"""The most bytes that an answer of the application has before its content."""
_MAX_SLOW_REQUESTS = 64
"""Under way at once on one connection; further ones wait in the socket."""


class Inbound(Protocol):
    """The receiver of the server's requests."""

    def receive(self, message: Message) -> None: ...

    def append(self, append: QueuedAppend) -> None: ...

    def commit_waiting(self) -> None: ...

    async def wait_room(self) -> None:
        """Return when appends may be delivered."""
        ...

    def read_index(self, waiter: IndexWaiter) -> None: ...

    async def change_voters(self, change: VoterChange) -> None: ...

    async def transfer_leadership(self, successor: NodeId) -> None: ...

    async def take_snapshot(self) -> SnapshotId: ...

    def list_snapshots(self) -> tuple[ListedSnapshot, ...]: ...

    async def read_snapshot(self, asked: SnapshotRead) -> tuple[bytes, int]:
        """The bytes, some at most, and the size of the whole. Raises `RequestRefusedError`,
        `OutcomeUnknownError`."""
        ...

    def is_voter(self, node: NodeId) -> bool:
        """True if the node is another voter."""
        ...

    @property
    def view(self) -> QuorumView: ...


class Server:
    """Serves one listener. An answer goes back on the connection that its request came on, and only there."""

    def __init__(
        self,
        *,
        cluster_id: str,
        inbound: Inbound,
        max_frame_bytes: int,
        max_append_bytes: int,
        kinds: frozenset[int] | None = None,
    ) -> None:
        """`kinds`: the requests to serve. None: all."""
        self._kinds = kinds
        self._cluster_id = cluster_id
        self._inbound = inbound
        self._max_frame_bytes = max_frame_bytes
        self._max_append_bytes = max_append_bytes
        self._dirty: dict[Outbox, None] = {}
        self._connections = Connections()
        self._turnstile = Turnstile()
        self._full = False
        self.handler: CallerHandler | None = None
        self.kafka_handler: KafkaHandler | None = None

    def send_response(self, message: Message, records: Buffer = b"") -> None:
        """Queue a response of the core, with `records` if it is a Fetch's; `flush` sends it."""
        asked = self._connections.take_request(message.correlation)
        if asked is not None:
            connection, correlation = asked
            outbox = connection.outbox
            outbox.push(encode(message, records, correlation=correlation))
            self._dirty[outbox] = None

    def flush(self) -> None:
        if self._dirty:
            for outbox in self._dirty:
                outbox.flush()
            self._dirty.clear()

    async def run(self, listener: Listener) -> None:
        """Accept connections until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                stream = await listener.accept()
                if self._make_room(stream):
                    nursery.start_soon(self._serve_connection, stream)
                else:
                    stream.close()

    def _make_room(self, stream: Stream) -> bool:
        """Make room for a new connection, by displacing one that is silent and not of a voter. Returns
        whether there is room."""
        if len(self._connections) < CONNECTIONS_MAX:
            self._full = False
            return True
        displaced = self._connections.displace()
        if not self._full:
            self._full = True
            log.warning(
                "too many connections are open: each new one takes the place of the one that has been silent "
                "for longest",
                limit=CONNECTIONS_MAX,
                peer=stream.peer,
                displaced=None if displaced is None else displaced.outbox.peer,
            )
        if displaced is not None:
            displaced.outbox.close()
        return displaced is not None

    async def _serve_connection(self, stream: Stream) -> None:
        outbox = Outbox(stream)
        connection = PeerConnection(outbox)
        self._connections.add(connection)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(outbox.run)
                reader = FrameReader(stream, max_frame_bytes=self._max_frame_bytes)
                await self._read_requests(reader, connection, nursery)
                nursery.cancel_scope.cancel()
        finally:
            self._connections.remove(connection)
            outbox.close()
            self._dirty.pop(outbox, None)

    async def _read_requests(
        self, reader: FrameReader, connection: PeerConnection, nursery: trio.Nursery
    ) -> None:
        limit = trio.CapacityLimiter(_MAX_SLOW_REQUESTS)
        outbox = connection.outbox
        try:
            with trio.fail_after(_FIRST_FRAME_SECONDS):
                await outbox.stream.handshake()
                self._identify(connection)
                if not await reader.receive_preface():
                    return
                frames = await reader.receive()
            if frames and connection.is_client:
                # Clients of Kafka's protocol never come here.
                node_at(outbox.stream, self._cluster_id)
            while frames:
                self._connections.note_heard(connection)
                for frame in frames:
                    if self._kinds is not None and frame.kind not in self._kinds:
                        raise PeerProtocolError(
                            f"requests of kind {frame.kind} are not served on the client listener"
                        )
                    if frame.kind in _SLOW_KINDS:
                        await self._start_slow(frame, connection, limit, nursery)
                    elif frame.kind == FrameKind.READ_SNAPSHOT:
                        # One after the other: no connection has more than one chunk in memory here.
                        await outbox.wait_room()
                        await self._answer_snapshot_read(frame, outbox)
                    else:
                        self._handle_frame(frame, connection)
                self._inbound.commit_waiting()
                self.flush()
                # No more requests are read from a sender that is ahead of the answers, or does not take them.
                await self._inbound.wait_room()
                await outbox.wait_room()
                frames = await reader.receive()
        except trio.TooSlowError:
            log.info("closed a connection", peer=outbox.peer, reason="it asked for nothing")
        except TlsError as error:
            log.warning("closed a connection", peer=outbox.peer, reason=str(error))
        except NetworkError:
            pass
        except OtherProtocolError as error:
            if self.kafka_handler is None or error.began[0] != _FIRST_OF_KAFKA:
                log.warning("closed a connection", peer=outbox.peer, reason=str(error))
            else:
                await self.kafka_handler(BegunStream(outbox.stream, error.began))
        except PeerProtocolError as error:
            log.warning("closed a connection", peer=outbox.peer, reason=str(error))

    def _identify(self, connection: PeerConnection) -> None:
        """Raise `TlsError` if the certificate at the other end is not one for this listener."""
        stream = connection.outbox.stream
        if self._kinds is None:
            identity = identity_at(stream, self._cluster_id)
            connection.proven = None if identity is None else identity.node
            connection.is_client = identity is not None and identity.node is None
        else:
            identity_at(stream, self._cluster_id)

    def _handle_frame(self, frame: Frame, connection: PeerConnection) -> None:
        outbox = connection.outbox
        if frame.kind == FrameKind.APPEND:
            self._handle_append(frame, outbox)
        elif frame.kind == FrameKind.READ_INDEX:
            self._check_cluster(decode_cluster_id(frame))
            self._inbound.read_index(RemoteIndexWaiter(outbox, frame.correlation, self._dirty))
        elif frame.kind == FrameKind.DESCRIBE_QUORUM:
            # A client may know nothing but an address.
            self._check_cluster(decode_cluster_id(frame) or self._cluster_id)
            view = self._inbound.view
            # The digest of a small state may tell a client what it may not read.
            if self._kinds is not None:
                view = replace(view, states=())
            outbox.push(encode_view(frame.correlation, view))
            self._dirty[outbox] = None
        elif frame.kind == FrameKind.LIST_SNAPSHOTS:
            self._check_cluster(decode_cluster_id(frame))
            outbox.push(encode_listed(frame.correlation, self._inbound.list_snapshots()))
            self._dirty[outbox] = None
        elif is_core_message(frame) and not frame.kind & RESPONSE:
            message = decode(frame, correlation=self._connections.add_request(connection, frame.correlation))
            check_claims(message, connection.proven)
            if message.source != connection.node:
                is_voter = self._inbound.is_voter(message.source)
                self._connections.assign_voter(connection, message.source if is_voter else None)
            self._inbound.receive(message)
        else:
            raise PeerProtocolError(f"frames of kind {frame.kind} are not requests of this version")

    async def _answer_snapshot_read(self, frame: Frame, outbox: Outbox) -> None:
        asked = decode_snapshot_read(frame)
        self._check_cluster(asked.cluster_id)
        try:
            answer = encode_chunk(frame.correlation, *await self._inbound.read_snapshot(asked))
        except QuorumError as error:
            answer = encode_failure(frame.correlation, error, kind=FrameKind.READ_SNAPSHOT)
        outbox.push(answer)
        outbox.flush()

    def _handle_append(self, frame: Frame, outbox: Outbox) -> None:
        cluster_id, records = decode_request(frame)
        size = size_of(records)
        problem = None
        if cluster_id != self._cluster_id:
            problem = f"this is cluster {self._cluster_id}, the append is for {cluster_id}"
        elif not records:
            problem = "an append needs at least one record"
        elif size > self._max_append_bytes:
            problem = f"the append has {size} bytes, the limit is {self._max_append_bytes}"
        if problem is not None:
            outbox.push(encode_failure(frame.correlation, InvalidAppendError(problem)))
            self._dirty[outbox] = None
            return
        waiter = RemoteAppendWaiter(outbox, frame.correlation, self._dirty)
        self._inbound.append(QueuedAppend(records, size_of(records), waiter))

    def _check_cluster(self, cluster_id: str) -> None:
        if cluster_id != self._cluster_id:
            raise PeerProtocolError(f"its request is for cluster {cluster_id}, this is {self._cluster_id}")

    async def _start_slow(
        self, frame: Frame, connection: PeerConnection, limit: trio.CapacityLimiter, nursery: trio.Nursery
    ) -> None:
        """Start a task that answers: with the application, or after a commit or an election."""
        answer = self._decode_slow(frame, connection)
        borrower = object()
        try:
            limit.acquire_on_behalf_of_nowait(borrower)
        except trio.WouldBlock:
            # The requests under way may wait for an append that came with this one.
            self._inbound.commit_waiting()
            await limit.acquire_on_behalf_of(borrower)
        nursery.start_soon(self._answer_slow, frame, answer, connection.outbox, limit, borrower)

    def _decode_slow(self, frame: Frame, connection: PeerConnection) -> Callable[[], Awaitable[list[Buffer]]]:
        """Decode a slow request, and return the function that answers it. Raises `PeerProtocolError`."""
        match frame.kind:
            case FrameKind.CHANGE_VOTERS:
                cluster_id, change = decode_voter_change(frame)
                self._check_cluster(cluster_id)
                return partial(self._answer_when_done, frame, partial(self._inbound.change_voters, change))
            case FrameKind.TRANSFER_LEADERSHIP:
                cluster_id, successor = decode_transfer(frame)
                self._check_cluster(cluster_id)
                return partial(
                    self._answer_when_done, frame, partial(self._inbound.transfer_leadership, successor)
                )
            case FrameKind.TAKE_SNAPSHOT:
                self._check_cluster(decode_cluster_id(frame))
                return partial(self._take_snapshot, frame)
            case _:
                self._check_cluster(decode_cluster_id(frame))
                return partial(self._call_handler, frame, connection)

    async def _answer_when_done(self, frame: Frame, action: Callable[[], Awaitable[None]]) -> list[Buffer]:
        await action()
        return encode_done(frame)

    async def _take_snapshot(self, frame: Frame) -> list[Buffer]:
        return encode_snapshot(frame, await self._inbound.take_snapshot())

    async def _call_handler(self, frame: Frame, connection: PeerConnection) -> list[Buffer]:
        if self.handler is None:
            raise NotLeaderError(leader=None, epoch=Epoch(0))
        response = await self.handler(bytes(frame.payload), connection)
        limit = self._max_frame_bytes - _FRAME_HEADER_BYTES
        if len(response) > limit:
            raise OutcomeUnknownError(f"the answer has {len(response)} bytes, at most {limit} can be sent")
        return encode_frame(FrameKind.APPLICATION + RESPONSE, frame.correlation, [], [response])

    async def _answer_slow(
        self,
        frame: Frame,
        answer_of: Callable[[], Awaitable[list[Buffer]]],
        outbox: Outbox,
        limit: trio.CapacityLimiter,
        borrower: object,
    ) -> None:
        kind = FrameKind(frame.kind)
        try:
            if kind in PAUSE_SECONDS:
                answer = await self._turnstile.pass_through(
                    kind, describe_request(frame), outbox.peer, answer_of
                )
            else:
                answer = await answer_of()
        except QuorumError as error:
            answer = encode_failure(frame.correlation, error, kind=kind)
        except Exception as error:
            # An error of the application must not stop the quorum, nor the other requests here.
            log.exception("the application failed to answer a request", peer=outbox.peer)
            failure = OutcomeUnknownError(f"the application failed to answer ({type(error).__name__})")
            answer = encode_failure(frame.correlation, failure, kind=kind)
        finally:
            limit.release_on_behalf_of(borrower)
        outbox.push(answer)
        outbox.flush()
