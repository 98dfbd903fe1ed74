"""Core messages to frames and back. What arrives is validated into types here, at the door."""

from collections.abc import Sequence
from typing import Final

from quorate.cbor import Array, Kind, SchemaError, boolean, integers, optional
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
from quorate.raft.transport.frame_fields import (
    DESTINATION,
    ENDPOINT,
    EPOCH,
    EPOCH_END,
    ERROR,
    INT32,
    INT64,
    KEY,
    MAX_VOTERS,
    NODE,
    OFFSET,
    SNAPSHOT,
    TEXT,
)
from quorate.raft.transport.frames import RESPONSE, Frame, FrameKind, encode_frame
from quorate.runtime import Buffer

_FETCHED: Final = FrameKind.FETCH + RESPONSE
_FETCHED_SNAPSHOT: Final = FrameKind.FETCH_SNAPSHOT + RESPONSE
_Fields = Kind[object] | Array[object]


def _request(of: type[Message], **fields: _Fields) -> Array[Message]:
    return Array(of, ["correlation"], source=NODE, destination=DESTINATION, cluster_id=TEXT, **fields)


def _response(of: type[Message], *payload: str, **fields: _Fields) -> Array[Message]:
    return Array(
        of,
        ["correlation", *payload],
        source=NODE,
        destination=DESTINATION,
        error=ERROR,
        epoch=EPOCH,
        leader=optional(NODE),
        leader_endpoint=optional(ENDPOINT),
        **fields,
    )


_REQUESTS: Final = {
    FrameKind.FETCH: _request(
        FetchRequest,
        replica=KEY,
        epoch=EPOCH,
        offset=OFFSET,
        last_fetched_epoch=EPOCH,
        max_wait_ms=INT32,
        max_bytes=INT32,
        high_watermark=optional(OFFSET),
        read_round=INT64,
    ),
    FrameKind.FETCH_SNAPSHOT: _request(
        FetchSnapshotRequest,
        replica=KEY,
        epoch=EPOCH,
        snapshot=SNAPSHOT,
        position=INT64,
        max_bytes=INT32,
    ),
    FrameKind.VOTE: _request(
        VoteRequest,
        voter=KEY,
        candidate=KEY,
        epoch=EPOCH,
        last_epoch=EPOCH,
        end_offset=OFFSET,
        pre_vote=boolean,
        leader_resigned=boolean,
    ),
    FrameKind.BEGIN_QUORUM_EPOCH: _request(
        BeginQuorumEpochRequest, voter=KEY, epoch=EPOCH, endpoint=optional(ENDPOINT)
    ),
    FrameKind.END_QUORUM_EPOCH: _request(
        EndQuorumEpochRequest,
        epoch=EPOCH,
        preferred_successors=integers(most=MAX_VOTERS, bits=64, low=0),
    ),
}
_RESPONSES: Final = {
    FrameKind.FETCH: _response(
        FetchResponse,
        "batches",
        "records",
        high_watermark=optional(OFFSET),
        log_start_offset=OFFSET,
        diverging=optional(EPOCH_END),
        snapshot=optional(SNAPSHOT),
        read_round=INT64,
    ),
    FrameKind.FETCH_SNAPSHOT: _response(
        FetchSnapshotResponse, "length", "chunk", snapshot=SNAPSHOT, size=INT64, position=INT64
    ),
    FrameKind.VOTE: _response(VoteResponse, granted=boolean, pre_vote=boolean),
    FrameKind.BEGIN_QUORUM_EPOCH: _response(BeginQuorumEpochResponse),
    FrameKind.END_QUORUM_EPOCH: _response(EndQuorumEpochResponse),
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
        array.encode(message),
        [payload] if len(payload) else (),
    )


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
    try:
        if kind == _FETCHED:
            return array.decode(frame.fields, correlation, tuple(spans), payload)
        if kind == _FETCHED_SNAPSHOT:
            return array.decode(frame.fields, correlation, len(payload), payload)
        return array.decode(frame.fields, correlation)
    except SchemaError as error:
        raise PeerProtocolError(f"a frame of kind {kind}: {error}") from error
