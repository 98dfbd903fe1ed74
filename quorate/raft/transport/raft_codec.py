"""Core messages to frames and back. What arrives is validated into types here, at the door."""

from collections.abc import Mapping, Sequence
from typing import Final

from quorate.cbor import Array, SchemaError
from quorate.raft.core import (
    BatchSpan,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Message,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.quorum_errors import PeerProtocolError
from quorate.raft.transport.frame_fields import FRAME, INT32, INT64, FieldReader
from quorate.raft.transport.frames import RESPONSE, Frame, FrameKind, encode_frame
from quorate.runtime import Buffer

_FETCHED: Final = FrameKind.FETCH + RESPONSE
_FETCHED_SNAPSHOT: Final = FrameKind.FETCH_SNAPSHOT + RESPONSE

_LEASES: Final = ("lease_time_ms", "promise_ms")
"""Fields behind those of the first versions. They are written only where read leases are on."""
_WITH_LEASES: Final = (FrameKind.FETCH, _FETCHED)
# Beside the fields: the correlation stands in the header, and bytes are the payload.
_REQUESTS: Final[Mapping[FrameKind, Array[Message]]] = {
    FrameKind.VOTE: FRAME.array(VoteRequest, "correlation"),
    FrameKind.BEGIN_QUORUM_EPOCH: FRAME.array(BeginQuorumEpochRequest, "correlation"),
    FrameKind.END_QUORUM_EPOCH: FRAME.array(EndQuorumEpochRequest, "correlation"),
    FrameKind.FETCH: FRAME.array(FetchRequest, "correlation", *_LEASES),
    FrameKind.FETCH_SNAPSHOT: FRAME.array(FetchSnapshotRequest, "correlation"),
}
_RESPONSES: Final[Mapping[FrameKind, Array[Message]]] = {
    FrameKind.VOTE: FRAME.array(VoteResponse, "correlation"),
    FrameKind.BEGIN_QUORUM_EPOCH: FRAME.array(BeginQuorumEpochResponse, "correlation"),
    FrameKind.END_QUORUM_EPOCH: FRAME.array(EndQuorumEpochResponse, "correlation"),
    FrameKind.FETCH: FRAME.array(FetchResponse, "correlation", _LEASES[0], "batches", "records"),
    FrameKind.FETCH_SNAPSHOT: FRAME.array(FetchSnapshotResponse, "correlation", "length", "chunk"),
}
_BY_KIND: Final = {
    **{int(kind): array for kind, array in _REQUESTS.items()},
    **{kind + RESPONSE: array for kind, array in _RESPONSES.items()},
}
_BY_TYPE: Final = {array.of: (kind, array) for kind, array in _BY_KIND.items()}
_KINDS: Final = {array.of: kind for kind, array in _REQUESTS.items()}


def encode(message: Message, records: Buffer = b"", *, correlation: int | None = None) -> list[Buffer]:
    """The buffers to send. A FetchResponse's records, its own or those given beside it, are passed by
    identity. `correlation`: in place of the message's own."""
    kind, array = _BY_TYPE[type(message)]
    payload: Buffer = b""
    if isinstance(message, FetchResponse):
        payload = records or message.records
    elif isinstance(message, FetchSnapshotResponse):
        payload = message.chunk
    return encode_frame(
        kind,
        message.correlation if correlation is None else correlation,
        array.encode(message) + _lease_fields(message),
        [payload] if len(payload) else (),
    )


def _lease_fields(message: Message) -> list[object]:
    """Return the fields of `_LEASES`, or nothing where they say nothing."""
    if isinstance(message, FetchRequest) and message.lease_time_ms:
        return [message.lease_time_ms, message.promise_ms]
    if isinstance(message, FetchResponse) and message.lease_time_ms:
        return [message.lease_time_ms]
    return []


def kind_of(message: Message) -> FrameKind:
    """Return the kind of a request."""
    return _KINDS[type(message)]


def is_core_message(frame: Frame) -> bool:
    return frame.kind in _BY_KIND


def decode(frame: Frame, *, spans: Sequence[BatchSpan] = (), correlation: int | None = None) -> Message:
    """A core message. `spans` describe a FetchResponse's payload, which the caller has checked.
    `correlation`: in place of the frame's own.

    Raises `PeerProtocolError`.
    """
    kind, payload = frame.kind, frame.payload
    array = _BY_KIND.get(kind)
    if array is None:
        raise PeerProtocolError(f"frames of kind {kind} are not known to this version")
    if correlation is None:
        correlation = frame.correlation
    more = FieldReader(frame, frame.fields[array.width :])
    lease_time_ms = more.take(INT64) if kind in _WITH_LEASES and more.has_more else 0
    try:
        if kind == _FETCHED:
            return array.decode(frame.fields, correlation, lease_time_ms, tuple(spans), payload)
        if kind == FrameKind.FETCH:
            promise_ms = more.take(INT32) if lease_time_ms else 0
            return array.decode(frame.fields, correlation, lease_time_ms, promise_ms)
        if kind == _FETCHED_SNAPSHOT:
            return array.decode(frame.fields, correlation, len(payload), payload)
        return array.decode(frame.fields, correlation)
    except SchemaError as error:
        raise PeerProtocolError(f"a frame of kind {kind}: {error}") from error
