"""Core messages to frames and back. What arrives is validated into types here, at the door."""

from collections.abc import Sequence
from typing import Final

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
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.quorum_errors import PeerProtocolError
from quorate.raft.transport.fields import INT32, FieldReader
from quorate.raft.transport.frames import RESPONSE, Field, Frame, FrameKind, encode_frame
from quorate.raft.transport.quick_codec import quick_fetch_request, quick_fetch_response
from quorate.runtime import Buffer
from quorate.types import Endpoint, NodeId, ReplicaKey, SnapshotId

_CORE_KINDS: Final = (
    FrameKind.FETCH,
    FrameKind.VOTE,
    FrameKind.BEGIN_QUORUM_EPOCH,
    FrameKind.END_QUORUM_EPOCH,
    FrameKind.FETCH_SNAPSHOT,
)
_FETCH: Final = int(FrameKind.FETCH)
_FETCHED: Final = int(FrameKind.FETCH) + RESPONSE


def encode(message: Message, records: Buffer = b"", *, correlation: int | None = None) -> list[Buffer]:
    """The buffers to send. A FetchResponse's records, its own or those given beside it, are passed by
    identity. `correlation`: in place of the message's own."""
    if correlation is None:
        correlation = message.correlation
    match message:
        case FetchRequest():
            return encode_frame(
                _FETCH,
                correlation,
                [
                    message.source,
                    message.destination,
                    message.cluster_id,
                    message.replica.id,
                    message.replica.directory_id,
                    message.epoch,
                    message.offset,
                    message.last_fetched_epoch,
                    message.max_wait_ms,
                    message.max_bytes,
                    message.high_watermark,
                    message.read_round,
                ],
            )
        case FetchResponse():
            diverging = message.diverging
            payload = records or message.records
            return encode_frame(
                _FETCHED,
                correlation,
                [
                    message.source,
                    message.destination,
                    int(message.error),
                    message.epoch,
                    message.leader,
                    _endpoint(message.leader_endpoint),
                    message.high_watermark,
                    message.log_start_offset,
                    None if diverging is None else [diverging.epoch, diverging.end_offset],
                    _snapshot(message.snapshot),
                    message.read_round,
                ],
                [payload] if len(payload) else (),
            )
        case FetchSnapshotRequest():
            return encode_frame(
                FrameKind.FETCH_SNAPSHOT,
                correlation,
                [
                    *_request(message),
                    *_key(message.replica),
                    message.epoch,
                    _snapshot(message.snapshot),
                    message.position,
                    message.max_bytes,
                ],
            )
        case FetchSnapshotResponse():
            chunk = message.chunk
            return encode_frame(
                FrameKind.FETCH_SNAPSHOT + RESPONSE,
                correlation,
                [*_response(message), _snapshot(message.snapshot), message.size, message.position],
                [chunk] if len(chunk) else (),
            )
        case VoteRequest():
            return encode_frame(
                FrameKind.VOTE,
                correlation,
                [
                    *_request(message),
                    *_key(message.voter),
                    *_key(message.candidate),
                    message.epoch,
                    message.last_epoch,
                    message.end_offset,
                    message.pre_vote,
                    message.leader_resigned,
                ],
            )
        case VoteResponse():
            return encode_frame(
                FrameKind.VOTE + RESPONSE,
                correlation,
                [*_response(message), message.granted, message.pre_vote],
            )
        case BeginQuorumEpochRequest():
            return encode_frame(
                FrameKind.BEGIN_QUORUM_EPOCH,
                correlation,
                [*_request(message), *_key(message.voter), message.epoch, _endpoint(message.endpoint)],
            )
        case BeginQuorumEpochResponse():
            return encode_frame(FrameKind.BEGIN_QUORUM_EPOCH + RESPONSE, correlation, _response(message))
        case EndQuorumEpochRequest():
            return encode_frame(
                FrameKind.END_QUORUM_EPOCH,
                correlation,
                [*_request(message), message.epoch, list(message.preferred_successors)],
            )
        case EndQuorumEpochResponse():
            return encode_frame(FrameKind.END_QUORUM_EPOCH + RESPONSE, correlation, _response(message))


def _request(message: Request) -> list[Field]:
    return [message.source, message.destination, message.cluster_id]


def _response(message: Response) -> list[Field]:
    return [
        message.source,
        message.destination,
        int(message.error),
        message.epoch,
        message.leader,
        _endpoint(message.leader_endpoint),
    ]


def _key(key: ReplicaKey) -> list[Field]:
    return [key.id, key.directory_id]


def _snapshot(snapshot: SnapshotId | None) -> Field:
    return None if snapshot is None else [snapshot.end_offset, snapshot.epoch]


def _endpoint(endpoint: Endpoint | None) -> Field:
    return None if endpoint is None else [endpoint.host, endpoint.port]


def kind_of(message: Message) -> FrameKind:
    """Of a request."""
    match message:
        case FetchRequest():
            return FrameKind.FETCH
        case VoteRequest():
            return FrameKind.VOTE
        case BeginQuorumEpochRequest():
            return FrameKind.BEGIN_QUORUM_EPOCH
        case EndQuorumEpochRequest():
            return FrameKind.END_QUORUM_EPOCH
        case FetchSnapshotRequest():
            return FrameKind.FETCH_SNAPSHOT
        case _:
            raise AssertionError(f"{type(message).__name__} is no request")


