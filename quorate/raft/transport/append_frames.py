"""The Append request: records from a node that does not lead, or from a client, to the leader.

Request: cluster id; payload: each record behind its uint32 length. Response: error, leader, epoch, base
offset, message; an application's request is answered with the same fields when it fails.
"""

import enum
import struct
from collections.abc import Sequence
from typing import NamedTuple

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
from quorate.raft.transport.fields import FieldReader, quorum_code
from quorate.raft.transport.frames import RESPONSE, Field, Frame, FrameKind, encode_frame
from quorate.raft.transport.outbox import Outbox
from quorate.runtime import Buffer
from quorate.types import Epoch, Offset

_LENGTH = struct.Struct(">I")
_MESSAGE_CHARS = 1000
_BATCH_END_OFFSET = 5
"""Which field of a successful append's response."""
_RECORD_OVERHEAD = 20
"""At least what a record takes in a batch beside its value, so that a batch of no end of empty records is as
large as it counts."""


class AppendError(enum.IntEnum):
    """Kafka's codes where it has one."""

    NONE = 0
    REFUSED = 1
    """A change of the voters, or a transfer: Kafka's code stands where an append's base offset does."""
    SNAPSHOT_NOT_TAKEN = 2
    NOT_LEADER = 6
    OUTCOME_UNKNOWN = 7
    INVALID = 42
    STOPPED = 8


def size_of(records: Sequence[bytes]) -> int:
    """Bytes that count towards `max_batch_bytes`: no less than the records take in a batch, or in a frame."""
    return sum(map(len, records)) + _RECORD_OVERHEAD * len(records)


def encode_request(correlation: int, cluster_id: str, records: Sequence[bytes]) -> list[Buffer]:
    lengths = map(_LENGTH.pack, map(len, records))
    payload = b"".join([piece for pair in zip(lengths, records, strict=True) for piece in pair])
    return encode_frame(FrameKind.APPEND, correlation, [cluster_id], [payload])


def decode_request(frame: Frame) -> tuple[str, list[bytes]]:
    """The cluster id and the records. Raises `PeerProtocolError`."""
    cluster_id = FieldReader(frame.kind, frame.fields).text()
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


def encode_success(
    correlation: int, base_offset: Offset, epoch: Epoch, batch_end_offset: Offset
) -> list[Buffer]:
    """`batch_end_offset`: everything below is committed, and a batch ends there, which the high watermark
    must not cut in two."""
    fields: list[Field] = [AppendError.NONE.value, None, epoch, base_offset, None, batch_end_offset]
    return encode_frame(FrameKind.APPEND + RESPONSE, correlation, fields)


def encode_failure(
    correlation: int, error: QuorumError, *, kind: FrameKind = FrameKind.APPEND
) -> list[Buffer]:
    # Cut, because a message may quote what a stranger sent, and the header has to fit.
    fields: list[Field] = [AppendError.OUTCOME_UNKNOWN.value, None, 0, None, str(error)[:_MESSAGE_CHARS]]
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
    """Exclusive end of the batch that it is in."""


def decode_response(frame: Frame) -> Success:
    """Raises what the leader answered as a `QuorumError`, or `PeerProtocolError`."""
    if frame.kind != FrameKind.APPEND + RESPONSE:
        raise PeerProtocolError(f"an append was answered with a frame of kind {frame.kind}")
    base_offset, epoch = decode_outcome(frame)
    if base_offset is None or len(frame.fields) <= _BATCH_END_OFFSET:
        raise PeerProtocolError("a successful append's response has no offset, or no end of its batch")
    batch_end_offset = FieldReader(frame.kind, frame.fields[_BATCH_END_OFFSET:]).offset()
    return Success(base_offset, epoch, batch_end_offset)


def decode_application_response(frame: Frame) -> bytes:
    """What the application answered. Raises as `decode_response`."""
    if frame.kind != FrameKind.APPLICATION + RESPONSE:
        raise PeerProtocolError(f"an application's request was answered with a frame of kind {frame.kind}")
    if frame.fields:
        decode_outcome(frame)
    return bytes(frame.payload)


def decode_outcome(frame: Frame) -> tuple[Offset | None, Epoch]:
    """Raises what the leader answered as a `QuorumError`, or `PeerProtocolError`."""
    read = FieldReader(frame.kind, frame.fields)
    code, leader, epoch, base_offset = (
        read.integer(),
        read.optional_node(),
        read.epoch(),
        read.optional_offset(),
    )
    if code == AppendError.NONE:
        return base_offset, epoch
    message = read.text()
    if code == AppendError.NOT_LEADER:
        raise NotLeaderError(leader=leader, epoch=epoch)
    if code == AppendError.INVALID:
        raise InvalidAppendError(message)
    if code == AppendError.SNAPSHOT_NOT_TAKEN:
        raise SnapshotNotTakenError(message)
    if code == AppendError.REFUSED:
        raise RequestRefusedError(quorum_code(base_offset), message)
    if code == AppendError.STOPPED and frame.kind == FrameKind.APPEND + RESPONSE:
        # It did not get into the log there; who leads next may take it.
        raise NotLeaderError(leader=None, epoch=epoch)
    raise OutcomeUnknownError(message)


class RemoteAppendWaiter:
    """`AppendWaiter` that answers over a connection."""

    __slots__ = ("_correlation", "_dirty", "_outbox")

    def __init__(self, outbox: Outbox, correlation: int, dirty: dict[Outbox, None]) -> None:
        self._outbox = outbox
        self._correlation = correlation
        self._dirty = dirty

    def applied(
        self, base_offset: Offset, epoch: Epoch, results: Sequence[object], batch_end_offset: Offset
    ) -> None:
        self._answer(encode_success(self._correlation, base_offset, epoch, batch_end_offset))

    def failed(self, error: QuorumError) -> None:
        self._answer(encode_failure(self._correlation, error))

    def _answer(self, buffers: list[Buffer]) -> None:
        if not self._outbox.closed:
            self._outbox.push(buffers)
            self._dirty[self._outbox] = None
