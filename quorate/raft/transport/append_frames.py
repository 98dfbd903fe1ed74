"""The Append request: records from a node that does not lead, or from a client, to the leader.

Request: cluster id; payload: each record behind its uint32 length. Response: error, leader, epoch, base
offset, message; an application's request is answered with the same fields when it fails.
"""

import enum
import struct
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from quorate.cbor import optional
from quorate.raft.quorum_errors import (
    InvalidAppendError,
    NotLeaderError,
    OutcomeUnknownError,
    PeerProtocolError,
    QuorumError,
    QuorumStoppedError,
    RequestRefusedError,
    SnapshotNotTakenError,
)
from quorate.raft.transport.frame_fields import EPOCH, ERROR, INT64, NODE, OFFSET, TEXT, FieldReader
from quorate.raft.transport.frames import RESPONSE, Frame, FrameKind, encode_frame
from quorate.raft.transport.outbox import Outbox
from quorate.runtime import Buffer
from quorate.types import Epoch, Offset

_LENGTH = struct.Struct(">I")
_LEADER: Final = optional(NODE)
_BASE_OFFSET: Final = optional(OFFSET)
_MESSAGE_CHARS = 1000
_RECORD_OVERHEAD = 20
"""The least size of a record in a batch beside its value. So empty records are limited too."""


class AppendError(enum.IntEnum):
    """Kafka's codes where it has one."""

    NONE = 0
    REFUSED = 1
    """The refusal of a voter change or a transfer. Kafka's code is in the place of the base offset."""
    SNAPSHOT_NOT_TAKEN = 2
    NOT_LEADER = 6
    OUTCOME_UNKNOWN = 7
    INVALID = 42
    STOPPED = 8


def size_of(records: Sequence[bytes]) -> int:
    """Return the size that counts towards `max_batch_bytes`: at least the size in a batch or a frame."""
    return sum(map(len, records)) + _RECORD_OVERHEAD * len(records)


def encode_request(correlation: int, cluster_id: str, records: Sequence[bytes]) -> list[Buffer]:
    lengths = map(_LENGTH.pack, map(len, records))
    payload = b"".join([piece for pair in zip(lengths, records, strict=True) for piece in pair])
    return encode_frame(FrameKind.APPEND, correlation, [cluster_id], [payload])


def decode_request(frame: Frame) -> tuple[str, list[bytes]]:
    """The cluster id and the records. Raises `PeerProtocolError`."""
    cluster_id = FieldReader(frame).take(TEXT)
    payload, position, records = bytes(frame.payload), 0, []
    end = len(payload)
    while position < end:
        start = position + 4
        if start > end:
            raise PeerProtocolError("an append's last record has no length")
        position = start + int.from_bytes(payload[position:start], "big")
        if position > end:
            raise PeerProtocolError("an append's record is longer than its frame")
        records.append(payload[start:position])
    return cluster_id, records


def encode_outcome(
    kind: int,
    correlation: int,
    epoch: Epoch | None = None,
    offset: Offset | None = None,
    *more: object,
    payload: Sequence[Buffer] = (),
) -> list[Buffer]:
    """Encode the success of a request of `kind`."""
    fields = [AppendError.NONE.value, None, epoch or 0, offset, None, *more]
    return encode_frame(kind + RESPONSE, correlation, fields, payload)


def encode_success(
    correlation: int, base_offset: Offset, epoch: Epoch, batch_end_offset: Offset
) -> list[Buffer]:
    """`batch_end_offset`: the exclusive end of the committed batch, which the high watermark must not cut in
    two."""
    return encode_outcome(FrameKind.APPEND, correlation, epoch, base_offset, batch_end_offset)


def encode_failure(
    correlation: int, error: QuorumError, *, kind: FrameKind = FrameKind.APPEND
) -> list[Buffer]:
    # Cut to fit the header: a message may quote bytes of an unauthenticated peer.
    fields: list[object] = [AppendError.OUTCOME_UNKNOWN.value, None, 0, None, str(error)[:_MESSAGE_CHARS]]
    match error:
        case NotLeaderError():
            fields[:3] = [AppendError.NOT_LEADER.value, error.leader, error.epoch]
        case InvalidAppendError():
            fields[0] = AppendError.INVALID.value
        case QuorumStoppedError():
            fields[0] = AppendError.STOPPED.value
        case SnapshotNotTakenError():
            fields[0] = AppendError.SNAPSHOT_NOT_TAKEN.value
        case RequestRefusedError():
            fields[0], fields[3] = AppendError.REFUSED.value, int(error.code)
        case _:
            pass
    return encode_frame(kind + RESPONSE, correlation, fields)


