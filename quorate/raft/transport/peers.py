"""Connections to other nodes: opened when there is something to say, reopened at once when they break.

The core decides what to send again and when; a peer only says that a request failed. A connection that breaks
before anything was heard on it, or on which something was heard that is not this protocol, is not reopened at
once: the other end may be anything, and would be asked in a tight loop.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import trio

from quorate.error_code import ErrorCode
from quorate.log import InvalidBatchError
from quorate.raft.core import BatchSpan, Event, Message, Received, RequestFailed, Response, Unreachable
from quorate.raft.quorum_errors import PeerProtocolError
from quorate.raft.transport.frames import PREFACE, RESPONSE, Frame, FrameKind, FrameReader
from quorate.raft.transport.identities import check_claims, check_node, node_at
from quorate.raft.transport.outbox import Outbox
from quorate.raft.transport.raft_codec import decode, encode, kind_of
from quorate.runtime import (
    Address,
    Buffer,
    NetworkError,
    Runtime,
    Timers,
    TlsError,
    get_logger,
    loop_clock,
)
from quorate.types import Endpoint, NodeId

log = get_logger(__name__)

SpansOf = Callable[[memoryview], Sequence[BatchSpan]]

_REFUSED_WAIT_SECONDS = 1.0
"""After a breach of the protocol, before the next connection."""


class Peer:
    """One other node, as a client of it.

    A `node` below 0 is the unknown node at a bootstrap server's address. Its answers are delivered with that
    id as their source, because the core asked that id. `on_hung_up` is called when the other end closes a
    connection on which it has answered.
    """

    def __init__(
        self,
        node: NodeId,
        own: NodeId,
        endpoint: Endpoint,
        *,
        cluster_id: str,
        runtime: Runtime,
        deliver: Callable[[Event], None],
        on_hung_up: Callable[[NodeId], None],
        spans_of: SpansOf,
        connect_timeout_ms: int,
        request_timeout_ms: int,
        max_frame_bytes: int,
    ) -> None:
        self._node = node
        self._own = own
        self.endpoint = endpoint
        self._address = Address(endpoint.host, endpoint.port)
        self._cluster_id = cluster_id
        self._proven: NodeId | None = None
        """The node that the certificate at the other end names. None: there is no TLS."""
        self._runtime = runtime
        self._deliver = deliver
        self._on_hung_up = on_hung_up
        self._spans_of = spans_of
        self._connect_seconds = connect_timeout_ms / 1000
        self._request_seconds = request_timeout_ms / 1000
        self._max_frame_bytes = max_frame_bytes
        self._outbox: Outbox | None = None
        self._unsent: list[Buffer] = []
        """Frames that wait for the connection to open."""
        self._in_flight: dict[int, tuple[int, float]] = {}
        """By correlation, oldest first: the kind of the request and when it has waited too long."""
        self._wanted = trio.Event()
        self._now = loop_clock()
        self._timers: Timers[None] = Timers(self._check_age)
        self._overdue = False
        """True if this end closes the connection, because of a request without an answer."""
        self._down = False
        self._scope = trio.CancelScope()
        self._refused = False
        """True if the last connection ended with a breach of the protocol, which is logged."""
        self._foreign = False
        """True if the last answer was that we are of another cluster, which is logged."""

    def send(self, message: Message) -> None:
        """Queue a request; `flush` sends it. Its response, or its failure, is delivered."""
        if not self._in_flight:
            self._timers.arm(None, self._request_seconds)
        deadline = self._now() + self._request_seconds
        self._in_flight[message.correlation] = (kind_of(message), deadline)
        buffers = encode(message)
        if self._outbox is not None:
            self._outbox.push(buffers)
        else:
            self._unsent.extend(buffers)
            self._wanted.set()

    def flush(self) -> None:
        if self._outbox is not None:
            self._outbox.flush()

    def close(self) -> None:
        """End `run`. What is in flight is not reported: the core was told where to ask instead."""
        self._scope.cancel()

    async def run(self) -> None:
        """Keep the connection while it is wanted. Runs until cancelled or closed."""
        with self._scope:
            await self._run_connections()

    async def _run_connections(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._timers.run)
            while True:
                await self._wanted.wait()
                self._wanted = trio.Event()
                if await self._connect_and_read():
                    # It worked until now: try again at once, so that a leader that is gone is noticed.
                    self._wanted.set()
                elif self._refused:
                    await trio.sleep(_REFUSED_WAIT_SECONDS)

    async def _connect_and_read(self) -> bool:
        """One connection's life. False if it could not be opened or was of no use."""
        try:
            with trio.fail_after(self._connect_seconds):
                stream = await self._runtime.network.connect(self._address)
            try:
                check_node(stream, self._cluster_id, self._node if self._node >= 0 else None)
                self._proven = node_at(stream, self._cluster_id)
            except TlsError:
                stream.close()
                raise
        except (NetworkError, trio.TooSlowError) as error:
            if not self._down:
                self._down = True
                note = log.warning if isinstance(error, TlsError) else log.info
                note("can't reach a node", node=self._node, address=str(self._address), reason=str(error))
            self._fail_all()
            self._deliver(Unreachable(self._node))
            return False
        if self._down:
            self._down = False
            log.info("reached a node again", node=self._node, address=str(self._address))
        outbox = Outbox(stream)
        heard = self._overdue = False
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(outbox.run)
                outbox.push([PREFACE, *self._unsent])
                self._unsent.clear()
                self._outbox = outbox
                outbox.flush()
                heard = await self._read_answers(FrameReader(stream, max_frame_bytes=self._max_frame_bytes))
                nursery.cancel_scope.cancel()
        finally:
            self._outbox = None
            outbox.close()
        if heard and not self._overdue:
            self._on_hung_up(self._node)
        self._fail_all()
        return heard

    async def _read_answers(self, reader: FrameReader) -> bool:
        """Until the connection ends; whether it was of use."""
        heard = False
        try:
            while frames := await reader.receive():
                for frame in frames:
                    self._take_answer(frame)
                    heard = True
                    self._refused = False
        except (TlsError, PeerProtocolError) as error:
            # TLS 1.3: the other end's refusal of this node's certificate is the first that is read.
            if not self._refused:
                self._refused = True
                log.warning(
                    "closed a connection", node=self._node, address=str(self._address), reason=str(error)
                )
            return False
        except NetworkError:
            pass
        return heard

    def _take_answer(self, frame: Frame) -> None:
        asked = self._in_flight.get(frame.correlation)
        if asked is None:
            return
        if frame.kind != asked[0] + RESPONSE:
            raise PeerProtocolError(f"a request of kind {asked[0]} was answered with kind {frame.kind}")
        spans: Sequence[BatchSpan] = ()
        if frame.kind == FrameKind.FETCH + RESPONSE and frame.payload:
            try:
                spans = self._spans_of(frame.payload)
            except InvalidBatchError as error:
                raise PeerProtocolError(f"fetched records are damaged: {error}") from error
        message = decode(frame, spans=spans)
        check_claims(message, self._proven)
        if self._node < 0:
            message = replace(message, source=self._node)
        if message.source != self._node or message.destination != self._own:
            raise PeerProtocolError(
                f"an answer is from node {message.source} to node {message.destination}, but node "
                f"{self._own} asked node {self._node}; compare the voters of both"
            )
        self._note_cluster(message)
        del self._in_flight[frame.correlation]
        self._deliver(Received(message))

    def _note_cluster(self, answer: Message) -> None:
        foreign = isinstance(answer, Response) and answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID
        if foreign and not self._foreign:
            log.error(
                "a voter is of another cluster",
                node=self._node,
                address=str(self._address),
                reason="compare cluster.id in both nodes' meta.properties, and correct who is asked "
                "(the voters, and the bootstrap servers, of the configuration); a node that changes "
                "clusters needs an empty folder, formatted with the new cluster's id",
            )
        self._foreign = foreign

    def _check_age(self, _: None) -> None:
        """When the oldest request has waited too long, the connection is of no use any more: what was sent on
        it may be stuck behind what hangs. One timer serves all requests."""
        for _kind, deadline in self._in_flight.values():
            left = deadline - self._now()
            if left > 0:
                self._timers.arm(None, left)
                return
            log.info("a node did not answer in time", node=self._node, address=str(self._address))
            if self._outbox is not None:
                self._overdue = True
                self._outbox.close()
            else:
                self._fail_all()
            return

    def _fail_all(self) -> None:
        self._unsent.clear()
        failed = sorted(self._in_flight)
        self._in_flight.clear()
        for correlation in failed:
            self._deliver(RequestFailed(self._node, correlation))