def is_core_message(frame: Frame) -> bool:
    return frame.kind & ~RESPONSE in _CORE_KINDS


def decode(frame: Frame, *, spans: Sequence[BatchSpan] = (), correlation: int | None = None) -> Message:
    """A core message. `spans` describe a FetchResponse's payload, which the caller has checked; a request has
    `correlation` in place of its own.

    Raises `PeerProtocolError`.
    """
    if correlation is None:
        correlation = frame.correlation
    if frame.kind == _FETCH:
        fetch = quick_fetch_request(frame, correlation)
        if fetch is not None:
            return fetch
    elif frame.kind == _FETCHED:
        fetched = quick_fetch_response(frame, spans)
        if fetched is not None:
            return fetched
    read = FieldReader(frame.kind, frame.fields)
    source, destination = read.node(), read.destination()
    if frame.kind & RESPONSE:
        return _decode_response(frame, read, correlation, source, destination, spans)
    cluster_id = read.text()
    match frame.kind:
        case FrameKind.FETCH:
            return FetchRequest(
                source=source,
                destination=destination,
                correlation=correlation,
                cluster_id=cluster_id,
                replica=read.key(),
                epoch=read.epoch(),
                offset=read.offset(),
                last_fetched_epoch=read.epoch(),
                max_wait_ms=read.integer(INT32),
                max_bytes=read.integer(INT32),
                high_watermark=read.optional_offset(),
                read_round=read.integer(),
            )
        case FrameKind.FETCH_SNAPSHOT:
            return FetchSnapshotRequest(
                source=source,
                destination=destination,
                correlation=correlation,
                cluster_id=cluster_id,
                replica=read.key(),
                epoch=read.epoch(),
                snapshot=read.snapshot(),
                position=read.integer(),
                max_bytes=read.integer(INT32),
            )
        case FrameKind.VOTE:
            return VoteRequest(
                source=source,
                destination=destination,
                correlation=correlation,
                cluster_id=cluster_id,
                voter=read.key(),
                candidate=read.key(),
                epoch=read.epoch(),
                last_epoch=read.epoch(),
                end_offset=read.offset(),
                pre_vote=read.boolean(),
                leader_resigned=read.boolean(),
            )
        case FrameKind.BEGIN_QUORUM_EPOCH:
            return BeginQuorumEpochRequest(
                source=source,
                destination=destination,
                correlation=correlation,
                cluster_id=cluster_id,
                voter=read.key(),
                epoch=read.epoch(),
                endpoint=read.endpoint(),
            )
        case FrameKind.END_QUORUM_EPOCH:
            return EndQuorumEpochRequest(
                source=source,
                destination=destination,
                correlation=correlation,
                cluster_id=cluster_id,
                epoch=read.epoch(),
                preferred_successors=tuple(NodeId(node) for node in read.integers()),
            )
    raise PeerProtocolError(f"frames of kind {frame.kind} are not known to this version")


def _decode_response(
    frame: Frame,
    read: FieldReader,
    correlation: int,
    source: NodeId,
    destination: NodeId,
    spans: Sequence[BatchSpan],
) -> Message:
    error = read.error_code()
    epoch, leader, endpoint = read.epoch(), read.optional_node(), read.endpoint()
    match frame.kind - RESPONSE:
        case FrameKind.FETCH:
            return FetchResponse(
                source=source,
                destination=destination,
                correlation=correlation,
                error=error,
                epoch=epoch,
                leader=leader,
                leader_endpoint=endpoint,
                high_watermark=read.optional_offset(),
                log_start_offset=read.offset(),
                diverging=read.epoch_end(),
                snapshot=read.optional_snapshot(),
                read_round=read.integer(),
                batches=tuple(spans),
                records=frame.payload,
            )
        case FrameKind.FETCH_SNAPSHOT:
            return FetchSnapshotResponse(
                source=source,
                destination=destination,
                correlation=correlation,
                error=error,
                epoch=epoch,
                leader=leader,
                leader_endpoint=endpoint,
                snapshot=read.snapshot(),
                size=read.integer(),
                position=read.integer(),
                length=len(frame.payload),
                chunk=frame.payload,
            )
        case FrameKind.VOTE:
            return VoteResponse(
                source=source,
                destination=destination,
                correlation=correlation,
                error=error,
                epoch=epoch,
                leader=leader,
                leader_endpoint=endpoint,
                granted=read.boolean(),
                pre_vote=read.boolean(),
            )
        case FrameKind.BEGIN_QUORUM_EPOCH:
            return BeginQuorumEpochResponse(
                source=source,
                destination=destination,
                correlation=correlation,
                error=error,
                epoch=epoch,
                leader=leader,
                leader_endpoint=endpoint,
            )
        case FrameKind.END_QUORUM_EPOCH:
            return EndQuorumEpochResponse(
                source=source,
                destination=destination,
                correlation=correlation,
                error=error,
                epoch=epoch,
                leader=leader,
                leader_endpoint=endpoint,
            )
    raise PeerProtocolError(f"frames of kind {frame.kind} are not known to this version")
