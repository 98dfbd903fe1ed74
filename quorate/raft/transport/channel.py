"""A client's connection to one node: appends and application requests, answered in any order."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import trio

from quorate.raft.core import VoterChange
from quorate.raft.quorum_errors import InvalidAppendError, OutcomeUnknownError, PeerProtocolError
from quorate.raft.transport.append_frames import (
    Success,
    decode_application_response,
    decode_outcome,
    decode_response,
    encode_request,
    size_of,
)
from quorate.raft.transport.description_frames import QuorumView, decode_view
from quorate.raft.transport.frames import PREFACE, Frame, FrameKind, FrameReader, encode_frame
from quorate.raft.transport.identities import check_node
from quorate.raft.transport.leader_frames import (
    decode_read_index,
    decode_snapshot,
    voter_change_fields,
)
from quorate.raft.transport.outbox import Outbox
from quorate.raft.transport.snapshot_frames import (
    ListedSnapshot,
    decode_chunk,
    decode_listed,
    snapshot_read_fields,
)
from quorate.runtime import Address, Network, NetworkError, TlsError, get_logger
from quorate.types import Epoch, NodeId, Offset, SnapshotId

log = get_logger(__name__)
T = TypeVar("T")


class _Answer:
    """The answer that one request waits for."""

    __slots__ = ("count", "event", "frame", "since", "success")

    def __init__(self) -> None:
        self.event = trio.Event()
        self.count = 0
        """The number of records in the frame, of all appends that share it."""
        self.frame: Frame | None = None
        self.since = trio.current_time()
        self.success: Success | None = None
        """Decoded once, for all appends that shared the frame."""


class Channel:
    """Requests on one connection. Appends made in the same pass of the event loop share a frame.

    `connect`, then `run` in a task of its own; usable until that task ends.
    """

    def __init__(
        self,
        outbox: Outbox,
        address: Address,
        *,
        cluster_id: str,
        max_frame_bytes: int,
        max_append_bytes: int,
        silence_timeout_ms: int,
        on_committed: Callable[[Epoch, Offset], None] | None,
    ) -> None:
        self._on_committed = on_committed
        self.address = address
        self._silence_s = silence_timeout_ms / 1000
        self._heard_at = trio.current_time()
        self._cluster_id = cluster_id
        self._max_frame_bytes = max_frame_bytes
        self._max_append_bytes = max_append_bytes
        self._outbox = outbox
        self._correlation = 0
        self._answers: dict[int, _Answer] = {}
        self._joined: list[bytes] = []
        self._joined_size = 0
        self._joined_answer: _Answer | None = None
        self._wake = trio.Event()
        self.broken = False
        outbox.push([PREFACE])

    @classmethod
    async def connect(
        cls,
        network: Network,
        address: Address,
        *,
        cluster_id: str,
        max_frame_bytes: int,
        max_append_bytes: int,
        node: NodeId | None = None,
        connect_timeout_ms: int = 1000,
        silence_timeout_ms: int = 4000,
        on_committed: Callable[[Epoch, Offset], None] | None = None,
    ) -> "Channel":
        """Connect to `address`. Raises `NetworkError`, also when there is no connection within
        `connect_timeout_ms`: the operating system would try for minutes. With TLS it raises `TlsError` if the
        certificate there is not that of `node`, or of any node of the cluster if that is None.

        `silence_timeout_ms`: a connection is closed if requests wait and nothing arrives for so long. A
        leader that can't commit resigns and answers earlier. `on_committed`: called for each append that is
        answered, with the epoch and the end of the committed records."""
        with trio.move_on_after(connect_timeout_ms / 1000):
            stream = await network.connect(address)
            try:
                check_node(stream, cluster_id, node)
            except TlsError:
                stream.close()
                raise
            return cls(
                Outbox(stream),
                address,
                cluster_id=cluster_id,
                max_frame_bytes=max_frame_bytes,
                max_append_bytes=max_append_bytes,
                silence_timeout_ms=silence_timeout_ms,
                on_committed=on_committed,
            )
        raise NetworkError(f"no connection to {address} within {connect_timeout_ms / 1000:g} s")

    async def run(self) -> None:
        """Serve requests until the connection breaks. Requests under way then fail with
        `OutcomeUnknownError`."""
        outbox = self._outbox
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(outbox.run)
                nursery.start_soon(self._send_joined)
                nursery.start_soon(self._close_when_silent)
                await self._read_answers(FrameReader(outbox.stream, max_frame_bytes=self._max_frame_bytes))
                nursery.cancel_scope.cancel()
        finally:
            self.broken = True
            outbox.close()
            if self._joined_answer is not None:
                self._joined_answer.event.set()
            for answer in self._answers.values():
                answer.event.set()
            self._answers.clear()

    def name_cluster(self, cluster_id: str) -> None:
        """Name this cluster in further requests. Without an id a node only describes its quorum."""
        self._cluster_id = cluster_id

    def close(self) -> None:
        self.broken = True
        self._outbox.close()

    async def _read_answers(self, reader: FrameReader) -> None:
        try:
            while frames := await reader.receive():
                self._heard_at = trio.current_time()
                for frame in frames:
                    answer = self._answers.pop(frame.correlation, None)
                    if answer is not None:
                        answer.frame = frame
                        answer.event.set()
        except NetworkError:
            pass
        except PeerProtocolError as error:
            log.warning("closed a connection", address=str(self.address), reason=str(error))

    async def _close_when_silent(self) -> None:
        """Close the connection if the other end is lost without a sign, which nothing else would notice."""
        while True:
            await trio.sleep(self._silence_s / 2)
            oldest = next(iter(self._answers.values()), None)
            if oldest is not None:
                silent_since = max(oldest.since, self._heard_at)
                if trio.current_time() - silent_since >= self._silence_s:
                    log.info("closed a silent connection", address=str(self.address))
                    self.close()

    async def append(self, records: Sequence[bytes]) -> tuple[Offset, Epoch]:
        """Append the records, and return base offset and epoch when they are committed. Raises the leader's
        error, or `OutcomeUnknownError` when the connection breaks. If cancelled, the append may or may not
        happen."""
        size = size_of(records)
        if self._joined and self._joined_size + size > self._max_append_bytes:
            self._send_joined_now()
        if self._joined_answer is None:
            self._joined_answer = _Answer()
        answer, position = self._joined_answer, len(self._joined)
        self._joined.extend(records)
        self._joined_size += size
        if not self._answers:
            # No other append is under way to share a frame with: a lone one should not wait for a pass.
            self._send_joined_now()
        elif not position:
            self._wake.set()
        frame = await self._wait_answer(answer)
        success = answer.success
        if success is None:
            try:
                success = answer.success = self._decode_success(frame)
            except InvalidAppendError:
                if answer.count == len(records):
                    raise
                # Maybe because of another append in the frame. Nothing happened, so each is sent alone.
                success, position = await self._append_alone(records), 0
        return Offset(success.base_offset + position), success.epoch

    async def _append_alone(self, records: Sequence[bytes]) -> Success:
        answer = _Answer()
        if not self.broken:
            self._send_append(answer, records)
        return self._decode_success(await self._wait_answer(answer))

    def _decode_success(self, frame: Frame) -> Success:
        try:
            success = decode_response(frame)
        except PeerProtocolError as error:
            raise self._protocol_error(error) from error
        if self._on_committed is not None:
            self._on_committed(success.epoch, success.batch_end_offset)
        return success

    async def request(self, payload: bytes) -> bytes:
        """Send a request of the application, and return its response. Raises `NotLeaderError` if that node
        serves no such requests (nothing happened), or `OutcomeUnknownError`."""
        return await self._request(FrameKind.APPLICATION, decode_application_response, payload=payload)

    async def read_index(self) -> Offset:
        """Ask the leader for a read index. Raises `NotLeaderError`, or `OutcomeUnknownError` if the
        connection breaks before the answer."""
        return await self._request(FrameKind.READ_INDEX, decode_read_index)

    async def change_voters(self, change: VoterChange) -> None:
        """Return when it is committed. Raises `NotLeaderError` or `RequestRefusedError` when nothing
        happened, `OutcomeUnknownError`."""
        kind = FrameKind.CHANGE_VOTERS
        await self._request(kind, partial(decode_outcome, kind=kind), voter_change_fields(change))

    async def transfer_leadership(self, successor: NodeId) -> None:
        """Return when the leader has resigned so that `successor` is elected. Raises as `change_voters`."""
        kind = FrameKind.TRANSFER_LEADERSHIP
        await self._request(kind, partial(decode_outcome, kind=kind), [successor])

    async def describe_quorum(self) -> QuorumView:
        """Return the description of the quorum by the node at the other end. Raises `OutcomeUnknownError`
        when it gave no answer."""
        return await self._request(FrameKind.DESCRIBE_QUORUM, decode_view)

    async def take_snapshot(self) -> SnapshotId:
        """Do the same as `Quorum.take_snapshot` on the node at the other end. Raises `SnapshotNotTakenError`,
        or `OutcomeUnknownError`."""
        return await self._request(FrameKind.TAKE_SNAPSHOT, decode_snapshot)

    async def list_snapshots(self) -> tuple[ListedSnapshot, ...]:
        """Return the snapshots of the node at the other end, ascending. Raises `OutcomeUnknownError` when it
        gave no answer."""
        return await self._request(FrameKind.LIST_SNAPSHOTS, decode_listed)

    async def read_snapshot(
        self, snapshot: SnapshotId, *, position: int, max_bytes: int
    ) -> tuple[bytes, int]:
        """Return some bytes of a snapshot of the node at the other end, and the size of the whole. Raises
        `RequestRefusedError` when it has no such snapshot, or none so long; `OutcomeUnknownError`."""
        return await self._request(
            FrameKind.READ_SNAPSHOT, decode_chunk, snapshot_read_fields(snapshot, position, max_bytes)
        )

    def _protocol_error(self, error: PeerProtocolError) -> OutcomeUnknownError:
        if not self.broken:
            log.warning("closed a connection", address=str(self.address), reason=str(error))
            self.close()
        return OutcomeUnknownError(f"{self.address} answered, but not in this protocol: {error}")

    async def _request(
        self,
        kind: FrameKind,
        decode: Callable[[Frame], T],
        fields: Sequence[object] = (),
        *,
        payload: bytes = b"",
    ) -> T:
        answer = _Answer()
        self._correlation += 1
        self._answers[self._correlation] = answer
        self._outbox.push(
            encode_frame(kind, self._correlation, [self._cluster_id, *fields], [payload] if payload else ())
        )
        self._outbox.flush()
        frame = await self._wait_answer(answer)
        try:
            return decode(frame)
        except PeerProtocolError as error:
            raise self._protocol_error(error) from error

    async def _wait_answer(self, answer: _Answer) -> Frame:
        if self.broken:
            raise OutcomeUnknownError(f"the connection to {self.address} broke")
        await answer.event.wait()
        if answer.frame is None:
            raise OutcomeUnknownError(f"the connection to {self.address} broke before it answered")
        return answer.frame

    async def _send_joined(self) -> None:
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            self._send_joined_now()

    def _send_joined_now(self) -> None:
        if self._joined_answer is None:
            return
        self._send_append(self._joined_answer, self._joined)
        self._joined, self._joined_size, self._joined_answer = [], 0, None

    def _send_append(self, answer: _Answer, records: Sequence[bytes]) -> None:
        answer.count = len(records)
        self._correlation += 1
        self._answers[self._correlation] = answer
        self._outbox.push(encode_request(self._correlation, self._cluster_id, records))
        self._outbox.flush()