class Success(NamedTuple):
    """A committed append, as the leader answers it."""

    base_offset: Offset
    epoch: Epoch
    batch_end_offset: Offset
    """The exclusive end of its batch."""


def decode_response(frame: Frame) -> Success:
    """Raises what the leader answered as a `QuorumError`, or `PeerProtocolError`."""
    read, epoch, base_offset = decode_outcome(frame, FrameKind.APPEND)
    if base_offset is None:
        raise PeerProtocolError("a successful append's response has no offset")
    read.skip()
    return Success(base_offset, epoch, read.take(OFFSET))


def decode_application_response(frame: Frame) -> bytes:
    """Decode the answer of the application. Raises as `decode_response`."""
    if frame.fields or frame.kind != FrameKind.APPLICATION + RESPONSE:
        decode_outcome(frame, FrameKind.APPLICATION)
    return bytes(frame.payload)


def decode_outcome(frame: Frame, kind: FrameKind) -> tuple[FieldReader, Epoch, Offset | None]:
    """Return a reader at the message, the epoch and the offset of the answer to a request of `kind`. Raises
    the leader's error as a `QuorumError`, or `PeerProtocolError`."""
    if frame.kind != kind + RESPONSE:
        raise PeerProtocolError(f"a request of kind {kind} was answered with a frame of kind {frame.kind}")
    read = FieldReader(frame)
    code, leader, epoch = read.take(INT64), read.take(_LEADER), read.take(EPOCH)
    if code == AppendError.REFUSED:
        raise RequestRefusedError(read.take(ERROR), read.take(TEXT))
    offset = read.take(_BASE_OFFSET)
    if code == AppendError.NONE:
        return read, epoch, offset
    message = read.take(TEXT)
    if code == AppendError.NOT_LEADER:
        raise NotLeaderError(leader=leader, epoch=epoch)
    if code == AppendError.INVALID:
        raise InvalidAppendError(message)
    if code == AppendError.SNAPSHOT_NOT_TAKEN:
        raise SnapshotNotTakenError(message)
    if code == AppendError.STOPPED and kind == FrameKind.APPEND:
        # It is not in that leader's log. The next leader may take it.
        raise NotLeaderError(leader=None, epoch=epoch)
    raise OutcomeUnknownError(message)


class _Remote:
    """A waiter at the other end of a connection."""

    __slots__ = ("_correlation", "_dirty", "_outbox")

    kind: ClassVar[FrameKind]

    def __init__(self, outbox: Outbox, correlation: int, dirty: dict[Outbox, None]) -> None:
        self._outbox = outbox
        self._correlation = correlation
        self._dirty = dirty

    def failed(self, error: QuorumError) -> None:
        self._push_answer(encode_failure(self._correlation, error, kind=self.kind))

    def _push_answer(self, buffers: list[Buffer]) -> None:
        if not self._outbox.closed:
            self._outbox.push(buffers)
            self._dirty[self._outbox] = None


class RemoteAppendWaiter(_Remote):
    """`AppendWaiter` that answers over a connection."""

    __slots__ = ()

    kind = FrameKind.APPEND

    def applied(
        self, base_offset: Offset, epoch: Epoch, results: Sequence[object], batch_end_offset: Offset
    ) -> None:
        self._push_answer(encode_success(self._correlation, base_offset, epoch, batch_end_offset))


class RemoteIndexWaiter(_Remote):
    """`IndexWaiter` that answers over a connection."""

    __slots__ = ()

    kind = FrameKind.READ_INDEX

    def passed(self, read_index: Offset, /) -> None:
        self._push_answer(encode_outcome(FrameKind.READ_INDEX, self._correlation, offset=read_index))
